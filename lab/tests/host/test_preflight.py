"""Missing parts of a machine that is to run a lab, and limits for container machines."""

from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.errors import PreflightError
from lab.host import preflight
from lab.host.preflight import missing_controllers

V1 = "9:name=systemd:/\n7:pids:/\n5:devices:/\n4:memory:/\n2:cpu,cpuacct:/\n0::/\n"
V2 = "0::/init.scope\n"


@pytest.mark.parametrize(
    ("groups", "missing"), [(V1, []), (V1.replace("devices", "freezer"), ["devices"]), ("4:memory:/\n0::/\n", 3)]
)
def test_a_host_with_v1_controllers(groups, missing):
    lacking = missing_controllers(groups, "")
    assert lacking == missing or len(lacking) == missing


@pytest.mark.parametrize(
    ("controllers", "missing"),
    [("cpuset cpu io memory hugetlb pids rdma misc\n", []), ("cpu io memory pids\n", ["cpuset"]), ("\n", 4)],
)
def test_a_host_with_cgroup2_alone(tmp_path, controllers, missing):
    (tmp_path / "cgroup.controllers").write_text(controllers)
    mounts = f"proc /proc proc rw 0 0\ncgroup2 {tmp_path} cgroup2 rw,nosuid 0 0\n"
    lacking = missing_controllers(V2, mounts)
    assert lacking == missing or len(lacking) == missing


def test_where_cgroup2_is_not_mounted_the_machines_own_mount_tells():
    assert missing_controllers(V2, "proc /proc proc rw 0 0\n") == []


def sno(**fields):
    return msgspec.structs.replace(topology.sno(), **fields)


def node(**fields):
    return sno(nodes=(msgspec.structs.replace(topology.sno().nodes[0], **fields),))


ROOT, REMOTE = topology.Disk(root=True), topology.Disk(bus="iscsi", portals=("lab",), root=True)
NEEDS = {
    "a disk that holds data": (node(disks=(ROOT, topology.Disk(holds="data"))), preflight.DISK_PROGRAMS),
    "a proxy": (sno(proxy=True), preflight.PROXY_PROGRAMS),
    "a Tang server": (sno(tang=True), preflight.TANG_PROGRAMS),
    "a load balancer": (sno(load_balancer=True), preflight.BALANCER_PROGRAMS),
    "an iSCSI disk": (node(disks=(REMOTE,)), preflight.ISCSI_PROGRAMS),
    "a TPM": (node(tpm=True), preflight.TPM_PROGRAMS),
}
#: What container machines have without the host's programs.
OF_VMS = ("an iSCSI disk", "a TPM")


@pytest.mark.parametrize("machine", ["vm", "container"])
@pytest.mark.parametrize("what", NEEDS)
def test_programs_that_some_labs_need(tmp_path, monkeypatch, what, machine):
    """Of a lab that needs none of them nobody has to install one."""
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    shape, programs = NEEDS[what]
    notes = {
        program: f"{program} is not installed, {what} needs it: apt-get install {package}"
        for program, package in programs.items()
    }
    lines = preflight.problems(shape.with_machines(machine), tmp_path, "x")
    missing = [line for line in lines if ", " in line and " needs it: apt-get" in line]
    assert missing == ([] if machine == "container" and what in OF_VMS else [*notes.values()])
    plain = preflight.problems(topology.sno().with_machines(machine), tmp_path, "x")
    assert not set(notes.values()) & set(plain)


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


def _of_the_path(path):
    return [line for line in preflight.problems(topology.sno(), path, "sno-1") if "NODE0_STATE" in line]


@pytest.mark.parametrize("sign", " \t%$,;#'\"\\")
def test_a_path_that_daemons_would_take_for_another_is_told_in_a_line(sign):
    [line] = _of_the_path(Path(f"/a{sign}b"))
    assert line.endswith("point NODE0_STATE elsewhere")
    assert _of_the_path(Path("/plain-of.mïne_")) == []
