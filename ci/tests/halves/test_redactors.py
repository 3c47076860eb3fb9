"""One redactor, and whoever uses it: installer, lab and the lab's cluster, against one corpus of secrets."""

import json
import re
import threading
from pathlib import Path

import flask
import pytest
import yaml

import installer.common.redact
from installer.common.redact.testing import corpus, values
from lab.evidence import bundle as evidence
from lab.release.cluster import installconfig

ROOT = Path(__file__).parents[3]
VECTORS = corpus.vectors()
SECRETS = {secret for vector in VECTORS for secret in vector.secrets}
TEXT = "".join(f"{corpus.BEFORE}\n{vector.text}\n{corpus.AFTER}\n" for vector in VECTORS)


def test_there_is_no_second_redactor():
    """Neither an expression of its own, nor another tool's."""
    own = re.compile(r"PRIVATE KEY-----\.|eyJ\[|eyJ\\\\w|sed -E .*auth|REDACTED|password[^\n]{0,20}\\\*\*\*")
    own_redactors = [
        path.relative_to(ROOT).as_posix()
        for room in ("installer", "lab", "drivers")
        for path in sorted((ROOT / room).rglob("*"))
        if path.is_file() and path.suffix in ("", ".py", ".sh")
        if not {"tests", "testing", "redact"} & set(path.relative_to(ROOT).parts)
        if own.search(path.read_text(errors="replace"))
    ]
    assert own_redactors == []


def test_what_the_lab_keeps_of_its_daemons(tmp_path):
    (tmp_path / "log").write_text(TEXT)
    evidence.copy(tmp_path / "log", tmp_path / "kept")
    kept = (tmp_path / "kept").read_text()
    assert [secret for secret in SECRETS if secret in kept] == []
    assert kept.count(corpus.AFTER) == len(VECTORS)


@pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")
def test_what_the_bmc_logs_of_its_requests(tmp_path):
    from lab.daemons import bmc

    app = flask.Flask(__name__)
    app.add_url_rule("/x", "x", lambda: (f"refused: {json.dumps({'password': 'c4lvin!Rack7'})}", 400), methods=["POST"])
    bmc.log_requests(app, bmc.RequestLog(tmp_path / "log"))
    body = {"UserName": "root", "Password": "c4lvin!Rack7", "Image": "http://u:s3cr3t-Pr0xy@lab/x.iso", "Count": 1}
    nested = {**body, "Oem": [{"password": "c4lvin!Rack7"}]}
    assert app.test_client().post("/x", json=nested).status_code == 400
    text = (tmp_path / "log").read_text()
    assert "c4lvin" not in text
    assert "s3cr3t" not in text
    logged = json.loads(text)
    assert (logged["body"]["UserName"], logged["body"]["Count"]) == ("root", 1)
    assert "@lab/x.iso" in logged["body"]["Image"]


CONFIG = {
    "apiVersion": "v1",
    "baseDomain": "test.example",
    "metadata": {"name": "ostest"},
    "controlPlane": {
        "name": "master",
        "replicas": 3,
        "fencing": {"credentials": [{"hostName": "m", "username": "root", "password": "Fenc3-Word", "address": "a"}]},
    },
    "compute": [{"name": "worker", "replicas": 0}],
    "networking": {
        "clusterNetwork": [{"cidr": "10.128.0.0/14", "hostPrefix": 23}],
        "serviceNetwork": ["172.30.0.0/16"],
        "machineNetwork": [{"cidr": "192.168.111.0/24"}],
    },
    "platform": {
        "baremetal": {
            "apiVIPs": ["192.168.111.5"],
            "ingressVIPs": ["192.168.111.4"],
            "hosts": [{"name": "m", "bmc": {"username": "root", "password": "c4lvin!Rack7", "address": "redfish://x"}}],
        }
    },
    "pullSecret": values.PULL_SECRET,
    "sshKey": "ssh-ed25519 AAAA x@y",
}


def test_what_the_cluster_keeps_of_its_install_config():
    """ConfigMap cluster-config-v1: everybody in the cluster may read it."""
    parsed = installconfig.parse(yaml.safe_dump(CONFIG))
    kept = parsed.redacted()
    for secret in (values.AUTH, "c4lvin!Rack7", "Fenc3-Word"):
        assert secret not in kept
        assert secret not in repr(parsed)
    document = yaml.safe_load(kept)
    assert document["platform"]["baremetal"]["hosts"][0]["bmc"]["address"] == "redfish://x"
    assert document["sshKey"] == CONFIG["sshKey"]
    assert document["metadata"] == {"name": "ostest"}


def test_threads_may_redact_at_once():
    wrong: list[str] = []

    def work(vector: values.Vector) -> None:
        clean = installer.common.redact.redact(vector.text)
        wrong.extend(secret for secret in vector.secrets if secret in clean)

    threads = [threading.Thread(target=work, args=(vector,)) for vector in VECTORS[::20]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_what_is_no_secret_stays_in_the_lab():
    assert [text for text in corpus.HARMLESS if installer.common.redact.redact(text) != text] == []
