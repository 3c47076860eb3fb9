"""A machine's boot order, by libvirt's own test driver: it defines machines and runs none."""

from xml.etree import ElementTree

import pytest

from drivers.errors import BootError, PowerError
from drivers.libvirt import Hypervisor
from drivers.protocols import BootDevice, PowerState

XML = """
<domain type="test">
  <name>one</name><memory unit="MiB">64</memory><os><type>hvm</type></os>
  <devices>
    <disk type="file" device="disk"><source file="/d"/><target dev="vda" bus="virtio"/><serial>DISK</serial>
      <boot order="FIRST"/></disk>
    <disk type="file" device="disk"><source file="/s"/><target dev="sda" bus="usb"/><serial>STICK</serial>
      <boot order="SECOND"/></disk>
    <disk type="file" device="disk"><source file="/o"/><target dev="vdb" bus="virtio"/><serial>OTHER</serial></disk>
    <disk type="file" device="cdrom"><source file="/c"/><target dev="hda" bus="ide"/><serial>CD</serial>
      <boot order="THIRD"/></disk>
  </devices>
</domain>
"""


def defined(first: int, second: int, third: int):
    orders = {"FIRST": first, "SECOND": second, "THIRD": third}
    xml = XML
    for word, order in orders.items():
        xml = xml.replace(f'"{word}"', f'"{order}"')
    return Hypervisor("test:///default").define_machine(xml)


def order(machine) -> list[str | None]:
    disks = ElementTree.fromstring(machine.xml()).findall("devices/disk[boot]")
    places = {int(disk.find("boot").get("order")): disk.findtext("serial") for disk in disks}
    return [places[place] for place in sorted(places)]


@pytest.mark.parametrize("places", [(2, 3, 4), (1, 2, 3), (2, 1, 3)], ids=["a place is free", "none is", "once more"])
def test_a_stick_is_first_for_one_power_on(places):
    machine = defined(*places)
    with machine.chosen("STICK"):
        assert order(machine) == ["STICK", "DISK", "CD"]
    assert order(machine) == ["DISK", "CD", "STICK"]


def test_a_power_on_that_fails_chooses_nothing_for_later():
    machine = defined(2, 3, 4)
    with pytest.raises(RuntimeError), machine.chosen("STICK"):
        raise RuntimeError
    assert order(machine) == ["DISK", "CD", "STICK"]


def test_the_cd_is_first_for_one_power_on():
    machine = defined(2, 3, 4)
    with machine.chosen():
        assert order(machine) == ["CD", "DISK", "STICK"]
    assert order(machine) == ["DISK", "STICK", "CD"]


def test_of_two_cds_the_first_that_boots_is_chosen():
    empty = '    <disk type="file" device="cdrom"><target dev="hdb" bus="ide"/></disk>\n'
    other = '    <disk type="file" device="cdrom"><source file="/x"/><target dev="hdd" bus="ide"/><serial>X</serial>'
    xml = XML.replace("  <devices>\n", f"  <devices>\n{empty}{other}<boot order='5'/></disk>\n")
    for word, place in (("FIRST", "2"), ("SECOND", "3"), ("THIRD", "4")):
        xml = xml.replace(word, place)
    machine = Hypervisor("test:///default").define_machine(xml)
    machine.boot_from_cd_once()
    with machine.chosen():
        assert order(machine) == ["CD", "DISK", "STICK", "X"]
    machine.set_first(BootDevice.CD)
    assert order(machine) == ["X", "CD", "DISK", "STICK"]


def test_a_machine_without_a_cd_is_switched_on_as_it_is():
    machine = Hypervisor("test:///default").define_machine(
        XML.partition('    <disk type="file" device="cdrom">')[0].replace("FIRST", "1").replace("SECOND", "2")
        + "</devices></domain>"
    )
    machine.boot_from_cd_once()
    machine.on()
    assert order(machine) == ["DISK", "STICK"]
    with pytest.raises(BootError, match="it has no CD to boot from"), machine.chosen():
        pass


def test_it_is_on_while_it_stands_still_and_one_that_is_off_does_not_stand_still():
    machine = defined(2, 3, 4)
    with pytest.raises(PowerError, match="cannot be suspended"):
        machine.suspend()
    machine.resume()
    machine.on()
    machine.suspend()
    assert machine.state() is PowerState.ON
    with pytest.raises(PowerError, match="cannot be suspended"):
        machine.suspend()
    machine.resume()
    machine.resume()
    machine.suspend()
    machine.off()
    assert machine.state() is PowerState.OFF


@pytest.mark.parametrize("serial", ["NONE", "OTHER"])
def test_what_is_not_there_or_not_bootable_is_told(serial):
    with pytest.raises(BootError, match=f"it has no disk {serial} to boot from"), defined(2, 3, 4).chosen(serial):
        pass
