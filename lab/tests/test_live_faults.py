"""Faults on a real lab; needs root and the daemons."""

import socket
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import topology
from lab.errors import LabError
from lab.faults import Fault, Hang, LinkDown, Outage, Throttle, taps
from lab.host import preflight
from lab.lab import Lab
from lab.testing.live import ask, small

PROBLEMS = preflight.problems(topology.sno(), Path("/"), "")
NAME = "registry.test.node0.example"
NTP = b"\x23" + bytes(47)

names = st.text(min_size=1, max_size=8)
faults = st.one_of(
    st.builds(Outage, names),
    st.builds(Hang, names),
    st.builds(LinkDown, names),
    st.builds(Throttle, names, st.integers(1, 10**6)),
)


@given(st.lists(faults))
def test_faults_are_data(drawn):
    assert msgspec.yaml.decode(msgspec.yaml.encode(drawn), type=list[Fault]) == drawn


def clock_answers():
    """Whether the NTP server answers within a second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.sendto(NTP, ("192.168.111.1", 123))
        try:
            return len(sock.recv(64)) >= 48
        except TimeoutError:
            return False


@pytest.mark.lab
@pytest.mark.skipif(bool(PROBLEMS), reason=f"this machine cannot run a lab: {'; '.join(PROBLEMS)}")
def test_each_fault_begins_and_ends(tmp_path):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path) as lab:
        with lab.fault(Outage("dnsmasq")):
            assert lab.inside(ask, NAME) == socket.EAI_AGAIN
        assert lab.inside(ask, NAME) == ["192.168.111.1"]

        assert lab.inside(clock_answers)
        with lab.fault(Hang("chronyd")):
            assert not lab.inside(clock_answers)
            assert lab.services.running()["chronyd"]
        assert lab.inside(clock_answers)
        with pytest.raises(LabError, match="no service 'nobody'"), lab.fault(Hang("nobody")):
            pass

        node = lab.nodes["master-0"]
        with lab.fault(LinkDown("master-0")):
            assert not node.link.is_up()
        assert node.link.is_up()

        node.power.on()
        [tap] = taps(lab, "master-0")

        def queues():
            return lab.inside(
                subprocess.run, ["tc", "qdisc", "show", "dev", tap], capture_output=True, text=True
            ).stdout

        with lab.fault(Throttle("master-0", 500)):
            assert "tbf" in queues()
            assert "rate 500Kbit" in queues()
        assert "tbf" not in queues()
        assert "\"fault Hang(service='chronyd')\"" in (tmp_path / "phases.json").read_text()
