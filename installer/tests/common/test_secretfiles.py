"""Secrets after a command's end, natural or not: none are left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from installer.cli import main
from installer.common.secretfiles import MemoryFile, private_directory, runtime_directory
from installer.errors import EXIT_INTERRUPTED
from installer.release.access import RegistryAccess
from installer.testing.create.assets_kit import GOOD, asset_dir
from installer.testing.create.inputs_kit import SNO
from installer.testing.forked_kit import Forked
from installer.testing.service.rendezvous_kit import wait_for

AUTH = "bm9ib2R5Om1heS1yZWFkLXRoaXM="
PULL_SECRET = json.dumps({"auths": {"registry.example:5000": {"auth": AUTH}}})
KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.2:1"}}],
    "contexts": [{"name": "a", "context": {"cluster": "c", "user": "a"}}],
    "current-context": "a",
    "users": [{"name": "a", "user": {"token": "t"}}],
}
HOLD = """
import sys, time
from installer.release.access import RegistryAccess
with RegistryAccess(sys.argv[1]) as access:
    print(access.directory, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def registry() -> Iterator[int]:
    """One that takes connections and never answers; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


def environment(folder: Path) -> dict[str, str]:
    """All temporary files of a command in one folder."""
    folder.mkdir(exist_ok=True)
    names = {"TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder.with_name("cache"))}
    return {**{k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}, **names}


def started(code: str, env: dict[str, str], *args: str) -> tuple[subprocess.Popen[str], str]:
    """Return a process, and its first line."""
    process = subprocess.Popen([sys.executable, "-c", code, *args], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        return process, process.stdout.readline().strip()


def holds_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and AUTH in path.read_bytes().decode(errors="replace")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_payload_is_read_leaves_nothing(
    tmp_path: Path, registry: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, temporary = tmp_path / "dir", tmp_path / "tmp"
    directory.mkdir()
    (directory / "install-config.yaml").write_text(yaml.safe_dump({**SNO, "pullSecret": PULL_SECRET}))
    agent = {"apiVersion": "v1beta1", "kind": "AgentConfig", "metadata": {"name": "ostest"}}
    (directory / "agent-config.yaml").write_text(yaml.safe_dump({**agent, "rendezvousIP": "192.168.111.80"}))
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", f"127.0.0.1:{registry}/release@sha256:{'0' * 64}")
    for name, value in environment(temporary).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)  # Python keeps what TMPDIR was
    process = Forked(main, ["agent", "create", "image", "--dir", str(directory)])
    try:
        wait_for("skopeo's files", lambda: list(temporary.glob("node0-registry-*/policy.json")), 60)
        assert holds_secret(temporary) == []
    finally:
        os.kill(process.pid, number)
        code, stderr = process.wait()
    assert code == EXIT_INTERRUPTED
    assert signal.Signals(number).name in stderr
    assert "Traceback" not in stderr
    assert list(temporary.iterdir()) == []
    assert {path.name for path in directory.iterdir()} >= {"install-config.yaml", "agent-config.yaml"}
    assert [path.name for path in directory.iterdir() if "partial" in path.name] == []


def test_what_a_killed_command_leaves_has_no_secret_and_goes_with_the_next(tmp_path: Path) -> None:
    env = environment(tmp_path)
    process, output = started(HOLD, env, PULL_SECRET)
    left = Path(output)
    other, output = started(HOLD, env, PULL_SECRET)
    alive = Path(output)
    try:
        process.kill()
        process.wait()
        assert left.is_dir(), "SIGKILL cannot be caught: this test has killed nothing"
        assert holds_secret(tmp_path) == []
        third, _ = started(HOLD, env, PULL_SECRET)
        third.kill()
        third.wait()
        assert not left.exists()
        assert alive.is_dir(), "the directory of a process that lives was removed"
    finally:
        other.kill()
        other.wait()


def test_a_killed_wait_for_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "dir"
    directory.mkdir()
    # Nobody answers there, which is waited for: a command that ends by itself is ended by no signal.
    asset_dir(directory, {**GOOD, "rendezvousIP": "127.0.0.2"})
    (directory / "auth/kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    temporary = tmp_path / "tmp"
    for number in (signal.SIGKILL, signal.SIGTERM):
        command = [sys.executable, "-m", "installer.cli", "agent", "wait-for", "bootstrap-complete"]
        process = subprocess.Popen(
            [*command, "--dir", str(directory), "--log-level", "debug"],
            env=environment(temporary),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(number)
        process.communicate(timeout=60)
        assert "Connection refused" in first
        assert process.returncode == (EXIT_INTERRUPTED if number == signal.SIGTERM else -number)
        assert list(temporary.iterdir()) == []


def test_memory_can_be_read_by_path_here_and_in_children_that_get_it(tmp_path: Path) -> None:
    with MemoryFile("x", b"secret") as file:
        assert Path(file.path).read_bytes() == Path(file.path).read_bytes() == b"secret"
        completed = subprocess.run(["cat", file.path], pass_fds=[file.fd], capture_output=True, check=False, timeout=30)
        assert completed.stdout == b"secret"
        others = subprocess.run(["cat", file.path], capture_output=True, check=False, timeout=30)
        assert others.stdout == b""
        path = file.path
    assert not os.path.exists(path)


def test_a_private_directory(tmp_path: Path) -> None:
    with private_directory("x-", tmp_path) as one, private_directory("x-", tmp_path) as two:
        assert one != two
        assert one.is_dir()
        assert one.stat().st_mode & 0o777 == 0o700
    with pytest.raises(RuntimeError), private_directory("x-", tmp_path):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    # Neither a link nor a file of that name leads anywhere.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / "x-link").symlink_to(elsewhere)
    (tmp_path / "x-file").touch()
    with private_directory("x-", tmp_path):
        pass
    assert (elsewhere / "kept").exists()


def test_the_runtime_directory_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, open_to_all = tmp_path / "own", tmp_path / "open"
    own.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for directory, expected in ((own, own), (open_to_all, None), (tmp_path / "absent", None), ("", None)):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
        assert (runtime_directory() == own) is (expected is not None)


def test_secrets_of_access_are_in_no_repr() -> None:
    assert AUTH not in repr(RegistryAccess(PULL_SECRET))


def test_another_users_folder_is_left(tmp_path: Path) -> None:
    """For it is not ours: root could remove it, and nobody holds its lock."""
    theirs, ours = tmp_path / "node0-theirs", tmp_path / "node0-ours"
    for folder in (theirs, ours):
        folder.mkdir()
    os.chown(theirs, 65534, 65534)
    with private_directory("node0-", tmp_path):
        assert (theirs.is_dir(), ours.is_dir()) == (True, False)
