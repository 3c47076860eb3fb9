"""A check of this machine before a lab: every reason why it cannot run one, a clear line each."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from lab.errors import PreflightError
from lab.host.kvm import OVMF_CODE, OVMF_SECURE_CODE
from lab.host.unsupported import unsupported
from lab.topology import Topology

# Programs that labs need, and the Debian packages that have them.
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "libvirtd": "libvirt-daemon-system",
    "dnsmasq": "dnsmasq-base",
    "chronyd": "chrony",
    "docker-registry": "docker-registry",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
}
ONLY_VMS = ("qemu-system-x86_64", "libvirtd")
# What container machines need, by the version that has it. The newest counts, the memory of a live root: it is an
# overlay that the machine mounts itself, which keeps its notes in user.* attributes (userxattr), and file systems in
# memory have those from 6.6 on (tmpfs(5)). Before that: owners mapped by the mount (mount_setattr(2),
# MOUNT_ATTR_IDMAP) 5.12, of squashfs 6.2; overlays over such layers, and calls that wait for their monitor until killed
# (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), 5.19; a descriptor given in the answer to a call (SECCOMP_ADDFD_FLAG_SEND)
# 5.14; LOOP_CONFIGURE 5.8; openat2(2) 5.6.
CONTAINER_KERNEL = (6, 6)
# Control groups that limit a container machine: where the host has v1, where it has cgroup2 alone.
_V1, _V2 = {"cpu", "memory", "pids", "devices"}, {"cpu", "memory", "pids", "cpuset"}
# Programs that fill a disk with data (lab.machines.disks).
DISK_PROGRAMS = {"sfdisk": "fdisk", "mke2fs": "e2fsprogs"}
# iPXE for a BIOS and for UEFI, which a firmware's PXE fetches by TFTP.
IPXE = (Path("/usr/lib/ipxe/undionly.kpxe"), Path("/usr/lib/ipxe/ipxe.efi"))
TPM_PROGRAMS = {"swtpm": "swtpm", "swtpm_setup": "swtpm-tools"}
ISCSI_PROGRAMS = {"tgtd": "tgt", "tgtadm": "tgt"}
TANGD = "/usr/libexec/tangd"
HUB_PROGRAMS = {"etcd": "etcd-server"}
TANG_PROGRAMS = {TANGD: "tang-common", "systemd-socket-activate": "systemd"}
BALANCER_PROGRAMS = {"haproxy": "haproxy"}
PROXY_PROGRAMS = {"tinyproxy": "tinyproxy-bin"}
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# A UNIX socket's address has room for 107 bytes (unix(7)); the longest of a lab's is .../libvirt/run/libvirt-sock-ro.
_SOCKET_PATH_BYTES = 107
_LONGEST_SOCKET = "/libvirt/run/libvirt-admin-sock"
# Characters that end a path, or have a meaning, in the configuration of one of a lab's daemons, of ssh or of QEMU.
_NO_PATH = re.compile(r"""[\s"'#$%,;\\]""")


def container_problems() -> list[str]:
    """Every reason why this machine cannot run container machines."""
    reasons = []
    version = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    if version < CONTAINER_KERNEL:
        reasons.append(
            f"Linux {os.uname().release} has no attributes of users in memory (tmpfs): container machines need 6.6"
        )
    if os.uname().machine != "x86_64":
        reasons.append(f"container machines are for x86_64, this is {os.uname().machine}")
    for file, what in (("/proc/self/ns/user", "user namespaces"), ("/dev/loop-control", "loop devices")):
        if not Path(file).exists():
            reasons.append(f"{file} is missing: container machines need {what}")
    filesystems = Path("/proc/filesystems").read_text().split()
    reasons += [
        f"this kernel has no {name}: container machines need it"
        for name in ("overlay", "squashfs", "ext4")
        if name not in filesystems
    ]
    if not {"erofs", "iso9660"} & set(filesystems):
        reasons.append("this kernel has neither erofs nor iso9660: container machines need one of them")
    most = Path("/proc/sys/user/max_user_namespaces")
    if most.exists() and most.read_text().strip() == "0":
        reasons.append(f"{most} is 0: container machines need user namespaces")
    mounts = Path("/proc/self/mounts").read_text()
    if missing := missing_controllers(Path("/proc/self/cgroup").read_text(), mounts):
        reasons.append(f"no control groups for {', '.join(missing)} here: container machines need them")
    return reasons


