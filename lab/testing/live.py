"""Fixtures and helpers that tests of real labs share."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from lab import topology
from lab.host import preflight
from lab.host.identity import alive
from lab.host.namespaces import enter_argv
from lab.supervisor.plan import Plan
from lab.testing.bootmedia import cd
from lab.topology import NodeSpec, Topology

if TYPE_CHECKING:
    from lab.lab import Lab

# El Torito loads it at 07c0:0000 in real mode: writes its text to COM1, a byte at a time, and halts.
#   mov ax,0x7c0; mov ds,ax; mov si,0x20; mov dx,0x3f8
#   next: lodsb; test al,al; jz stop; out dx,al; jmp next; stop: hlt; jmp stop
BOOT_CODE = bytes.fromhex("b8c0078ed8be2000baf803ac84c07403eeebf8f4ebfd")
HELLO = b"\r\nhello from the CD\r\n"


def skip_without_labs(shape: Topology | None = None) -> pytest.MarkDecorator:
    """Skips tests where this machine cannot run a lab of that topology (default: one VM)."""
    problems = preflight.problems(shape or topology.sno(), Path("/"), "")
    return pytest.mark.skipif(bool(problems), reason=f"this machine cannot run a lab: {'; '.join(problems)}")


@pytest.fixture
def tiny_iso(beside_labs: Path) -> Path:
    """Provide a bootable CD of a few sectors that says hello on the serial line."""
    return cd(beside_labs / "tiny.iso", BOOT_CODE.ljust(0x20, b"\0") + HELLO + b"\0")


def gone(pid: int, started: int, seconds: float = 20.0) -> None:
    """Wait until that process has ended; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while alive(pid, started):
        assert time.monotonic() < deadline, f"process {pid} is still there after {seconds} s"
        time.sleep(0.05)


def namespace_users(inode: str) -> list[int]:
    """Every process of the machine that is in the network namespace `inode`."""
    users = []
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) == inode:
                users.append(int(link.parts[2]))
        except OSError:
            continue
    return users


def ask(name: str) -> list[str] | int:
    """Return the IPv4 addresses of a name, sorted; the resolver's error number when there are none."""
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None, socket.AF_INET)})
    except socket.gaierror as error:
        return error.errno or 0


def small(shape: Topology) -> Topology:
    """Return the topology with little memory: these tests must not wait for the memory that somebody's installation
    has."""
    return msgspec.structs.replace(
        shape, nodes=tuple(msgspec.structs.replace(node, memory_mib=256) for node in shape.nodes)
    )


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def ipmitool(lab: Lab, node: NodeSpec, *words: str) -> str:
    """Ask a machine's BMC by IPMI; what the tool says."""
    argv = ["ipmitool", "-I", "lanplus", "-C", "3", "-H", lab.layout.bmc_address, "-p", str(lab.layout.ipmi_port(node))]
    argv += ["-U", lab.credentials.bmc_user, "-P", lab.credentials.bmc_password, *words]
    completed = subprocess.run(enter_argv(lab.init, argv), capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def pid_of(lab: Lab, name: str) -> int:
    """Return the machine's pid of a lab's daemon."""
    plan = msgspec.json.decode((lab.layout.root / "plan.json").read_bytes(), type=Plan)
    [service] = [s for s in plan.services if s.name == name]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            argv = (folder / "cmdline").read_bytes().decode().split("\0")[:-1]
            if argv == list(service.argv) and _parent(int(folder.name)) == lab.init:
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"{name} does not run")
