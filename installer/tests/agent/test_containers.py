"""Steps that use podman, with a podman that is a process: slow, refusing, missing; and the disk's speed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from installer.agent import containers
from installer.agent.checks import diskspeed
from installer.agent.errors import StepError
from installer.assisted.steparguments import DiskSpeedRequest, ImagesRequest
from installer.hostsys.errors import CommandError
from installer.testing.agent_kit import Host, Programs, hasten, programs_in
from installer.testing.install_kit import AGENT, IMAGE, REQUEST

# podman as far as the agent asks it: $state says what there is.
PODMAN = """
case "$1 $2" in
"image exists") exit $(cat {state}/exists) ;;
"image inspect") cat {state}/size ;;
"pull -q" | "rm -f" | "run --detach") ;;
"wait --interval")
    left=$(cat {state}/short); [ "$left" = 0 ] || {{ echo $((left - 1)) > {state}/short; exit 125; }}
    echo 0 ;;
"logs --tail") echo "last words"; echo "more" >&2 ;;
*) exit 99 ;;
esac
"""


class Podman:
    """The program, and what it is to say."""

    def __init__(self, programs: Programs, state: Path) -> None:
        self.programs, self.state = programs, state
        state.mkdir()
        programs.put("podman", PODMAN.format(state=state))
        self.set(exists="0", size="5000000", short="0")

    def set(self, **files: str) -> None:
        for name, text in files.items():
            (self.state / name).write_text(text)

    def calls(self, start: str) -> list[str]:
        return [line for line in self.programs.calls("podman") if line.startswith(start)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Podman:
    return Podman(programs_in(tmp_path / "bin", monkeypatch), tmp_path / "state")


def images(host: Host, *names: str, timeout: float | None = None) -> list[dict[str, Any]]:
    answer = json.loads(containers.availability(host, ImagesRequest(images=list(names), timeout=timeout)))
    return list(answer["images"])


def test_an_image_is_pulled_when_podman_is_too_slow_to_say_whether_it_exists(
    host: Host, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman.programs.put("podman", PODMAN.format(state=podman.state).replace("exit $(cat", "sleep 1000; exit $(cat", 1))
    hasten(monkeypatch, podman=60.0)
    assert images(host, IMAGE)[0]["result"] == "success"
    assert podman.calls("pull") == [f"pull -q {IMAGE}"]


def test_a_pull_has_minutes_when_no_time_is_given(host: Host, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    podman.programs.put("podman", 'case "$1" in image) exit 1;; pull) sleep 0.3;; esac')
    hasten(monkeypatch, podman=60.0)
    assert images(host, IMAGE)[0]["result"] == "success"


def test_all_images_share_the_time_that_is_given(host: Host, podman: Podman) -> None:
    podman.programs.put("podman", 'case "$1" in image) exit 1;; *) sleep 1000;; esac')
    pulled = images(host, "a", "b", timeout=0.5)
    assert [item["error"] for item in pulled] == ["did not end within 1 s"] * 2


def test_the_attempt_is_passed_on(host: Host, podman: Podman) -> None:
    containers.install(host, REQUEST, AGENT)
    containers.install(host, replace(REQUEST, installation_attempt="the-second"), AGENT)
    first, second = podman.calls("run")
    assert "INSTALLATION_ATTEMPT" not in first
    assert "--env INSTALLATION_ATTEMPT=the-second " in second


def test_podman_that_fails_for_a_moment_is_no_end_of_the_installation(
    host: Host, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may want for open files, say, while the installer runs on."""
    monkeypatch.setattr(containers, "WAIT_PAUSE", 0.0)
    podman.set(short="4")
    assert containers.install(host, REQUEST, AGENT) == "last words\nmore\n"
    assert len(podman.calls("wait")) == 5
    podman.set(short="5")
    with pytest.raises(CommandError, match=r"^podman wait --interval: exit code 125: "):
        containers.install(host, REQUEST, AGENT)


def test_an_installer_that_takes_for_ever_to_start(host: Host, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "START_TIMEOUT", 0.5)
    podman.programs.put("podman", 'case "$1" in run) sleep 1000;; esac')
    with pytest.raises(StepError) as caught:
        containers.install(host, REQUEST, AGENT)
    assert (caught.value.exit_code, caught.value.reason) == (
        -1,
        "the installer did not start: did not end within 0.5 s",
    )


DISK = bytes(range(256)) * 40_000


