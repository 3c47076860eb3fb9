"""What a lab writes for its daemons, its records, and how it runs commands: all without a lab."""

import json
import logging
import os
import ssl
import stat
import sys
import time
import urllib.error
import urllib.request
from xml.etree import ElementTree

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from lab import topology
from lab.daemons import dns
from lab.daemons.consoleclock import Stamper
from lab.daemons.httpd import Handler
from lab.errors import CommandTimeoutError, PreflightError
from lab.evidence.phases import Phases
from lab.host import kvm, preflight
from lab.host.identity import alive, me, start_time
from lab.host.process import run_streaming
from lab.layout import Layout
from lab.machines import domain
from lab.pki import Authority, make_ssh_key


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))


def config(shape, tmp_path):
    text = dns.dnsmasq_config(shape, interface="br", leases=tmp_path / "leases", log=tmp_path / "log")
    return text.splitlines()


def test_a_nodes_name_comes_before_the_apis_so_that_it_is_the_ptr(tmp_path):
    names = [name for name, address in dns.records(topology.sno()) if address == "192.168.111.80"]
    assert names[0] == "master-0.ostest.test.node0.example"
    assert "api.ostest.test.node0.example" in names
    assert "api-int.ostest.test.node0.example" in names


def test_static_labs_have_no_dhcp(tmp_path):
    assert not [line for line in config(topology.sno(), tmp_path) if line.startswith("dhcp")]
    lines = config(topology.ha("dhcp"), tmp_path)
    assert sum(line.startswith("dhcp-host=") for line in lines) == 5
    assert "dhcp-host=52:54:00:6e:30:04,192.168.111.24,worker-1" in lines


def test_virtual_ips_are_where_the_api_and_the_apps_are(tmp_path):
    lines = config(topology.ha(), tmp_path)
    assert "host-record=api.ostest.test.node0.example,192.168.111.5" in lines
    assert "address=/apps.ostest.test.node0.example/192.168.111.4" in lines


def machine(shape, tmp_path, **kw):
    return ElementTree.fromstring(domain.domain_xml(shape.nodes[0], Layout(tmp_path, shape), **kw))


def test_a_domain_boots_its_disk_first_and_says_who_it_is(tmp_path):
    tree = machine(topology.sno(), tmp_path, kvm=False)
    assert tree.find("devices/disk/boot").get("order") == "1"
    assert len(tree.findall(".//boot")) == 1
    assert tree.find("sysinfo/system/entry[@name='uuid']").text == tree.findtext("uuid")
    assert tree.get("type") == "qemu"
    assert tree.find("cpu").get("mode") == "maximum"
    assert tree.find("os/loader") is not None
    assert tree.findtext("uuid") != machine(topology.sno(), tmp_path, kvm=False).findtext("uuid")


def test_bios_and_kvm_are_honoured(tmp_path):
    tree = machine(topology.sno(firmware="bios"), tmp_path, kvm=True)
    assert tree.find("os/loader") is None
    assert tree.get("type") == "kvm"


def test_the_tiny_guest_runs_where_guests_run():
    """The probe must be able to say yes: under TCG the same guest always does."""
    assert kvm.run_tiny_guest("tcg", deadline=20).usable


def test_an_accelerator_that_is_none_is_unusable():
    assert not kvm.run_tiny_guest("nonsense", deadline=20).usable


def test_the_firmware_runs_where_guests_run():
    assert kvm.run_firmware("tcg", deadline=120).usable


def test_an_accelerator_that_is_none_runs_no_firmware():
    verdict = kvm.run_firmware("nonsense", deadline=20)
    assert not verdict.usable
    assert "nonsense" in verdict.reason


@pytest.mark.parametrize(
    ("qemu", "reason"),
    [
        ("echo 'KVM internal error. Suberror: 1'; exec sleep 60", "KVM internal error"),
        ("exec sleep 60", "printed nothing within 1 s"),
        ("exit 3", "ended without output"),
    ],
)
def test_a_guest_that_stops_in_its_firmware_makes_kvm_unusable(tmp_path, monkeypatch, qemu, reason):
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\n{qemu}\n")
    program.chmod(0o755)
    monkeypatch.setattr(kvm, "QEMU", str(program))
    verdict = kvm.run_firmware("kvm", deadline=1)
    assert not verdict.usable
    assert reason in verdict.reason


def test_a_tiny_guest_alone_proves_too_little(monkeypatch):
    """kvm-pvm runs it, and stops in the firmware."""
    monkeypatch.setattr(kvm.Path, "exists", lambda _self: True)
    monkeypatch.setattr(kvm, "run_tiny_guest", lambda *a: kvm.Verdict(True, "a guest has run"))
    monkeypatch.setattr(kvm, "run_firmware", lambda *a: kvm.Verdict(False, "it stops"))
    assert kvm.probe() == kvm.Verdict(False, "it stops")


