"""A host that exists only as data: its inventory, and what it answers to each step (installer.md §6.2, §6.3)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from installer.agent.errors import StepError
from installer.agent.steps import Step, StepContext, argument
from installer.assisted import inventory as inv
from installer.assisted.enums import ImageResult, Role, SourceState, Stage, StepType, VipVerification
from installer.assisted.errors import ClientError
from installer.assisted.stages import SNO, STAGES
from installer.assisted.steparguments import (
    DiskSpeedRequest,
    DomainsRequest,
    ImagesRequest,
    InstallRequest,
    Networks,
    Peer,
    Peers,
    VipRequests,
)

# The network's first addresses are its gateway, the two VIPs and what else a site has there.
RESERVED = 16
GATEWAY, API, INGRESS = 1, 2, 3
GB, GIB = 1000**3, 1024**3
NAMESPACE = uuid.UUID("9a0c1d6e-3c5b-5b57-9a52-3f1f5b1c6f11")


@dataclass(frozen=True)
class Site:
    """Properties that all hosts share: their network, and how long a stage of an installation takes (s)."""

    network: IPv4Network
    stage_seconds: float = 1.0
    wait: Callable[[float], None] = field(default=lambda seconds: None)

    def address(self, number: int) -> IPv4Address:
        """Return the ``number``-th address. Raises IndexError when the network is too small."""
        return self.network[number]


class SimulatedHost:
    """Host ``number`` of a site: the same number is always the same host."""

    def __init__(self, number: int, site: Site) -> None:
        self.number, self.site = number, site
        self.id = str(uuid.uuid5(NAMESPACE, str(number)))
        self.name = f"swarm-{number}"
        self.ip = str(site.address(RESERVED + number))
        self.mac = "52:54:00:" + ":".join(f"{byte:02x}" for byte in number.to_bytes(3, "big"))
        self.disk = "/dev/disk/by-path/pci-0000:04:00.0"

    def inventory(self) -> str:
        """As the agent encodes a real one."""
        good = inv.Eligibility(eligible=True)
        disk = inv.Disk(
            id=self.disk, name="vda", path="/dev/vda", by_path=self.disk, drive_type="SSD", size_bytes=240 * GB,
            installation_eligibility=good,
        )  # fmt: skip
        nic = inv.Interface(
            name="eno1", mac_address=self.mac, ipv4_addresses=[f"{self.ip}/{self.site.network.prefixlen}"], mtu=1500,
            speed_mbps=10000, has_carrier=True, flags=["up", "broadcast"], type="physical",
        )  # fmt: skip
        gateway = str(self.site.address(GATEWAY))
        return inv.encode(
            inv.Inventory(
                hostname=self.name,
                interfaces=[nic],
                disks=[disk],
                boot=inv.Boot(current_boot_mode="uefi", device_type="ephemeral"),
                system_vendor=inv.SystemVendor(
                    manufacturer="node0", product_name="Swarm", serial_number=self.name, virtual=True
                ),
                memory=inv.Memory(physical_bytes=32 * GIB, usable_bytes=31 * GIB),
                cpu=inv.Cpu(count=8, frequency=2400.0, architecture="x86_64", model_name="simulated"),
                routes=[inv.Route(interface="eno1", gateway=gateway, destination="0.0.0.0")],
            )
        )

    def steps(self) -> Mapping[str, Step]:
        """In the place of steps.TABLE."""
        return {
            StepType.INVENTORY: lambda ctx, args: self.inventory(),
            StepType.CONNECTIVITY: lambda ctx, args: json.dumps(
                {"remote_hosts": [_peer(peer) for peer in argument(args, Peers)]}
            ),
            StepType.FREE_ADDRESSES: lambda ctx, args: json.dumps(
                [{"network": cidr, "free_addresses": []} for cidr in argument(args, Networks)]
            ),
            StepType.NTP: lambda ctx, args: json.dumps(
                {"ntp_sources": [{"source_name": str(self.site.address(GATEWAY)), "source_state": SourceState.SYNCED}]}
            ),
            StepType.DOMAINS: lambda ctx, args: json.dumps(
                {"resolutions": self._names(argument(args, DomainsRequest))}
            ),
            StepType.VERIFY_VIPS: lambda ctx, args: json.dumps(
                [
                    {"vip": item.vip, "vip_type": item.vip_type, "verification": VipVerification.SUCCEEDED}
                    for item in argument(args, VipRequests)
                ]
            ),
            StepType.DISK_SPEED: lambda ctx, args: json.dumps(
                {"path": argument(args[:1], DiskSpeedRequest).path, "io_sync_duration": 2}
            ),
            StepType.IMAGES: lambda ctx, args: json.dumps(
                {
                    "images": [
                        {
                            "name": name,
                            "result": ImageResult.SUCCESS,
                            "size_bytes": GB,
                            "time": 10.0,
                            "download_rate": 100.0,
                        }
                        for name in argument(args, ImagesRequest).images or []
                    ]
                }
            ),
            StepType.INSTALL: self._install,
            StepType.LOGS: lambda ctx, args: "",
            StepType.STOP: lambda ctx, args: "",
        }

    def _names(self, request: DomainsRequest) -> list[dict[str, Any]]:
        resolutions = []
        for item in request.domains or []:
            name = item.domain_name
            address = str(self.site.address(INGRESS if ".apps." in name else API))
            addresses = [] if "validateNoWildcardDNS" in name else [address]
            resolutions.append({"domain_name": name, "ipv4_addresses": addresses, "ipv6_addresses": []})
        return resolutions

    def _install(self, ctx: StepContext, args: list[str]) -> str:
        """Report the stages of this role, one after the other, as orchestrator and controller would."""
        request = argument(args, InstallRequest)
        role = SNO if request.control_plane_count == 1 else request.role
        stages = STAGES.get(role, STAGES[Role.WORKER])
        ids, attempt = (request.infra_env_id, request.host_id), request.installation_attempt or ""
        for stage in stages:
            self.site.wait(self.site.stage_seconds)
            reports = ["50%", "100%"] if stage is Stage.WRITING else [""]
            for info in reports:
                try:
                    ctx.client.report_progress(*ids, stage, info, attempt=attempt)
                except ClientError as error:
                    raise StepError(f"stage {stage} was not taken: {error.reason}") from None
        return ""


def _peer(peer: Peer) -> dict[str, Any]:
    """Everybody reaches everybody, in a millisecond."""
    l2, l3 = [], []
    for nic in peer.nics or []:
        for address in nic.ip_addresses or []:
            l2.append({"remote_ip_address": address, "remote_mac": nic.mac, "successful": True})
            quality = {"average_rtt_ms": 1.0, "packet_loss_percentage": 0.0}
            l3.append({"remote_ip_address": address, "successful": True, **quality})
    return {"host_id": peer.host_id, "l2_connectivity": l2, "l3_connectivity": l3, "mtu_report": []}
