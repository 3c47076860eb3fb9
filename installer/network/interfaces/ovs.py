"""Open vSwitch: bridges with their ports, and the interfaces made inside them (reference/nmstate.md §2.11)."""

from __future__ import annotations

from installer.network.interfaces.bridge import read_port_vlan
from installer.network.interfaces.hardware import read_ovs_db
from installer.network.keyfile import flag
from installer.network.reading.model import Port, Shape
from installer.network.reading.reader import Fields

_VLAN_MODES = ("access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel")
# Bond mode: the keyfile's bond-mode (none for plain LACP) and lacp.
_BOND_MODES = {
    "active-backup": ("active-backup", "off"),
    "balance-slb": ("balance-slb", "off"),
    "balance-tcp": ("balance-tcp", "active"),
    "lacp": ("", "active"),
}
_WORDS = (("fail-mode", "fail-mode", ("secure", "standalone")), ("datapath", "datapath-type", ("system", "netdev")))
_DPDK_NUMBERS = ((("rx-queue", "n_rxq"), "n-rxq"), (("n_rxq_desc",), "n-rxq-desc"), (("n_txq_desc",), "n-txq-desc"))
_I31 = (1 << 31) - 1


def read_ovs_bridge(fields: Fields) -> Shape:
    """Return a bridge: each of its ports has a profile of its own, between the bridge's and those of the members."""
    section = fields.table("bridge")
    if section is None:
        return Shape({"ovs-bridge": {}})
    section.boolean("allow-extra-patch-ports", plain=True)
    options = section.table("options")
    keys = _options(options) if options is not None else {}
    listed = section.has("port") or section.has("ports")
    ports = tuple(port for entry in section.tables("port", "ports") if (port := _port(entry)) is not None)
    section.close()
    return Shape({"ovs-bridge": keys}, ports=ports if listed else None)


def _options(options: Fields) -> dict[str, str]:
    keys: dict[str, str] = {}
    stp = None
    if isinstance(options.raw("stp"), dict):
        inner = options.table("stp")
        if inner is not None:
            stp = inner.boolean("enabled")
            inner.close()
    else:
        options.refuse_null("stp")
        stp = options.boolean("stp", plain=True)
    switches = (
        ("stp-enable", stp),
        ("rstp-enable", options.boolean("rstp")),
        ("mcast-snooping-enable", options.boolean("mcast-snooping-enable")),
    )
    keys.update({name: flag(value) for name, value in switches if value is not None})
    for name, key, words in _WORDS:
        # Empty text is what `nmstatectl show` prints for the default.
        keys[key] = (options.choice(name, words) or "") if options.raw(name) != "" else ""
    options.close()
    return keys


def _port(entry: Fields) -> Port | None:
    entry.required("name")
    name = entry.interface("name")
    vlan_fields = entry.table("vlan")
    keys: dict[str, str] = {}
    if vlan_fields is not None:
        vlan = read_port_vlan(vlan_fields, _VLAN_MODES)
        keys["tag"] = "" if vlan.tag is None else str(vlan.tag)
        keys["vlan-mode"] = vlan.mode or ""
        keys["trunks"] = vlan.trunks_text()
    bond = entry.table("link-aggregation")
    sections: dict[str, dict[str, str]] = {"ovs-port": keys}
    members: tuple[str, ...] = () if name is None else (name,)
    if bond is not None:
        bond_keys, members = _bond(bond)
        keys.update(bond_keys)
        sections.update(read_ovs_db(bond))
        bond.close()
    entry.close()
    return None if name is None else Port(name, entry.path, sections, members)


def _bond(bond: Fields) -> tuple[dict[str, str], tuple[str, ...]]:
    bond.required("mode")
    mode = bond.choice("mode", tuple(_BOND_MODES))
    up, down = bond.integer("bond-updelay", high=_I31), bond.integer("bond-downdelay", high=_I31)
    members = []
    for member in bond.tables("port", "ports"):
        member.required("name")
        if (name := member.interface("name")) is not None:
            members.append(name)
        member.close()
    if not members:
        bond.problem("port", None, "must list the members of the bond")
    bond_mode, lacp = _BOND_MODES.get(mode or "", ("", ""))
    keys = {
        "bond-mode": bond_mode,
        "lacp": lacp,
        "bond-updelay": "" if up is None else str(up),
        "bond-downdelay": "" if down is None else str(down),
    }
    return keys, tuple(members)


def read_ovs_interface(fields: Fields) -> Shape:
    """Return an interface inside a bridge: internal unless it has a `patch` or `dpdk` section."""
    patch, dpdk = fields.table("patch"), fields.table("dpdk")
    if patch is not None and dpdk is not None:
        fields.problem("dpdk", None, "cannot be used together with patch")
    if patch is not None:
        patch.required("peer")
        peer = patch.interface("peer")
        patch.close()
        return Shape({"ovs-interface": {"type": "patch"}, "ovs-patch": {"peer": peer or ""}})
    if dpdk is not None:
        dpdk.required("devargs")
        keys = {"devargs": dpdk.text("devargs") or ""}
        for names, key in _DPDK_NUMBERS:
            number = dpdk.integer(*names, high=_I31 if key == "n-rxq" else 4096, plain=True)
            if key != "n-rxq" and number is not None and number & (number - 1):
                dpdk.problem(names[0], number, "must be a power of two")
            keys[key] = "" if number is None else str(number)
        dpdk.close()
        return Shape({"ovs-interface": {"type": "dpdk"}, "ovs-dpdk": keys})
    return Shape({"ovs-interface": {"type": "internal"}})
