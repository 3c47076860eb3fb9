"""Steps about time, names and peers: ntp-synchronizer, domain-resolution, connectivity, free addresses, VIPs."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network
from typing import Any

from installer.agent import arp, network
from installer.agent.errors import CommandError, StepError
from installer.agent.hostsys import HostSystem

# chronyc's marks for the state of a source.
NTP_STATES = {"*": "synced", "+": "combined", "-": "not_combined", "?": "unreachable", "x": "error", "~": "variable"}
LARGEST_SCAN = 1024
UNSPECIFIED = "0.0.0.0"
PING_COUNT = 10


def parse_sources(text: str) -> list[dict[str, str]]:
    """Sources from ``chronyc -n sources``: ``^* 192.0.2.1  2  6 ...``."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^[\^=#]([*+\-?x~ ])\s+(\S+)", line)
        if match:
            found.append({"source_name": match[2], "source_state": NTP_STATES.get(match[1], "")})
    return found


def ntp(host: HostSystem, args: dict[str, Any]) -> str:
    """Add missing sources to chrony, then tell the state of all."""
    wanted = [name.strip() for name in str(args.get("ntp_source") or "").split(",") if name.strip()]
    try:
        text = host.run("chronyc", "-n", "sources")
        # By name as it was configured, so that a name is not added again for each address it has.
        known = host.run("chronyc", "-N", "sources", check=False) + text
        missing = [name for name in wanted if not re.search(rf"(?m)^..\s+{re.escape(name)}(\s|$)", known)]
        for name in missing:
            host.run("chronyc", "add", "server", name, "iburst", check=False)
        if missing:
            text = host.run("chronyc", "-n", "sources")
    except CommandError as error:
        raise StepError(str(error), error.code or -1) from None
    return json.dumps({"ntp_sources": parse_sources(text)})


def _lookup(host: HostSystem, name: str) -> dict[str, Any]:
    found: dict[str, list[str]] = {"ipv4_addresses": [], "ipv6_addresses": []}
    for database, key in (("ahostsv4", "ipv4_addresses"), ("ahostsv6", "ipv6_addresses")):
        for line in host.run("getent", database, name, check=False, timeout=30).splitlines():
            address = line.split()[0]
            if address not in found[key] and not address.lower().startswith("::ffff:"):
                found[key].append(address)
    return {"domain_name": name, **found, "cnames": []}


def domains(host: HostSystem, args: dict[str, Any]) -> str:
    """Addresses of each name, by the host's own resolver."""
    names = [str(item["domain_name"]) for item in args.get("domains") or []]
    with ThreadPoolExecutor(4) as pool:
        return json.dumps({"resolutions": list(pool.map(lambda name: _lookup(host, name), names))})


def _scan(nic: str, source: str, addresses: list[str]) -> dict[str, str]:
    """Address to MAC of those that answer on ``nic``. Raises StepError when the interface cannot be used."""
    try:
        return arp.scan(nic, source, addresses)
    except OSError as error:
        raise StepError(f"ARP on {nic}: {error}") from None


def _neighbour(host: HostSystem, nic: str, address: str) -> str:
    """The same for IPv6: a ping, then the kernel's neighbour table."""
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


def _l2(host: HostSystem, nics: list[Any], address: str, mac: str) -> list[dict[str, Any]]:
    checks = []
    version = ip_address(address).version
    for nic in nics:
        own = nic.ipv4_addresses if version == 4 else nic.ipv6_addresses
        local = [text for text in own if ip_address(address) in ip_network(text, strict=False)]
        if not local:
            continue
        own_address = local[0].split("/")[0]
        if version == 4:
            seen = _scan(nic.name, own_address, [address]).get(address, "")
        else:
            seen = _neighbour(host, nic.name, address)
        checks.append(
            {
                "outgoing_nic": nic.name,
                "outgoing_ip_address": own_address,
                "remote_ip_address": address,
                "remote_mac": seen,
                # Another machine that answers with this address is not the peer.
                "successful": bool(seen) and seen == mac.lower(),
            }
        )
    return checks


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


def _mtu(host: HostSystem, nics: list[Any], address: str) -> list[dict[str, Any]]:
    version = ip_address(address).version
    reports = []
    for nic in nics:
        own = nic.ipv4_addresses if version == 4 else nic.ipv6_addresses
        if not nic.mtu or not any(ip_address(address) in ip_network(text, strict=False) for text in own):
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


def connectivity(host: HostSystem, args: list[dict[str, Any]]) -> str:
    """Layers 2 and 3 and packet size to every address of every peer."""
    nics = network.interfaces(host)

    def check(peer: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {"host_id": peer["host_id"]}
        l2: list[Any] = []
        l3: list[Any] = []
        mtu: list[Any] = []
        for nic in peer.get("nics") or []:
            for address in nic.get("ip_addresses") or []:
                l2 += _l2(host, nics, address, str(nic.get("mac", "")))
                l3.append(_l3(host, address))
                mtu += _mtu(host, nics, address)
        return {**result, "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": mtu}

    with ThreadPoolExecutor(8) as pool:
        return json.dumps({"remote_hosts": list(pool.map(check, args))})


def _nic_of(host: HostSystem, cidr: str) -> str:
    net = ip_network(cidr, strict=False)
    for nic in network.interfaces(host):
        if any(ip_address(text.split("/")[0]) in net for text in nic.ipv4_addresses):
            return nic.name
    raise StepError(f"no interface has an address in {cidr}")


def free_addresses(host: HostSystem, args: list[str]) -> str:
    """Addresses of each network that nobody answers for (ARP)."""
    result = []
    for cidr in args:
        net = ip_network(cidr, strict=False)
        if net.num_addresses > LARGEST_SCAN:
            raise StepError(f"{cidr} has {net.num_addresses} addresses, at most {LARGEST_SCAN} are scanned")
        nic = _nic_of(host, cidr)
        own = {text.split("/")[0] for item in network.interfaces(host) for text in item.ipv4_addresses}
        addresses = [str(address) for address in net.hosts() if str(address) not in own]
        taken = _scan(nic, UNSPECIFIED, addresses)
        result.append({"network": cidr, "free_addresses": [a for a in addresses if a not in taken]})
    return json.dumps(result)


def verify_vips(host: HostSystem, args: list[dict[str, Any]]) -> str:
    """Is each VIP still unused?"""
    nics = network.interfaces(host)
    result = []
    for item in args:
        address = str(item["vip"])
        version = ip_address(address).version
        near = [
            nic.name
            for nic in nics
            if any(
                ip_address(address) in ip_network(text, strict=False)
                for text in (nic.ipv4_addresses if version == 4 else nic.ipv6_addresses)
            )
        ]
        if not near:
            state = "unverified"
        else:

            def answers(nic: str, address: str = address, version: int = version) -> bool:
                return bool(_scan(nic, UNSPECIFIED, [address]) if version == 4 else _neighbour(host, nic, address))

            state = "failed" if any(answers(nic) for nic in near) else "succeeded"
        result.append({"vip": address, "vip_type": item["vip_type"], "verification": state})
    return json.dumps(result)
