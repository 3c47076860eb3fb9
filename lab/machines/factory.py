"""From a topology's nodes to machines that can be driven: defined in libvirt, reached through their BMCs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import msgspec

from drivers import container, ssh
from drivers.console import FileConsole
from drivers.errors import ConnectionFailedError
from drivers.libvirt import Hypervisor, Machine
from drivers.protocols import PowerState
from lab.bmcs.recorded import profile_of
from lab.errors import LabGoneError, NodeUnreachableError, UnknownNodeError
from lab.host import kvm
from lab.host.namespaces import enter_argv
from lab.layout import Layout
from lab.machines import containers, domain
from lab.machines.container.hardware import cables
from lab.machines.disks import STICK_SERIAL
from lab.machines.node import Media, Node
from lab.topology import NodeSpec

if TYPE_CHECKING:
    from drivers.redfish import Service

log = logging.getLogger(__name__)


class Nodes(dict[str, Node]):
    """The machines by name; `why_none` says why they are not known."""

    def __init__(self, why_none: str = "") -> None:
        super().__init__()
        self._why_none = why_none

    def __missing__(self, name: str) -> Node:
        if self._why_none:
            raise LabGoneError(self._why_none)
        raise UnknownNodeError(name, list(self))


Owner = Hypervisor | container.Machines


def owner(layout: Layout) -> Owner:
    """Reach the owner of the lab's machines: its libvirt, or the daemon of its container machines."""
    if layout.topology.machine == "container":
        return container.Machines(layout.machined)
    return Hypervisor(layout.libvirt_uri)


def documents(machine: Machine | container.Machine) -> dict[str, str]:
    """Return the owner's descriptions of a machine, by file name."""
    if isinstance(machine, container.Machine):
        return {"json": msgspec.json.format(msgspec.json.encode(machine.look())).decode()}
    definitions = {"inactive.xml": machine.xml()}
    if machine.state() is PowerState.ON:
        definitions["live.xml"] = machine.xml(live=True)
    return definitions


def ports(machine: Machine | container.Machine) -> dict[str, str]:
    """List the lab's ends of a running machine's cables, by the MAC addresses of its NICs."""
    if isinstance(machine, container.Machine):
        return {mac: cables.port(mac) for mac in machine.look().macs}
    found = {}
    for nic in ElementTree.fromstring(machine.xml(live=True)).findall("devices/interface"):
        mac, target = nic.find("mac"), nic.find("target")
        if mac is not None and target is not None and target.get("dev"):
            found[mac.get("address", "")] = target.get("dev", "")
    return found


def define(hypervisor: Owner, layout: Layout) -> dict[str, str]:
    """Define the lab's network, pool and machines, all off, whose disks there are; their UUIDs by name."""
    if isinstance(hypervisor, container.Machines):
        return containers.define(layout)
    for network in layout.topology.all_networks:
        hypervisor.define_network(domain.network_xml(layout.bridge(network)))
    hypervisor.define_pool(domain.pool_xml(layout.pool))
    verdict = kvm.probe()
    log.info("guests run with %s: %s", "KVM" if verdict.usable else "TCG", verdict.reason)
    machines = {}
    for node in layout.topology.nodes:
        machines[node.name] = hypervisor.define_machine(domain.domain_xml(node, layout, kvm=verdict.usable)).uuid
    return machines


def connect(
    spec: NodeSpec,
    uuid: str,
    *,
    hypervisor: Owner,
    bmc: Service,
    layout: Layout,
    init: int,
    serve: Callable[[Path, str], str],
    check: Callable[[], None],
) -> Node:
    """Prepare a defined machine to be driven. `init` is the pid of the first process of the lab's namespaces; `check`
    raises when the lab itself has failed."""
    machine = hypervisor.machine(spec.name)
    kind = layout.topology.bmc_of(spec)
    # A vendor's BMC has one machine, by a name of its own.
    system = bmc.system(uuid if kind == "lab" else "", spec.name)
    schemes = profile_of(kind).media.schemes
    scheme = next((scheme for scheme in ("http", "https", "nfs") if scheme in schemes), "http")

    stick: Callable[[], AbstractContextManager[None]] = nullcontext
    if isinstance(machine, Machine) and domain.chosen_by_hand(spec, layout.topology):
        stick = partial(machine.chosen, STICK_SERIAL)

    def why_silent() -> str | None:
        check()
        return "the machine is off" if machine.state() is PowerState.OFF else None

    return Node(
        spec=spec,
        uuid=uuid,
        power=system,
        media=Media(system, lambda path: serve(path, scheme)),
        boot=system,
        once=None if kind == "lab" else system,
        console=FileConsole(
            layout.console_log(spec), layout.console_socket(spec), machine=spec.name, still_possible=why_silent
        ),
        screen=machine,
        link=machine.link(spec.mac),
        links={nic.name: machine.link(nic.mac) for nic in spec.all_nics},
        connect=partial(_ssh, spec, layout, init),
        stick=stick,
    )


def _ssh(spec: NodeSpec, layout: Layout, init: int, timeout: float) -> Any:
    try:
        return ssh.connect(
            spec.ip, enter_argv(init, []), layout.root / "ssh_config", machine=spec.name, timeout=timeout
        )
    except ConnectionFailedError as error:
        raise NodeUnreachableError(f"SSH of {spec.name}", timeout, str(error)) from error
