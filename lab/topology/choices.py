"""The choices of a topology."""

from __future__ import annotations

from typing import Literal

Addressing = Literal["static", "dhcp"]
Platform = Literal["none", "baremetal", "external"]
MachineKind = Literal["vm", "container"]
#: How machines come to their live system (docs/topology.md, "Ways to boot").
BootWay = Literal["iso", "minimal-iso", "pxe", "http-boot", "config-image", "discovery-iso", "usb"]
#: The ways on which the firmware itself asks the network for what it boots.
FROM_NETWORK = ("pxe", "http-boot")
#: Ways to boot on which the live system is on a USB stick.
FROM_STICK = ("usb", "config-image")
