"""The types of interface: which there are, and what the section of each type says (nmstate.md §2.7 to §2.11)."""

from __future__ import annotations

from collections.abc import Callable

from installer.network.interfaces.bond import read_bond
from installer.network.interfaces.bridge import VLAN_PROTOCOLS, read_linux_bridge
from installer.network.interfaces.hardware import read_8021x, read_ethernet, read_ethtool, read_ovs_db
from installer.network.interfaces.ovs import read_ovs_bridge, read_ovs_interface
from installer.network.keyfile import flag
from installer.network.reading.model import LOOPBACK, Port, Sections, Shape
from installer.network.reading.reader import Fields

_MACVLAN_MODES = {"vepa": "1", "bridge": "2", "private": "3", "passthru": "4", "source": "5"}
_NO_PKEY = 0xFFFF
_IPOIB_MTU = 65520
_MADE_WITHOUT_SECTION = "upstream makes a profile that NetworkManager refuses"

UNSUPPORTED = {
    "macsec": _MADE_WITHOUT_SECTION,
    "hsr": _MADE_WITHOUT_SECTION,
    "ipvlan": _MADE_WITHOUT_SECTION,
    "ipsec": "a tunnel is no part of a host's first network",
    "xfrm": "no profile can be made for it",
    "tun": "no profile can be made for it",
    "wifi-phy": "no profile can be made for it",
}


def _read_vlan(fields: Fields) -> Shape:
    section = _section(fields, "vlan", "base-iface", "id")
    if section is None:
        return Shape()
    parent = section.interface("base-iface")
    # 0 marks frames with a priority and no VLAN; NetworkManager refuses 4095 and above.
    number = section.integer("id", high=4094)
    protocol = section.choice("protocol", VLAN_PROTOCOLS)
    registration = section.choice("registration-protocol", ("gvrp", "mvrp", "none"))
    # Bits of NetworkManager's vlan.flags: 1 reorders headers, 2 is GVRP, 4 loose binding, 8 MVRP.
    flags = (1 if section.boolean("reorder-headers", plain=True) is not False else 0) + (
        4 if section.boolean("loose-binding", plain=True) else 0
    )
    flags += {"gvrp": 2, "mvrp": 8}.get(registration or "", 0)
    section.close()
    keys = {"id": str(number), "parent": parent or "", "flags": str(flags)}
    if protocol == "802.1ad":
        keys["protocol"] = protocol
    return Shape({"vlan": keys}, parent=parent)


def _read_veth(fields: Fields) -> Shape:
    section = _section(fields, "veth", "peer")
    if section is None:
        return read_ethernet(fields)
    peer = section.interface("peer")
    section.close()
    shape = read_ethernet(fields)
    return Shape({**shape.sections, "veth": {"peer": peer or ""}}, peer=peer)


def _read_any_ethernet(fields: Fields) -> Shape:
    return _read_veth(fields) if fields.has("veth") else read_ethernet(fields)


def _read_dummy(fields: Fields) -> Shape:
    return Shape()


# As `nmstatectl show` has them; a profile of lo has neither.
_LOOPBACK_OWN = (("mtu", 65536), ("mac-address", "00:00:00:00:00:00"))


def _read_loopback(fields: Fields) -> Shape:
    for name, of_kernel in _LOOPBACK_OWN:
        if fields.raw(name) != of_kernel:
            fields.refuse(name, "is not supported on the loopback interface")
    if fields.raw("name") != LOOPBACK:
        fields.problem("name", fields.raw("name"), f"the loopback interface is called {LOOPBACK}")
    return Shape()


def _read_vrf(fields: Fields) -> Shape:
    section = _section(fields, "vrf", "route-table-id")
    if section is None:
        return Shape()
    table = section.integer("route-table-id", low=1)
    listed = section.has("port") or section.has("ports")
    ports = tuple(Port(name, path) for path, name in section.interfaces("port", "ports"))
    section.close()
    return Shape({"vrf": {"table": str(table)}}, ports=ports if listed else None)


