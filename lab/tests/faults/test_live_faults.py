"""Faults on a real lab; needs root and the daemons."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from drivers.errors import ConsoleTimeout
from lab import topology
from lab.commands import cli
from lab.errors import DaemonEndedError, LabError
from lab.faults import (
    BlackHole,
    Duplicate,
    Duplicated,
    GuestHung,
    Hang,
    Latency,
    LinkDown,
    Loss,
    NameMissing,
    NameWrong,
    Outage,
    PowerCut,
    RegistryCertificate,
    RegistryImage,
    RegistryRefuses,
    Reset,
    Throttle,
    active,
    bpf,
)
from lab.faults.network import taps
from lab.lab import Lab
from lab.subject.mirroring import Cache, from_directory
from lab.testing import bootmedia
from lab.testing.live import ask, skip_without_labs, small
from lab.testing.packets import PAIR, received
from lab.tests.subject.kit import make

NAME = "registry.test.node0.example"
# Until an emulated machine has booted, on a busy host.
BOOTED = 120
NTP = b"\x23" + bytes(47)
pytestmark = [pytest.mark.lab, skip_without_labs()]


def clock_answers():
    """Return whether the NTP server answers within a second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.sendto(NTP, ("192.168.111.1", 123))
        try:
            return len(sock.recv(64)) >= 48
        except TimeoutError:
            return False


def test_each_fault_begins_and_ends(tmp_path):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path) as lab:
        with lab.fault(Outage("dnsmasq")):
            assert lab.inside(ask, NAME) == socket.EAI_AGAIN
        assert lab.inside(ask, NAME) == ["192.168.111.1"]

        # A client that is connected keeps a child of dnsmasq's, and with it the port that the next dnsmasq wants.
        asking = lab.inside(socket.create_connection, ("192.168.111.1", 53), timeout=10)
        with asking, lab.fault(Outage("dnsmasq")):
            assert not lab.services.running()["dnsmasq"]
        assert lab.inside(ask, NAME) == ["192.168.111.1"]

        with lab.fault(NameMissing("registry")):
            assert lab.inside(ask, NAME) == socket.EAI_NONAME
            assert lab.inside(ask, "api.ostest.test.node0.example") == ["192.168.111.80"]
            with pytest.raises(LabError, match="dnsmasq has a fault already"), lab.fault(NameWrong("api", "192.0.2.1")):
                pass
        with lab.fault(NameWrong("api", "192.0.2.1")):
            assert lab.inside(ask, "api.ostest.test.node0.example") == ["192.0.2.1"]
        assert lab.inside(ask, "api.ostest.test.node0.example") == ["192.168.111.80"]
        with pytest.raises(LabError, match="no such record"), lab.fault(NameMissing("nobody")):
            pass

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

        with lab.fault(Duplicate("192.168.111.5")):
            assert "192.168.111.5/32" in lab.run(["ip", "-o", "address"], timeout=10).stdout
        assert "192.168.111.5/32" not in lab.run(["ip", "-o", "address"], timeout=10).stdout

        with lab.fault(PowerCut("master-0", 8 * 3600)):
            assert "adjustment='28800'" in lab.hypervisor.machine("master-0").xml()
        assert node.power.state().value == "on"
        [tap] = taps(lab, "master-0")

        def queues():
            return lab.inside(
                subprocess.run, ["tc", "qdisc", "show", "dev", tap], capture_output=True, text=True
            ).stdout

        with lab.fault(Throttle("master-0", 500)):
            assert "tbf" in queues()
            assert "rate 500Kbit" in queues()
        assert "tbf" not in queues()

        def links():
            return lab.run(["ip", "link", "show"], timeout=10).stdout

        assert "impair" not in lab.services.running()
        with lab.fault(Latency(200, 20, node="master-0")), lab.fault(Duplicated(5)):
            assert links().count(": aside") == 2
            assert lab.services.running()["impair"]
        assert ": aside" not in links()
        assert "\"fault Hang(service='chronyd')\"" in (tmp_path / "phases.json").read_text()


