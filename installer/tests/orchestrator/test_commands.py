"""The orchestrator's programs as processes: one slow command is no failed installation, and nothing is left running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from installer.hostsys.system import HostSystem
from installer.orchestrator import bootstrap, controlplane, disk, flow
from installer.orchestrator.errors import StageError
from installer.testing.agent_kit import Host, Programs, hasten, programs_in


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    stubs = programs_in(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(disk, "PATH", f"{stubs.folder}:{disk.PATH}")
    return stubs


TREE = """cat <<END
{"blockdevices": [{"name": "/dev/vda", "type": "disk", "fstype": null, "children": [
  {"name": "/dev/vda1", "type": "part", "fstype": "LVM2_member"}]}]}
END"""


def test_a_cleaning_that_hangs_is_told_and_not_the_end(host: Host, programs: Programs, monkeypatch: Any) -> None:
    """pvs waits for a disk that does not answer; what it would have said is not needed to go on."""
    hasten(monkeypatch, pvs=1200.0)
    programs.put("lsblk", TREE)
    programs.put("pvs", "sleep 1000")
    programs.put("pvremove", "true")
    programs.put("wipefs", "true")
    problems = disk.clean(host, "/dev/vda")
    assert problems == ["pvs --noheadings -o: did not end within 0.5 s"]
    assert programs.calls("pvremove") == ["/dev/vda1 -y -ff"]
    assert programs.calls("wipefs") == ["--all --force /dev/vda"]


def test_a_cleaning_that_is_slow_is_waited_for(host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, wipefs=60.0)
    programs.put("lsblk", TREE.replace("LVM2_member", "ext4"))
    programs.put("wipefs", "sleep 1.5")
    assert disk.clean(host, "/dev/vda") == []
    disk.quick_format(host, str(host.write("/disk", bytes(1024))))


def test_a_slow_systemd_is_waited_for(host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, systemctl=60.0)
    programs.put("systemctl", "[ $1 = restart ] && sleep 1.5; true")
    bootstrap.extract(host, {"ignition": {"version": "3.2.0"}}, sno=False)
    assert programs.calls("systemctl") == ["daemon-reload", "restart NetworkManager.service"]


def test_units_are_started_when_systemd_does_not_say_whether_they_exist(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, systemctl=300.0)
    programs.put(
        "systemctl", 'case "$1 ${@: -1}" in "show approve-csr.service") sleep 1000;; "show "*) echo not-found;; esac'
    )
    bootstrap.start(host, {})
    started = [line for line in programs.calls("systemctl") if line.startswith("start")]
    assert started == ["start --no-block bootkube.service", "start --no-block approve-csr.service"]


def test_waiting_for_bootkube_outlasts_commands_that_hang(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, systemctl=120.0, journalctl=60.0)
    programs.put("systemctl", "sleep 1000")
    programs.put("journalctl", "echo 'half of a line'; sleep 1000")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += 40.0
        if now[0] > 100:
            host.write(bootstrap.DONE, "")

    words: list[str] = []
    bootstrap.wait_bootkube(host, words.append, clock=lambda: now[0], sleep=sleep)
    assert words == ["half of a line"]


def test_why_an_image_of_the_cluster_cannot_be_pulled_is_reported(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman names the image by its digest first, twice, and the cause last."""
    image, mirror = (f"{name}/node0/lab-release@sha256:{'e7' * 32}" for name in ("release.example", "r.example:5000"))
    why = f"reading manifest sha256:{'e7' * 32} in {mirror.partition('@')[0]}: manifest unknown"
    programs.put("systemctl", "echo active")
    programs.put(
        "journalctl", f"echo 'Error: initializing source docker://{image}: (Mirrors also failed: [{mirror}: {why}])'"
    )
    now, words = [0.0], list[str]()

    def sleep(seconds: float) -> None:
        now[0] += 40.0
        if words:
            host.write(bootstrap.DONE, "")

    bootstrap.wait_bootkube(host, words.append, clock=lambda: now[0], sleep=sleep)
    assert "manifest unknown" in words[0]


def test_waiting_for_etcd_outlasts_commands_that_hang(
    host: Host, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, systemctl=60.0)
    mark = tmp_path / "mark"
    programs.put("systemctl", f"[ -e {mark} ] || {{ touch {mark}; sleep 1000; }}; echo inactive")
    pauses: list[float] = []
    controlplane.wait_etcd(host, pauses.append)
    assert len(pauses) == 1


@pytest.mark.parametrize(("count", "delay"), [(1, False), (3, True)])
def test_a_disk_that_is_slow_to_sync_does_not_keep_a_host_from_rebooting(
    host: Host, programs: Programs, monkeypatch: pytest.MonkeyPatch, count: int, delay: bool
) -> None:
    programs.put("sync", "sleep 1000")
    programs.put("systemd-run", "true")
    hasten(monkeypatch, sync=1200.0)

    class Reporter:
        def stage(self, *args: Any) -> None:
            """Nobody is told."""

    plan = flow.Plan(role="master", boot_device="/dev/vda", control_plane_count=count)
    flow.reboot(flow.Run(plan=plan, host=host, reporter=Reporter()))  # type: ignore[arg-type]
    [call] = programs.calls("systemd-run")
    assert call.endswith("systemctl reboot")
    assert ("--on-active=15" in call) is delay
    programs.put("systemd-run", "exit 1")
    with pytest.raises(StageError, match="reboot"):
        flow.reboot(flow.Run(plan=plan, host=host, reporter=Reporter()))  # type: ignore[arg-type]


def test_a_writer_that_hangs_is_ended_and_tried_again(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "WRITE_TIMEOUT", 0.5)
    programs.put(
        "coreos-installer", f"echo $$ >> {tmp_path}/pids; printf 'Read disk (50%%)\\nstuck here' >&2; sleep 1000"
    )
    seen: list[str] = []
    with pytest.raises(StageError, match=r"in 3 tries: stuck here \| did not end within 0\.5 s$"):
        disk.write_image(HostSystem(Path("/")), Path("/x.ign"), "/dev/vda", [], report=seen.append)
    assert seen == ["50%"] * 3
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_words_that_are_no_text_and_come_in_pieces(programs: Programs) -> None:
    programs.put(
        "coreos-installer",
        r"printf 'Read (1' >&2; sleep 0.05; printf '0%%)\rRead (12%%)\rRead (100%%)\n' >&2"
        r"; for i in $(seq 20); do echo l$i; done; printf 'a\377b'; exit 3",
    )
    seen: list[str] = []
    with pytest.raises(StageError) as caught:
        disk.write_image(HostSystem(Path("/")), Path("/x.ign"), "/dev/vda", ["-n"], report=seen.append)
    assert seen == ["10%", "100%"] * 3
    assert caught.value.cause == f"exit code 3: {' | '.join(f'l{n}' for n in range(12, 21))} | a�b"
    assert programs.calls("coreos-installer") == ["install --insecure -i /x.ign -n /dev/vda"] * 3


def test_a_writer_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "PATH", str(tmp_path))
    with pytest.raises(StageError, match="coreos-installer: "):
        disk.write_image(HostSystem(Path("/")), Path("/x.ign"), "/dev/vda", [], report=lambda text: None)
