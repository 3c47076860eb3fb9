"""What the initramfs set up of the network is taken down before the real root; programs are stand-ins that note their
words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.release.os import build

DOWN = Path(build.__file__).parent / "data/dracut/90node0/node0-network-down"
UNITS = DOWN.parent.parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A machine with two cards, the root behind one of them, and a bond."""
    for name in ("eth0", "eth1"):
        (tmp_path / "net" / name / "device").mkdir(parents=True)
    for name in ("lo", "bond0", "bonding_masters", "../kept", "../nm", "../bin"):
        (tmp_path / "net" / name).mkdir()
    (tmp_path / "kept/eth1").touch()
    (tmp_path / "bin/ip").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n')
    (tmp_path / "bin/ip").chmod(0o755)
    return tmp_path


def run(place: Path) -> list[str]:
    environment = {"NM": f"{place}/nm", "NET": f"{place}/net", "KEPT": f"{place}/kept"}
    environment |= {"PATH": f"{place}/bin:/usr/bin:/bin"}
    subprocess.run(["bash", DOWN], check=True, timeout=60, env=environment)
    log = place / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_cards_lose_their_addresses_and_what_was_made_is_gone_but_what_the_root_is_behind(place: Path) -> None:
    assert run(place) == ["link delete dev bond0", "address flush dev eth0", "link set dev eth0 down"]
    assert not (place / "nm").exists()


def test_without_a_network_nothing_is_done(place: Path) -> None:
    (place / "nm").rmdir()
    assert run(place) == []


def test_a_volume_that_is_opened_has_a_network_first_where_the_kernel_was_told_to() -> None:
    opens = (UNITS / "91node0-luks/node0-root-open.service").read_text().splitlines()
    assert "Wants=node0-network.service" in opens
    [after] = [line for line in opens if line.startswith("After=")]
    assert "node0-network.service" in after.removeprefix("After=").split()
    network = (UNITS / "90node0/node0-network.service").read_text().splitlines()
    # One of those with a bar has to hold.
    assert "ConditionKernelCommandLine=|rd.neednet=1" in network
