"""The filter of a machine's system calls: some are refused, some answered by its monitor (seccomp(2), linux/filter.h).

User namespaces refuse most of what a machine may not; the filter adds what they would let through, and hands a few
calls that need the host's rights to the monitor (lab.machines.container.fence.broker).
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence

from lab.machines.container.kernel import syscalls

# linux/seccomp.h
_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 317, 1, 1 << 3, 1 << 5
_KILL, _ERRNO, _NOTIFY, _ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_ARCH_X86_64 = 0xC000003E
_X32 = 0x40000000
# linux/bpf_common.h: load a word of seccomp_data, jump on equality or on bits, return.
_LOAD, _EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

# asm/unistd_64.h
OPEN, IOCTL, SOCKET, ADJTIMEX, MOUNT, OPENAT, CLOCK_ADJTIME = 2, 16, 41, 159, 165, 257, 305
_REFUSED = {
    "syslog": 103,
    "settimeofday": 164,
    "acct": 163,
    "swapon": 167,
    "swapoff": 168,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "clock_settime": 227,
    "kexec_load": 246,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    # io_uring does what other calls do, unseen by this filter.
    "io_uring_setup": 425,
    "quotactl_fd": 443,
}
# The other way to mount: programs that find it missing take mount(2), which the monitor sees. Keys, which know no
# namespaces but the users': runtimes of containers do without them where they are missing.
_MISSING = {"add_key": 248, "request_key": 249, "keyctl": 250, "fsopen": 430}
# Asynchronous I/O, of which a host has a fixed amount for all (fs.aio-max-nr): programs do without.
_MISSING |= {"io_setup": 206}
# Sockets that are in no network namespace: AF_VSOCK, AF_QIPCRTR (linux/socket.h); and AF_XDP, whose rings are memory
# that no group is charged for.
_NO_FAMILIES = (40, 42, 44)
# Rings of AF_PACKET, which are such memory too: a level and its options (linux/if_packet.h). Packets come without.
_SETSOCKOPT, _SOL_PACKET, _RINGS = 54, 263, (5, 13)
# Huge pages, which a host sets aside for others and charges to no group: mmap and memfd_create, with the argument, the
# bit and the error of a kernel without them (asm-generic/mman-common.h, linux/memfd.h).
_HUGE = {9: (3, 0x40000, errno.ENOMEM), 319: (1, 4, errno.ENOSYS)}
# linux/loop.h: 0x4C00 to 0x4C82. To the machine its disks are no loop devices, nor may it turn them into others.
_LOOP = 0x4C00
# linux/fscrypt.h: a key for a file system, which is the host's to the kernel, in memory that no group is charged for. A
# kernel without them answers the same.
_ADD_KEY = 0xC0506617
# linux/fs.h, linux/blkpg.h: a partition table read again; single partitions.
BLKRRPART, BLKPG = 0x125F, 0x1269
_O_CREAT, _O_ACCMODE = 0o100, 0o3


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _argument(index: int) -> bytes:
    return _op(_LOAD, _ARGUMENTS + 8 * index)


def _refuse_any(values: Sequence[int], error: int) -> bytes:
    """End a call: it is refused when the loaded word is among these."""
    code = b""
    for left, value in zip(reversed(range(len(values))), values, strict=True):
        code += _op(_EQUAL, value, left, 0 if left else 1)
    return code + _op(_RETURN, _ERRNO | error) + _op(_RETURN, _ALLOW)


def program() -> bytes:
    """Assemble the filter."""
    code = _op(_LOAD, _ARCH) + _op(_EQUAL, _ARCH_X86_64, 1, 0) + _op(_RETURN, _ERRNO | errno.ENOSYS)
    code += _op(_LOAD, _NUMBER)
    # x32's numbers are another table.
    code += _op(_ANY_BIT, _X32, 0, 1) + _op(_RETURN, _ERRNO | errno.ENOSYS)
    for number in _REFUSED.values():
        code += _op(_EQUAL, number, 0, 1) + _op(_RETURN, _ERRNO | errno.EPERM)
    for number in _MISSING.values():
        code += _op(_EQUAL, number, 0, 1) + _op(_RETURN, _ERRNO | errno.ENOSYS)
    for number in (MOUNT, ADJTIMEX, CLOCK_ADJTIME):
        code += _op(_EQUAL, number, 0, 1) + _op(_RETURN, _NOTIFY)
    code += _op(_EQUAL, IOCTL, 0, 10) + _argument(1)
    code += _op(_EQUAL, BLKRRPART, 1, 0) + _op(_EQUAL, BLKPG, 0, 1) + _op(_RETURN, _NOTIFY)
    code += _op(_EQUAL, _ADD_KEY, 0, 1) + _op(_RETURN, _ERRNO | errno.EOPNOTSUPP)
    code += _op(_AND, 0xFFFFFF00) + _op(_EQUAL, _LOOP, 0, 1) + _op(_RETURN, _ERRNO | errno.ENOTTY)
    code += _op(_RETURN, _ALLOW)
    code += _op(_EQUAL, SOCKET, 0, 3 + len(_NO_FAMILIES)) + _argument(0)
    code += _refuse_any(_NO_FAMILIES, errno.EAFNOSUPPORT)
    code += _op(_EQUAL, _SETSOCKOPT, 0, 6 + len(_RINGS)) + _argument(1) + _op(_EQUAL, _SOL_PACKET, 1, 0)
    code += _op(_RETURN, _ALLOW) + _argument(2) + _refuse_any(_RINGS, errno.ENOPROTOOPT)
    for number, (index, bit, error) in _HUGE.items():
        code += _op(_EQUAL, number, 0, 4) + _argument(index)
        code += _op(_ANY_BIT, bit, 0, 1) + _op(_RETURN, _ERRNO | error) + _op(_RETURN, _ALLOW)
    for number, index in ((OPENAT, 2), (OPEN, 1)):
        # An existing file for writing: nothing but O_WRONLY or O_RDWR of these bits.
        code += _op(_EQUAL, number, 0, 6) + _argument(index) + _op(_AND, _O_CREAT | _O_ACCMODE)
        code += _op(_EQUAL, 1, 1, 0) + _op(_EQUAL, 2, 0, 1) + _op(_RETURN, _NOTIFY) + _op(_RETURN, _ALLOW)
    return code + _op(_RETURN, _ALLOW)


def install() -> int:
    """Filter this process and its descendants; returns the descriptor at which the monitor listens."""
    return _load(program(), _NEW_LISTENER | _WAIT_KILLABLE)


def only(numbers: Iterable[int]) -> None:
    """Allow this process these calls from now on, and no others."""
    code = _op(_LOAD, _ARCH) + _op(_EQUAL, _ARCH_X86_64, 1, 0) + _op(_RETURN, _KILL) + _op(_LOAD, _NUMBER)
    for number in numbers:
        code += _op(_EQUAL, number, 0, 1) + _op(_RETURN, _ALLOW)
    _load(code + _op(_RETURN, _ERRNO | errno.EPERM), 0)


def _load(code: bytes, flags: int) -> int:
    buffer = ctypes.create_string_buffer(code, len(code))
    fprog = struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(buffer))
    return syscalls.call("seccomp", _SECCOMP, _SET_MODE_FILTER, flags, fprog)
