"""A cluster's directory as OpenShift's documentation has it, piece by piece, and what a plan of it says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.commands import cli
from lab.topology import Topology

INSTALL = """\
apiVersion: v1
baseDomain: lab.example.com
metadata: {name: CLUSTER}
controlPlane: {name: master, architecture: amd64, hyperthreading: Enabled, replicas: MASTERS}
compute: [{name: worker, architecture: amd64, hyperthreading: Enabled, replicas: WORKERS}]
networking:
  networkType: OVNKubernetes
  clusterNetwork: PODS
  serviceNetwork: SERVICES
  machineNetwork: MACHINES
pullSecret: '{"auths": {"registry.example.com": {"auth": "dTpw"}}}'
sshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f user
"""
VIPS = "platform: {baremetal: {apiVIPs: [192.168.122.10], ingressVIPs: [192.168.122.11]}}\n"
NONE = "platform: {none: {}}\n"
FOUR = "[{cidr: 192.168.122.0/24}]"
SIX = '[{cidr: "2620:52:0:1302::/64"}]'
_PODS = {4: "{cidr: 10.128.0.0/14, hostPrefix: 23}", 6: "{cidr: 'fd01::/48', hostPrefix: 64}"}
_SERVICES = {4: "172.30.0.0/16", 6: "'fd02::/112'"}


def install(masters: int = 1, workers: int = 0, more: str = NONE, *, machines: str = FOUR, name: str = "ocp") -> str:
    """Return install-config.yaml; pods and services have the families of the machine networks, in their order."""
    families = dict.fromkeys(6 if "::" in cidr else 4 for cidr in machines.split(","))
    pods, services = (f"[{', '.join(cidrs[version] for version in families)}]" for cidrs in (_PODS, _SERVICES))
    named = {"CLUSTER": name, "MASTERS": masters, "WORKERS": workers, "MACHINES": machines}
    named |= {"PODS": pods, "SERVICES": services}
    text = INSTALL
    for word, value in named.items():
        text = text.replace(word, str(value))
    return text + more


def agent(*hosts: str, rendezvous: str = "192.168.122.2", more: str = "", version: str = "v1beta1") -> str:
    """Return agent-config.yaml; `@` in a host is its number, from 2 on."""
    head = f"apiVersion: {version}\nkind: AgentConfig\nmetadata: {{name: ocp}}\nrendezvousIP: {rendezvous}\n{more}"
    if not hosts:
        return head
    return head + "hosts:\n" + "".join(host.replace("@", str(number)) for number, host in enumerate(hosts, 2))


def host(nics: Sequence[str], network: str = "", more: str = "") -> str:
    """Return a host with NICs of these names and a network document."""
    text = "  - hostname: node-@\n" + more + "    interfaces:\n"
    text += "".join(f"      - {{name: {name}, macAddress: 00:ef:44:2{n}:e6:a@}}\n" for n, name in enumerate(nics))
    lines = "".join(f"      {line}\n" for line in network.splitlines())
    return text + (f"    networkConfig:\n{lines}" if network else "")


def ethernet(name: str, families: str = "ipv4: {enabled: false}", more: str = "") -> str:
    """Return an interface."""
    return f"  - {{name: {name}, type: ethernet, state: up, {families}{more}}}\n"


def static(address: str, length: int = 24, version: int = 4) -> str:
    """Return a family with an address of its own."""
    address = f"{{ip: '{address}', prefix-length: {length}}}"
    return f"ipv{version}: {{enabled: true, dhcp: false, address: [{address}]}}"


def tail(device: str, gateway: str = "192.168.122.1", servers: str = "[192.168.122.1]", more: str = "") -> str:
    """Return DNS servers and the default route."""
    default = "0.0.0.0/0" if "." in gateway else "'::/0'"
    route = f"{{destination: {default}, next-hop-address: '{gateway}', next-hop-interface: {device}, table-id: 254}}"
    return f"dns-resolver: {{config: {{server: {servers}}}}}\nroutes: {{config: [{route}{more}]}}\n"


def bond(mode: str, rest: str = "ipv4: {enabled: false}", name: str = "bond0", nics: str = "[eno1, eno2]") -> str:
    """Return a bond."""
    aggregation = f"link-aggregation: {{mode: {mode}, options: {{miimon: '150'}}, port: {nics}}}"
    return f"  - {{name: {name}, type: bond, state: up, {aggregation}, {rest}}}\n"


def vlan(base: str, tag: int | str, families: str) -> str:
    """Return a VLAN."""
    return f"  - {{name: {base}.{tag}, type: vlan, state: up, vlan: {{base-iface: {base}, id: {tag}}}, {families}}}\n"


TWO = "interfaces:\n" + ethernet("eno1") + ethernet("eno2")
MINE = static("192.168.122.@")
STATIC = "interfaces:\n" + ethernet("eno1", MINE) + tail("eno1")
DUAL = f"{MINE}, {static('2620:52:0:1302::@', 64, 6)}"
ETHERNETS = ["eno1", "eno2"]


def hint(text: str) -> tuple[str, str]:
    """Return one node with a hint."""
    return install(), agent(host(["eno1"], STATIC, f"    rootDeviceHints: {text}\n"))


def several(count: int, network: str = STATIC, nics: Sequence[str] = ("eno1",), **more: str) -> str:
    """Return agent-config.yaml of some hosts."""
    return agent(*[host(nics, network)] * count, **more)


def planned(texts: Sequence[str], directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of `node0-lab deploy DIR --plan`, where these two files are all that is in DIR."""
    for name, text in zip(("install-config.yaml", "agent-config.yaml"), texts, strict=True):
        (directory / name).write_text(text)
    code = cli.main(["deploy", str(directory), "--plan"])
    return code, *capsys.readouterr()


def facts(shape: Topology) -> dict[str, Any]:
    """Return a plan's facts, in short."""
    node = shape.nodes[0]
    summary = {name: getattr(shape, name) for name in ("addressing", "proxy", "load_balancer", "gateway")}
    networks = [
        (" ".join(map(str, item.subnets)), item.vlan, item.gateway_of(4), item.mtu) for item in shape.all_networks
    ]
    answers = [text.partition("/")[0] for item in shape.all_networks for text in shape.lab_addresses(item)]
    return summary | {
        "ip": node.ip,
        "roles": "".join(item.role[0] for item in shape.nodes),
        "macs": [nic.mac for nic in node.all_nics],
        "addresses": list(node.addresses),
        "last": shape.nodes[-1].ip,
        "bonds": [(item.mode, " ".join(item.nics), " ".join(item.trunk)) for item in node.bonds],
        "nets": networks,
        "disks": [(item.bus, item.root) for item in node.all_disks],
        "answers": answers,
    }
