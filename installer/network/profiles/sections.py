"""One profile's sections, from an interface and what was placed on it (reference/nmstate.md §1.4, §2)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from installer.network.interfaces.ip import NO_TIMEOUT
from installer.network.keyfile import flag
from installer.network.profiles.plan import CONTROLLERS, Attachment, Plan, profile_id
from installer.network.reading.dns import Extra
from installer.network.reading.model import Interface, IpConfig, Port, Shape

NM_TYPES = {"ethernet": "802-3-ethernet", "linux-bridge": "bridge", "mac-vlan": "macvlan", "mac-vtap": "macvlan"}
# InfiniBand and loopback have no Ethernet layer.
_NOT_WIRED = ("infiniband", "loopback")
_MAY_FAIL = {
    "any": {4: True, 6: True},
    "ipv4": {4: False, 6: True},
    "ipv6": {4: True, 6: False},
    "ipv4+ipv6": {4: False, 6: False},
}

Sections = dict[str, dict[str, str]]


def stable_uuid(kind: str, name: str) -> str:
    """Return the profile's UUID: version 5 of `<nmstate type>://<interface name>` in the URL namespace (§1.4)."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}://{name}"))


def interface_profiles(interface: Interface, plan: Plan, extra: Extra) -> list[tuple[str, Sections]]:
    """(profile id, sections) of an interface, then of the OVS ports or the veth peer that come with it."""
    attachment = plan.attachment(interface)
    sections: Sections = {"connection": _connection(interface, attachment)}
    sources = [interface.shape.sections, interface.extra]
    if attachment is not None and attachment.controller.kind != "ovs-bridge":
        # An OVS bridge's settings of a port go into the port's own profile, between bridge and interface.
        sources.append(attachment.port.sections)
    for source in sources:
        for name, keys in source.items():
            sections.setdefault(name, {}).update(keys)
    if plan.has_ip(interface):
        for family in (4, 6):
            sections[f"ipv{family}"] = _ip(interface, family, extra.get((interface.name, family), {}))
    if interface.description is not None:
        sections["user"] = {"nmstate.interface.description": interface.description}
    _wired(interface, sections)
    profiles = [(profile_id(interface), sections)]
    if interface.kind == "ovs-bridge":
        profiles += [_ovs_port(interface, port) for port in _bridge_ports(interface, plan)]
    if interface.kind == "veth" and interface.shape.peer not in [other.name for other in plan.interfaces]:
        profiles.append(_veth_peer(interface.shape.peer or "", interface.name))
    return profiles


def _connection(interface: Interface, attachment: Attachment | None) -> dict[str, str]:
    # A veth's UUID is of type ethernet (§1.4).
    kind = "ethernet" if interface.kind == "veth" else interface.kind
    keys = {
        "id": profile_id(interface),
        "uuid": stable_uuid(kind, interface.name),
        "type": NM_TYPES.get(interface.kind, interface.kind),
        "interface-name": "" if interface.by_mac else interface.name,
        "autoconnect": flag(interface.state == "up"),
        "autoconnect-slaves": "1" if interface.kind in CONTROLLERS else "-1",
    }
    if interface.lldp is not None:
        keys["lldp"] = str(int(interface.lldp))
    if attachment is not None:
        ovs = attachment.controller.kind == "ovs-bridge"
        keys["master"] = attachment.port.name if ovs else attachment.controller.name
        keys["slave-type"] = CONTROLLERS[attachment.controller.kind]
    return keys


def _ip(interface: Interface, family: int, extra: Mapping[str, str]) -> dict[str, str]:
    config = interface.ip(family)
    keys = {"dhcp-timeout": NO_TIMEOUT, "method": "disabled"}
    if interface.wait_ip is not None:
        keys["may-fail"] = flag(_MAY_FAIL[interface.wait_ip][family])
    if config is not None:
        keys["method"] = _method(config)
        if family == 6:
            keys["addr-gen-mode"] = config.addr_gen_mode
        if config.auto:
            keys.update(config.dynamic)
        if config.enabled:
            keys.update({f"address{index}": address for index, address in enumerate(config.addresses)})
    return {**keys, **extra}


def _method(config: IpConfig) -> str:
    if not config.enabled:
        return "disabled"
    if config.auto:
        return "dhcp" if config.family == 6 and not config.autoconf else "auto"
    if config.addresses:
        return "manual"
    return "disabled" if config.family == 4 else "link-local"


def _wired(interface: Interface, sections: Sections) -> None:
    """MTU and MAC address: in [ethernet] whatever the type, except where there is no Ethernet."""
    mtu = "" if interface.mtu is None else str(interface.mtu)
    if interface.kind in _NOT_WIRED:
        if mtu and interface.kind == "infiniband":
            sections["infiniband"]["mtu"] = mtu
        return
    keys = {"mtu": mtu}
    if interface.mac is not None and interface.kind != "vrf":
        keys["mac-address" if interface.by_mac else "cloned-mac-address"] = interface.mac
    if interface.accept_all_mac is not None:
        keys["accept-all-mac-addresses"] = str(int(interface.accept_all_mac))
    keys = {key: value for key, value in keys.items() if value}
    if keys:
        sections.setdefault("ethernet", {}).update(keys)


def _bridge_ports(bridge: Interface, plan: Plan) -> list[Port]:
    ports = {port.name: port for port in bridge.shape.ports or ()}
    for attachment in plan.attachments.values():
        if attachment.controller.name == bridge.name and attachment.controller.kind == "ovs-bridge":
            ports.setdefault(attachment.port.name, attachment.port)
    return [ports[name] for name in sorted(ports)]


def _ovs_port(bridge: Interface, port: Port) -> tuple[str, Sections]:
    keys = {
        "id": f"{port.name}-port",
        "uuid": stable_uuid("ovs-port", port.name),
        "type": "ovs-port",
        "interface-name": port.name,
        "autoconnect": flag(bridge.state == "up"),
        "autoconnect-slaves": "-1",
        "master": bridge.name,
        "slave-type": "ovs-bridge",
    }
    return keys["id"], {"connection": keys, **{name: dict(section) for name, section in port.sections.items()}}


def _veth_peer(name: str, end: str) -> tuple[str, Sections]:
    """Return the profile of a veth's peer, without which the pair never comes up; its UUID is of type veth (§1.4)."""
    peer = Interface(name, name, "veth", "up", shape=Shape({"veth": {"peer": end}}, peer=end))
    keys = _connection(peer, None) | {"uuid": stable_uuid("veth", name)}
    off = {"dhcp-timeout": NO_TIMEOUT, "method": "disabled"}
    sections = {"connection": keys, "ipv4": off, "ipv6": off | {"addr-gen-mode": "0"}, "veth": {"peer": end}}
    return name, sections
