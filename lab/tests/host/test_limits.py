"""Limits of the host that machines share."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lab.host.limits import LIMITS, raise_limits

EVERY = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)


def _sysctl(folder: Path, values: dict[str, int]) -> Path:
    for limit in LIMITS:
        file = folder / limit.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{values.get(limit.file, limit.least)}\n")
    return folder


@EVERY
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_limit_is_only_ever_raised(tmp_path: Path, limit, more: int) -> None:
    before = limit.least + more
    sysctl = _sysctl(tmp_path, {limit.file: before})
    raise_limits(sysctl)
    assert int((sysctl / limit.file).read_text()) == max(before, limit.least)
    assert all(int((sysctl / other.file).read_text()) == other.least for other in LIMITS if other != limit)


@EVERY
def test_the_kernel_has_it(limit) -> None:
    assert int((Path("/proc/sys") / limit.file).read_text()) > 0


def test_what_a_kernel_has_not_is_not_raised(tmp_path: Path) -> None:
    sysctl = _sysctl(tmp_path, {"kernel/pty/max": 4096})
    for file in sysctl.glob("net/ipv6/neigh/default/*"):
        file.unlink()
    raise_limits(sysctl)
    assert int((sysctl / "kernel/pty/max").read_text()) == 1 << 20


def test_what_cannot_be_raised_is_said_with_the_command_and_the_others_are_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysctl = _sysctl(tmp_path, {"fs/inotify/max_user_instances": 128, "kernel/pty/max": 4096})
    write = Path.write_text

    def refused(path: Path, text: str) -> int:
        if path.name == "max_user_instances":
            raise PermissionError(30, "Read-only file system")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refused)
    with caplog.at_level(logging.WARNING):
        raise_limits(sysctl)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("fs.inotify.max_user_instances is 128 and cannot be raised here (Read-only file system): ")
    assert line.endswith("; sysctl -w fs.inotify.max_user_instances=8192")
    assert int((sysctl / "kernel/pty/max").read_text()) == 1 << 20
