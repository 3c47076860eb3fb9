"""The agent-gather script itself, with every secret of the corpus wherever it collects."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib import resources
from pathlib import Path

import pytest

from installer.common.redact import Redactor
from installer.common.redact.program import program
from installer.common.redact.testing import corpus, values
from installer.gather.remote import add, script

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the script wants root")
SCRIPT = resources.files("installer.ignition") / "data/bin/agent-gather"
VECTORS = corpus.vectors()
SECRETS = {secret for vector in VECTORS for secret in vector.secrets}
CONFIG = f"""\
apiVersion: v1
platform:
  baremetal:
    hosts:
    - name: master-0
      bmc:
        address: redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1
        username: root
        password: {values.NAMED["BMC password"][1]}
pullSecret: '{values.PULL_SECRET}'
"""
# By what this host knows: said in words, where nothing but the value tells.
OWN = "hidd3n-Word"
BATCH = 50
TOOLS = (
    *("bash", "base64", "basename", "cat", "chmod", "cp", "date", "df", "hostname", "id", "ip", "lsblk", "mkdir"),
    *("mktemp", "rm", "sed", "tar", "tee", "xz"),
)


class Sandbox:
    """A host's files below ``root``, and the only commands that there are."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        self.bin.mkdir(parents=True)
        for name in TOOLS:
            if path_of_program := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
                (self.bin / name).symlink_to(path_of_program)
        self.journal = folder / "journal"
        self.journal.write_text("".join(around(vector.text) for vector in VECTORS) + f"log in as own, {OWN}, failed\n")
        environment = [
            f"{values.NAMED['opaque token'][0]}={values.NAMED['opaque token'][1]}",
            f"MESSAGE={OWN}",
            "A=kept",
        ]
        self.inspected = folder / "inspected"
        self.inspected.write_text(json.dumps([{"Name": "agent", "Config": {"Env": environment}}], indent=4))
        self.command("journalctl", f'exec cat "{self.journal}"')
        self.command("systemctl", 'echo "agent.service loaded active running"')
        self.podman()
        auth = base64.b64encode(f"own:{OWN}".encode()).decode()
        manifests = {
            f"{at:03}.yaml": "\n---\n".join(vector.text for vector in VECTORS[at : at + BATCH])
            for at in range(0, len(VECTORS), BATCH)
        }
        for name, text in {
            "etc/resolv.conf": "nameserver 192.0.2.53\n",
            "etc/containers/registries.conf": 'location = "registry.example:5000"\n',
            "root/.docker/config.json": json.dumps({"auths": {"r": {"auth": auth}}}),
            "etc/assisted/hostconfig/master-0/role": "master",
            "etc/assisted/hostconfig/fencing-credentials.yaml": "credentials:\n- hostname: m\n  password: Fenc3-Word\n",
            "etc/assisted/manifests/pull-secret.yaml": f"stringData:\n  .dockerconfigjson: '{values.PULL_SECRET}'\n",
            "etc/assisted/manifests/agent-cluster-install.yaml": json.dumps({"install-config-overrides": CONFIG}),
            "etc/assisted/manifests/install-config.yaml": CONFIG,
            **{f"etc/assisted/manifests/{name}": text for name, text in manifests.items()},
            "run/agent-installer/host-config-failures": f"cannot log in with {OWN}",
        }.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def command(self, name: str, body: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def python(self) -> None:
        self.command("python3", f'exec "{sys.executable}" "$@"')

    def podman(self, image: str = "") -> None:
        """Containers to look at; ``image``, if any, has a Python, which runs with this machine's files."""
        self.command(
            "podman",
            f"""case "$1 $2" in
                "ps -a") echo "CONTAINER ID  IMAGE  NAMES" ;;
                "ps -aq") echo 0123456789ab ;;
                "inspect "*) cat "{self.inspected}" ;;
                "image exists") [ -n "{image}" ] && [ "$3" = "{image}" ] ;;
                "run "*) while [ "$1" != "{image}" ]; do shift; done; shift; exec "{sys.executable}" "$@" ;;
                *) exit 125 ;;
            esac""",
        )
        path = self.root / "usr/local/share/assisted-service/agent-images.env"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"AGENT_DOCKER_IMAGE={image}\n")

    def install(self) -> None:
        path = self.root / "usr/local/bin/agent-redact"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(program())

    def run(self, *args: str, text: bytes | None = None) -> tuple[dict[str, str], str]:
        """Return the files that were collected by their path below the one folder, and what was said."""
        command = [str(self.bin / "bash"), *(["-s", "--"] if text else [str(SCRIPT)]), "-O", *args]
        environment = {"PATH": str(self.bin), "PATH_PREFIX": str(self.root), "TMPDIR": str(self.root.parent)}
        done = subprocess.run(command, input=text, capture_output=True, env=environment, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        self.packed = done.stdout
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            files = {m.name.partition("/")[2]: tar.extractfile(m).read().decode() for m in tar if m.isreg()}
        return files, done.stderr.decode()


def around(text: str) -> str:
    return f"{corpus.BEFORE}\n{text}\n{corpus.AFTER}\n"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def nothing_leaks(files: dict[str, str]) -> None:
    everything = "\n".join(files.values())
    for secret in {*SECRETS, OWN, "Fenc3-Word"}:
        assert secret not in everything


def all_is_there(files: dict[str, str]) -> None:
    """Everything that is no secret is as it was."""
    assert files["journal.log"].count(corpus.BEFORE) == len(VECTORS)
    assert files["journal.log"].count(corpus.AFTER) == len(VECTORS)
    [container] = json.loads(files["system/podman-inspect.json"])
    assert "A=kept" in container["Config"]["Env"]
    assert "pull-secret.yaml" not in str(list(files))
    assert "redfish-virtualmedia://192.0.2.1" in files["etc/manifests/install-config.yaml"]
    assert "redfish-virtualmedia://192.0.2.1" in files["etc/manifests/agent-cluster-install.yaml"]
    assert "registry.example:5000" in files["etc/registries.conf"]
    assert files["etc/etc/assisted/hostconfig/master-0/role"] == "master"
    assert "cannot log in with" in files["etc/run/agent-installer/host-config-failures"]
    assert files["network/resolv.conf"] == "nameserver 192.0.2.53\n"
    for number, vector in enumerate(VECTORS):
        for text in vector.stays:
            assert text in files[f"etc/manifests/{number - number % BATCH:03}.yaml"], vector.name


def test_with_the_hosts_python(sandbox: Sandbox) -> None:
    sandbox.install()
    sandbox.python()
    files, _ = sandbox.run()
    nothing_leaks(files)
    all_is_there(files)
    assert [path.name for path in sandbox.root.parent.iterdir() if path.name.startswith("tmp.")] == []


def test_sent_from_elsewhere_it_brings_its_program(sandbox: Sandbox) -> None:
    sandbox.python()
    files, _ = sandbox.run(text=script())
    nothing_leaks(files)
    all_is_there(files)


def test_with_the_python_of_an_image(sandbox: Sandbox) -> None:
    sandbox.install()
    sandbox.podman("registry.example/agent@sha256:0123")
    files, _ = sandbox.run()
    nothing_leaks(files)
    all_is_there(files)


def test_without_any_python_nothing_that_may_hold_secrets_is_kept(sandbox: Sandbox) -> None:
    sandbox.install()
    sandbox.command("python3", "exit 127")
    files, output = sandbox.run()
    nothing_leaks(files)
    assert "are left out" in output
    assert "are left out" in files["left-out.txt"]
    assert files["journal.log"] == ""
    assert "Filesystem" in files["system/df"]


def test_secrets_that_a_host_without_python_sends_are_taken_out_here(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.command("python3", "exit 127")
    files, _ = sandbox.run("-r", text=script())
    assert OWN in files["journal.log"], "the host had a Python all the same"
    (tmp_path / "packed").write_bytes(sandbox.packed)
    clean = Redactor((OWN, "Fenc3-Word"))
    with tarfile.open(tmp_path / "out.tar", "w") as out:
        assert add(out, tmp_path / "packed", "t", clean) == len(files)
    with tarfile.open(tmp_path / "out.tar") as tar:
        contents = {m.name.partition("/")[2]: tar.extractfile(m).read().decode() for m in tar}
    nothing_leaks(contents)
    all_is_there(contents)
