"""pre-network-manager-config.sh, run here under a prefix: whose keyfiles a machine takes, and under which names."""

import os
import stat
import subprocess
from importlib import resources
from pathlib import Path

import pytest

BIN = Path(str(resources.files("installer.ignition") / "data/bin"))


class Host:
    """A machine's file system under a prefix: NICs by name, host directories with keyfiles."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.target = root / "etc/NetworkManager/system-connections"
        self.target.mkdir(parents=True)
        (root / "etc/assisted/network").mkdir(parents=True)

    def nic(self, name: str, mac: str) -> None:
        folder = self.root / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "address").write_text(mac + "\n")

    def config(self, number: int, macs: dict[str, str], files: dict[str, str]) -> None:
        folder = self.root / f"etc/assisted/network/host{number}"
        folder.mkdir()
        if macs:
            (folder / "mac_interface.ini").write_text("".join(f"{mac}={name}\n" for mac, name in macs.items()))
        for name, text in files.items():
            (folder / name).write_text(text)

    def run(self) -> dict[str, str]:
        env = {**os.environ, "PATH_PREFIX": str(self.root)}
        self.done = subprocess.run(
            ["bash", BIN / "pre-network-manager-config.sh"], env=env, check=True, capture_output=True, text=True
        )
        return {path.name: path.read_text() for path in sorted(self.target.iterdir())}


def keyfile(name: str, *lines: str) -> str:
    return "\n".join(["[connection]", "autoconnect=true", f"id={name}", f"interface-name={name}", *lines, ""])


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_only_this_machines_files_under_kernel_names(host):
    host.nic("enp1s0", "52:54:00:aa:bb:cc")
    host.config(0, {"52:54:00:00:00:01": "eth0"}, {"eth0.nmconnection": keyfile("eth0", "other=host")})
    host.config(1, {"52:54:00:AA:BB:CC": "eth0"}, {"eth0.nmconnection": keyfile("eth0")})
    (host.target / "stale.nmconnection").write_text("x")
    files = host.run()
    assert files == {"enp1s0.nmconnection": keyfile("enp1s0")}
    assert stat.S_IMODE((host.target / "enp1s0.nmconnection").stat().st_mode) == 0o600


def test_nothing_matches_leaves_everything_alone(host):
    host.nic("eth0", "52:54:00:aa:bb:cc")
    host.config(0, {"52:54:00:00:00:01": "eth0"}, {"eth0.nmconnection": keyfile("eth0")})
    (host.target / "mine.nmconnection").write_text("x")
    assert host.run() == {"mine.nmconnection": "x"}
    assert "DHCP" in host.done.stdout


def test_in_an_initramfs_they_go_where_coreos_looks(host):
    (host.root / "etc/initrd-release").touch()
    host.nic("enp1s0", "52:54:00:aa:bb:cc")
    host.config(0, {"52:54:00:AA:BB:CC": "eth0"}, {"eth0.nmconnection": keyfile("eth0")})
    assert host.run() == {}
    host.target = host.root / "etc/coreos-firstboot-network"
    assert host.run() == {"enp1s0.nmconnection": keyfile("enp1s0")}
    assert sorted(path.name for path in (host.root / "etc").iterdir()) == [
        *("NetworkManager", "assisted", "coreos-firstboot-network", "initrd-release"),
    ]


def test_names_that_swap(host):
    """Logical eth0 is the kernel's eth1 and the other way round."""
    host.nic("eth0", "52:54:00:00:00:02")
    host.nic("eth1", "52:54:00:00:00:01")
    host.config(
        0,
        {"52:54:00:00:00:01": "eth0", "52:54:00:00:00:02": "eth1"},
        {"eth0.nmconnection": keyfile("eth0", "mark=a"), "eth1.nmconnection": keyfile("eth1", "mark=b")},
    )
    assert host.run() == {
        "eth1.nmconnection": keyfile("eth1", "mark=a"),
        "eth0.nmconnection": keyfile("eth0", "mark=b"),
    }


def test_bond_and_vlan(host):
    host.nic("enp129s0f0np0", "52:54:00:00:00:01")
    host.nic("ens2", "52:54:00:00:00:02")
    host.config(
        0,
        {"52:54:00:00:00:01": "eth0", "52:54:00:00:00:02": "eth1"},
        {
            "bond0.nmconnection": keyfile("bond0"),
            "eth0.nmconnection": keyfile("eth0", "master=bond0"),
            "eth0.404.nmconnection": keyfile("eth0.404", "[vlan]", "parent=eth0"),
            "bond0.7.nmconnection": keyfile("bond0.7", "[vlan]", "parent=bond0"),
        },
    )
    files = host.run()
    assert set(files) == {
        "bond0.nmconnection",
        "enp129s0f0np0.nmconnection",
        "enp129s0f0n.404.nmconnection",
        "bond0.7.nmconnection",
    }
    assert files["enp129s0f0n.404.nmconnection"] == keyfile("enp129s0f0n.404", "[vlan]", "parent=enp129s0f0np0")
    assert files["bond0.7.nmconnection"] == keyfile("bond0.7", "[vlan]", "parent=bond0")
    assert all(len(line.partition("=")[2]) <= 15 for text in files.values() for line in text.splitlines())


def test_rules_by_incoming_interface(host):
    """NetworkManager would take such a rule and never match it: no packet comes in by a name that is nobody's."""
    host.nic("enp0s31f6verylo", "52:54:00:00:00:01")
    rules = [
        "5 from 0.0.0.0/0 iif eth0 table 9",
        "6 to 10.0.0.0/8 iif eth0.100 table 9",
        "7 from ::/0 iif eth01 table 9",
    ]
    lines = [f"routing-rule{index}=priority {rule}" for index, rule in enumerate(rules)]
    host.config(0, {"52:54:00:00:00:01": "eth0"}, {"eth0.nmconnection": keyfile("eth0", *lines)})
    [text] = host.run().values()
    assert [line.split(" iif ")[1].split()[0] for line in text.splitlines() if "routing-rule" in line] == [
        *("enp0s31f6verylo", "enp0s31f6ve.100", "eth01"),
    ]


def test_a_logical_name_is_no_pattern(host):
    host.nic("ens3", "52:54:00:00:00:01")
    text = keyfile("a.b", "other=aXb", "also=a.b2")
    host.config(0, {"52:54:00:00:00:01": "a.b"}, {"a.b.nmconnection": text})
    assert host.run() == {"ens3.nmconnection": keyfile("ens3", "other=aXb", "also=a.b2")}


def test_incomplete_directories_are_skipped_with_a_warning(host):
    host.nic("eth0", "52:54:00:00:00:01")
    host.config(0, {}, {"eth0.nmconnection": keyfile("eth0")})
    host.config(1, {"52:54:00:00:00:01": "eth0"}, {})
    assert host.run() == {}
    assert host.done.stderr.count("warning") == 2
