"""The switch's programs for the kernel (bpf(2), tc-bpf(8)): from a port to its networks, and back.

They are assembled here; instructions are 8 bytes (docs.kernel.org/bpf/standardization/instruction-set.html), helpers
and the fields of struct __sk_buff those of linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

# linux/if_ether.h, in the network's order as a little-endian machine reads it.
_VLAN, _SLOW = 0x0081, 0x0988
_PROTOCOL, _VLAN_PRESENT, _VLAN_TCI = 16, 20, 24
_PUSH, _POP, _REDIRECT, _HASH = 18, 19, 23, 34
# linux/pkt_cls.h: up the stack, where the daemon listens; nowhere.
_UP, _DROP = 0, 2
_LOAD, _PIN, _CLASSIFIER, _SYSCALL = 5, 6, 3, 321
_LOG_BYTES = 1 << 16
# Behind the programs of faults, which leave to it what they do not keep (lab.faults.bpf).
_PRIORITY = "1000"
_TC_SECONDS = 30


def _code(code: int, to: int = 0, of: int = 0, offset: int = 0, *, number: int = 0) -> bytes:
    return struct.pack("<BBhi", code, to | of << 4, offset, number)


def _put(register: int, number: int) -> bytes:
    return _code(0xB7, register, number=number)


def _copy(register: int, of: int) -> bytes:
    return _code(0xBF, register, of)


def _field(register: int, offset: int) -> bytes:
    return _code(0x61, register, 6, offset)


def _call(helper: int) -> bytes:
    return _code(0x85, number=helper)


def _unless(register: int, number: int, block: bytes) -> bytes:
    """Run `block`, which ends the program, if a register has this number."""
    return _code(0x55, register, offset=len(block) // 8, number=number) + block


def _end(code: int) -> bytes:
    return _put(0, code) + _code(0x95)


def _send(interface: int) -> bytes:
    return _put(1, interface) + _put(2, 0) + _call(_REDIRECT) + _code(0x95)


def from_port(legs: Sequence[tuple[int, int]]) -> bytes:
    """Make the program for frames that a machine sends: `legs` are tags (0: none) and the interfaces that lead to these
    networks. LACP goes to the daemon."""
    program = _copy(6, 1) + _field(7, _PROTOCOL) + _unless(7, _SLOW, _end(_UP))
    program += _field(7, _VLAN_PRESENT)
    plain = next((interface for vlan, interface in legs if not vlan), None)
    program += _unless(7, 0, _end(_DROP) if plain is None else _send(plain))
    program += _field(7, _VLAN_TCI) + _code(0x57, 7, number=0xFFF)
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
        program += _copy(1, 6) + _call(_HASH) + _copy(8, 0) + _code(0x97, 8, number=len(ports))
    if vlan:
        program += _copy(1, 6) + _put(2, _VLAN) + _put(3, vlan) + _call(_PUSH)
    for index, interface in enumerate(ports[1:], 1):
        program += _unless(8, index, _send(interface))
    return program + _send(ports[0])


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = libc.syscall(ctypes.c_long(_SYSCALL), command, buffer, len(attributes))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"bpf(2): {os.strerror(code)}")
    return result


def load(program: bytes) -> int:
    """Return a descriptor of the program, checked by the kernel. Raises OSError with what the kernel says against
    it."""
    code = ctypes.create_string_buffer(program, len(program))
    terms, log = ctypes.create_string_buffer(b"Apache-2.0"), ctypes.create_string_buffer(_LOG_BYTES)
    fields = struct.pack(
        "<IIQQIIQ",
        _CLASSIFIER,
        len(program) // 8,
        ctypes.addressof(code),
        ctypes.addressof(terms),
        1,
        _LOG_BYTES,
        ctypes.addressof(log),
    )
    try:
        return _bpf(_LOAD, fields.ljust(64, b"\0"))
    except OSError as error:
        last_lines = log.value.decode(errors="replace").strip().splitlines()[-3:]
        raise OSError(error.errno, f"{error.strerror} {' '.join(last_lines)}") from error


def attach(interface: str, program: bytes, folder: Path) -> None:
    """Have the program decide on every frame that comes in at an interface, in the place of the one before. `folder`
    is on a file system of type bpf. Raises OSError, subprocess.CalledProcessError."""
    descriptor = load(program)
    place = folder / interface
    try:
        place.unlink(missing_ok=True)
        path = ctypes.create_string_buffer(bytes(place))
        _bpf(_PIN, struct.pack("<QII", ctypes.addressof(path), descriptor, 0))
    finally:
        os.close(descriptor)
    _tc("qdisc", "replace", "dev", interface, "clsact")
    where = ("dev", interface, "ingress", "prio", _PRIORITY, "handle", "1")
    _tc("filter", "replace", *where, "protocol", "all", "bpf", "direct-action", "object-pinned", str(place))
    place.unlink()


def _tc(*words: str) -> None:
    subprocess.run(["tc", *words], check=True, capture_output=True, text=True, timeout=_TC_SECONDS)
