"""Directories that contradict themselves: all that is wrong is told at once, by file and field."""

import pytest

from lab.commands import cli
from lab.testing.directories import (
    ETHERNETS,
    MINE,
    STATIC,
    TWO,
    VIPS,
    agent,
    bond,
    ethernet,
    hint,
    host,
    install,
    planned,
    static,
    tail,
    vlan,
)

CARDS = host(["eno1"], STATIC)
#: Such directories, and all that is said of them.
WRONG = {
    "an address twice": (
        install(3, 0, VIPS), agent(CARDS, CARDS.replace("168.122.@", "168.122.2"), CARDS),
        ["agent-config.yaml: hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.2 is that of "
         "hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip too"],
    ),
    "everything at once": (
        install(3, 0, VIPS.replace("122.11", "9.11")).replace("amd64", "arm64", 1),
        agent(CARDS.replace("e6:a@", "e6:a3"), CARDS, CARDS, rendezvous="192.168.122.99x"),
        [
            "install-config.yaml: controlPlane.architecture: the lab's machines are amd64, not arm64",
            "agent-config.yaml: rendezvousIP: '192.168.122.99x' is not an IP address",
            "install-config.yaml: platform.baremetal.ingressVIPs[0]: 192.168.9.11 is in none of the machine networks, "
            "192.168.122.0/24",
            "agent-config.yaml: hosts[1].interfaces[0].macAddress: 00:ef:44:20:e6:a3 is that of "
            "hosts[0].interfaces[0].macAddress too; cards have one of their own",
        ],
    ),
    "a rendezvous address that is nobody's": (
        install(), agent(CARDS, rendezvous="192.168.122.77"),
        ["agent-config.yaml: rendezvousIP: 192.168.122.77 is no host's: they have 192.168.122.2, and no master asks "
         "for one"],
    ),
    "a worker's": (
        install(3, 1, VIPS), agent(CARDS, CARDS, CARDS, host(["eno1"], STATIC, "    role: worker\n"),
                                   rendezvous="192.168.122.5"),
        ["agent-config.yaml: rendezvousIP: 192.168.122.5 is the address of hosts[3], whose role is worker; it has to "
         "be a master's"],
    ),
    "a virtual IP that is a host's": (
        install(3, 0, VIPS.replace("122.10", "122.3")), agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: platform.baremetal.apiVIPs[0]: 192.168.122.3 is an address of "
         "hosts[1].networkConfig.interfaces[0].ipv4.address[0].ip too"],
    ),
    "the same virtual IP twice": (
        install(3, 0, VIPS.replace("122.11", "122.10")), agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: platform.baremetal.ingressVIPs[0]: address 192.168.122.10 is used more than once, by "
         "apiVIPs[0] too"],
    ),
    "a gateway that is the host": (
        install(), agent(CARDS.replace("address: '192.168.122.1'", "address: '192.168.122.2'")),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.2 is the next hop of "
         "the host's own default route, which leads nowhere then"],
    ),
    "a broadcast address": (
        install(), agent(CARDS.replace("'192.168.122.@'", "'192.168.122.255'"), rendezvous="192.168.122.255"),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4.address[0].ip: 192.168.122.255 is the broadcast "
         "address of 192.168.122.0/24: no host can have it"],
    ),
    "tags and sizes": (
        install(1),
        agent(host(ETHERNETS, TWO + bond("802.3ad", "mtu: 65520") + vlan("bond0", 5000, MINE) + tail("bond0.5000"))),
        [
            "agent-config.yaml: hosts[0].networkConfig.interfaces[2].mtu: 65520 is not within 1280 to 9216, which is "
            "what labs carry",
            "agent-config.yaml: hosts[0].networkConfig.interfaces[3].vlan.id: 5000 is not within 1 to 4094",
        ],
    ),
    "an address on a bond's port": (
        install(),
        agent(host(ETHERNETS, TWO.replace("ipv4: {enabled: false}", MINE, 1) + bond("802.3ad") + tail("eno1"))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].ipv4: eno1 has addresses and is a port of bond0, "
         "which has to have them"],
    ),
    "hints that no disk satisfies": (
        *hint("{deviceName: /dev/nvme0n1, rotational: true, hctl: '1:0:0:0'}"),
        [
            "agent-config.yaml: hosts[0].rootDeviceHints.rotational: deviceName means bus nvme, whose disks tell "
            "none in a lab; name one under /dev/sd",
            "agent-config.yaml: hosts[0].rootDeviceHints.hctl: deviceName means bus nvme, whose disks tell "
            "none in a lab; name one under /dev/sd",
            "agent-config.yaml: hosts[0].rootDeviceHints.hctl: '1:0:0:0': a lab's first SCSI disk is 0:0:0:0; there is "
            "no other address",
        ],
    ),
    "a hostname that is none": (
        install(), agent(CARDS.replace("node-@", "node_1")),
        ["agent-config.yaml: hosts[0].hostname: 'node_1' is not a DNS label"],
    ),
    "what stands in places of little interest": (
        install(machines="[{cidr: 0.0.0.0/0}]").replace("{name: ocp}", "{name: [ocp]}"),
        agent(CARDS.replace("00:ef:44:20:e6:a@", "001122334455"), more="additionalNTPSources: 5\n"),
        [
            "agent-config.yaml: hosts[0].interfaces[0].macAddress: '155826477' is a number to YAML: put it in quotes, "
            "six hex pairs joined by colons",
            "install-config.yaml: networking.machineNetwork[0].cidr: 0.0.0.0/0 is all addresses, which is no network",
            "install-config.yaml: metadata.name: must be text, is list",
            "agent-config.yaml: additionalNTPSources: must be a list, is int",
        ],
    ),
    "a tag of two networks": (
        install(),
        agent(host(ETHERNETS, TWO + vlan("eno1", 9, MINE) + vlan("eno2", 9, static("172.16.0.@")) + tail("eno1.9"))),
        ["agent-config.yaml: hosts[0].networkConfig: VLAN 9 is used more than once, by another network too"],
    ),
    "machine networks that overlap": (
        install(3, 0, VIPS, machines="[{cidr: 192.168.122.0/24}, {cidr: 192.168.122.128/25}]"),
        agent(CARDS, CARDS, CARDS),
        ["install-config.yaml: networking.machineNetwork[1].cidr: 192.168.122.128/25 overlaps with 192.168.122.0/24 of "
         "networking.machineNetwork[0].cidr: networks have no address in common"],
    ),
    "a host whose interfaces are all disabled": (
        install(3, 0, VIPS), agent(CARDS, host(ETHERNETS, TWO + bond("802.3ad")), CARDS),
        ["agent-config.yaml: hosts[1].networkConfig.interfaces: none has an address or asks for one, and no card is "
         "left that would: the host would reach nobody"],
    ),
    "a MAC address that hides the one that the host is known by": (
        install(), agent(host(["eno1"], STATIC.replace("state: up", "state: up, mac-address: '02:00:00:00:00:09'", 1))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[0].mac-address: 02:00:00:00:00:09 takes the place of "
         "the card's own: the service knows the host by none of its cards"],
    ),
    "virtual functions": (
        install(), agent(host(["eno1"], STATIC.replace("dns-resolver", ethernet("'sriov:eno1:0'")+ "dns-resolver", 1))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[1].name: sriov:eno1:0: cards of labs have no virtual "
         "functions; use the card itself"],
    ),
    "a bond of virtual functions": (
        install(), agent(host(ETHERNETS, TWO + bond("1", MINE, cards="['sriov:eno1:0', eno2]") + tail("bond0"))),
        ["agent-config.yaml: hosts[0].networkConfig.interfaces[2].link-aggregation.port: sriov:eno1:0: cards of labs "
         "have no virtual functions; use the card itself"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_contradictions_are_told_all_at_once(name, tmp_path, capsys):
    *texts, wanted = WRONG[name]
    code, out, err = planned(texts, tmp_path, capsys)
    assert (code, out) == (1, "")
    assert err.splitlines() == [f"node0-lab: {line}" for line in wanted]


def _manifests(folder, secret):
    documents = {
        "agent-cluster-install": "spec: {provisionRequirements: {controlPlaneAgents: 1}, "
        "networking: {machineNetwork: [{cidr: 192.168.122.0/24}]}}\n",
        "cluster-deployment": "spec: {clusterName: z, baseDomain: example.com}\n",
        "pull-secret": f"stringData: {{.dockerconfigjson: '{secret}'}}\n",
    }
    (folder / "cluster-manifests").mkdir()
    for name, text in documents.items():
        (folder / f"cluster-manifests/{name}.yaml").write_text(text)
    (folder / "agent-config.yaml").write_text(agent(host(["eno1"])))


def _files(folder, secret):
    text = install().replace('{"auths": {"registry.example.com": {"auth": "dTpw"}}}', secret)
    (folder / "install-config.yaml").write_text(text)
    (folder / "agent-config.yaml").write_text(agent(CARDS))


@pytest.mark.parametrize(
    ("write", "where"),
    [(_files, "install-config.yaml: pullSecret"), (_manifests, "pull-secret.yaml: stringData..dockerconfigjson")],
    ids=["files", "manifests"],
)
def test_a_pull_secret_that_is_none_is_told_before_there_is_a_lab(write, where, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lab.commands.deploy.Lab", lambda *_, **__: pytest.fail("there is a lab"))
    # As the documentation has it, where others put theirs.
    write(tmp_path, '{"auths": ...}')
    assert cli.main(["deploy", str(tmp_path), "--plan"]) == 0
    capsys.readouterr()
    assert cli.main(["deploy", str(tmp_path), "--set", "nodes[0].tpm=true", "--machines", "container"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "nodes[0].tpm: " in first
    assert f"{where}: not a dockerconfigjson" in second
    assert "..." not in second
