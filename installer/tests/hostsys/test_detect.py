"""The detection of a host's environment: on a host, in our containers, in another agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

from installer.hostsys import system


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the host's first process, as a container among the host's processes sees it."""
    process = tmp_path / "proc/1"
    (process / "ns").mkdir(parents=True)
    (process / "ns/mnt").symlink_to("mnt:[1]")
    mark = tmp_path / ".containerenv"
    mark.touch()
    monkeypatch.delenv("NODE0_HOST_ROOT", raising=False)
    monkeypatch.setattr(system, "FIRST_PROCESS", process)
    monkeypatch.setattr(system, "CONTAINER_MARK", mark)
    monkeypatch.setattr(system.Path, "is_dir", lambda self: False)
    return process


def test_a_container_without_the_hosts_root_sees_it_through_the_first_process(first: Path) -> None:
    host = system.detect()
    assert host.root == first / "root"
    assert host.command(["lsblk"]) == [*system.NSENTER, "lsblk"]


def test_processes_of_the_host_itself_and_of_closed_containers_use_what_is_around_them(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.CONTAINER_MARK.unlink()
    assert system.detect().root == Path("/")
    system.CONTAINER_MARK.touch()
    (first / "ns/mnt").unlink()
    (first / "ns/mnt").symlink_to(Path("/proc/self/ns/mnt").readlink())
    assert system.detect().root == Path("/")
    (first / "ns/mnt").unlink()
    assert system.detect().root == Path("/")
    monkeypatch.setenv("NODE0_HOST_ROOT", "/sysroot")
    assert system.detect().root == Path("/sysroot")
