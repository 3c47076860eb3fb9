"""Steps about time, names and peers: ntp-synchronizer, domain-resolution, connectivity, free addresses, VIPs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from typing import Any

from installer.agent.checks import arp
from installer.agent.errors import StepError
from installer.agent.host import network
from installer.assisted.enums import SourceState, VipVerification
from installer.assisted.inventory import Interface
from installer.assisted.steparguments import LARGEST_SCAN, DomainsRequest, Networks, NtpRequest, Peers, VipRequests
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem

# chronyc's marks for the state of a source.
NTP_STATES = {
    "*": SourceState.SYNCED.value,
    "+": "combined",
    "-": "not_combined",
    "?": "unreachable",
    "x": "error",
    "~": "variable",
}
UNSPECIFIED = "0.0.0.0"
PING_COUNT = 10


def parse_sources(text: str) -> list[dict[str, str]]:
    """Parse the sources of ``chronyc -n sources``: ``^* 192.0.2.1  2  6 ...``."""
    sources = []
    for line in text.splitlines():
        match = re.match(r"^[\^=#]([*+\-?x~ ])\s+(\S+)", line)
        if match:
            sources.append({"source_name": match[2], "source_state": NTP_STATES.get(match[1], "")})
    return sources


def ntp(host: HostSystem, request: NtpRequest) -> str:
    """Add missing sources to chrony, then report the state of all."""
    wanted = [name.strip() for name in (request.ntp_source or "").split(",") if name.strip()]
    try:
        text = host.run("chronyc", "-n", "sources")
        # By name as it was configured, so that a name is not added again for each address it has.
        listed = host.run("chronyc", "-N", "sources", check=False) + text
        missing = [name for name in wanted if not re.search(rf"(?m)^..\s+{re.escape(name)}(\s|$)", listed)]
        for name in missing:
            host.run("chronyc", "add", "server", name, "iburst", check=False)
        if missing:
            text = host.run("chronyc", "-n", "sources")
    except CommandError as error:
        raise StepError(str(error), error.code or -1) from None
    return json.dumps({"ntp_sources": parse_sources(text)})


# One program that enters the host's namespaces for all names, instead of two for each.
LOOKUP = 'for name; do echo "= $name"; getent ahosts "$name"; done; true'


def parse_lookups(text: str) -> dict[str, list[str]]:
    """Addresses by name from LOOKUP's output; each address once."""
    addresses: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("= "):
            name = line[2:]
            addresses.setdefault(name, [])
        elif line.split() and name:
            address = line.split()[0]
            if address not in addresses[name] and not address.lower().startswith("::ffff:"):
                addresses[name].append(address)
    return addresses


def domains(host: HostSystem, request: DomainsRequest) -> str:
    """Addresses of each name, by the host's own resolver."""
    names = [item.domain_name for item in request.domains or []]
    addresses = parse_lookups(host.run("sh", "-c", LOOKUP, "sh", *names, check=False, timeout=120)) if names else {}
    return json.dumps(
        {
            "resolutions": [
                {
                    "domain_name": name,
                    "ipv4_addresses": [text for text in addresses.get(name, []) if ":" not in text],
                    "ipv6_addresses": [text for text in addresses.get(name, []) if ":" in text],
                    "cnames": [],
                }
                for name in names
            ]
        }
    )


def _neighbour(host: HostSystem, nic: str, address: str) -> str:
    """Return the MAC address of an IPv6 neighbour, empty for silence: a ping, then the kernel's neighbour table."""
    host.run("ping", "-6", "-c", "1", "-W", "3", "-I", nic, address, check=False, timeout=20)
    match = re.search(
        r"lladdr ([0-9a-f:]{17})", host.run("ip", "-6", "neigh", "show", address, "dev", nic, check=False)
    )
    return match[1] if match else ""


def parse_ping(output: str) -> tuple[float, float]:
    """(average round trip ms, loss percent) of ``ping -q``."""
    loss = re.search(r"([\d.]+)% packet loss", output)
    rtt = re.search(r"= [\d.]+/([\d.]+)/", output)
    return float(rtt[1]) if rtt else 0.0, float(loss[1]) if loss else 100.0


def _check_addresses(addresses: Iterable[str], field: str) -> None:
    for address in addresses:
        try:
            ip_address(address)
        except ValueError:
            raise StepError(f"{field}: {address!r} is no IP address") from None


def _local(nic: Interface, address: str) -> str:
    """Return the interface's own address in the network of ``address``, empty when it has none."""
    version = ip_address(address).version
    own = nic.ipv4_addresses if version == 4 else nic.ipv6_addresses
    return next((text.split("/")[0] for text in own if ip_address(address) in ip_network(text, strict=False)), "")


def _neighbours(
    host: HostSystem, nics: list[Interface], addresses: Iterable[str], silently: bool = False
) -> dict[tuple[str, str], str]:
    """MAC, empty for silence, by (interface, address) for each address that lies in a network of an interface.

    ``silently``: with probes that leave no entry for this host in other machines' caches. Raises StepError.
    """
    every = list(dict.fromkeys(addresses))

    def ask(nic: Interface) -> dict[tuple[str, str], str]:
        answers_of: dict[tuple[str, str], str] = {}
        by_source: dict[str, list[str]] = {}
        for address in every:
            source = _local(nic, address)
            if source and ":" in address:
                answers_of[nic.name, address] = _neighbour(host, nic.name, address)
            elif source:
                answers_of[nic.name, address] = ""
                by_source.setdefault(UNSPECIFIED if silently else source, []).append(address)
        for source, targets in by_source.items():
            try:
                answers = arp.scan(nic.name, source, targets, rounds=3)
            except OSError as error:
                raise StepError(f"ARP on {nic.name}: {error}") from None
            answers_of |= {(nic.name, address): mac for address, mac in answers.items()}
        return answers_of

    with ThreadPoolExecutor(4) as pool:
        return {pair: mac for answers_of in pool.map(ask, nics) for pair, mac in answers_of.items()}