def missing_controllers(groups: str, mounts: str) -> list[str]:
    """Return the controllers that container machines need and this host lacks, by the texts of /proc/self/cgroup and
    /proc/self/mounts."""
    v1 = {name for line in groups.splitlines() for name in line.split(":", 2)[1].split(",")}
    if "memory" in v1:
        return sorted(_V1 - v1)
    tops = [words[1] for line in mounts.splitlines() if (words := line.split())[2] == "cgroup2"]
    listed = Path(tops[0], "cgroup.controllers") if tops else None
    # Where cgroup2 is not mounted, the machines' own mount of it shows whether it works.
    return sorted(_V2 - set(listed.read_text().split())) if listed and listed.exists() else []


def problems(topology: Topology, labs: Path, lab_id: str) -> list[str]:
    """Every reason why this machine cannot run a lab of that topology under `labs`."""
    reasons = []
    if os.geteuid() != 0:
        reasons.append("labs need root (they make namespaces and bridges): run as root or with sudo")
    contained, nodes = topology.machine == "container", topology.nodes
    disks = [disk for node in nodes for disk in node.disks]
    always = {program: package for program, package in PROGRAMS.items() if not (contained and program in ONLY_VMS)}
    rows = (
        (True, always, ""),
        (any(disk.holds == "data" for disk in disks), DISK_PROGRAMS, ", a disk that holds data needs it"),
        (topology.proxy, PROXY_PROGRAMS, ", a proxy needs it"),
        (topology.tang, TANG_PROGRAMS, ", a Tang server needs it"),
        (topology.hub, HUB_PROGRAMS, ", a hub needs it"),
        (topology.load_balancer, BALANCER_PROGRAMS, ", a load balancer needs it"),
        (not contained and any(node.portals for node in nodes), ISCSI_PROGRAMS, ", an iSCSI disk needs it"),
        (not contained and any(node.tpm for node in nodes), TPM_PROGRAMS, ", a TPM needs it"),
    )
    reasons += [
        f"{program} is not installed{why}: apt-get install {package}"
        for is_needed, programs, why in rows
        for program, package in programs.items()
        if is_needed and shutil.which(program, path=_PATH) is None
    ]
    loops = Path("/dev/loop-control")
    if not contained and any(disk.can_fail for disk in disks) and not loops.exists():
        reasons.append(f"{loops} is missing, a disk that can fail needs it: modprobe loop")
    reasons += unsupported(topology)
    if contained:
        reasons += container_problems()
    if not contained and any(node.firmware == "uefi" for node in nodes) and not OVMF_CODE.exists():
        reasons.append(f"{OVMF_CODE} is missing, UEFI machines need it: apt-get install ovmf")
    if any(node.secure_boot for node in nodes) and not contained and not OVMF_SECURE_CODE.exists():
        reasons.append(f"{OVMF_SECURE_CODE} is missing, machines with secure boot need it: apt-get install ovmf")
    if not contained and topology.boot == "pxe" and not all(loader.exists() for loader in IPXE):
        reasons.append(f"{IPXE[0].parent} has no iPXE, booting by PXE needs it: apt-get install ipxe")
    if not contained and not Path("/dev/net/tun").exists():
        reasons.append("/dev/net/tun is missing: modprobe tun")
    if match := _NO_PATH.search(str(labs)):
        reasons.append(
            f"{labs} has {match[0]!r} in it, which ssh and daemons take in no path: point NODE0_STATE elsewhere"
        )
    length = len(os.fsencode(labs / lab_id)) + len(_LONGEST_SOCKET)
    if length > _SOCKET_PATH_BYTES:
        reasons.append(
            f"{labs / lab_id} is too long for UNIX sockets by {length - _SOCKET_PATH_BYTES} bytes: "
            "point NODE0_STATE at a shorter path"
        )
    return reasons


def check(topology: Topology, labs: Path, lab_id: str) -> None:
    """Raise PreflightError with every problem."""
    reasons = problems(topology, labs, lab_id)
    if reasons:
        raise PreflightError(reasons)
