"""A simulated host: its inventory and what it answers to each step, as the documents that agents send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import ip_interface, ip_network
from typing import Any

from installer.testing.service.words_kit import StepType

GIB, GB = 1024**3, 1000**3
NAMES = ("api", "api-int", "console-openshift-console.apps")


def disk(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A disk as the agent describes it; good to be installed on unless ``changes`` say otherwise."""
    name = f"sd{chr(ord('a') + number)}"
    return {
        "id": f"/dev/disk/by-id/wwn-0x5000c500a{number:07d}",
        "by_id": f"/dev/disk/by-id/wwn-0x5000c500a{number:07d}",
        "by_path": f"/dev/disk/by-path/pci-0000:00:1f.2-ata-{number + 1}",
        "name": name,
        "path": f"/dev/{name}",
        "hctl": f"{number}:0:0:0",
        "drive_type": "HDD",
        "vendor": "ATA",
        "model": "QEMU_HARDDISK",
        "serial": f"QM{number:05d}",
        "wwn": f"0x5000c500a{number:07d}",
        "size_bytes": 120 * GB,
        "has_uuid": True,
        "installation_eligibility": {"eligible": True, "not_eligible_reasons": None},
        **changes,
    }


def nic(number: int, mac: str, addresses: Sequence[str], **changes: Any) -> dict[str, Any]:
    """An interface with addresses of both families, each with its prefix length."""
    return {
        "name": f"enp{number + 1}s0",
        "mac_address": mac,
        "ipv4_addresses": [text for text in addresses if ":" not in text],
        "ipv6_addresses": [text for text in addresses if ":" in text],
        "mtu": 1500,
        "speed_mbps": 1000,
        "has_carrier": True,
        "flags": ["up", "broadcast", "multicast"],
        "vendor": "0x1af4",
        "product": "0x0001",
        "type": "physical",
        **changes,
    }


@dataclass
class Host:
    """One machine. ``number`` gives its id and addresses; everything else may be changed by a scenario."""

    number: int
    inventory: dict[str, Any]
    _: KW_ONLY
    # PATCH bodies for the host, in order, before and after its inventory is known.
    patches: list[dict[str, Any]] = field(default_factory=list)
    # Which step answers it gives; without INVENTORY it stays in discovering.
    silent: set[str] = field(default_factory=set)
    names: dict[str, list[str]] = field(default_factory=dict)
    clock_offset_s: int = 0
    ntp: list[dict[str, str]] | None = field(
        default_factory=lambda: [{"source_name": "192.0.2.1", "source_state": "synced"}]
    )
    # Numbers of the hosts that it does not reach; round-trip time and loss of its links; hosts that lose big packets.
    cut_off: set[int] = field(default_factory=set)
    rtt_ms: float = 0.5
    loss: float = 0.0
    small_packets: bool = False
    taken: set[str] = field(default_factory=set)
    version: str | None = ""
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def addresses(self) -> list[tuple[str, str, str]]:
        """(interface, MAC address, address with its prefix length) of each address."""
        return [
            (str(item.get("name")), str(item.get("mac_address")), str(text))
            for item in self.inventory.get("interfaces") or []
            for text in [*(item.get("ipv4_addresses") or []), *(item.get("ipv6_addresses") or [])]
        ]

    def replies(self, peers: Sequence[Host], ids: Sequence[str], cluster: dict[str, Any]) -> list[tuple[str, str]]:
        """(step type, output) of all that it has to say, its inventory first."""
        # The owner of an address answers for it.
        taken = self.taken | {text.partition("/")[0] for peer in peers for _, _, text in peer.addresses}
        answers: dict[str, Any] = {
            StepType.INVENTORY: self.inventory,
            StepType.CONNECTIVITY: self._connectivity(peers, ids) if len(peers) > 1 else None,
            StepType.NTP: {"ntp_sources": self.ntp},
            StepType.DOMAINS: self._resolutions(cluster),
            StepType.FREE_ADDRESSES: self._free(cluster, taken),
            StepType.VERIFY_VIPS: self._vips(cluster, taken),
            **self.answers,
        }
        return [
            (str(kind), value if isinstance(value, str) else json.dumps(value))
            for kind, value in answers.items()
            if value is not None and kind not in self.silent
        ]

    def _connectivity(self, peers: Sequence[Host], ids: Sequence[str]) -> dict[str, Any]:
        own = [(name, _interface(text)) for name, _, text in self.addresses]
        remote = []
        for peer, identity in zip(peers, ids, strict=True):
            if peer.number == self.number or "inventory" in peer.silent:
                continue
            good = peer.number not in self.cut_off
            layer2, layer3, mtu = [], [], []
            for _, mac, text in peer.addresses:
                address = _interface(text)
                if address is None:
                    continue
                out = next((name for name, mine in own if mine and address.ip in mine.network), "")
                remote_ip = str(address.ip)
                if out:
                    layer2.append(
                        {"outgoing_nic": out, "remote_ip_address": remote_ip, "remote_mac": mac, "successful": good}
                    )
                    mtu.append(
                        {
                            "outgoing_nic": out,
                            "remote_ip_address": remote_ip,
                            "mtu_successful": good and not self.small_packets,
                        }
                    )
                layer3.append(
                    {
                        "outgoing_nic": out,
                        "remote_ip_address": remote_ip,
                        "successful": good,
                        "average_rtt_ms": self.rtt_ms,
                        "packet_loss_percentage": self.loss,
                    }
                )
            remote.append(
                {"host_id": identity, "l2_connectivity": layer2, "l3_connectivity": layer3, "mtu_report": mtu}
            )
        return {"remote_hosts": remote}

    def _resolutions(self, cluster: dict[str, Any]) -> dict[str, Any]:
        domain = f"{cluster['name']}.{cluster.get('base_dns_domain') or ''}"
        own_names = {f"{name}.{domain}": ["192.0.2.10"] for name in NAMES}
        probes: dict[str, list[str]] = {f"validateNoWildcardDNS.{domain}": [], f"validateNoWildcardDNS.{domain}.": []}
        registry: dict[str, list[str]] = {"registry.bench.node0.example": ["192.0.2.20"]}
        names = {
            **own_names,
            **probes,
            **registry,
            **{name.format(domain): addresses for name, addresses in self.names.items()},
        }
        return {
            "resolutions": [
                {
                    "domain_name": name,
                    "ipv4_addresses": [text for text in addresses if ":" not in text],
                    "ipv6_addresses": [text for text in addresses if ":" in text],
                }
                for name, addresses in names.items()
            ]
        }

    def _free(self, cluster: dict[str, Any], taken: set[str]) -> list[dict[str, Any]] | None:
        wanted = {str(item["ip"]) for key in ("api_vips", "ingress_vips") for item in cluster.get(key) or []}
        nets = {_interface(text).network for _, _, text in self.addresses if ":" not in text and _interface(text)}
        free = []
        for net in sorted(nets, key=str):
            some = [str(item) for item, _ in zip(ip_network(str(net)).hosts(), range(20), strict=False)]
            every = [*some, *sorted(text for text in wanted if _in(text, str(net)) and text not in some)]
            free.append({"network": str(net), "free_addresses": [text for text in every if text not in taken]})
        return free or None

    def _vips(self, cluster: dict[str, Any], taken: set[str]) -> list[dict[str, Any]] | None:
        vips = [(kind, str(item["ip"])) for kind in ("api", "ingress") for item in cluster.get(f"{kind}_vips") or []]
        return [
            {"vip": vip, "vip_type": kind, "verification": "failed" if vip in taken else "succeeded"}
            for kind, vip in vips
        ] or None


