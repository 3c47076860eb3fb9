"""What is told of a host and of images from the administrator's side, against real sockets and a real registry."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.observe import outside
from installer.observe.state import Images
from installer.testing.create import registry_kit

# Reserved for documents (RFC 3849): nobody has it, and where there is a route, nobody answers.
NOWHERE = "2001:db8::1"
needs = pytest.mark.skipif(bool(registry_kit.MISSING), reason=f"not installed: {', '.join(registry_kit.MISSING)}")


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port that refuses them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_port_that_answers_one_that_refuses_and_one_that_nobody_has(listening: int, closed: int) -> None:
    assert outside.port("127.0.0.1", listening, 1) == "answers"
    assert outside.port("127.0.0.1", closed, 1) == "refuses connections"
    assert outside.port(NOWHERE, 9, 0.2) not in ("answers", "refuses connections")


def test_a_host_whose_service_is_not_up(listening: int, closed: int) -> None:
    line = outside.host("127.0.0.1", closed, listening, 1)
    assert line == f"127.0.0.1 answers SSH, port {closed} refuses connections: the host is up, its service is not"


def test_a_host_that_is_up_and_has_neither(closed: int) -> None:
    line = outside.host("127.0.0.1", closed, closed, 1)
    assert line.startswith(f"127.0.0.1 is there, port {closed} refuses connections, SSH")


def test_a_host_that_is_not_there() -> None:
    line = outside.host(NOWHERE, 8090, 22, 0.2)
    assert line.startswith(f"{NOWHERE} does not answer either (SSH, port 22: ")


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
