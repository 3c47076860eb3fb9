"""Real labs, up and down: needs root and the daemons; a few seconds each."""

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from drivers.errors import ConnectionFailedError, MediaError
from drivers.protocols import BootDevice, PowerState
from drivers.redfish import Service
from lab import topology
from lab.host.identity import alive, start_time
from lab.host.paths import labs_dir
from lab.lab import Lab
from lab.release.registry import REPOSITORY
from lab.subject import Mirror, Subject
from lab.testing.live import ask, gone, namespace_users, skip_without_labs, small

pytestmark = [pytest.mark.lab, skip_without_labs()]


def test_a_lab_offers_its_services(tmp_path):
    with Lab(small(topology.ha("dhcp")), artifacts=tmp_path) as lab:
        domain = lab.topology.cluster_domain
        assert lab.inside(ask, f"api.{domain}") == ["192.168.111.5"]
        assert lab.inside(ask, f"console.apps.{domain}") == ["192.168.111.4"]
        assert lab.inside(ask, "registry.test.node0.example") == ["192.168.111.1"]
        assert lab.inside(ask, "release.node0.example") == socket.EAI_NONAME
        assert lab.inside(socket.gethostbyaddr, "192.168.111.24")[0] == f"worker-1.{domain}"

        assert sorted(lab.bmc.systems()) == sorted(node.uuid for node in lab.nodes.values())
        stranger = Service(f"{lab.layout.bmc_url}/redfish/v1/", "admin", "wrong", ca=lab.layout.ca, run=lab.inside)
        with pytest.raises(ConnectionFailedError, match="refuses the account"):
            stranger.systems()

        context = ssl.create_default_context(cadata=lab.ca_pem)
        auth = json.loads(lab.pull_secret)["auths"]["registry.test.node0.example:5000"]["auth"]

        def registry(headers):
            request = urllib.request.Request("https://registry.test.node0.example:5000/v2/", headers=headers)
            with urllib.request.urlopen(request, context=context, timeout=10) as answer:
                return answer.status

        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            lab.inside(registry, {})
        refused.value.close()
        assert lab.inside(registry, {"Authorization": f"Basic {auth}"}) == 200
        assert base64.b64decode(auth).startswith(b"lab:")

        def stratum():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.settimeout(5)
                sock.sendto(struct.pack("!B47x", 0x23), ("ntp.test.node0.example", 123))
                return sock.recv(48)[1]

        assert 0 < lab.inside(stratum) < 16

        (tmp_path / "file").write_bytes(b"x" * 1000)
        url = lab.serve(tmp_path / "file")
        assert len(lab.inside(lambda: urllib.request.urlopen(url).read())) == 1000

        routes = lab.run(["ip", "route"], timeout=10).stdout.splitlines()
        assert [r.split()[0] for r in routes] == ["192.168.111.0/24"]
        assert lab.collect() == []
        assert (tmp_path / "libvirt/master-0.inactive.xml").exists()
        assert "api.ostest" in (tmp_path / "services/dnsmasq.log").read_text()
        for secret in (lab.credentials.bmc_password, lab.credentials.registry_password):
            leaks = [p for p in tmp_path.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
            assert not leaks


def test_a_service_can_fail_and_come_back(tmp_path):
    with Lab(small(topology.sno()), artifacts=tmp_path) as lab:
        assert all(lab.services.running().values())
        lab.services.stop("dnsmasq")
        assert lab.services.running()["dnsmasq"] is False
        assert lab.inside(ask, "registry.test.node0.example") == socket.EAI_AGAIN
        lab.services.start("dnsmasq")
        assert lab.inside(ask, "registry.test.node0.example") == ["192.168.111.1"]


def test_a_machine_boots_what_the_bmc_inserts(tmp_path, tiny_iso):
    with Lab(small(topology.sno(firmware="bios")), artifacts=tmp_path) as lab:
        node = lab.nodes["master-0"]
        with pytest.raises(MediaError):
            node.media.insert(f"{lab.layout.http_url}/absent.iso")
        node.boot_image(tiny_iso)
        node.console.wait_for("hello from the CD", 60)
        assert node.boot.first() is not BootDevice.CD
        # Not one copy for any number of machines: the image, the BMC's and the pool's are one file.
        [volume] = lab.layout.pool.iterdir()
        assert volume.samefile(tiny_iso)
        assert volume.stat().st_nlink == 3
        node.media.eject()
        assert list(lab.layout.pool.iterdir()) == []
        node.power.cycle()
        node.console.wait_for("not a bootable disk", 60)
        node.media.insert(tiny_iso)
        node.boot.set_first(BootDevice.CD)
        assert node.boot.first() is BootDevice.CD
        node.power.off()
        assert node.power.state() is PowerState.OFF
        assert node.screen is not None


def test_one_image_for_three_machines_is_neither_transferred_nor_copied(tmp_path, beside_labs):
    image = beside_labs / "big.iso"
    with image.open("wb") as file:
        file.truncate(10**9)
    with Lab(small(topology.compact()), artifacts=tmp_path / "a") as lab:
        for node in lab.nodes.values():
            node.media.insert(image)
        asked = (lab.layout.log / "http.log").read_text()
        assert asked.count('"HEAD ') == 3
        assert '"GET ' not in asked, "the image was fetched from where it lies"
        volumes = list(lab.layout.pool.iterdir())
        assert len(volumes) == 3
        assert all(volume.samefile(image) for volume in volumes)
        new = beside_labs / "fresh"
        new.write_bytes(b"another image")
        new.replace(image)
        node.media.insert(image)
        assert sum(volume.samefile(image) for volume in lab.layout.pool.iterdir()) == 1
    assert image.read_bytes() == b"another image"


def test_two_labs_with_the_same_addresses(tmp_path):
    with Lab(small(topology.sno()), tmp_path / "a") as first, Lab(small(topology.sno()), tmp_path / "b") as two:
        assert first.bmc.systems() == [first.nodes["master-0"].uuid]
        assert two.bmc.systems() == [two.nodes["master-0"].uuid]
        assert first.nodes["master-0"].uuid != two.nodes["master-0"].uuid


ENV = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
OWNER = """
import sys, time
from pathlib import Path
from lab.lab import Lab
from lab.release.registry import REPOSITORY
from lab.testing.live import skip_without_labs, small
from lab import topology
with Lab(small(topology.sno(firmware="bios")), Path(sys.argv[1])) as lab:
    lab.nodes["master-0"].power.on()
    print(lab.supervisor[0], lab.init, lab.layout.root, flush=True)
    lab.run(["sleep", "600"], timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_owner_ends(tmp_path, number):
    owner = subprocess.Popen(
        # A shell's background jobs, and their children, ignore Ctrl-C.
        ["env", "--default-signal=INT", sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENV,
    )
    with owner:
        assert owner.stdout
        supervisor, init, root = owner.stdout.readline().split()
        started = start_time(int(supervisor))
        inode = os.readlink(f"/proc/{init}/ns/net")
        deadline = time.monotonic() + 20
        # nsenter, sleep and QEMU are in the namespace as well before the owner dies.
        while len(namespace_users(inode)) < 10:
            assert time.monotonic() < deadline, namespace_users(inode)
            time.sleep(0.05)
        owner.send_signal(number)
        owner.wait(30)
    gone(int(supervisor), started)
    assert namespace_users(inode) == []
    assert not Path(root).exists()


def test_a_killed_supervisor_takes_the_lab_with_it(tmp_path):
    lab = Lab(small(topology.sno()), tmp_path)
    with lab:
        inode = os.readlink(f"/proc/{lab.init}/ns/net")
        init, started = lab.init, start_time(lab.init)
        supervisor = lab.supervisor[0]
        lab.detach()
        os.kill(supervisor, signal.SIGKILL)
        gone(init, started)
        assert namespace_users(inode) == []
    assert not lab.layout.root.exists()


def test_a_kept_lab_outlives_its_owner_and_can_be_taken_up(tmp_path):
    code = OWNER.replace("lab.run(", "lab.keep(); sys.exit(0)\n    lab.run(")
    completed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True, env=ENV
    )
    supervisor, _, root = completed.stdout.split()
    started = start_time(int(supervisor))
    with Lab.attach(Path(root).name) as lab:
        assert lab.nodes["master-0"].power.state() is PowerState.ON
        cli = [sys.executable, "-m", "lab.commands.cli"]
        listed = subprocess.run([*cli, "ls"], capture_output=True, text=True, check=True, env=ENV).stdout
        assert lab.id in listed
    subprocess.run([*cli, "down", "--lab", lab.id], check=True, capture_output=True, env=ENV)
    assert not alive(int(supervisor), started)
    assert not Path(root).exists()


def test_up_that_is_killed_while_its_lab_comes_up_leaves_none(tmp_path):
    """Nobody could use such a lab: its record has neither supervisor nor machines, and no memory is held for it."""
    shape = tmp_path / "mine.yaml"
    shape.write_text(small(topology.sno(firmware="bios")).dump())
    code = """
import os, signal, sys
from lab.commands import cli
from lab.host import budget, records
def killed(*_):
    [mine] = [one for one in records.all_labs() if one.owner[0] == os.getpid()]
    print(mine.id, records.supervisor_of(mine.root)[0], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
budget.Ledger.hand_over = killed
cli.main(["up", sys.argv[1], "--artifacts", sys.argv[2]])
"""
    argv = [sys.executable, "-c", code, str(shape), str(tmp_path / "artifacts")]
    killed = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=ENV)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    lab, supervisor = killed.stdout.split()
    gone(int(supervisor), start_time(int(supervisor)) or 0)
    assert not (labs_dir() / lab).exists()


def test_a_release_is_served_and_cannot_be_changed(tmp_path):
    """Push an image into one lab's own registry; another lab serves that storage read-only."""
    image = tmp_path / "image"
    subprocess.run(["umoci", "init", "--layout", str(image)], check=True)
    subprocess.run(["umoci", "new", "--image", f"{image}:x"], check=True)

    def copy(lab, *ends):
        (tmp_path / "auth.json").write_text(lab.pull_secret)
        certs = tmp_path / lab.id
        certs.mkdir()
        (certs / "ca.crt").write_text(lab.ca_pem)
        flags = ["--authfile", str(tmp_path / "auth.json"), "--src-cert-dir", str(certs), "--dest-cert-dir", str(certs)]
        return lab.run(["skopeo", "copy", *flags, *ends], timeout=60)

    with Lab(small(topology.sno()), tmp_path / "a") as writable:
        there = f"docker://{writable.layout.registry}/{REPOSITORY}:x"
        assert copy(writable, f"oci:{image}:x", there).returncode == 0
        shutil.copytree(writable.layout.root / "registry", tmp_path / "storage")

    release = Subject("1", "release.x/y@sha256:0", tmp_path / "storage", (Mirror("release.x/y", REPOSITORY),))
    with Lab(small(topology.sno()), tmp_path / "b", release=release) as lab:
        assert copy(lab, there, f"dir:{tmp_path / 'got'}").returncode == 0
        refused = copy_again(lab, tmp_path, image)
        assert refused.returncode != 0
        assert "405" in refused.stderr


def copy_again(lab, tmp_path, image):
    flags = ["--authfile", str(tmp_path / "auth.json"), "--dest-cert-dir", str(tmp_path / lab.id)]
    subprocess.run(["umoci", "config", "--image", f"{image}:x", "--author", "somebody else"], check=True)
    return lab.run(
        ["skopeo", "copy", *flags, f"oci:{image}:x", f"docker://{lab.layout.registry}/{REPOSITORY}:y"], timeout=60
    )