def _arrived(size, count=400):
    """Count the packets that arrive at the other end of a pair of NICs, which is made where there is none."""
    before = received("fault1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(count):
            sock.sendto(bytes(size), ("198.51.100.2", 9))
    return received("fault1") - before


def test_packets_are_lost(tmp_path):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path) as lab:
        assert lab.run(["sh", "-ec", PAIR], timeout=20).returncode == 0
        assert lab.inside(_arrived, 100) == 400
        lab.inside(bpf.attach, "fault0", bpf.lossy(50), 1)
        assert 120 <= lab.inside(_arrived, 100) <= 280
        lab.inside(bpf.attach, "fault0", bpf.no_larger(1000), 2)
        assert lab.inside(_arrived, 1100) == 0
        lab.inside(bpf.detach, "fault0", 1)
        assert lab.inside(_arrived, 900) == 400
        # A packet of exactly 1000 bytes passes: 20 of them are IP's and 8 UDP's.
        assert (lab.inside(_arrived, 972), lab.inside(_arrived, 973)) == (400, 0)
        lab.inside(bpf.detach, "fault0", 2)
        lab.inside(bpf.detach, "fault0", 2)
        assert lab.inside(_arrived, 1100) == 400

        lab.nodes["master-0"].power.on()
        [tap] = taps(lab, "master-0")

        def programs(device):
            return lab.run(["tc", "filter", "show", "dev", device, "egress"], timeout=10).stdout

        for node, device in (("master-0", tap), ("", "lab0")):
            with lab.fault(Loss(50, node)), lab.fault(BlackHole(1000, node)):
                assert programs(device).count("direct-action") == 2
            assert programs(device).count("direct-action") == 0
        with lab.fault(Loss(50, "master-0")):
            # The cable goes with the power, and the fault with the cable.
            lab.nodes["master-0"].power.off()
        with pytest.raises(LabError, match=r"is off|is the machine on\?"), lab.fault(Loss(50, "master-0")):
            pass


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    top = tmp_path_factory.mktemp("release")
    layout, _ = make(top / "made")
    return from_directory(Cache(top / "subjects"), layout.root, None)


def test_a_registry_fails_in_its_ways_and_is_whole_again(tmp_path, subject):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path, release=subject) as lab:
        [auth] = json.loads(lab.pull_secret)["auths"].values()
        context = ssl.create_default_context(cadata=lab.ca_pem)

        def get(tag, part="manifests", digest=None):
            source, _, own = subject.components[tag].partition("@")
            [path] = [m.repository for m in subject.mirrors if m.source == source]
            url = f"https://{lab.layout.registry}/v2/{path}/{part}/{digest or own}"
            accept = "application/vnd.oci.image.manifest.v1+json"
            request = urllib.request.Request(url, headers={"Authorization": f"Basic {auth['auth']}", "Accept": accept})
            try:
                with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, b""
            except OSError as error:
                return 0, str(error).encode()

        status, manifest = lab.inside(get, "etcd")
        assert status == 200
        layer = json.loads(manifest)["layers"][-1]["digest"]
        whole = lab.inside(get, "etcd", "blobs", layer)
        assert whole[0] == 200

        with lab.fault(RegistryRefuses()):
            assert lab.inside(get, "etcd")[0] == 401
            with pytest.raises(LabError, match="registry has a fault already"):
                RegistryRefuses().begin(lab)
        assert lab.inside(get, "etcd")[0] == 200
        with lab.fault(RegistryCertificate()):
            assert b"certificate has expired" in lab.inside(get, "etcd")[1]
        for how, code in (("absent", 404), ("error", 500)):
            with lab.fault(RegistryImage("etcd", how)):
                assert lab.inside(get, "etcd")[0] == code
                with pytest.raises(LabError, match="registry has a fault already"):
                    RegistryImage("installer").begin(lab)
                assert lab.inside(get, "installer")[0] == 200
        with lab.fault(RegistryImage("etcd", "wrong")):
            assert lab.inside(get, "etcd") == (200, manifest)
            spoilt = lab.inside(get, "etcd", "blobs", layer)[1]
            assert len(spoilt) == len(whole[1])
            assert spoilt != whole[1]
        with lab.fault(RegistryImage("etcd", "truncated")):
            assert lab.inside(get, "etcd", "blobs", layer)[1] == whole[1][: len(whole[1]) // 2]
        with (
            pytest.raises(LabError, match="'nothing': the release has agent-installer"),
            lab.fault(RegistryImage("nothing")),
        ):
            pass
        assert lab.inside(get, "etcd", "blobs", layer) == whole
        assert not list(lab.layout.root.glob("*.whole"))


def test_a_daemon_that_crashes_is_the_labs_own_failure(tmp_path, capsys):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path, keep=True) as lab:
        which = ["--lab", lab.id]
        try:
            assert cli.main(["fault", "begin", "link-down", "--node", "master-0", *which]) == 0
            assert cli.main(["fault", "begin", "loss", "--percent", "5", *which]) == 0
            assert cli.main(["fault", "begin", "crash", "--service", "nobody", *which]) == 1
            assert "no service 'nobody'" in capsys.readouterr().err
            # The daemon that owns the machines may be what is gone.
            assert cli.main(["fault", "begin", "crash", "--service", "libvirtd", *which]) == 0
            assert cli.main(["fault", "end", "1", *which]) == 1
            assert "fault 1 lasts: libvirt at " in capsys.readouterr().err
            assert cli.main(["fault", "end", "3", *which]) == 0
            assert lab.services.running()["libvirtd"]
            lab.services.kill("chronyd")
            assert [(ended.service, ended.code) for ended in lab.ended()] == [("libvirtd", -9), ("chronyd", -9)]
            with pytest.raises(
                DaemonEndedError, match=r"itself failed: libvirtd was killed by SIGKILL at .*; chronyd "
            ):
                lab.run(["true"], timeout=10)
            capsys.readouterr()
            assert cli.main(["fault", "begin", "loss", "--percent", "9", *which]) == 1
            [line] = capsys.readouterr().err.splitlines()
            assert re.fullmatch(
                r"node0-lab: lab \S+ itself has failed, so that no fault can begin: libvirtd was .*; chronyd was .*",
                line,
            )
            assert cli.main(["fault", "ls", *which]) == 0
            assert [ended.split()[0] for ended in capsys.readouterr().out.splitlines()] == ["1", "2"]
            assert cli.main(["fault", "end", *which]) == 0
            out, err = capsys.readouterr()
            assert ([ended.split()[0] for ended in out.splitlines()], err) == (["2", "1"], "")
            # This process had its connection to the libvirtd that was killed.
            with Lab.attach(lab.id, watched=False) as again:
                assert again.nodes["master-0"].link.is_up()
            assert lab.ended(), "what was tested is void all the same"
        finally:
            assert cli.main(["down", *which]) == 0


