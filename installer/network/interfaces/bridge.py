"""Linux bridges and the VLANs of bridge ports (reference/nmstate.md §2.10)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from installer.network.keyfile import flag
from installer.network.reading.model import Port, Shape
from installer.network.reading.reader import Fields

VLAN_PROTOCOLS = {"802.1q": "802.1Q", "802.1Q": "802.1Q", "802.1ad": "802.1ad", "802.1AD": "802.1ad"}
_ROUTER = {0: "disabled", 1: "auto", 2: "enabled", "disabled": "disabled", "auto": "auto", "enabled": "enabled"}

_U32 = (1 << 32) - 1
# NetworkManager stores the multicast intervals in 64 bits, in hundredths of a second.
_U64 = (1 << 64) - 1
# nmstate's name, keyfile key, lowest, highest.
_NUMBERS = (
    ("mac-ageing-time", "ageing-time", 0, 1_000_000),
    ("hash-max", "multicast-hash-max", 1, 1 << 31),
    ("multicast-last-member-count", "multicast-last-member-count", 0, _U32),
    ("multicast-last-member-interval", "multicast-last-member-interval", 0, _U64),
    ("multicast-membership-interval", "multicast-membership-interval", 0, _U64),
    ("multicast-querier-interval", "multicast-querier-interval", 0, _U64),
    ("multicast-query-interval", "multicast-query-interval", 0, _U64),
    ("multicast-query-response-interval", "multicast-query-response-interval", 0, _U64),
    ("multicast-startup-query-count", "multicast-startup-query-count", 0, _U32),
    ("multicast-startup-query-interval", "multicast-startup-query-interval", 0, _U64),
)
_SWITCHES = ("multicast-querier", "multicast-query-use-ifaddr", "multicast-snooping")
_STP_NUMBERS = (("priority", 0, 65535), ("forward-delay", 2, 30), ("hello-time", 1, 10), ("max-age", 6, 40))


def read_linux_bridge(fields: Fields) -> Shape:
    """Read the `bridge` section; its ports are None when the document lists none."""
    section = fields.table("bridge")
    if section is None:
        return Shape({"bridge": {}})
    options = section.table("options")
    keys = _options(options) if options is not None else {}
    listed = section.has("port") or section.has("ports")
    ports = tuple(port for entry in section.tables("port", "ports") if (port := _port(entry)) is not None)
    section.close()
    filtering = any(port.sections["bridge-port"].get("vlans") for port in ports)
    if listed:
        keys["vlan-filtering"] = flag(filtering)
    if options is not None and not filtering and keys.get("vlan-default-pvid", "1") != "1":
        # The kernel has it only where frames are sorted by VLAN.
        options.problem("vlan-default-pvid", keys["vlan-default-pvid"], "must be 1 where no port has a vlan section")
    return Shape({"bridge": keys}, ports=ports if listed else None)


def _options(options: Fields) -> dict[str, str]:
    keys: dict[str, str] = {}
    for name, key, low, high in _NUMBERS:
        if (number := options.integer(name, low=low, high=high)) is not None:
            keys[key] = str(number)
    if (tag := options.integer("vlan-default-pvid", high=4094, plain=True)) is not None:
        keys["vlan-default-pvid"] = str(tag)
    if (size := keys.get("multicast-hash-max")) is not None and int(size) & (int(size) - 1):
        options.problem("hash-max", size, "must be a power of two")
    for name in _SWITCHES:
        if (switch := options.boolean(name)) is not None:
            keys[name] = flag(switch)
    mask = options.integer("group-forward-mask", "group-fwd-mask", high=0xFFFF)
    if mask is not None:
        keys["group-forward-mask"] = str(mask)
        if mask & 0b111:
            # STP, pause frames and LACP must stay on their link: the kernel refuses those bits.
            options.problem("group-forward-mask", mask, "must not have any of the bits 0, 1 and 2")
    if (group := options.mac("group-addr")) is not None:
        keys["group-address"] = group
    options.refuse_null("multicast-router")
    if (router := options.choice("multicast-router", _ROUTER)) is not None:
        keys["multicast-router"] = router
    if (protocol := options.choice("vlan-protocol", VLAN_PROTOCOLS)) is not None:
        keys["vlan-protocol"] = protocol
    for timer in ("gc-timer", "hello-timer"):
        options.integer(timer, high=_U64, plain=True)
    stp = options.table("stp")
    if stp is not None:
        if (on := stp.boolean("enabled")) is not None:
            keys["stp"] = flag(on)
        for name, low, high in _STP_NUMBERS:
            if (number := stp.integer(name, low=low, high=high)) is not None:
                keys[name] = str(number)
        stp.close()
    options.close()
    return keys


def _port(entry: Fields) -> Port | None:
    entry.required("name")
    name = entry.interface("name")
    hairpin = entry.boolean("stp-hairpin-mode")
    cost = entry.integer("stp-path-cost", high=65535)
    priority = entry.integer("stp-priority", high=63)
    vlan = entry.table("vlan")
    tags = read_port_vlan(vlan) if vlan is not None else None
    entry.close()
    keys = {
        "hairpin-mode": "" if hairpin is None else flag(hairpin),
        "path-cost": "" if cost is None else str(cost),
        "priority": "" if priority is None else str(priority),
        "vlans": "" if tags is None else tags.bridge_text(),
    }
    return None if name is None else Port(name, entry.path, {"bridge-port": keys})


@dataclass(frozen=True)
class PortVlan:
    """The VLANs of one port: `trunks` are inclusive ranges of tags, `tag` is the access or native one."""

    mode: str | None
    tag: int | None
    trunks: tuple[tuple[int, int], ...]

    def bridge_text(self) -> str:
        """As [bridge-port] vlans: sorted by first tag; the access or native tag is the untagged one."""
        texts = [(low, str(low) if low == high else f"{low}-{high}") for low, high in self.trunks]
        if self.tag is not None and self.mode is not None:
            texts.append((self.tag, f"{self.tag} pvid untagged"))
        return ",".join(text for _, text in sorted(texts, key=lambda item: item[0]))

    def trunks_text(self) -> str:
        """As [ovs-port] trunks: the ranges alone, sorted."""
        return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in sorted(self.trunks))


def read_port_vlan(section: Fields, modes: tuple[str, ...] = ("access", "trunk")) -> PortVlan:
    """Read the `vlan` section of a port of a Linux or OVS bridge."""
    native = section.boolean("enable-native")
    mode = section.choice("mode", modes)
    tag = section.integer("tag", high=4095)
    trunks = []
    for entry in section.tables("trunk-tags"):
        single = entry.integer("id", low=1, high=4094)
        span = entry.table("id-range")
        if span is not None:
            span.required("min")
            span.required("max")
            low, high = span.integer("min", low=1, high=4094), span.integer("max", low=1, high=4094)
            span.close()
            if low is not None and high is not None and low <= high:
                trunks.append((low, high))
            elif low is not None and high is not None:
                span.problem("max", high, "must not be below min")
        elif single is not None:
            trunks.append((single, single))
        if entry.has("id") == entry.has("id-range"):
            entry.problem("", None, "needs either id or id-range")
        entry.close()
    section.close()
    _check_port_vlan(section, PortVlan(mode, tag, tuple(trunks)), native)
    return PortVlan(mode, tag or None, tuple(trunks))


def _check_port_vlan(section: Fields, vlan: PortVlan, native: bool | None) -> None:
    ordered = sorted(vlan.trunks)
    if any(low <= before[1] for before, (low, _) in pairwise(ordered)):
        section.problem("trunk-tags", None, "must not overlap")
    if vlan.mode == "trunk":
        if not vlan.trunks:
            section.problem("trunk-tags", None, "is required in mode trunk")
        if native and not vlan.tag:
            section.problem("tag", vlan.tag, "is required with enable-native")
        if vlan.tag and not native:
            section.problem("tag", vlan.tag, "needs enable-native: true in mode trunk")
    elif vlan.mode is not None:
        if native:
            section.problem("enable-native", True, f"is of mode trunk, not of mode {vlan.mode}")
        if vlan.mode == "access" and vlan.trunks:
            section.problem("trunk-tags", None, "is of mode trunk, not of mode access")
        if vlan.mode == "access" and not vlan.tag:
            section.problem("tag", vlan.tag, "is required in mode access, between 1 and 4094")
    elif vlan.tag or vlan.trunks or native:
        section.problem("mode", None, "is required")
    if vlan.tag == 4095:
        section.problem("tag", vlan.tag, "must be between 0 and 4094")
