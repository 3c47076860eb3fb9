"""`node0 hub` against a real API server, with the rights of the operator's own account: install, run, wait, end."""

import base64
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.testing.hub import LoopbackHub, loopback_hub
from lab.waiting import wait_until

pytestmark = pytest.mark.lab
REPOSITORY = Path(__file__).parents[3]
AUTH = base64.b64encode(b'{"auths": {"r.example": {"auth": "YTpi"}}}').decode()
INFRA_ENV: dict[str, Any] = {
    "apiVersion": "agent-install.openshift.io/v1beta1",
    "kind": "InfraEnv",
    "metadata": {"name": "env", "namespace": "default"},
    "spec": {"pullSecretRef": {"name": "pull"}},
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "pull", "namespace": "default"},
    "data": {".dockerconfigjson": AUTH},
}
HYPERSHIFT = {
    "apiVersion": "agent-install.openshift.io/v1beta1",
    "kind": "HypershiftAgentServiceConfig",
    "metadata": {"name": "hosted", "namespace": "default"},
    "spec": {"kubeconfigSecretRef": {"name": "x"}, "databaseStorage": {}, "filesystemStorage": {}},
}
_TEMPLATES = {"namespace": "open-cluster-management"}
CLUSTER_INSTANCE = {
    "apiVersion": "siteconfig.open-cluster-management.io/v1alpha1",
    "kind": "ClusterInstance",
    "metadata": {"name": "edge"},
    "spec": {
        "clusterName": "edge",
        "baseDomain": "lab.test",
        "clusterImageSetNameRef": "release",
        "pullSecretRef": {"name": "pull"},
        "templateRefs": [_TEMPLATES | {"name": "ai-cluster-templates-v1"}],
        "nodes": [
            {
                "hostName": "n0.lab.test",
                "bmcAddress": "redfish-virtualmedia+https://192.0.2.1/redfish/v1/Systems/1",
                "bmcCredentialsName": {"name": "bmc"},
                "bootMACAddress": "52:54:00:00:00:01",
                "templateRefs": [_TEMPLATES | {"name": "ai-node-templates-v1"}],
                "nodeNetwork": {
                    "config": {
                        "interfaces": [{"name": "eth0", "type": "ethernet", "ipv4": {"enabled": True, "dhcp": True}}]
                    },
                    "interfaces": [{"name": "eth0", "macAddress": "52:54:00:00:00:01"}],
                },
            }
        ],
    },
}
HOST: dict[str, Any] = {
    "apiVersion": "metal3.io/v1alpha1",
    "kind": "BareMetalHost",
    "metadata": {"name": "host", "namespace": "default"},
    "spec": {"online": False, "bootMACAddress": "52:54:00:00:00:01"},
}
FOREIGN = "hardwaredata.metal3.io"


def node0(hub: LoopbackHub, *words: str, kubeconfig: Path | None = None) -> list[str]:
    command = [sys.executable, "-m", "installer", "hub", *words, "--kubeconfig", str(kubeconfig or hub.kubeconfig)]
    # Without the PID namespace, so that it is this process's child that a signal ends.
    return ["nsenter", f"--target={hub.init}", "--net", "--mount", f"--wdns={REPOSITORY}", "--", *command]


