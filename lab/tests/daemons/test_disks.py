"""The daemon of disks that can fail, and clients of it that are gone before they have their answer."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from lab.daemons import disks
from lab.errors import LabError
from lab.machines.failing import Place

DISK = Place("vda.raw", "vda.device", "vda.medium")


def test_a_client_that_is_gone_before_its_answer_ends_nobodys_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "ANSWER_SECONDS", 10.0)
    monkeypatch.setattr(disks.throttle, "mount", _lacking)
    daemon = disks.Daemon(disks.Config("x", (), str(tmp_path / "sock"), str(tmp_path / "groups")))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(str(tmp_path / "sock"))
            gone.sendall(b"nonsense\n")
        thread = threading.Thread(target=_serve, args=(daemon, server), daemon=True)
        thread.start()
        with pytest.raises(LabError, match=r"^vda\.device: neither cgroup2's io nor .* is here: no such hierarchy$"):
            disks.slow_down(tmp_path / "sock", DISK, 64)
    thread.join(10)
    assert not thread.is_alive()


def _lacking(_: Path) -> Path:
    raise OSError("no such hierarchy")


def _serve(daemon: disks.Daemon, server: socket.socket) -> None:
    # Until the test closes it.
    with suppress(OSError):
        daemon.serve(server)
