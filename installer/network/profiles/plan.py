"""Relations of interfaces: ports and controllers, parents, MAC addresses borrowed, and the order of profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from installer.network.reading.model import Document, Interface, Port, Shape
from installer.network.reading.reader import Problems

Key = tuple[str, bool]

CONTROLLERS = {"bond": "bond", "linux-bridge": "bridge", "vrf": "vrf", "ovs-bridge": "ovs-port"}
# Ports of these keep their own addresses.
_IP_KEEPING = ("vrf",)
_NEVER_PORTS = ("ovs-bridge", "loopback", "vrf")


@dataclass(frozen=True)
class Attachment:
    """The controller of an interface: `port` says what the controller's section has for it."""

    controller: Interface
    port: Port


@dataclass(frozen=True)
class Plan:
    """All interfaces that get a profile, in document order (unlisted ports last), and their controllers."""

    interfaces: tuple[Interface, ...]
    attachments: dict[Key, Attachment]
    unlisted: frozenset[str] = frozenset()

    def attachment(self, interface: Interface) -> Attachment | None:
        """Return the controller that this interface is a port of."""
        return self.attachments.get(key_of(interface))

    def has_ip(self, interface: Interface) -> bool:
        """Return whether the profile has [ipv4] and [ipv6]: ports have none, except in a VRF and OVS interfaces."""
        attachment = self.attachment(interface)
        return attachment is None or interface.kind == "ovs-interface" or attachment.controller.kind in _IP_KEEPING

    def ordered(self) -> list[Interface]:
        """Upstream's order: by depth below controllers and parents, then by name; unlisted ones at depth 0 (§1.2)."""
        kernel = {interface.name: interface for interface in self.interfaces if not userspace(interface)}
        above: dict[Key, set[Key]] = {}
        for interface in self.interfaces:
            attachment = self.attachment(interface)
            keys = above.setdefault(key_of(interface), set())
            if attachment is not None and interface.name not in self.unlisted:
                keys.add(key_of(attachment.controller))
            if interface.shape.parent in kernel:
                keys.add((interface.shape.parent or "", False))
        depths: dict[Key, int] = {}
        for key in TopologicalSorter(above).static_order():
            depths[key] = max((depths[other] + 1 for other in above.get(key, ())), default=0)
        return sorted(
            self.interfaces, key=lambda interface: (depths[key_of(interface)], interface.name, not userspace(interface))
        )


def key_of(interface: Interface) -> Key:
    """Return an interface's key among all others: its name, and whether it is outside the kernel."""
    return interface.name, userspace(interface)


def userspace(interface: Interface) -> bool:
    """OVS bridges live outside the kernel, so that one may share its name with an OVS interface."""
    return interface.kind == "ovs-bridge"


def make_plan(document: Document, problems: Problems, macs: Mapping[str, str] | None = None) -> Plan:
    """Attach ports to controllers and make profiles for ports that the document does not list.

    `macs`: the addresses of the host's NICs by their names in the document, as far as they are known.
    """
    interfaces: dict[Key, Interface] = {}
    for interface in document.interfaces:
        if key_of(interface) in interfaces:
            # Upstream silently keeps the last of several entries with one name (§3).
            problems.add(f"{interface.path}.name", interface.name, "is the name of an interface given before")
        else:
            interfaces[key_of(interface)] = interface
    present = {key: _with_own_port(interface) for key, interface in interfaces.items() if interface.present}
    attachments = _attach(list(present.values()), interfaces, problems)
    unlisted = {}
    for name, userland in attachments:
        if not userland and (name, False) not in interfaces:
            unlisted[name] = _unlisted(name, attachments[name, False])
    everyone = [*present.values(), *unlisted.values()]
    plan = Plan(tuple(_with_borrowed_macs(everyone, macs or {}, problems)), attachments, frozenset(unlisted))
    _check_ports(plan, problems)
    _check_loops(plan, problems)
    _check_file_names(plan, problems)
    return plan


def _with_own_port(bridge: Interface) -> Interface:
    """Give an OVS bridge that is up and has no port one of its own name, and in it an internal interface
    (§2.11)."""
    if bridge.kind != "ovs-bridge" or bridge.state != "up" or bridge.shape.ports:
        return bridge
    port = Port(bridge.name, bridge.path, {"ovs-port": {}}, (bridge.name,))
    return replace(bridge, shape=replace(bridge.shape, ports=(port,)))


def _unlisted(name: str, attachment: Attachment) -> Interface:
    """Return a port that the document does not list: an ethernet interface, or what is inside an OVS bridge of its
    name."""
    path = attachment.port.path
    if name == attachment.controller.name:
        return Interface(path, name, "ovs-interface", "up", shape=Shape({"ovs-interface": {"type": "internal"}}))
    return Interface(path, name, "ethernet", "up", shape=Shape())


