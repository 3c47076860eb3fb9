"""The initramfs logs in to the targets of the firmware's table; programs are stand-ins that note their words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.release.os import build

DRACUT = Path(build.__file__).parent / "data/dracut"
NICS = {"eth7": "52:54:00:00:00:07", "eth9": "52:54:00:00:00:09"}
RENAMING = "I:1\nE:ID_RENAMING=1\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Provide a machine with two NICs, of which the firmware tells of the second."""
    for number, (name, mac) in enumerate(NICS.items(), 2):
        nic = tmp_path / "net" / name
        (nic / "device").mkdir(parents=True)
        (nic / "address").write_text(f"{mac}\n")
        (nic / "ifindex").write_text(f"{number}\n")
        (tmp_path / "udev").mkdir(exist_ok=True)
        (tmp_path / f"udev/n{number}").touch()
    firmware_table = {"ethernet0": {"mac": NICS["eth9"], "ip-addr": "10.9.0.80", "subnet-mask": "255.255.255.0"}}
    for entry, files in {**firmware_table, "target0": {"ip-addr": "10.9.0.1"}}.items():
        (tmp_path / "ibft" / entry).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "ibft" / entry / name).write_text(f"{text}\n")
    (tmp_path / "bin").mkdir()
    for program in ("ip", "modprobe", "iscsistart"):
        (tmp_path / "bin" / program).write_text(f'#!/bin/sh\necho {program} "$@" >> {tmp_path}/log\n')
        (tmp_path / "bin" / program).chmod(0o755)
    text = (DRACUT / "92node0-iscsi/node0-iscsi").read_text()
    (tmp_path / "script").write_text(text.replace("/usr/lib/node0/common.sh", str(DRACUT / "90node0/common.sh")))
    (tmp_path / "cmdline").write_text("quiet root=PARTUUID=1 rd.iscsi.firmware=1\n")
    return tmp_path


def run(place: Path) -> subprocess.CompletedProcess[str]:
    names = {"CMDLINE": "cmdline", "KMSG": "kmsg", "IBFT": "ibft", "NET": "net", "UDEV": "udev", "KEPT": "kept"}
    environment = {name: str(place / file) for name, file in names.items()}
    environment |= {"PATH": f"{place}/bin:/usr/bin:/bin", "NM_CONFIG": str(place / "nm/iscsi.conf")}
    return subprocess.run(
        ["bash", place / "script"], capture_output=True, text=True, timeout=60, check=False, env=environment, cwd=place
    )


def test_it_logs_in_by_the_nic_and_address_of_the_firmware(place: Path) -> None:
    completed = run(place)
    assert completed.returncode == 0, completed.stderr
    assert (place / "log").read_text().splitlines()[:4] == [
        "modprobe -a iscsi_ibft iscsi_tcp",
        "ip link set dev eth9 up",
        "ip address replace 10.9.0.80/255.255.255.0 dev eth9",
        # A name with brackets is a pattern to the shell, and would be gone.
        "iscsistart -b -P node.conn[0].timeo.noop_out_interval=0 -P node.conn[0].timeo.noop_out_timeout=0",
    ]


def test_nobody_takes_that_nic_down(place: Path) -> None:
    run(place)
    assert (place / "nm/iscsi.conf").read_text() == f"[keyfile]\nunmanaged-devices=mac:{NICS['eth9']};\n"
    assert [path.name for path in (place / "kept").iterdir()] == ["eth9"]


def test_without_a_table_the_boot_stops_and_says_why(place: Path) -> None:
    (place / "ibft").rename(place / "elsewhere")
    completed = run(place)
    assert completed.returncode == 1
    assert "there is no iBFT" in (place / "kmsg").read_text()


def test_a_nic_gets_its_name_first(place: Path) -> None:
    """A NIC that udev has not done with is not there yet: it may get another name, which an open one could not."""
    (place / "udev/n3").unlink()
    with subprocess.Popen(["sh", "-c", f"sleep 1; touch {place}/udev/n3"]):
        completed = run(place)
    assert completed.returncode == 0, completed.stderr
    assert "ip link set dev eth9 up" in (place / "log").read_text()


def test_a_nic_that_is_getting_its_name_is_waited_for(place: Path) -> None:
    """udev writes what it knows of a NIC before it gives it its name, too: under the old one it is soon gone."""
    (place / "udev/n3").write_text(RENAMING)
    gone = f'case "$*" in *eth9*) [ -e {place}/net/eth9 ];; esac'
    (place / "bin/ip").write_text(f'#!/bin/sh\necho ip "$@" >> {place}/log\n{gone}\n')
    named = f"sleep 1; mv {place}/net/eth9 {place}/net/enp2s0; echo I:1 > {place}/udev/n3"
    with subprocess.Popen(["sh", "-c", named]):
        completed = run(place)
    assert completed.returncode == 0, completed.stderr
    assert "ip link set dev enp2s0 up" in (place / "log").read_text()
    assert "eth9" not in (place / "log").read_text()


def test_what_fails_is_told_by_its_line(place: Path) -> None:
    (place / "bin/ip").write_text('#!/bin/sh\necho "Cannot find device" >&2\nexit 1\n')
    completed = run(place)
    assert completed.returncode == 1
    assert re.search(r'^node0: script, line \d+: ip link set dev "\$name" up: code 1$', completed.stderr, re.MULTILINE)


def test_who_did_not_ask_for_it_gets_none(place: Path) -> None:
    (place / "cmdline").write_text("quiet rd.iscsi.firmware=0\n")
    assert run(place).returncode == 0
    assert not (place / "log").exists()
