"""Faults as data: what breaks, begun and ended by the lab, with its time in phases.json.

    with lab.fault(Hang("dnsmasq")), lab.fault(LinkDown("worker-0")):
        ...

They are plain structs, so that a scenario can be parametrised with them and a file can hold them. Power is no fault of
the lab: cut it through the BMC, as `lab.nodes[...].power.off()` does.
"""

from __future__ import annotations

import subprocess

import msgspec

from lab.errors import LabError
from lab.machines.factory import ports
from lab.running import RunningLab


class Outage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab (dnsmasq, registry, chronyd, bmc, http) is gone: connections are refused."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Kill it."""
        lab.services.stop(self.service)

    def end(self, lab: RunningLab) -> None:
        """Start it anew."""
        lab.services.start(self.service)


class Hang(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab takes requests and never answers: of dnsmasq, a black hole for names."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Stop its process."""
        lab.services.pause(self.service)

    def end(self, lab: RunningLab) -> None:
        """Let it go on, with all that has piled up."""
        lab.services.resume(self.service)


class LinkDown(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The cable of a machine is pulled out."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Pull."""
        lab.nodes[self.node].link.set_up(False)

    def end(self, lab: RunningLab) -> None:
        """Plug."""
        lab.nodes[self.node].link.set_up(True)


class Throttle(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """What comes to a running machine is held to so many kbit/s; what does not fit into 400 ms is lost."""

    node: str
    kbit: int

    def begin(self, lab: RunningLab) -> None:
        """Put a token bucket before the machine's network card."""
        for tap in _taps(lab, self.node):
            shape = f"tbf rate {self.kbit}kbit burst {max(self.kbit // 8, 16)}kbit latency 400ms"
            _tc(lab, f"qdisc add dev {tap} root {shape}")

    def end(self, lab: RunningLab) -> None:
        """Take it away; it went with the machine's power, if that was cut."""
        for tap in _taps(lab, self.node):
            _tc(lab, f"qdisc del dev {tap} root")


Fault = Outage | Hang | LinkDown | Throttle


def _taps(lab: RunningLab, node: str) -> list[str]:
    """The lab's ends of a running machine's cables."""
    return ports(lab.hypervisor.machine(lab.nodes[node].name))


def _tc(lab: RunningLab, words: str) -> None:
    done = lab.inside(subprocess.run, ["tc", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"tc {words}: {' '.join(done.stderr.split())}")
