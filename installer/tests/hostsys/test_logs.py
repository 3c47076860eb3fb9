"""The step that sends logs: what is reported to the service on the way, and programs that fail."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from installer import ignition
from installer.agent.errors import StepError
from installer.agent.steps import gather_logs
from installer.assisted.client import AssistedClient
from installer.assisted.errors import ClientError
from installer.assisted.steparguments import LogsRequest
from installer.hostsys import logs
from installer.testing.agent_kit import Host, Programs, programs_in

REQUEST = LogsRequest(cluster_id="c", infra_env_id="i", host_id="h")
PROGRESS = "/infra-envs/i/hosts/h/logs-progress"
NAMES = ("journalctl", "dmesg", "mount", "ip", "lsblk", "podman", "systemctl")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    stubs = programs_in(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", f"{stubs.folder}:/usr/bin:/bin")
    for name in NAMES:
        stubs.put(name, f'echo "{name} $*"')
    return stubs


class Client(AssistedClient):
    """Takes what it is sent; ``refuse`` names a state, or the upload, that it does not take."""

    def __init__(self, refuse: str = "") -> None:
        self.refuse = refuse
        self.reports: list[tuple[str, str, str]] = []
        self.uploads: list[tuple[str, dict[str, str], str, bytes]] = []
        self.headers: list[dict[str, str]] = []

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> None:
        headers = options["headers"]
        self.headers.append(headers)
        self.reports.append((method, path, body["logs_state"]))
        if body["logs_state"] == self.refuse:
            raise ClientError("PUT", 503, "away")

    def upload(self, path: str, file: Any, name: str, *, query: Any = None, headers: Any = None) -> None:
        self.headers.append(headers)
        if self.refuse == "upload":
            raise ClientError("POST", 413, "too large")
        file.seek(0)
        self.uploads.append((path, query, name, file.read()))

    def states(self) -> list[str]:
        assert {(method, path) for method, path, _ in self.reports} <= {("PUT", PROGRESS)}
        return [state for _, _, state in self.reports]


def unpack(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {member.mode for member in tar} == {0o600}
        return {member.name: tar.extractfile(member).read().decode() for member in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize("bootstrap", [False, True])
def test_logs_are_collected_and_sent(host: Host, programs: Programs, bootstrap: bool) -> None:
    host.write("/etc/resolv.conf", "nameserver 192.0.2.1\n")
    client = Client()
    assert gather_logs(host, replace(REQUEST, bootstrap=bootstrap), client) == ""
    assert client.states() == ["collecting", "completed"]
    [(path, query, name, data)] = client.uploads
    assert (path, name) == ("/clusters/c/logs", "host_h.tar.gz")
    assert query == {"logs_type": "host", "infra_env_id": "i", "host_id": "h"}
    files = unpack(data)
    assert files["host_h/agent.service.logs"] == "journalctl -o short-iso-precise --no-pager -u agent.service\n"
    assert files["host_h/journal.logs"] == "journalctl -b -o short-iso-precise --no-pager\n"
    for name, command in {
        "dmesg.logs": "dmesg",
        "mount.txt": "mount",
        "ip-address.txt": "ip -d address",
        "ip-route.txt": "ip route show table all",
        "lsblk.txt": "lsblk -f",
        "podman-ps.txt": "podman ps -a",
        "failed-units.txt": "systemctl --failed --no-legend --plain",
        "installer-container.logs": "podman logs assisted-installer",
    }.items():
        assert files[f"host_h/{name}"].strip() == command
    assert files["host_h/files/etc/resolv.conf"] == "nameserver 192.0.2.1"
    assert ("host_h/bootkube.service.logs" in files) is bootstrap
    units = len(logs.UNITS) + (len(logs.BOOTSTRAP_UNITS) if bootstrap else 0)
    assert len(files) == units + 1 + len(logs.COMMANDS) + 1
    assert client.headers == [{}] * 3


@pytest.mark.parametrize("refuse", ["", "upload"])
def test_logs_are_those_of_an_attempt(host: Host, programs: Programs, refuse: str) -> None:
    client = Client(refuse)
    with contextlib.suppress(StepError):
        gather_logs(host, replace(REQUEST, installation_attempt="the second"), client)
    assert client.states() == ["collecting", "timeout" if refuse else "completed"]
    assert client.headers == [{"X-Installation-Attempt": "the second"}] * 3


def test_programs_that_do_not_end_well_are_told_in_their_place(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "COMMAND_TIMEOUT", 1.0)
    monkeypatch.setattr(logs, "LARGEST_OUTPUT", 2000)
    programs.put("dmesg", "echo first words; sleep 1000")
    programs.put("mount", "echo half; echo 'it broke' >&2; exit 3")
    programs.put("lsblk", "head -c 5000 /dev/zero | tr '\\0' x")
    programs.put("ip", "printf 'a\\377b'")
    monkeypatch.setattr(logs, "COMMANDS", {**logs.COMMANDS, "none.txt": ("no-such-program", "-x")})
    file = io.BytesIO()
    logs.write_archive(host, "h", False, file)
    files = unpack(file.getvalue())
    assert files["host_h/dmesg.logs"] == "first words\n\n(dmesg: did not end within 1 s)\n"
    assert files["host_h/mount.txt"] == "half\nit broke\n"
    assert files["host_h/lsblk.txt"] == "x" * 2000 + "\n(lsblk -f: printed more than 2000 bytes)\n"
    assert files["host_h/ip-address.txt"] == "a�b"
    assert files["host_h/none.txt"] == "(no-such-program -x: [Errno 2] No such file or directory: 'no-such-program')\n"


@pytest.mark.parametrize(
    ("refuse", "states"), [("upload", ["collecting", "timeout"]), ("collecting", ["collecting", "timeout"])]
)
def test_logs_that_are_not_taken(host: Host, programs: Programs, refuse: str, states: list[str]) -> None:
    client = Client(refuse)
    with pytest.raises(StepError, match="logs were not uploaded: "):
        gather_logs(host, REQUEST, client)
    assert client.states() == states


def test_logs_that_cannot_be_written_are_told_as_well(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live system's disk is its memory, and may be full: the service does not wait for what will not come."""
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    client = Client()
    with pytest.raises(StepError, match=r"logs were not uploaded: .*No such file"):
        gather_logs(host, REQUEST, client)
    assert client.states() == ["collecting", "timeout"]


def test_units_are_those_of_the_live_image() -> None:
    """A unit of another name would be collected as an empty file."""
    folder = Path(ignition.__file__).parent / "data/systemd"
    of_the_release = {"NetworkManager.service", "bootkube.service", "approve-csr.service", "progress.service"}
    named = {*logs.UNITS, *logs.BOOTSTRAP_UNITS} - of_the_release - {"kubelet.service"}
    assert named <= {path.name for path in folder.iterdir()}


def test_files_are_sent_without_their_secrets(host: Host, programs: Programs) -> None:
    host.write(
        "/etc/assisted/rendezvous-host.env", "NODE_ZERO_IP=192.0.2.5\nAGENT_AUTH_TOKEN=eyJhbGciOiJFUzI1NiJ9.e30.c2ln\n"
    )
    host.write("/var/run/agent-installer/host-config-failures", "master-0: no such disk\n")
    client = Client()
    assert gather_logs(host, REQUEST, client) == ""
    files = unpack(client.uploads[0][3])
    environment = files["host_h/files/etc/assisted/rendezvous-host.env"]
    assert "NODE_ZERO_IP=192.0.2.5" in environment
    assert "c2ln" not in environment
    assert files["host_h/files/var/run/agent-installer/host-config-failures"] == "master-0: no such disk"
