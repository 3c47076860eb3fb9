"""The lab release's machine OS: a CoreOS-like system made from Debian packages (docs/machine-os.md)."""

from lab.release.os.build import MachineOS, build_machine_os, read_machine_os

__all__ = ["MachineOS", "build_machine_os", "read_machine_os"]
