"""`node0 nmstate gc`, and the network directory of one host."""

import io
import json
import logging
import os
import subprocess
import sys
from importlib.resources import files

import pytest
import yaml

from installer.cli import main
from installer.network import InvalidNetworkConfig, host_network_files, keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import DOCUMENTS
from installer.testing.network.nmstate_compare import parse


def test_prints_what_nmstatectl_prints(tmp_path, capsys):
    document = tmp_path / "net.yaml"
    document.write_text(DOCUMENTS["bond-vlan"])
    assert main(["nmstate", "gc", str(document)]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed == {"NetworkManager": [list(pair) for pair in keyfiles(load(DOCUMENTS["bond-vlan"])).items()]}
    assert main(["nmstate", "gc", str(document), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == dict(printed["NetworkManager"])


def test_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DOCUMENTS["dhcp"].encode())))
    assert main(["nmstate", "gc"]) == 0
    assert "[eno1.nmconnection" not in capsys.readouterr().err


def test_one_line_a_problem(tmp_path, capsys):
    document = tmp_path / "net.yaml"
    document.write_text("interfaces: [{name: eno1, mtu: 1, foo: 2}]")
    assert main(["nmstate", "gc", str(document), "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert [item["path"] for item in json.loads(shown.out)["errors"]] == ["interfaces[0].mtu", "interfaces[0].foo"]
    assert shown.err.splitlines() == [
        f"level=fatal msg={document}: interfaces[0].mtu: must be a whole number between 68 and 65535 (got 1)",
        f"level=fatal msg={document}: interfaces[0].foo: unknown field (got 2)",
    ]


@pytest.mark.parametrize("content", [None, b"a: [", b"\xff\xfe\x00", b"- 1"])
def test_unreadable_files(tmp_path, capsys, content):
    document = tmp_path / "net.yaml"
    if content is not None:
        document.write_bytes(content)
    assert main(["nmstate", "gc", str(document)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"level=fatal msg={document}: ")
    assert len(shown.err.splitlines()) == 1


NICS = [{"name": "eno2", "macAddress": "02:00:00:00:00:0B"}, {"name": "eno1", "macAddress": "02:00:00:00:00:0a"}]


def test_host_directory():
    by_name = host_network_files(NICS, load(DOCUMENTS["bond-vlan"]))
    assert by_name.pop("mac_interface.ini") == "02:00:00:00:00:0B=eno2\n02:00:00:00:00:0a=eno1\n"
    assert set(by_name) == set(keyfiles(load(DOCUMENTS["bond-vlan"])))
    for text in by_name.values():
        connection = parse(text)["connection"]
        assert (connection["autoconnect"], connection["autoconnect-priority"]) == ("true", "1")


def test_a_nic_without_name_and_mac_address_is_reported(caplog):
    config = load("interfaces: [{name: eth7, ipv4: {enabled: true, dhcp: true}}]")
    with caplog.at_level(logging.WARNING, "installer"):
        logging.getLogger("installer").propagate = True
        assert "eth7.nmconnection" in host_network_files(NICS, config)
    assert "interface eth7, which is not among the host's interfaces" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "installer"):
        host_network_files([{"name": "eth7", "macAddress": "02:00:00:00:00:07"}], config)
    assert caplog.text == ""


TWO = [{"name": "eth0", "macAddress": "02:00:00:00:00:01"}, {"name": "eth1", "macAddress": "02:00:00:00:00:02"}]
DHCP = "ipv4: {enabled: true, dhcp: true}"
BOND = "{name: bond0, type: bond, link-aggregation: {mode: balance-rr, port: [eth0, eth1]}, " + DHCP + "}"
UNUSED, UNMAPPED = "networkConfig does not use interface", "networkConfig has interface"


@pytest.mark.parametrize(
    ("names", "interfaces", "mapped", "warnings"),
    [
        # Ports that only the bond names, and bases that only VLANs name, are NICs as listed ones are.
        (["eth0", "eth1"], BOND, ["eth0", "eth1"], []),
        (["p1", "eth1"], BOND, ["p1", "eth1"], [f"{UNUSED} p1 of MAC address 02:00:00:00:00:01", f"{UNMAPPED} eth0"]),
        (["nic"], "{name: eth0.7, type: vlan, vlan: {id: 7, base-iface: eth0}, " + DHCP + "}", ["nic"],
         [f"{UNUSED} nic", f"{UNMAPPED} eth0"]),
        # A name without use is no less wrong where the kernel's names are right.
        (["eno9"], "{name: eno1, " + DHCP + "}", ["eno9"], [f"{UNUSED} eno9"]),
        (["boot"], "{name: eno1, " + DHCP + "}", ["boot"], []),
        # By its MAC address a NIC is known in the document too.
        (["nic"], "{name: eth0, mac-address: 02-00-00-00-00-01, " + DHCP + "}", ["eth0"], ["is taken for eth0"]),
        (["nic"], "{name: eth0, identifier: mac-address, mac-address: 02-00-00-00-00-01, " + DHCP + "}", ["eth0"], []),
        ([""], "{name: eth0, mac-address: 02-00-00-00-00-01, " + DHCP + "}", ["eth0"], []),
        (["nic"], "{name: a0, mac-address: 02-00-00-00-00-01}, {name: b0, mac-address: 02-00-00-00-00-01}", ["nic"],
         [f"{UNUSED} nic", f"{UNMAPPED} a0", f"{UNMAPPED} b0"]),
        # What is no NIC must not get a NIC's name at boot.
        (["bond0", "eth1"], BOND, ["", "eth1"], ["bond0 of MAC address 02:00:00:00:00:01 is that of the bond in netw",
                                                 f"{UNMAPPED} eth0"]),
        (["eth0"], "{name: eth0, state: absent}, {name: eno1, " + DHCP + "}", [""], ["the name eth0"]),
        (["v1"], "{name: v0, type: veth, veth: {peer: v1}}", ["v1"], [f"{UNUSED} v1"]),
    ],
)  # fmt: skip
def test_names_of_the_mapping_and_of_the_document(names, interfaces, mapped, warnings, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    nics = [{**nic, "name": name} for nic, name in zip(TWO, names, strict=False)]
    with caplog.at_level(logging.WARNING, "installer"):
        files = host_network_files(nics, load(f"interfaces: [{interfaces}]"))
    assert files["mac_interface.ini"].splitlines() == [
        f"{nic['macAddress']}={name}" for nic, name in zip(TWO, mapped, strict=False)
    ]
    for message, text in zip(dict.fromkeys(caplog.messages), warnings, strict=True):
        assert text in message


# As OpenShift's examples of customised bridges have it: the NIC's address is not in the document.
COPIES = "{name: eth0, ipv4: {enabled: false}}, "
COPIED = {
    "br-ex": "{name: br-ex, type: ovs-bridge, bridge: {port: [{name: eth0}, {name: br-ex}]}}, "
    "{name: br-ex, type: ovs-interface, copy-mac-from: eth0, " + DHCP + "}",
    "bond0": "{name: bond0, type: bond, copy-mac-from: eth0, link-aggregation: {mode: active-backup, port: [eth0]}}",
    "br0": "{name: br0, type: linux-bridge, copy-mac-from: eth0, bridge: {port: [{name: eth0}]}}",
}


@pytest.mark.parametrize("name", COPIED)
def test_the_address_of_the_hosts_nic_is_copied(name):
    config = load(f"interfaces: [{COPIES}{COPIED[name]}]")
    files = host_network_files([{"name": "eth0", "macAddress": "02:00:00:00:00:aA"}], config)
    addresses = {
        parse(text)["ethernet"]["cloned-mac-address"]
        for file, text in files.items()
        if file.startswith(name) and "ethernet" in parse(text)
    }
    assert addresses == {"02:00:00:00:00:AA"}
    for nics in ([{"name": "eth1", "macAddress": "02:00:00:00:00:aA"}], [{"macAddress": "02:00:00:00:00:aA"}]):
        with pytest.raises(InvalidNetworkConfig, match="has no mac-address in this document, and none among the host"):
            host_network_files(nics, config)


def test_a_mac_address_without_a_name_is_kept():
    config = load("interfaces: [{name: eth7, ipv4: {enabled: true, dhcp: true}}]")
    files = host_network_files([{"macAddress": "02:00:00:00:00:07"}], config)
    assert files["mac_interface.ini"] == "02:00:00:00:00:07=\n"
    with pytest.raises(InvalidNetworkConfig, match="use XX:XX:XX:XX:XX:XX format"):
        host_network_files([{"name": "eth7", "macAddress": "02-00-00-00-00-07"}], config)


@pytest.mark.parametrize(
    ("nics", "config", "text"),
    [
        ([], DOCUMENTS["dhcp"], "at least one interface for host"),
        ([NICS[0], {**NICS[1], "name": "eno2"}], DOCUMENTS["dhcp"], "names must be unique"),
        ([NICS[0], {**NICS[1], "macAddress": "02:00:00:00:00:0b"}], DOCUMENTS["dhcp"], "MAC addresses must be unique"),
        ([{"name": "eno1", "macAddress": "eno1"}], DOCUMENTS["dhcp"], "must be a MAC address"),
        ([{"name": "eno1"}], DOCUMENTS["dhcp"], "is required"),
        ([NICS[0], {**NICS[1], "name": "x\n02:00:00:00:00:0c=eno1"}], DOCUMENTS["dhcp"], "must have no line breaks"),
        (NICS, "interfaces: []", "no profile comes out"),
        ([], "foo: 1", "at least one interface.*foo: unknown field"),
    ],
)
def test_host_problems(nics, config, text):
    with pytest.raises(InvalidNetworkConfig, match=text):
        host_network_files(nics, load(config))


def boot(root, **nics):
    """Return the profiles that the script places on a machine with these NICs (name to MAC address), by name."""
    for name, mac in nics.items():
        nic = root / "sys/class/net" / name
        nic.mkdir(parents=True)
        (nic / "address").write_text(f"{mac}\n")
    script = files("installer.ignition") / "data/bin/pre-network-manager-config.sh"
    environment = {**os.environ, "PATH_PREFIX": str(root)}
    subprocess.run(["bash", str(script)], env=environment, check=True, capture_output=True, timeout=60)
    placed = (root / "etc/NetworkManager/system-connections").glob("*.nmconnection")
    return {path.stem: parse(path.read_text()) for path in placed}


def test_the_boot_script_renames_names_with_characters_of_expressions(tmp_path):
    host = tmp_path / "etc/assisted/network/host0"
    host.mkdir(parents=True)
    config = load("interfaces: [{name: a+b, ipv4: {enabled: true, dhcp: true}}]")
    for name, text in host_network_files([{"name": "a+b", "macAddress": "02:00:00:00:00:07"}], config).items():
        (host / name).write_text(text)
    placed = boot(tmp_path, eth0="02:00:00:00:00:07")
    assert placed["eth0"]["connection"]["interface-name"] == "eth0"


def test_the_boot_script_reads_what_we_write(tmp_path):
    """The script that places the profiles at boot, on a machine whose kernel has other names, some of them crossed."""
    host = tmp_path / "etc/assisted/network/host0"
    host.mkdir(parents=True)
    nics = [*NICS, {"name": "eno3", "macAddress": "02:00:00:00:00:0c"}]
    document = DOCUMENTS["bond-vlan"].replace("name: svc", "name: eno3.7")
    for name, text in host_network_files(nics, load(document)).items():
        (host / name).write_text(text)
    placed = boot(tmp_path, eno1="02:00:00:00:00:0b", enp9s0="02:00:00:00:00:0a", eth0="02:00:00:00:00:0c")
    assert set(placed) == {"bond0", "bond0.42", "eno1", "enp9s0", "eth0.7"}
    assert {name: item["connection"]["interface-name"] for name, item in placed.items()} == {
        name: name for name in placed
    }
    assert placed["eth0.7"]["vlan"]["parent"] == "eth0"
    assert placed["eno1"]["connection"]["master"] == "bond0"
