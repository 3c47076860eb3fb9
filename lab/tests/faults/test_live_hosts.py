"""What fails within a host: its processes, its disk, its memory, on the machine OS; needs root and a release."""

import time
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.errors import LabError
from lab.faults import ClockJump, DiskFull, Freeze, Kill, MemoryTaken, PowerCut, active
from lab.host import preflight
from lab.lab import Lab
from lab.testing.containers import hosts
from lab.testing.containers.kit import PATIENCE, tree
from lab.waiting import wait_until

SHAPE = topology.sno().with_machines("container")
PROBLEMS = preflight.problems(SHAPE, Path("/"), "")
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}"),
    pytest.mark.skipif(tree() is None, reason="no release was built here: there is no machine OS"),
]
NODE = "master-0"
MEMORY_MIB = 1024


def shape():
    [node] = SHAPE.nodes
    return msgspec.structs.replace(
        SHAPE, nodes=(msgspec.structs.replace(node, memory_mib=MEMORY_MIB, disk_gib=1, vcpu=1),)
    )


def test_a_host_fails_within_and_is_whole_again(tmp_path, monkeypatch):
    monkeypatch.setattr(services, "machined", hosts.machined)
    with Lab(shape(), artifacts=tmp_path) as lab:
        node = lab.nodes[NODE]
        # A user who begins a fault by hand is told at once, and not after a minute's attempts.
        with pytest.raises(LabError, match=r"^master-0 is off: nobody can log in$"):
            active.begin(lab, Kill(NODE, "kubelet"))
        node.power.on()
        host = node.ssh(PATIENCE)

        def output_of(command):
            done = host.run(command)
            assert done.rc == 0, done.stderr
            return done.stdout.strip()

        def main():
            return output_of("systemctl show --property MainPID --value kubelet")

        first = main()
        assert active.begin(lab, Kill(NODE, "kubelet")) is None
        wait_until(lambda: main() not in (first, "0"), PATIENCE, "kubelet to be started again", main, poll=0.2)

        def state():
            return output_of("sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$(pgrep -x etcd)/status")

        with lab.fault(Freeze(NODE, "etcd")):
            assert state() == "T"
        assert state() == "S"

        def room():
            write = "head -c 16M /dev/zero > /srv/more; e=$?; rm -f /srv/more; exit $e"
            return host.run(f"sudo sh -c '{write}'").rc == 0

        # All of this host's file systems are its memory; one that is full takes no more than this.
        output_of("sudo mount -t tmpfs -o size=64m small /srv")
        assert room()
        with lab.fault(DiskFull(NODE, "/srv", 4)):
            assert not room()
        assert room()

        def taken():
            place = "/run/fault-memory"
            used = output_of(f"! mountpoint -q {place} || df --output=used --block-size=M {place} | tail -n 1")
            return int(used.rstrip("M") or 0)

        with lab.fault(MemoryTaken(NODE, 500)):
            assert taken() > 300
        assert not taken()
        # Given back by the host itself, which may take no login meanwhile.
        MemoryTaken(NODE, 500, 2).begin(lab)
        wait_until(lambda: not taken(), PATIENCE, "the host to give its memory back", taken)

        with pytest.raises(LabError, match=r"master-0: .*(date|clock)"), lab.fault(ClockJump(NODE, 60)):
            pass
        with pytest.raises(LabError, match=r"^master-0 is a container: its clock is the host's"):
            PowerCut(NODE, 60).begin(lab)
        node.link.set_up(False)
        begin = time.monotonic()
        with pytest.raises(LabError, match=r"^master-0: no SSH at 192\.168\.111\.80: "):
            active.begin(lab, Kill(NODE, "kubelet"))
        print(f"that nobody answers was told after {time.monotonic() - begin:.1f} s")