def test_by_hand(tmp_path, capsys):
    with Lab(small(topology.compact(firmware="bios")), artifacts=tmp_path, keep=True) as lab:
        lab.nodes["master-0"].power.on()
        which = ["--lab", lab.id]
        try:
            assert cli.main(["fault", "begin", "partition", "--nodes", "master-1", "master-2", *which]) == 0
            assert cli.main(["fault", "begin", "power-cut", "--node", "master-0", *which]) == 0
            assert cli.main(["fault", "ls", *which]) == 0
            shown = capsys.readouterr().out.splitlines()
            assert [line.split()[0] for line in shown] == ["1", "2", "1", "2"]
            # A fault that lasts cannot begin a second time: to end one of the two would end both.
            assert cli.main(["fault", "begin", "power-cut", "--node", "master-0", *which]) == 1
            assert "`node0-lab fault end 2` ends it" in capsys.readouterr().err
            assert not lab.nodes["master-1"].link.is_up()
            assert cli.main(["fault", "end", "7", *which]) == 1
            assert "no fault 7 lasts" in capsys.readouterr().err
            assert cli.main(["fault", "end", *which]) == 0
            assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["2", "1"]
            assert lab.nodes["master-1"].link.is_up()
            assert lab.nodes["master-0"].power.state().value == "on"
            assert cli.main(["fault", "end", *which]) == 0
            assert capsys.readouterr().out == f"no fault lasts in lab {lab.id}\n"
            # Nothing of it is left where one of several machines is not there.
            assert cli.main(["fault", "begin", "partition", "--nodes", "master-1", "nobody", *which]) == 1
            assert lab.nodes["master-1"].link.is_up()
            # Of a process of its own: what a library complains of when it is imported, it does once.
            argv = [sys.executable, "-m", "lab.commands", "fault", "begin", "loss", "--percent", "5", *which]
            done = subprocess.run(argv, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300)
            assert (done.returncode, done.stderr) == (0, "")
            assert cli.main(["fault", "end", *which]) == 0
            capsys.readouterr()
            # A fault that is over at once cannot be ended, and may happen again.
            for _ in range(2):
                assert cli.main(["fault", "begin", "reset", "--node", "master-0", *which]) == 0
                assert "there is nothing to end" in capsys.readouterr().out
            assert active.lasting(lab.layout.root) == []
            assert cli.main(["fault", "begin", "kill", "--node", "nobody", "--process", "etcd", *which]) == 1
            assert "no node 'nobody'" in capsys.readouterr().err
            with lab.fault(PowerCut("master-0")), lab.fault(Reset("master-1")):
                assert lab.nodes["master-0"].power.state().value == "off"
                assert lab.nodes["master-1"].power.state().value == "on"
        finally:
            assert cli.main(["down", *which]) == 0
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_virtual_machine_hangs_and_goes_on_where_it_was_or_is_reset(tmp_path, beside_labs):
    """It restarts at Return, and says that it runs: while it hangs it does neither."""
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path) as lab:
        node = lab.nodes["master-0"]
        node.boot_image(bootmedia.bios_cd(beside_labs, "IT RUNS"))
        node.console.wait_for("IT RUNS", BOOTED)
        begin = time.monotonic()
        node.console.send("\r")
        node.console.wait_for("IT RUNS", BOOTED)
        usual = time.monotonic() - begin
        for end in (lambda: list(active.end(lab)), lambda: Reset("master-0").begin(lab)):
            assert active.begin(lab, GuestHung("master-0")) is not None
            node.console.send("\r")
            with pytest.raises(ConsoleTimeout):
                node.console.wait_for("IT RUNS", 2 * usual)
            end()
            node.console.wait_for("IT RUNS", BOOTED)
        assert len(list(active.end(lab))) == 1, "what a reset has ended is listed until somebody ends it"
