"""The methods of each driver's protocols."""

import pytest

from drivers import container, protocols
from drivers.console import FileConsole
from drivers.libvirt import Machine, MachineLink
from drivers.redfish import System


@pytest.mark.parametrize(
    ("driver", "names"),
    [
        (Machine, ["Power", "Boot", "Screenshot"]),
        (MachineLink, ["Link"]),
        (System, ["Power", "Boot", "VirtualMedia", "BootOnce"]),
        (container.Machine, ["Power", "VirtualMedia", "Boot", "Screenshot"]),
        (container.MachineLink, ["Link"]),
        (FileConsole, ["Console"]),
    ],
)
def test_drivers_have_their_protocols_methods(driver, names):
    for name in names:
        assert issubclass(driver, getattr(protocols, name)), name