@pytest.fixture
def disk(host: Host) -> Path:
    path = host.write("/dev/vda", DISK)
    link = host.path("/dev/disk/by-id/ata-x")
    link.parent.mkdir(parents=True)
    link.symlink_to("../../vda")
    return path


def test_the_speed_of_a_disk_that_nobody_uses(
    host: Host, podman: Podman, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman.programs.put("lsblk", "")
    written: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def noted(descriptor: int, data: bytes, at: int) -> int:
        written.append((at, len(data)))
        return pwrite(descriptor, data, at)

    monkeypatch.setattr(diskspeed.os, "pwrite", noted)
    answer = json.loads(diskspeed.disk_speed(host, DiskSpeedRequest(path="/dev/disk/by-id/ata-x")))
    assert (answer["path"], answer["io_sync_duration"] >= 1) == ("/dev/disk/by-id/ata-x", True)
    assert disk.read_bytes() == DISK
    assert podman.programs.calls("lsblk") == ["-n -o MOUNTPOINTS /dev/disk/by-id/ata-x"]
    assert written == [(diskspeed.OFFSET + n * 2300, 2300) for n in range(len(written))]
    assert 20 <= len(written) <= 1000


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo; echo /var", "/dev/vda is in use, mounted on /var"),
        ("echo 'not a block device' >&2; exit 32", "exit code 32: not a block device"),
        ("sleep 1000", "did not end within 1 s"),
    ],
)
def test_a_disk_that_is_in_use_or_may_be_is_not_written_to(
    host: Host, podman: Podman, disk: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    podman.programs.put("lsblk", script)
    hasten(monkeypatch, lsblk=60.0)
    monkeypatch.setattr(diskspeed, "measure", lambda path: pytest.fail(f"{path} is written to"))
    with pytest.raises(StepError) as caught:
        diskspeed.disk_speed(host, DiskSpeedRequest(path="/dev/vda"))
    assert words in caught.value.reason


def test_a_disk_that_fails_has_the_name_that_the_host_gives_it(
    host: Host, podman: Podman, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman.programs.put("lsblk", "")

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(diskspeed.os, "fdatasync", broken)
    with pytest.raises(StepError) as caught:
        diskspeed.disk_speed(host, DiskSpeedRequest(path="/dev/vda"))
    assert caught.value.reason == "/dev/vda cannot be measured: [Errno 5] Input/output error"


def test_a_disk_that_is_not_there(host: Host, podman: Podman) -> None:
    with pytest.raises(StepError, match="/dev/none does not exist"):
        diskspeed.disk_speed(host, DiskSpeedRequest(path="/dev/none"))
    with pytest.raises(StepError, match="'/etc/passwd' is not a device"):
        diskspeed.disk_speed(host, DiskSpeedRequest(path="/etc/passwd"))
    with pytest.raises(StepError, match="/dev/none cannot be opened"):
        diskspeed.measure("/dev/none")


def test_the_measure_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "disk"
    needed = diskspeed.OFFSET + 30 * diskspeed.BLOCK
    file.write_bytes(bytes(needed - 1))
    with pytest.raises(StepError, match=f"too small to measure: {needed - 1} bytes"):
        diskspeed.measure(str(file), samples=30)
    file.write_bytes(bytes(needed))
    now = [0.0]
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        # Each takes as many milliseconds as its number.
        synced.append(descriptor)
        now[0] += len(synced) / 1000

    monkeypatch.setattr(diskspeed.os, "fdatasync", sync)
    monkeypatch.setattr(diskspeed.time, "monotonic", lambda: now[0])
    assert diskspeed.measure(str(file), samples=30) == 30
    assert len(synced) == 30
    # A slow disk is measured no longer than it has to be.
    synced.clear()
    assert diskspeed.measure(str(file), samples=30, budget=0.0) == 20
    assert len(synced) == diskspeed.LEAST_SAMPLES == 20

    def broken(descriptor: int) -> None:
        raise OSError("I/O error")

    monkeypatch.setattr(diskspeed.os, "fdatasync", broken)
    with pytest.raises(StepError, match="cannot be measured: I/O error"):
        diskspeed.measure(str(file), samples=30)


def test_percentiles_by_nearest_rank() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [diskspeed.percentile(values, share) for share in (0.99, 0.5, 0.01, 1.0)] == [99.0, 50.0, 1.0, 100.0]
    assert diskspeed.percentile([], 0.99) == 0.0
    assert diskspeed.percentile([3.0], 0.99) == 3.0
