"""The switch's programs for the kernel (bpf(2), tc-bpf(8)): from a port to its networks, and back.

They are assembled here; instructions are 8 bytes (docs.kernel.org/bpf/standardization/instruction-set.html), helpers
and the fields of struct __sk_buff those of linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence

# linux/if_ether.h, in the network's order as a little-endian machine reads it.
_VLAN, _SLOW = 0x0081, 0x0988
_PROTOCOL, _VLAN_PRESENT, _VLAN_TCI = 16, 20, 24
_PUSH, _POP, _REDIRECT, _HASH = 18, 19, 23, 34
# linux/pkt_cls.h: up the stack, where the daemon listens; nowhere.
_UP, _DROP = 0, 2
# bpf(2) of x86-64 and arm64 (asm/unistd.h); BPF_PROG_LOAD, BPF_PROG_TYPE_SCHED_CLS.
_SYSCALL = {"x86_64": 321, "aarch64": 280}
_LOAD, _CLASSIFIER = 5, 3
_LOG_BYTES = 1 << 16
#: linux/pkt_sched.h: TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS); linux/if_ether.h: ETH_P_ALL.
INGRESS, ALL = 0xFFFFFFF2, 3
# Behind the programs of faults, which leave to it what they do not keep (lab.faults.bpf).
_PRIORITY = 1000


def instruction(code: int, *, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Assemble one instruction."""
    return struct.pack("<BBhI", code, dst | src << 4, offset, value & 0xFFFFFFFF)


def _put(register: int, number: int) -> bytes:
    return instruction(0xB7, dst=register, value=number)


def _copy(register: int, of: int) -> bytes:
    return instruction(0xBF, dst=register, src=of)


def _field(register: int, offset: int) -> bytes:
    return instruction(0x61, dst=register, src=6, offset=offset)


def _call(helper: int) -> bytes:
    return instruction(0x85, value=helper)


def _unless(register: int, number: int, block: bytes) -> bytes:
    """Run `block`, which ends the program, if a register has this number."""
    return instruction(0x55, dst=register, offset=len(block) // 8, value=number) + block


def _end(code: int) -> bytes:
    return _put(0, code) + instruction(0x95)


def _send(interface: int) -> bytes:
    return _put(1, interface) + _put(2, 0) + _call(_REDIRECT) + instruction(0x95)


def from_port(legs: Sequence[tuple[int, int]]) -> bytes:
    """Make the program for frames that a machine sends: `legs` are tags (0: none) and the interfaces that lead to these
    networks. LACP goes to the daemon."""
    program = _copy(6, 1) + _field(7, _PROTOCOL) + _unless(7, _SLOW, _end(_UP))
    program += _field(7, _VLAN_PRESENT)
    plain = next((interface for vlan, interface in legs if not vlan), None)
    program += _unless(7, 0, _end(_DROP) if plain is None else _send(plain))
    program += _field(7, _VLAN_TCI) + instruction(0x57, dst=7, value=0xFFF)
    for vlan, interface in legs:
        if vlan:
            program += _unless(7, vlan, _copy(1, 6) + _call(_POP) + _send(interface))
    return program + _end(_DROP)


def to_ports(vlan: int, ports: Sequence[int]) -> bytes:
    """Make the program for frames of one network: a tag, and one of the ports, the same for all frames of a
    connection."""
    program = _copy(6, 1)
    if not ports:
        return program + _end(_DROP)
    if len(ports) > 1:
        # The port is chosen before the tag is pushed: the hash would be the same after it, but costs more.
        program += _copy(1, 6) + _call(_HASH) + _copy(8, 0) + instruction(0x97, dst=8, value=len(ports))
    if vlan:
        program += _copy(1, 6) + _put(2, _VLAN) + _put(3, vlan) + _call(_PUSH)
    for index, interface in enumerate(ports[1:], 1):
        program += _unless(8, index, _send(interface))
    return program + _send(ports[0])


def load(program: bytes) -> int:
    """Return a descriptor of the program, checked by the kernel. Raises OSError with what the kernel says against
    it."""
    code = ctypes.create_string_buffer(program, len(program))
    terms, log = ctypes.create_string_buffer(b"GPL"), ctypes.create_string_buffer(_LOG_BYTES)
    addresses = (ctypes.addressof(code), ctypes.addressof(terms))
    fields = struct.pack(
        "<IIQQIIQ", _CLASSIFIER, len(program) // 8, *addresses, 1, _LOG_BYTES, ctypes.addressof(log)
    ).ljust(64, b"\0")  # fmt: skip
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.syscall(ctypes.c_long(_SYSCALL[os.uname().machine]), _LOAD, fields, len(fields))
    if descriptor < 0:
        number = ctypes.get_errno()
        last_lines = log.value.decode(errors="replace").strip().splitlines()[-3:]
        raise OSError(number, " ".join([f"bpf(2): {os.strerror(number)}", *last_lines]))
    return descriptor


def attach(interface: str, program: bytes) -> None:
    """Have the program decide on every frame that comes in at an interface, in the place of the one before. Raises
    OSError, NetlinkError."""
    from pyroute2 import IPRoute  # 0.14 s of each command, of which few have a fault of packets

    descriptor = load(program)
    try:
        with IPRoute() as route:
            index = socket.if_nametoindex(interface)
            route.tc("replace", "clsact", index)
            route.tc(
                "replace-filter", "bpf", index, 1, parent=INGRESS, prio=_PRIORITY, protocol=ALL, fd=descriptor,
                name="switch", direct_action=True,
            )  # fmt: skip
    finally:
        os.close(descriptor)