def _l2(nics: list[Interface], seen: Mapping[tuple[str, str], str], address: str, mac: str) -> list[dict[str, Any]]:
    return [
        {
            "outgoing_nic": nic.name,
            "outgoing_ip_address": _local(nic, address),
            "remote_ip_address": address,
            "remote_mac": seen[nic.name, address],
            # Another machine that answers with this address is not the peer.
            "successful": bool(mac) and seen[nic.name, address] == mac.lower(),
        }
        for nic in nics
        if (nic.name, address) in seen
    ]


def _l3(host: HostSystem, address: str) -> dict[str, Any]:
    option = "-6" if ":" in address else "-4"
    output = host.run(
        "ping", option, "-c", str(PING_COUNT), "-i", "0.2", "-W", "3", "-q", address, check=False, timeout=60
    )
    rtt, loss = parse_ping(output)
    return {
        "outgoing_nic": "",
        "remote_ip_address": address,
        "successful": loss < 100,
        "average_rtt_ms": rtt,
        "packet_loss_percentage": loss,
    }


def _mtu(host: HostSystem, nics: list[Interface], address: str) -> list[dict[str, Any]]:
    version = ip_address(address).version
    reports = []
    for nic in nics:
        if not nic.mtu or not _local(nic, address):
            continue
        size = nic.mtu - (28 if version == 4 else 48)
        output = host.run(
            *("ping", f"-{version}", "-c", "1", "-W", "3", "-M", "do", "-s", str(size), "-I", nic.name, address),
            check=False,
            timeout=20,
        )
        good = parse_ping(output)[1] < 100
        reports.append({"outgoing_nic": nic.name, "remote_ip_address": address, "mtu_successful": good})
    return reports


def connectivity(host: HostSystem, peers: Peers) -> str:
    """Test layers 2 and 3 and the packet size to each address of each peer. Raises StepError for what is no address."""
    nics = network.usable(host)
    addresses = [address for peer in peers for nic in peer.nics or [] for address in nic.ip_addresses or []]
    _check_addresses(addresses, "nics.ip_addresses")
    with ThreadPoolExecutor(8) as pool:
        pings = {address: pool.submit(_l3, host, address) for address in addresses}
        sizes = {address: pool.submit(_mtu, host, nics, address) for address in addresses}
        answers = _neighbours(host, nics, addresses)
        hosts = []
        for peer in peers:
            l2: list[Any] = []
            l3: list[Any] = []
            mtu: list[Any] = []
            for nic in peer.nics or []:
                for address in nic.ip_addresses or []:
                    l2 += _l2(nics, answers, address, nic.mac or "")
                    l3.append(pings[address].result())
                    mtu += sizes[address].result()
            hosts.append({"host_id": peer.host_id, "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": mtu})
    return json.dumps({"remote_hosts": hosts})


def free_addresses(host: HostSystem, cidrs: Networks) -> str:
    """Addresses of each network that nobody answers for (ARP). Raises StepError."""
    nics = network.usable(host)
    own = {text.split("/")[0] for nic in nics for text in nic.ipv4_addresses}
    result = []
    for cidr in cidrs:
        try:
            net = ip_network(cidr, strict=False)
        except ValueError:
            raise StepError(f"{cidr!r} is no network") from None
        if net.num_addresses > LARGEST_SCAN:
            raise StepError(f"{cidr} has {net.num_addresses} addresses, at most {LARGEST_SCAN} are scanned")
        addresses = [str(address) for address in net.hosts() if str(address) not in own]
        answers = _neighbours(host, nics, addresses, silently=True)
        if addresses and not answers:
            raise StepError(f"no interface has an address in {cidr}")
        taken = {address for (_, address), mac in answers.items() if mac}
        result.append({"network": cidr, "free_addresses": [text for text in addresses if text not in taken]})
    return json.dumps(result)


def verify_vips(host: HostSystem, requests: VipRequests) -> str:
    """Check that each VIP is still unused. Raises StepError for anything but an address."""
    nics = network.usable(host)
    own = {text.split("/")[0] for nic in nics for text in (*nic.ipv4_addresses, *nic.ipv6_addresses)}
    vips = [item.vip for item in requests]
    _check_addresses(vips, "vip")
    answers = _neighbours(host, nics, (vip for vip in vips if vip not in own), silently=True)
    result = []
    for item, vip in zip(requests, vips, strict=True):
        macs = [mac for (_, address), mac in answers.items() if address == vip]
        if vip in own or any(macs):
            state = VipVerification.FAILED
        else:
            state = VipVerification.SUCCEEDED if macs else VipVerification.UNVERIFIED
        result.append({"vip": vip, "vip_type": item.vip_type, "verification": state})
    return json.dumps(result)