def test_the_verdict_is_kept_for_this_boot(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(kvm, "run_tiny_guest", lambda *a: asked.append(a) or kvm.Verdict(False, "x"))
    monkeypatch.setattr(kvm.Path, "exists", lambda _self: True)
    assert kvm.probe() == kvm.probe() == kvm.Verdict(False, "x")
    assert len(asked) == 1
    monkeypatch.setattr(kvm, "rom", lambda: b"another guest")
    kvm.probe()
    assert len(asked) == 2, "a verdict is about the guest that was run"


def test_the_tiny_guest_does_what_firmware_begins_with():
    """kvm-pvm ran one without and stopped at OVMF's third instruction: wait; fninit."""
    code = kvm.rom()[0xFFF0:]
    assert code.startswith(bytes.fromhex("9bdbe3"))


def test_certificates_verify_and_keys_are_secret(tmp_path):
    authority = Authority.make("lab")
    authority.issue(["registry.lab", "127.0.0.1"], tmp_path / "c", tmp_path / "k")
    ssl.create_default_context(cadata=authority.pem.decode())
    leaf = x509.load_pem_x509_certificate((tmp_path / "c").read_bytes())
    leaf.verify_directly_issued_by(authority.certificate)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["registry.lab"]
    public = make_ssh_key(tmp_path / "id")
    load_ssh_private_key((tmp_path / "id").read_bytes(), None)
    assert public.startswith("ssh-ed25519 ")
    assert [stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("k", "id")] == [0o600, 0o600]


def test_a_process_is_known_by_pid_and_start():
    pid, started = me()
    assert alive(pid, started)
    assert not alive(pid, started + 1)
    assert start_time(2**22 + 1) is None


def test_preflight_names_every_problem(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None if name == "libvirtd" else "/bin/x")
    with pytest.raises(PreflightError) as caught:
        preflight.check(topology.sno(), tmp_path / ("d" * 100), "x")
    text = str(caught.value)
    assert "run as root" in text
    assert "libvirtd is not installed: apt-get install libvirt-daemon-system" in text
    assert "too long for UNIX sockets" in text
    assert len(caught.value.problems) == 3


def run(tmp_path, code, timeout=30.0):
    env = dict(os.environ)
    return run_streaming([sys.executable, "-c", code], log_file=tmp_path / "log", timeout=timeout, env=env)


def test_streams_are_apart_in_the_result_and_together_in_the_file(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    done = run(tmp_path, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    text = (tmp_path / "log").read_text()
    assert "out\n" in text
    assert "err\n" in text
    assert "= exit 3 after" in text
    assert "out" in caplog.text


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\ntime.sleep(600)\n"
    )
    with pytest.raises(CommandTimeoutError, match=r"did not end within 5 s; its last lines:\n\d+") as caught:
        run(tmp_path, code, timeout=5)
    child = int(caught.value.tail)
    deadline = time.monotonic() + 5
    while (started := start_time(child)) is not None and alive(child, started):
        assert time.monotonic() < deadline, f"{child} is still there"
        time.sleep(0.05)


def test_phases_are_written_as_they_go(tmp_path):
    phases = Phases(tmp_path / "a" / "phases.json")

    def entries():
        return [(e["name"], e["depth"], e["outcome"]) for e in json.loads((tmp_path / "a/phases.json").read_text())]

    def fail():
        with phases.phase("outer"):
            with phases.phase("inner"):
                assert entries() == [("outer", 0, "running"), ("inner", 1, "running")]
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert entries() == [("outer", 0, "failed"), ("inner", 1, "passed")]
    assert set(phases.seconds()) == {"outer", "inner"}


def test_serial_lines_get_the_time_when_they_were_seen(tmp_path):
    import datetime

    log = tmp_path / "n.log"
    stamper = Stamper(log)
    now = datetime.datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
    log.write_bytes(b"one\r\ntw")
    assert stamper.step(now) == 1
    log.write_bytes(b"one\r\ntwo\n")
    assert stamper.step(now) == 1
    assert (tmp_path / "n.timed.log").read_text() == "03:04:05.678 one\n03:04:05.678 two\n"


@pytest.fixture
def server(serve):
    return serve(Handler)


@pytest.mark.parametrize(
    ("wanted", "status", "body"),
    [(None, 200, b"0123456789"), ("bytes=2-4", 206, b"234"), ("bytes=8-", 206, b"89"), ("bytes=5-99", 206, b"56789")],
)
def test_files_are_served_whole_and_in_part(server, tmp_path, wanted, status, body):
    (tmp_path / "f").write_bytes(b"0123456789")
    request = urllib.request.Request(f"{server}/f", headers={"Range": wanted} if wanted else {})
    with urllib.request.urlopen(request) as answer:
        assert (answer.status, answer.read()) == (status, body)


@pytest.mark.parametrize(
    ("path", "wanted", "status"), [("f", "bytes=99-", 416), ("none", "bytes=0-1", 404), ("", "", 404)]
)
def test_what_is_not_there_is_not_served(server, tmp_path, path, wanted, status):
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{server}/{path}", headers={"Range": wanted}))
    with caught.value as answer:
        assert answer.code == status
