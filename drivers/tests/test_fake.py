"""The promises of every driver, on the fake one; and the protocols' methods of the real ones."""

import pytest

from drivers import container, protocols
from drivers.console import FileConsole
from drivers.errors import BootError, ConsoleTimeout, MediaError
from drivers.fake import FakeMachine
from drivers.libvirt import Machine, MachineLink
from drivers.protocols import BootDevice, PowerState
from drivers.redfish import System

ISO = "http://lab/x.iso"


@pytest.mark.parametrize(
    ("driver", "protocol"),
    [
        (Machine, protocols.Power),
        (Machine, protocols.Boot),
        (Machine, protocols.Screenshot),
        (MachineLink, protocols.Link),
        (System, protocols.Power),
        (System, protocols.Boot),
        (System, protocols.VirtualMedia),
        (System, protocols.BootOnce),
        (container.Machine, protocols.Power),
        (container.Machine, protocols.VirtualMedia),
        (container.Machine, protocols.Boot),
        (container.Machine, protocols.Screenshot),
        (container.MachineLink, protocols.Link),
        (FileConsole, protocols.Console),
        *[
            (FakeMachine, getattr(protocols, n))
            for n in ("Power", "VirtualMedia", "Boot", "Console", "Screenshot", "Link")
        ],
    ],
)
def test_drivers_have_their_protocols_methods(driver, protocol):
    assert issubclass(driver, protocol)


def test_an_empty_disk_falls_through_to_the_cd_and_an_installed_one_wins():
    machine = FakeMachine(images=frozenset({ISO}))
    machine.on()
    assert machine.boots == ["nothing"]
    machine.insert(ISO)
    assert machine.boots == ["nothing"]
    machine.cycle()
    machine.cycle()
    assert machine.boots == ["nothing", ISO, "disk"]


def test_power_is_idempotent():
    machine = FakeMachine()
    machine.on()
    machine.on()
    assert (len(machine.boots), machine.state()) == (1, PowerState.ON)
    machine.off()
    machine.off()
    assert machine.state() is PowerState.OFF


def test_what_is_not_there_is_refused():
    machine = FakeMachine()
    with pytest.raises(MediaError, match=r"fake: .*cannot be fetched"):
        machine.insert(ISO)
    with pytest.raises(BootError):
        machine.set_first(BootDevice.CD)
    with pytest.raises(ConsoleTimeout):
        machine.wait_for("x", 1)