def _attach(
    present: Sequence[Interface], interfaces: dict[Key, Interface], problems: Problems
) -> dict[Key, Attachment]:
    attachments: dict[Key, Attachment] = {}
    for controller in present:
        for port in controller.shape.ports or ():
            for name in port.members or (port.name,):
                _attach_one(attachments, controller, port, name, interfaces=interfaces, problems=problems)
    for interface in present:
        if interface.controller is None:
            continue
        path = f"{interface.path}.controller"
        attachment = attachments.get((interface.name, False))
        owner = next(
            (
                interfaces[key]
                for key in ((interface.controller, False), (interface.controller, True))
                if key in interfaces and interfaces[key].kind in CONTROLLERS
            ),
            None,
        )
        if owner is None or not owner.present:
            problems.add(path, interface.controller, "is not a bond, bridge or VRF of this document")
        elif attachment is not None and attachment.controller is not owner:
            problems.add(path, interface.controller, f"contradicts the ports of {attachment.controller.name}")
        elif attachment is None and owner.shape.ports is not None:
            problems.add(path, interface.controller, "does not list this interface among its ports")
        elif attachment is None:
            sections: Mapping[str, Mapping[str, str]]
            sections = {"linux-bridge": {"bridge-port": {}}, "ovs-bridge": {"ovs-port": {}}}.get(owner.kind, {})
            port = Port(interface.name, path, sections, (interface.name,) if owner.kind == "ovs-bridge" else ())
            attachments[interface.name, False] = Attachment(owner, port)
    return attachments


def _attach_one(
    attachments: dict[Key, Attachment],
    controller: Interface,
    port: Port,
    name: str,
    *,
    interfaces: dict[Key, Interface],
    problems: Problems,
) -> None:
    before = attachments.get((name, False))
    listed = interfaces.get((name, False))
    if before is not None:
        problems.add(port.path, name, f"is a port of {before.controller.name} already")
    elif listed is not None and listed.state == "ignore":
        return
    elif listed is not None and not listed.present:
        problems.add(port.path, name, "is the name of an interface that is absent")
    elif name == controller.name and controller.kind != "ovs-bridge":
        problems.add(port.path, name, "cannot be a port of itself")
    elif listed is None and (name, True) in interfaces and port.path != controller.path:
        problems.add(port.path, name, "is an OVS bridge; its ovs-interface must be in the document to be a port")
    else:
        attachments[name, False] = Attachment(controller, port)


def _with_borrowed_macs(
    interfaces: Sequence[Interface], known: Mapping[str, str], problems: Problems
) -> list[Interface]:
    macs = {
        interface.name: interface.mac or known.get(interface.name)
        for interface in interfaces
        if not userspace(interface)
    }
    result = []
    for interface in interfaces:
        source, path = interface.copy_mac_from, f"{interface.path}.copy-mac-from"
        if source is None:
            result.append(interface)
            continue
        if source not in macs:
            problems.add(path, source, "is not an interface of this document")
        elif macs[source] is None:
            problems.add(path, source, "has no mac-address in this document, and none among the host's interfaces")
        result.append(replace(interface, mac=macs.get(source)))
    return result


def _check_ports(plan: Plan, problems: Problems) -> None:
    for interface in plan.interfaces:
        attachment = plan.attachment(interface)
        if attachment is None:
            if interface.kind == "ovs-interface":
                problems.add(interface.path, interface.name, "an ovs-interface must be a port of an ovs-bridge")
            continue
        kind = attachment.controller.kind
        if interface.kind in _NEVER_PORTS or (interface.kind == "ovs-interface" and kind != "ovs-bridge"):
            problems.add(
                attachment.port.path, interface.name, f"is of type {interface.kind}, which cannot be a port of a {kind}"
            )
        if interface.kind == "infiniband" and kind not in ("bond", "vrf"):
            problems.add(
                attachment.port.path, interface.name, f"is of type infiniband, which cannot be a port of a {kind}"
            )
        for family in (4, 6):
            if interface.enabled(family) and not plan.has_ip(interface):
                rule = f"must not be enabled on a port of {attachment.controller.name}"
                problems.add(f"{interface.path}.ipv{family}.enabled", True, rule)
    for interface in plan.interfaces:
        for kind in ("ovs-external-ids", "ovs-other-config"):
            attachment = plan.attachment(interface)
            if (
                kind in interface.extra
                and interface.kind != "ovs-bridge"
                and (attachment is None or attachment.controller.kind != "ovs-bridge")
            ):
                problems.add(f"{interface.path}.ovs-db", None, "is of OVS bridges and their ports only")
                break


def _check_loops(plan: Plan, problems: Problems) -> None:
    """Report loops: controllers depend on their ports, VLANs and the like on their parents, none on itself."""
    present = {key_of(interface): interface for interface in plan.interfaces}
    rests_on: dict[Key, set[Key]] = {}
    for interface in plan.interfaces:
        if (interface.shape.parent or "", False) in present:
            rests_on.setdefault(key_of(interface), set()).add((interface.shape.parent or "", False))
        if (attachment := plan.attachment(interface)) is not None:
            rests_on.setdefault(key_of(attachment.controller), set()).add(key_of(interface))
    try:
        TopologicalSorter(rests_on).prepare()
    except CycleError as err:
        for key in dict.fromkeys(err.args[1]):
            interface = present[key]
            problems.add(interface.path, interface.name, "rests, through its ports or its parent, on itself")


def _check_file_names(plan: Plan, problems: Problems) -> None:
    file_names: set[str] = set()
    for interface in plan.interfaces:
        names = [profile_id(interface)]
        if interface.kind == "ovs-bridge":
            names += [f"{port.name}-port" for port in interface.shape.ports or ()]
        for name in names:
            if name in file_names:
                path = f"{interface.path}.{'profile-name' if interface.profile_name else 'name'}"
                problems.add(path, name, "is the name of another profile's file too")
            file_names.add(name)


def profile_id(interface: Interface) -> str:
    """Return the profile's id, and its file's name before .nmconnection (§1.1)."""
    suffix = {"ovs-bridge": "-br", "ovs-interface": "-if"}.get(interface.kind, "")
    return interface.profile_name or interface.name + suffix
