"""Users' inputs that are no file, or too long: one line at every entrance, at once."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import yaml

# What the command imports when it is needed: here once, so that no run that is forked has to.
import installer.create.image  # noqa: F401
import installer.create.targets  # noqa: F401
import installer.iso_tool.command  # noqa: F401
import installer.network.command  # noqa: F401
import installer.waitfor.command  # noqa: F401
from installer.cli import main
from installer.common import inputs
from installer.common.formats import jsontext
from installer.common.inputs import read_input, read_text
from installer.config.values import check
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, ConfigError
from installer.rendezvous import standalone
from installer.testing.create.inputs_kit import AGENT, SNO
from installer.testing.forked_kit import forked

HUGE = 1 << 40


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def listening(path: Path) -> None:
    # A socket's name may have 107 bytes only.
    with socket.socket(socket.AF_UNIX) as unix_socket:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            unix_socket.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, HUGE)


def binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (pipe, "it is a named pipe, not a regular file"),
    "folder": (folder, "Is a directory"),
    "socket": (listening, "it is a socket, not a regular file"),
    "device": (zeros, "it is a character device, not a regular file"),
    "huge": (huge, "it has more than "),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_every_other_kind_of_file_is_refused(tmp_path: Path, kind: str) -> None:
    make, expected = KINDS[kind]
    make(tmp_path / "x")
    with pytest.raises(OSError, match=re.escape(expected)) as caught:
        read_input(tmp_path / "x")
    assert expected in str(caught.value.strerror)
    assert "\n" not in str(caught.value.strerror)


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(path)
    assert read_input(tmp_path / "link") == read_input(path, 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes") as caught:
        read_input(path, 4)
    assert caught.value.errno == errno.EFBIG
    with pytest.raises(FileNotFoundError):
        read_input(tmp_path / "absent")
    # stat tells 0 for its size.
    assert read_input("/proc/self/cmdline")
    binary(path)
    with pytest.raises(OSError, match="it is not UTF-8 text at byte 0"):
        read_text(path)


def test_what_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge(tmp_path / "x")
    monkeypatch.setattr(inputs, "read_stream", None)
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_input(tmp_path / "x", 4)


def test_what_a_shell_makes_of_a_command_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with closing(os.fdopen(reading)), os.fdopen(writing, "wb") as file:
        file.write(b"x" * 1000)
        file.close()
        assert read_input(f"/dev/fd/{reading}") == b"x" * 1000
        # In a directory it is as any other pipe.
        (tmp_path / "x").symlink_to(f"/dev/fd/{reading}")
        with pytest.raises(OSError, match="it is a named pipe"):
            read_input(tmp_path / "x")


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "x")
    (tmp_path / "file").touch()
    with monkeypatch.context() as patched:
        patched.setattr(inputs.os, "stat", lambda path, **_: os.lstat(tmp_path / "file"))
        with pytest.raises(OSError, match="it is a named pipe"):
            read_input(tmp_path / "x")


def filled(directory: Path) -> Path:
    """Return an asset directory with both configs."""
    directory.mkdir()
    (directory / "install-config.yaml").write_text(yaml.safe_dump(SNO))
    (directory / "agent-config.yaml").write_text(yaml.safe_dump(AGENT))
    return directory


def node0(*arguments: str, stdin: int | None = None) -> tuple[int, str]:
    """Exit code and what it said last."""
    code, stderr = forked(main, arguments, stdin=stdin)
    assert "Traceback" not in stderr
    lines = stderr.splitlines()
    return code, lines[-1] if lines else ""


CREATE = {
    "install-config.yaml": EXIT_INSTALL_CONFIG,
    "agent-config.yaml": EXIT_FATAL,
    "openshift/a.yaml": EXIT_FATAL,
    ".openshift_install_state.json": EXIT_FATAL,
    "mirror/registries.conf": EXIT_FATAL,
    "mirror/ca-bundle.crt": EXIT_FATAL,
    "cluster-manifests/infraenv.yaml": EXIT_FATAL,
}


@kinds
@pytest.mark.parametrize("name", [*CREATE, ".openshift_install.log"])
def test_create(tmp_path: Path, name: str, kind: str) -> None:
    make, expected = KINDS[kind]
    if name == ".openshift_install.log" and kind in ("huge", "device"):
        return  # a log may be long, or go to /dev/null
    directory = filled(tmp_path / "dir")
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    code, stderr = node0("agent", "create", "cluster-manifests", "--dir", str(directory))
    assert code == CREATE.get(name, EXIT_FATAL), stderr
    assert expected in stderr
    assert name in stderr
    assert ("level=error" if code == EXIT_INSTALL_CONFIG else "level=fatal") in stderr
    others = {"install-config.yaml", "agent-config.yaml"} - {name}
    assert {other for other in others if (directory / other).is_file()} == others


@kinds
@pytest.mark.parametrize(
    "command", [("nmstate", "gc"), ("iso", "show"), ("iso", "embed", "--ignition")], ids=lambda words: words[-1]
)
def test_files_that_are_named(tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    make, expected = KINDS[kind]
    if command == ("iso", "show") and kind == "huge":
        expected = "not an ISO 9660 image"
    make(tmp_path / "x")
    code, stderr = node0(*command, str(tmp_path / "x"), *([str(tmp_path / "iso")] if "embed" in command else []))
    assert code == EXIT_FATAL
    assert expected in stderr
    assert str(tmp_path / "x") in stderr


@pytest.mark.parametrize("command", [("nmstate", "gc"), ("iso", "embed", "--ignition", "-", "x")], ids=lambda c: c[0])
def test_standard_input_without_end(command: tuple[str, ...]) -> None:
    with open("/dev/zero", "rb") as endless:
        code, stderr = node0(*command, stdin=endless.fileno())
    assert code == EXIT_FATAL
    assert "it has more than 33554432 bytes" in stderr


@kinds
@pytest.mark.parametrize("name", [".openshift_install_state.json", "auth/kubeconfig", "auth/kubeadmin-password"])
def test_waiting(tmp_path: Path, name: str, kind: str) -> None:
    from installer.testing.create.assets_kit import GOOD, asset_dir

    make, expected = KINDS[kind]
    directory = tmp_path / "dir"
    directory.mkdir()
    asset_dir(directory, GOOD)
    (directory / name).unlink(missing_ok=True)
    make(directory / name)
    code, stderr = node0("agent", "wait-for", "install-complete", "--dir", str(directory))
    assert code == EXIT_FATAL
    assert expected in stderr
    assert name in stderr


@kinds
@pytest.mark.parametrize("name", ["registries.conf", "ca-bundle.crt"])
def test_mirrors_of_the_service(tmp_path: Path, name: str, kind: str) -> None:
    make, expected = KINDS[kind]
    (tmp_path / "mirror").mkdir()
    make(tmp_path / "mirror" / name)
    with pytest.raises(ConfigError) as caught:
        standalone.settings_of(tmp_path, "127.0.0.1:8090", {})
    assert f"mirror/{name}: cannot be read: {expected}" in str(caught.value)


def test_mirrors_of_the_service_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    for name, expected in (("registries.conf", "Expected '='"), ("ca-bundle.crt", "not a bundle of PEM certificates")):
        (tmp_path / "mirror" / name).write_text("- x")
        with pytest.raises(ConfigError, match=expected) as caught:
            standalone.settings_of(tmp_path, "127.0.0.1:8090", {})
        assert str(caught.value).startswith(f"{tmp_path / 'mirror' / name}: ")
        (tmp_path / "mirror" / name).write_text("")
    (tmp_path / "mirror/ca-bundle.crt").write_text("\n")
    standalone.settings_of(tmp_path, "127.0.0.1:8090", {})


def test_create_with_registries_that_want_to_harm(tmp_path: Path) -> None:
    directory = filled(tmp_path / "dir")
    (directory / "mirror").mkdir()
    state = {"*agent.OptionalInstallConfig": "install-config.yaml", "*agentconfig.AgentConfig": "agent-config.yaml"}
    from installer.config.state import State

    kept = State.load(directory)
    for asset, name in state.items():
        kept.put_files(asset, {name: (directory / name).read_bytes()})
        (directory / name).unlink(missing_ok=True)
    kept.save()
    (directory / "mirror/registries.conf").write_text("a = " + "[" * 5000)
    code, stderr = node0("agent", "create", "cluster-manifests", "--dir", str(directory))
    assert code == EXIT_FATAL
    assert "failed to load mirror/registries.conf file: line 1: nested more than 16 levels deep" in stderr


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[" * 200_000, "it is nested too deeply"),
        ("9" * 5000, "it has a number of too many digits"),
        (b'"\xff"', "not UTF-8 text at byte 1"),
        ("{", "Expecting property name"),
    ],
)
def test_json(text: str | bytes, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        jsontext.loads(text)
    assert "\n" not in str(caught.value)


def test_pem_blocks_without_end_are_refused_at_once() -> None:
    begin = time.thread_time()
    for text in (
        "-----BEGIN A-----\n" * 100_000,
        "-----BEGIN A-----\n-----END A-----\n" * 50_000 + "-----BEGIN A-----",
    ):
        assert (check.pem_certificates(text) or "").startswith(("invalid block", "x509: "))
    assert time.thread_time() - begin < 5


def test_pem_blocks_in_each_other() -> None:
    text = "-----BEGIN A-----\n-----BEGIN B-----\n-----END A-----\n"
    assert check.pem_certificates(text) == "invalid block"
    assert check.pem_certificates(f"{text}-----BEGIN b-----\n-----END b-----\n") == "invalid block"
    assert check.pem_certificates("x") == check.pem_certificates("") == "invalid block"
