"""The sentences about a host and about images, seen from outside, against real sockets and a real registry."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer.observe import outside
from installer.observe.state import Images
from installer.testing.create import registry_kit

# Reserved for documents (RFC 3849): nobody has it, and where there is a route, nobody answers.
NOWHERE = "2001:db8::1"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
needs = pytest.mark.skipif(bool(registry_kit.MISSING), reason=f"not installed: {', '.join(registry_kit.MISSING)}")


@pytest.fixture
def listening() -> Iterator[int]:
    """Provide a port that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """Provide a port that refuses them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_port_that_answers_one_that_refuses_and_one_that_nobody_has(listening: int, closed: int) -> None:
    assert outside.port("127.0.0.1", listening, 1) == "answers"
    assert outside.port("127.0.0.1", closed, 1) == "refuses connections"
    assert outside.port(NOWHERE, 9, 0.2) not in ("answers", "refuses connections")


def test_a_host_whose_service_is_not_up(listening: int, closed: int) -> None:
    line = outside.host("127.0.0.1", closed, listening, 1)
    assert line == f"127.0.0.1 answers SSH, port {closed} refuses connections: the host is up, its service is not"


@pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="no OpenSSH here")
def test_a_hosts_ssh_banner_is_read_without_logging_in(tmp_path: Path, closed: int) -> None:
    (tmp_path / "banner").write_text(
        "Welcome.\ninstall-status: Not running: agent.service(failed).\x1b[2J\n"
        "install-status: Images cannot be pulled\n"
    )
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {tmp_path}/key\nBanner {tmp_path}/banner\nUsePAM no\nPidFile none\n"
    )
    # Its folder of no privileges, where a machine that has not started it yet lacks it.
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = subprocess.Popen([str(SSHD), "-D", "-e", "-f", tmp_path / "config"], stderr=subprocess.PIPE)
    try:
        assert sshd.stderr is not None
        assert b"listening" in sshd.stderr.readline()
        line = outside.host("127.0.0.1", closed, port, 3)
        complaint = outside.complaint("127.0.0.1", port, 3)
    finally:
        sshd.terminate()
        sshd.communicate(timeout=10)
    cause = "Not running: agent.service(failed).\\033[2J; Images cannot be pulled"
    assert line.endswith(f"the host is up, its service is not. It says: {cause}")
    assert complaint == "Images cannot be pulled", "services that do not run yet are no complaint"


def test_a_host_that_is_up_and_has_neither(closed: int) -> None:
    line = outside.host("127.0.0.1", closed, closed, 1)
    assert line.startswith(f"127.0.0.1 is there, port {closed} refuses connections, SSH")


def test_a_host_that_is_not_there() -> None:
    line = outside.host(NOWHERE, 8090, 22, 0.2)
    assert line.startswith(f"{NOWHERE} does not answer either (SSH, port 22: ")


def test_an_api_whose_name_leads_elsewhere_or_nowhere(listening: int, closed: int) -> None:
    line = outside.api(f"https://127.0.0.2:{closed}", "timed out", "127.0.0.1", 1)
    assert f"127.0.0.2, where port {closed} refuses connections; 127.0.0.1, the rendezvous host, refuses" in line
    line = outside.api(f"https://localhost:{listening}", "timed out", "127.0.0.1", 1)
    assert line.startswith(
        f"The cluster's API https://localhost:{listening} has never answered: timed out; localhost leads"
    )
    assert "rendezvous" not in line, "it is where the name leads to"
    line = outside.api(f"https://api.node0.invalid:{listening}", "x", "127.0.0.1", 1)
    assert "api.node0.invalid has no address here (" in line
    assert line.endswith("; 127.0.0.1, the rendezvous host, answers there")


def test_the_name_for_hosts_that_leads_nowhere_or_answers(listening: int, closed: int) -> None:
    assert outside.internal_api("127.0.0.1", listening, 1) == ""
    assert outside.internal_api("127.0.0.1", closed, 1) == f"127.0.0.1, where port {closed} refuses connections"
    assert outside.internal_api("api-int.node0.invalid", closed, 1).startswith("api-int.node0.invalid has no address")


@needs
def test_images_that_cannot_be_had(tmp_path: Path) -> None:
    with registry_kit.registry(tmp_path) as server:
        name = server.push([{"x": b"x"}], "agent")
        whole = Images({"agent": name}, server.pull_secret, server.ca_pem, server.sources)
        assert outside.image_problems(whole) == ()

        absent = dataclasses.replace(whole, names={"agent": name, "other": f"{registry_kit.SOURCE}@sha256:{'0' * 64}"})
        [line] = outside.image_problems(absent)
        assert line.startswith("Hosts cannot pull other: ")

        [line] = outside.image_problems(dataclasses.replace(whole, trust_bundle=""))
        assert line.startswith("Hosts cannot pull images: ")
        assert "certificate" in line
        [line] = outside.image_problems(dataclasses.replace(absent, pull_secret='{"auths": {}}'))
        assert "401" in line or "unauthorized" in line or "credentials" in line or "pull secret" in line
    [line] = outside.image_problems(whole)
    assert "onnect" in line
    assert server.pull_secret not in line


@needs
def test_a_proxy_of_this_machine_says_nothing_of_hosts(monkeypatch: pytest.MonkeyPatch, closed: int) -> None:
    images = Images({"agent": f"registry.invalid/x@sha256:{'0' * 64}"}, '{"auths": {}}', "", ())
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{closed}")
    [line] = outside.image_problems(images)
    assert line.startswith(
        "Through the proxy of its environment, which need not be that of the hosts, this machine cannot pull "
    )
    monkeypatch.setenv("NO_PROXY", "other.example,registry.invalid")
    [line] = outside.image_problems(images)
    assert line.startswith("Hosts cannot pull images: ")


@needs
@pytest.mark.parametrize(
    "change", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + bytes([data[-1] ^ 1])]
)
def test_an_image_whose_layer_is_not_what_its_digest_says(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    with registry_kit.registry(tmp_path) as server:
        name = server.push([{"x": b"x" * 5000}], "agent")
        images = Images({"agent": name}, server.pull_secret, server.ca_pem, server.sources)
        assert outside.image_problems(images, whole=True) == ()
        layer = max(tmp_path.rglob("blobs/sha256/*/*/data"), key=lambda path: path.read_bytes()[:2] == b"\x1f\x8b")
        layer.write_bytes(change(layer.read_bytes()))
        assert outside.image_problems(images) == (), "what is only opened looks well"
        [line] = outside.image_problems(images, whole=True)
        assert line.startswith("Hosts cannot pull agent: ")
