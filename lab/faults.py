"""Faults as data: the lab begins and ends them, and records their times in phases.json.

    with lab.fault(Hang("dnsmasq")), lab.fault(LinkDown("worker-0")):
        ...

They are plain structs, so scenarios can be parametrised with them and files can hold them. A power cut is not among
them: cut the power through the BMC, as `lab.nodes[...].power.off()` does.
"""

from __future__ import annotations

import subprocess

import msgspec

from lab.errors import LabError
from lab.machines.factory import ports
from lab.running import RunningLab


class Outage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab (dnsmasq, registry, chronyd, bmc, http) is down: connections are refused."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Kill it."""
        lab.services.stop(self.service)

    def end(self, lab: RunningLab) -> None:
        """Start it again."""
        lab.services.start(self.service)


class Hang(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab accepts requests and never answers; for dnsmasq, a DNS black hole."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Suspend its process."""
        lab.services.pause(self.service)

    def end(self, lab: RunningLab) -> None:
        """Resume it; it then answers the requests that have queued up."""
        lab.services.resume(self.service)


class LinkDown(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A machine's network cable is unplugged."""

    node: str

    def begin(self, lab: RunningLab) -> None:
        """Pull."""
        lab.nodes[self.node].link.set_up(False)

    def end(self, lab: RunningLab) -> None:
        """Plug."""
        lab.nodes[self.node].link.set_up(True)


class Throttle(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Traffic to a running machine is limited to `kbit` kbit/s; packets that would wait over 400 ms are dropped."""

    node: str
    kbit: int

    def begin(self, lab: RunningLab) -> None:
        """Put a token bucket before the machine's network card."""
        for tap in taps(lab, self.node):
            shape = f"tbf rate {self.kbit}kbit burst {max(self.kbit // 8, 16)}kbit latency 400ms"
            _tc(lab, f"qdisc add dev {tap} root {shape}")

    def end(self, lab: RunningLab) -> None:
        """Remove it; if the machine's power was cut, the card and its limit are gone already."""
        for tap in taps(lab, self.node):
            _tc(lab, f"qdisc del dev {tap} root")


Fault = Outage | Hang | LinkDown | Throttle


def taps(lab: RunningLab, node: str) -> list[str]:
    """The lab's ends of a running machine's cables."""
    return ports(lab.hypervisor.machine(lab.nodes[node].name))


def _tc(lab: RunningLab, words: str) -> None:
    done = lab.inside(subprocess.run, ["tc", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"tc {words}: {' '.join(done.stderr.split())}")