def _interface(text: str) -> Any:
    try:
        return ip_interface(text)
    except ValueError:
        return None


def _in(address: str, network: str) -> bool:
    try:
        return ip_interface(address).ip in ip_network(network)
    except ValueError:
        return False


def host(number: int, networks: Sequence[str] = ("192.168.111.0/24",), **changes: Any) -> Host:
    """A machine with one interface in each of ``networks`` (one of both families share an interface)."""
    interfaces: list[dict[str, Any]] = []
    for cidr in networks:
        net = ip_network(cidr)
        text = f"{net[20 + number]}/{net.prefixlen}"
        if interfaces and net.version == 6 and not interfaces[-1]["ipv6_addresses"]:
            interfaces[-1]["ipv6_addresses"] = [text]
        elif interfaces and net.version == 4 and not interfaces[-1]["ipv4_addresses"]:
            interfaces[-1]["ipv4_addresses"] = [text]
        else:
            mac = f"52:54:00:{len(interfaces):02x}:00:{number:02x}"
            interfaces.append(nic(len(interfaces), mac, [text]))
    routes = []
    for cidr in networks[:2]:
        net = ip_network(cidr)
        is_ipv6 = net.version == 6
        routes.append(
            {
                "interface": "enp1s0",
                "gateway": str(net[1]),
                "destination": "::" if is_ipv6 else "0.0.0.0",
                "family": 10 if is_ipv6 else 2,
                "metric": 100,
            }
        )
    inventory = {
        "hostname": f"host-{number}",
        "bmc_address": "0.0.0.0",
        "bmc_v6address": "::/0",
        "interfaces": interfaces,
        "disks": [disk()],
        "boot": {"current_boot_mode": "uefi", "device_type": "ephemeral", "secure_boot_state": "Disabled"},
        "system_vendor": {"manufacturer": "QEMU", "product_name": "Standard PC", "serial_number": f"s{number}"},
        "memory": {"physical_bytes": 32 * GIB, "usable_bytes": 31 * GIB, "physical_bytes_method": "dmidecode"},
        "cpu": {"count": 16, "frequency": 2400.0, "flags": ["vmx"], "model_name": "QEMU", "architecture": "x86_64"},
        "gpus": None,
        "routes": routes,
        "tpm_version": "none",
    }
    return Host(number, {**inventory, **changes})