def _read_vxlan(fields: Fields) -> Shape:
    section = _section(fields, "vxlan", "id")
    if section is None:
        return Shape()
    # A VXLAN needs no parent: upstream takes empty text for none, but not null.
    section.refuse_null("base-iface")
    parent = section.interface("base-iface") if section.raw("base-iface") != "" else None
    ends = {name: section.address(name) for name in ("remote", "local")}
    if len({end.version for end in ends.values() if end is not None}) > 1:
        section.problem("local", str(ends["local"]), "must be of the same family as remote")
    learning = section.boolean("learning", plain=True)
    keys = {name: "" if end is None else str(end) for name, end in ends.items()}
    keys["id"] = str(section.integer("id", high=(1 << 24) - 1))
    keys["parent"] = parent or ""
    keys["destination-port"] = _number(section.integer("destination-port", low=1, high=65535))
    keys["learning"] = "" if learning is None else flag(learning)
    section.close()
    return Shape({"vxlan": keys}, parent=parent)


def _mac_vlan_reader(name: str, tap: bool) -> Callable[[Fields], Shape]:
    def read(fields: Fields) -> Shape:
        section = _section(fields, name, "base-iface", "mode")
        if section is None:
            return Shape()
        parent = section.interface("base-iface")
        mode = section.choice("mode", tuple(_MACVLAN_MODES))
        promiscuous = section.boolean("promiscuous", "accept-all-mac")
        section.close()
        if promiscuous is False and mode not in (None, "passthru"):
            section.problem("promiscuous", False, "can only be false in mode passthru")
        keys = {"mode": _MACVLAN_MODES.get(mode or "", ""), "parent": parent or "", "tap": flag(tap)}
        keys["promiscuous"] = "" if promiscuous is None else flag(promiscuous)
        return Shape({"macvlan": keys}, parent=parent)

    return read


def _read_infiniband(fields: Fields) -> Shape:
    section = _section(fields, "infiniband", "mode")
    if section is None:
        return Shape()
    parent = section.interface("base-iface") if section.raw("base-iface") != "" else None
    # 0xffff stands for no parent key; upstream wants it to be given.
    pkey = section.integer("pkey", high=_NO_PKEY) if section.required("pkey") else None
    mode = section.choice("mode", ("datagram", "connected"))
    section.close()
    partition = pkey if pkey not in (None, _NO_PKEY) else None
    if parent is not None and partition is None:
        section.problem("pkey", pkey, "is required with base-iface")
    if partition is not None and parent is None:
        section.problem("base-iface", None, "is required with pkey")
    if partition is not None and partition & 0x7FFF == 0:
        section.problem("pkey", pkey, "must not be 0 or 0x8000")
    elif partition is not None and parent is not None and fields.raw("name") != f"{parent}.{partition:04x}":
        # The kernel gives the name, and NetworkManager refuses any other.
        fields.problem("name", fields.raw("name"), f"must be {parent}.{partition:04x}, from base-iface and pkey")
    fields.integer("mtu", high=_IPOIB_MTU)
    keys = {"parent": parent or "", "transport-mode": mode or ""}
    keys["p-key"] = _number(partition)
    return Shape({"infiniband": keys}, parent=parent)


def _section(fields: Fields, name: str, *required: str) -> Fields | None:
    """Return the section that a type cannot be without; a missing one is a problem (NetworkManager refuses the
    profile)."""
    fields.required(name)
    section = fields.table(name)
    if section is not None:
        for field in required:
            section.required(field)
    return section


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


READERS: dict[str, Callable[[Fields], Shape]] = {
    "ethernet": _read_any_ethernet,
    "veth": _read_veth,
    "bond": read_bond,
    "linux-bridge": read_linux_bridge,
    "vlan": _read_vlan,
    "vxlan": _read_vxlan,
    "dummy": _read_dummy,
    "vrf": _read_vrf,
    "mac-vlan": _mac_vlan_reader("mac-vlan", tap=False),
    "mac-vtap": _mac_vlan_reader("mac-vtap", tap=True),
    "infiniband": _read_infiniband,
    "loopback": _read_loopback,
    "ovs-bridge": read_ovs_bridge,
    "ovs-interface": read_ovs_interface,
}


def read(fields: Fields, kind: str) -> tuple[Shape, Sections]:
    """Read (what the type's own section says, the keyfile sections that any type may have)."""
    extra: dict[str, dict[str, str]] = {}
    for part in (read_ethtool(fields), read_8021x(fields), read_ovs_db(fields)):
        extra.update(part)
    return READERS[kind](fields), extra