def run(hub: LoopbackHub, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(node0(hub, *words), capture_output=True, text=True, timeout=120, check=False)


def applied(hub: LoopbackHub, *resources: object) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": resources})
    assert hub.kubectl("apply", "-f", "-", text=text).returncode == 0


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with loopback_hub(tmp_path_factory.mktemp("hub") / "place") as hub:
        yield hub


@pytest.fixture(scope="module")
def installed(hub):
    first = run(hub, "install")
    assert first.returncode == 0, first.stderr
    return hub


@pytest.fixture(scope="module")
def account(installed, tmp_path_factory):
    def token() -> str:
        items = json.loads(installed.kubectl("get", "secrets", "-n", "node0-hub", "-o", "json").stdout)["items"]
        found = [item["data"]["token"] for item in items if item["metadata"]["name"].startswith("node0-hub-token")]
        return base64.b64decode(found[0]).decode() if found else ""

    wait_until(token, 60, "the service account to have a token")
    config = yaml.safe_load(installed.kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token()}}]
    config["contexts"][0]["context"]["user"] = "operator"
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextmanager
def operator(hub, account, directory, port, *more):
    directory.mkdir(exist_ok=True)
    words = ("run", "--dir", str(directory), "--listen", f"127.0.0.1:{port}", *more)
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(node0(hub, *words, kubeconfig=account), stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(60) == 0, (directory / "log").read_text()


def log_of(directory: Path) -> str:
    return (directory / "log").read_text()


def test_installing_again_changes_nothing_and_what_is_foreign_stays(installed):
    assert installed.kubectl("label", "crd", FOREIGN, "app.kubernetes.io/managed-by-").returncode == 0
    again = run(installed, "install")
    assert again.returncode == 0, again.stderr
    assert f"{FOREIGN}: is there already and not of node0" in again.stderr
    assert "brought up to date" not in again.stderr


def test_what_render_makes_is_applied_as_a_folder(installed, tmp_path):
    file, folder = tmp_path / "edge.yaml", tmp_path / "edge"
    file.write_text(yaml.safe_dump(CLUSTER_INSTANCE))
    command = [sys.executable, "-m", "installer", "hub", "render", str(file), "-o", str(folder)]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    assert "amespace edge" in made.stderr  # as siteconfig, whose ClusterInstance is in it already
    installed.kubectl("create", "namespace", "edge")
    taken = installed.kubectl("apply", "-k", str(folder))
    assert taken.returncode == 0, taken.stderr
    kinds = "clusterdeployments,agentclusterinstalls,infraenvs,nmstateconfigs,baremetalhosts"
    names = installed.kubectl("get", kinds, "-n", "edge", "-o", "name").stdout.split()
    assert len(names) == 5, names
    assert installed.kubectl("delete", "-k", str(folder), "--timeout=50s").returncode == 0


def test_an_infra_env_becomes_available_by_the_rights_of_the_account_alone(installed, account, tmp_path):
    with operator(installed, account, tmp_path / "one", 18090) as process:
        wait_until(lambda: "leads" in log_of(tmp_path / "one"), 60, "the operator to lead")
        applied(installed, INFRA_ENV, HYPERSHIFT)
        blocked = run(installed, "wait-for", "infraenv/env", "--timeout", "60")
        assert blocked.returncode == 6, blocked.stderr
        assert "Secret default/pull, which spec.pullSecretRef names, does not exist" in blocked.stderr
        conditions = installed.kubectl(
            "get", "hypershiftagentserviceconfig", "hosted", "-o", "jsonpath={.status}"
        ).stdout
        assert "is not offered" in conditions
        applied(installed, SECRET)
        wait_until(lambda: run(installed, "wait-for", "infraenv/env").returncode == 0, 60, "the image")
        with operator(installed, account, tmp_path / "two", 18091):
            wait_until(lambda: "waiting for its lease" in log_of(tmp_path / "two"), 60, "the second to wait")
            process.terminate()
            wait_until(lambda: "leads\n" in log_of(tmp_path / "two"), 60, "the second to lead")
            deleted = installed.kubectl("delete", "infraenv", "env", "--timeout=60s")
            assert deleted.returncode == 0, deleted.stderr + log_of(tmp_path / "two")
        for directory in (tmp_path / "one", tmp_path / "two"):
            assert "orbidden" not in log_of(directory)
            assert "YTpi" not in log_of(directory)


def test_webhooks_refuse_what_is_wrong_while_the_operator_runs_and_nothing_waits_for_one_that_has_ended(
    installed, account, tmp_path
):
    directory = tmp_path / "hooked"

    def answer(*resources):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": resources})
        done = installed.kubectl("apply", "-f", "-", text=text)
        return done.returncode, done.stdout + done.stderr

    def hooks():
        return installed.kubectl("get", "validatingwebhookconfigurations", "-o", "name").stdout.split()

    wrong = HOST | {"spec": HOST["spec"] | {"rootDeviceHints": {"deviceName": "sda"}}}
    both = INFRA_ENV | {"spec": INFRA_ENV["spec"] | {"clusterRef": {"name": "a", "namespace": "b"}}}
    both["spec"]["osImageVersion"] = "4.20"
    with operator(installed, account, directory, 18092, "--webhook", "127.0.0.1:18093"):
        wait_until(hooks, 60, "the webhooks", lambda: log_of(directory)[-500:])
        code, text = answer(wrong, HOST | {"metadata": HOST["metadata"] | {"name": "good"}})
        assert code == 1
        assert 'admission webhook "baremetalhost.metal3.io" denied the request: spec.rootDeviceHints.deviceName' in text
        assert "baremetalhost.metal3.io/good created" in text
        assert "infraenvvalidators.admission.agentinstall.openshift.io" in answer(both)[1]
        assert answer(HOST)[0] == 0
        code, text = answer(HOST | {"spec": HOST["spec"] | {"bootMACAddress": "52:54:00:00:00:02"}})
        assert (code, "it does not change once it is set" in text) == (1, True)
        # Its own finalizers, and a deletion, pass.
        deleted = installed.kubectl("delete", "baremetalhosts", "--all", "--timeout=50s")
        assert deleted.returncode == 0, deleted.stderr + log_of(directory)
    assert hooks() == []
    assert "orbidden" not in log_of(directory)
    assert answer(wrong)[0] == 0
    installed.kubectl("patch", "bmh", "host", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    assert installed.kubectl("delete", "bmh", "host", "--timeout=50s").returncode == 0


def of_host(kind: str, **spec: object) -> dict[str, Any]:
    metadata = {"name": "host", "namespace": "default"}
    return {"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def test_what_belongs_to_a_host_of_the_converged_flow_comes_and_goes_with_it(installed, account, tmp_path):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "node0-hub"}}
    annotations = {"unsupported.agent-install.openshift.io/assisted-service-configmap": "settings"}
    config = {
        "apiVersion": "agent-install.openshift.io/v1beta1",
        "kind": "AgentServiceConfig",
        "metadata": {"name": "agent", "annotations": annotations},
        "spec": {"databaseStorage": {}, "filesystemStorage": {}},
    }
    labelled = HOST["metadata"] | {"labels": {"infraenvs.agent-install.openshift.io": "env"}}
    directory = tmp_path / "converged"

    def got(kind: str, path: str) -> str:
        out: str = installed.kubectl("get", kind, "host", "--ignore-not-found", "-o", f"jsonpath={{{path}}}").stdout
        return out

    with operator(installed, account, directory, 18094):
        applied(installed, settings | {"data": {"ALLOW_CONVERGED_FLOW": "true"}}, config, SECRET, INFRA_ENV)
        applied(installed, HOST | {"metadata": labelled})
        applied(installed, of_host("DataImage", url="http://192.0.2.1/data.iso"))
        applied(installed, of_host("HostFirmwareSettings", settings={"ProcTurboMode": "Disabled", "Cores": 4}))
        ready = ".status.conditions[?(@.type=='Ready')].reason"
        wait_until(lambda: got("preprovisioningimage", ready) == "InfraEnvAvailable", 60, "the image", lambda: got(
            "preprovisioningimage", ".status"))  # fmt: skip
        assert "/images/" in got("preprovisioningimage", ".status.imageUrl")
        refused = ".status.conditions[?(@.type=='Valid')].message"
        wait_until(lambda: "Cores, ProcTurboMode" in got("hostfirmwaresettings", refused), 60, "the refusal")
        wait_until(lambda: got("dataimage", ".metadata.finalizers[0]") == "dataimage.metal3.io", 60, "the finalizer")
        deleted = installed.kubectl("delete", "bmh", "host", "--timeout=50s")
        assert deleted.returncode == 0, deleted.stderr + log_of(directory)
        names = ".metadata.name"
        wait_until(lambda: not got("preprovisioningimage", names) + got("dataimage", names), 60, "the end of both")
        others = ("hostfirmwaresettings/host", "infraenv/env", "agentserviceconfig/agent")
        deleted = installed.kubectl("delete", *others, "--timeout=50s")
        assert deleted.returncode == 0, deleted.stderr + log_of(directory)
    assert "orbidden" not in log_of(directory)
    assert "schema changes" not in log_of(directory)


def test_uninstalling_refuses_while_there_are_resources_and_leaves_what_is_foreign(installed):
    applied(installed, INFRA_ENV)
    refused = run(installed, "uninstall")
    assert refused.returncode == 1
    assert "InfraEnv default/env" in refused.stderr
    done = run(installed, "uninstall", "--with-resources")
    assert done.returncode == 0, done.stderr
    left = installed.kubectl("get", "crd", "-o", "name").stdout.split()
    assert left == [f"customresourcedefinition.apiextensions.k8s.io/{FOREIGN}"]
