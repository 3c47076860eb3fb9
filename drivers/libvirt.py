"""libvirt: the hypervisor's view of a machine. What a BMC can do, plus what only a hypervisor can."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from xml.etree import ElementTree

import libvirt
import libvirt_qemu

from drivers.bootorder import Place, in_order, next_order, of_kind, places, put_first, settle
from drivers.errors import BootError, ConnectionFailedError, DriverError, NotFoundError, PowerError, ScreenshotError
from drivers.protocols import BootDevice, PowerState

_POLL_SECONDS = 0.1
_POWER_SECONDS = 60.0
# Between two places of a start from something else than usual: there are fewer devices than that.
_APART = 100


def _quiet(_context: object, _error: object) -> None:
    """Suppress libvirt's own error output: it raises the errors as well."""


class Hypervisor:
    """A connection to one libvirt daemon, local or remote."""

    def __init__(self, uri: str) -> None:
        libvirt.registerErrorHandler(_quiet, None)
        self.uri = uri
        try:
            self._connection = libvirt.open(uri)
        except libvirt.libvirtError as error:
            raise ConnectionFailedError(f"libvirt at {uri}: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        try:
            self._connection.close()
        except libvirt.libvirtError:
            return

    def define_network(self, xml: str) -> None:
        """Define and start a network, and start it with the daemon."""
        network = self._connection.networkDefineXML(xml)
        network.setAutostart(True)
        network.create()

    def define_pool(self, xml: str) -> None:
        """Define and start a storage pool, and start it with the daemon."""
        pool = self._connection.storagePoolDefineXML(xml, 0)
        pool.setAutostart(True)
        pool.create(0)

    def define_machine(self, xml: str) -> Machine:
        """Define a domain."""
        try:
            return Machine(self._connection, self._connection.defineXML(xml).name())
        except libvirt.libvirtError as error:
            raise DriverError(f"libvirt rejects the domain: {error}") from error

    def machine(self, name: str) -> Machine:
        """Return the domain of that name, which need not exist yet."""
        return Machine(self._connection, name)

    def network_xml(self, name: str) -> str:
        """Describe a network as libvirt sees it."""
        try:
            xml: str = self._connection.networkLookupByName(name).XMLDesc()
        except libvirt.libvirtError as error:
            raise NotFoundError(f"network {name}: {error}") from error
        return xml


class Machine:
    """One domain; implements Power, Boot and Screenshot.

    The domain is looked up for every call: BMC emulators redefine domains, and handles of old definitions go stale.
    """

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self.name = name
        # Whether the next power-on by this object tries the CD first.
        self.from_cd = False
        #: What the next power-on by this object alone tries first, a CD apart.
        self.next_device: BootDevice | None = None

    def _domain(self) -> Any:
        try:
            return self._connection.lookupByName(self.name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                raise NotFoundError("libvirt has no such domain", machine=self.name) from error
            raise ConnectionFailedError(f"libvirt: {error}", machine=self.name) from error

    @property
    def uuid(self) -> str:
        """The domain's UUID, which is also its Redfish system's id."""
        return str(self._domain().UUIDString())

    def xml(self, *, live: bool = False) -> str:
        """Return the definition for the next cold boot, or (`live`) what runs now; secrets left out."""
        return str(self._domain().XMLDesc(0 if live else libvirt.VIR_DOMAIN_XML_INACTIVE))

    def state(self) -> PowerState:
        """Read whether it runs."""
        return PowerState.ON if self._domain().isActive() else PowerState.OFF

    def _wait(self, wanted: PowerState) -> None:
        deadline = time.monotonic() + _POWER_SECONDS
        while (seen := self.state()) is not wanted:
            if time.monotonic() > deadline:
                raise PowerError(f"still {seen.value} {_POWER_SECONDS:g} s after the order", machine=self.name)
            time.sleep(_POLL_SECONDS)

    def on(self) -> None:
        """Start it."""
        if self.next_device and self.state() is PowerState.OFF:
            device, self.next_device = self.next_device, None
            try:
                self.on_once(device)
            except DriverError:
                self.next_device = device
                raise
        elif self.state() is PowerState.OFF:
            with self.chosen() if self.from_cd and self._has_cd() else nullcontext():
                try:
                    self._domain().create()
                except libvirt.libvirtError as error:
                    raise PowerError(f"cannot be started: {error}", machine=self.name) from error
                self.from_cd = False
        self._wait(PowerState.ON)

    def off(self) -> None:
        """End it at once."""
        if self.state() is PowerState.ON:
            try:
                self._domain().destroy()
            except libvirt.libvirtError as error:
                if self.state() is PowerState.ON:
                    raise PowerError(f"cannot be ended: {error}", machine=self.name) from error
        self._wait(PowerState.OFF)

    def cycle(self) -> None:
        """Switch off, then on."""
        self.off()
        self.on()

    def shut_down(self) -> None:
        """Press its power button, by ACPI; does nothing when it is off."""
        if self.state() is PowerState.ON:
            try:
                self._domain().shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
            except libvirt.libvirtError as error:
                raise PowerError(f"cannot be shut down: {error}", machine=self.name) from error

    def suspend(self) -> None:
        """Stop its processors until it is resumed or switched off."""
        try:
            self._domain().suspend()
        except libvirt.libvirtError as error:
            raise PowerError(f"cannot be suspended: {error}", machine=self.name) from error

    def resume(self) -> None:
        """Start its processors again; does nothing when it is off or has been reset meanwhile."""
        domain = self._domain()
        try:
            if domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
                domain.resume()
        except libvirt.libvirtError as error:
            raise PowerError(f"cannot be resumed: {error}", machine=self.name) from error

    def first(self) -> BootDevice | None:
        """Return the device with the lowest boot order in the definition for the next cold boot."""
        return next((place.kind for place in in_order(places(ElementTree.fromstring(self.xml())))), None)

    def set_first(self, device: BootDevice) -> None:
        """Put this kind of device first in the boot order, the others next_order it in their order; an earlier
        boot_from_cd_once is forgotten."""
        self.from_cd, self.next_device = False, None
        tree = self._definition()
        found = places(tree)
        if not (firsts := of_kind(found, device)):
            raise BootError(f"it has no {device.value} to boot from", machine=self.name)
        put_first(found, firsts)
        self._define(tree)

    def _definition(self) -> ElementTree.Element:
        flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
        return ElementTree.fromstring(self._domain().XMLDesc(flags))

    def _define(self, tree: ElementTree.Element) -> None:
        settle(tree)
        try:
            self._connection.defineXML(ElementTree.tostring(tree, encoding="unicode"))
        except libvirt.libvirtError as error:
            raise BootError(f"libvirt rejects the boot order: {error}", machine=self.name) from error

    def boot_from_cd_once(self) -> None:
        """Have the next power-on by this object, and no later start, try the CD first, if there is one then."""
        self.from_cd, self.next_device = True, None

    def boot_once(self, device: BootDevice) -> None:
        """Have the next power-on by this object, and no later start, try this kind of device first. Raises
        BootError."""
        if not of_kind(places(self._definition()), device):
            raise BootError(f"it has no {device.value} to boot from", machine=self.name)
        self.from_cd, self.next_device = False, device

    def _has_cd(self) -> bool:
        return any(place.kind is BootDevice.CD and place.order for place in places(ElementTree.fromstring(self.xml())))

    @contextmanager
    def chosen(self, serial: str = "") -> Iterator[None]:
        """Have a power-on within the block try the disk with this serial number first, or without a number
        the CD. At all later boots, restarts by the machine itself too, that device is the last. A person would use the
        one-time boot menu of a BIOS. Raises BootError.

        QEMU takes a device's new place at the machine's next reset (reference/lab.md §3.8).
        """
        self._put(serial, first=True)
        try:
            yield
        finally:
            self._put(serial, first=False)
            self._put_at_next_reset(serial)

    def _put(self, serial: str, *, first: bool) -> None:
        """Give a disk, or the CD, the first or the last place in the boot order of the next cold boot."""
        tree = self._definition()
        chosen, others = self._chosen_from(tree, serial)
        if first and any(other.order == 1 for other in others):
            for other in others:
                other.put(other.order + 1)
        chosen.put(1 if first else next_order(others))
        self._define(tree)

    def on_once(self, device: BootDevice) -> None:
        """Start it from this kind of device, if it has one; it is off. At all later starts, by the machine itself too,
        the order is what it was. Raises PowerError, BootError."""
        usual, tree = self._definition(), self._definition()
        found = places(tree)
        firsts = of_kind(found, device)
        others = [place for place in in_order(found) if place not in firsts]
        for number, place in enumerate([*firsts, *others], start=1):
            place.put(number * _APART)
        self._define(tree)
        try:
            self.on()
        finally:
            self._define(usual)
        self._put_back(places(usual))

    def _put_back(self, usual: list[Place]) -> None:
        """Give the running machine's devices that order from its next reset on, and put others last. An NVMe disk stays
        where it is, and the others around it."""
        running = places(ElementTree.fromstring(self.xml(live=True)))
        order = [running[usual.index(place)] for place in in_order(usual)]
        order += [place for place in in_order(running) if place not in order]
        middle, offset = next(((place.order, at) for at, place in enumerate(order) if place.is_argument), (0, -1))
        for number, place in enumerate(order):
            if not place.is_argument:
                self._set_order(place, middle + number - offset)

    def _put_at_next_reset(self, serial: str) -> None:
        """Put the disk, or the CD, last in the boot order of the running machine; does nothing when it is off."""
        if self.state() is PowerState.OFF:
            return
        chosen, others = self._chosen_from(ElementTree.fromstring(self.xml(live=True)), serial)
        self._set_order(chosen, next_order(others))

    def _set_order(self, place: Place, order_index: int) -> None:
        """Give a device of the running machine a place that no other has, from its next reset on."""
        values = {"path": f"/machine/peripheral/{place.alias}", "property": "bootindex", "value": order_index}
        order = json.dumps({"execute": "qom-set", "arguments": values})
        try:
            answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._domain(), order, 0))
        except libvirt.libvirtError as error:
            raise BootError(f"QEMU keeps the boot order: {error}", machine=self.name) from error
        if "error" in answer:
            raise BootError(f"QEMU keeps the boot order: {answer['error'].get('desc')}", machine=self.name)

    def _chosen_from(self, tree: ElementTree.Element, serial: str) -> tuple[Place, list[Place]]:
        """Return the disk with this serial number or, without one, the CD; and all else that has a place in the boot
        order."""
        bootable = in_order(places(tree))
        fits = (place for place in bootable if (place.serial == serial if serial else place.kind is BootDevice.CD))
        chosen = next(fits, None)
        if chosen is None:
            wanted = f"disk {serial}" if serial else "CD"
            raise BootError(f"it has no {wanted} to boot from", machine=self.name)
        return chosen, [other for other in bootable if other is not chosen]

    def clock(self) -> int:
        """Return the seconds that its hardware clock is ahead of the host's at the next cold boot (see `set_clock`)."""
        clocks = ElementTree.fromstring(self.xml()).findall("clock")
        return sum(int(clock.get("adjustment", "0")) for clock in clocks if clock.get("offset") == "variable")

    def set_clock(self, ahead: int) -> None:
        """Have its hardware's clock so many seconds ahead of the host's from the next cold boot on."""
        tree = self._definition()
        for clock in tree.findall("clock"):
            clock.attrib = {"offset": "variable", "adjustment": str(ahead), "basis": "utc"}
        try:
            self._connection.defineXML(ElementTree.tostring(tree, encoding="unicode"))
        except libvirt.libvirtError as error:
            raise DriverError(f"libvirt rejects the clock: {error}", machine=self.name) from error

    def png(self) -> bytes:
        """Take a picture of the first screen, which QEMU makes a PNG (from 7.1 on)."""
        chunks: list[bytes] = []

        def take(_stream: object, data: bytes, _opaque: object) -> int:
            chunks.append(data)
            return len(data)

        try:
            stream = self._connection.newStream()
            self._domain().screenshot(stream, 0)
            stream.recvAll(take, None)
            stream.finish()
        except libvirt.libvirtError as error:
            raise ScreenshotError(str(error), machine=self.name) from error
        return b"".join(chunks)

    def link(self, mac: str) -> MachineLink:
        """Return the cable of the NIC with that MAC address."""
        return MachineLink(self, mac)

    def update(self, device_xml: str) -> None:
        """Change one device, now when it runs and at the next cold boot."""
        domain = self._domain()
        flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG | (libvirt.VIR_DOMAIN_AFFECT_LIVE if domain.isActive() else 0)
        try:
            domain.updateDeviceFlags(device_xml, flags)
        except libvirt.libvirtError as error:
            raise DriverError(f"libvirt rejects the change: {error}", machine=self.name) from error


class MachineLink:
    """The cable of one NIC; implements Link."""

    def __init__(self, machine: Machine, mac: str) -> None:
        self._machine = machine
        self._mac = mac

    def _interface(self) -> ElementTree.Element:
        live = self._machine.state() is PowerState.ON
        for interface in ElementTree.fromstring(self._machine.xml(live=live)).findall("devices/interface"):
            mac = interface.find("mac")
            if mac is not None and mac.get("address") == self._mac:
                return interface
        raise NotFoundError(f"it has no NIC {self._mac}", machine=self._machine.name)

    def is_up(self) -> bool:
        """Tell whether it is plugged in."""
        link = self._interface().find("link")
        return link is None or link.get("state") != "down"

    def set_up(self, up: bool) -> None:
        """Plug it in or pull it out."""
        interface = self._interface()
        for link in interface.findall("link"):
            interface.remove(link)
        ElementTree.SubElement(interface, "link", state="up" if up else "down")
        self._machine.update(ElementTree.tostring(interface, encoding="unicode"))
