"""Whether this machine can run a guest with KVM: found out by running one.

/dev/kvm may open, its version may be right and libvirt may list it, while every guest hangs at its first instruction
(reference/feasibility.md), or run what is plain and stop at what firmware begins with (kvm-pvm emulates a guest outside
of long mode, and knows no x87). So a guest of fourteen bytes is run: it resets the x87, writes a letter to QEMU's debug
port and ends QEMU. What it proved holds for this boot of the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from lab.paths import cache_dir
from lab.processes import boot_id

DEADLINE_SECONDS = 2.0
QEMU = "qemu-system-x86_64"

# At the reset vector, in real mode: wait; fninit; mov al,'K'; out 0xe9,al; mov al,0x10; out 0xf4,al; hlt; jmp to hlt
_CODE = bytes.fromhex("9bdbe3b04be6e9b010e6f4f4ebfd")
_RESET_OFFSET = 0xFFF0
# isa-debug-exit: QEMU ends with (value << 1) | 1
_EXIT_CODE = (0x10 << 1) | 1


class Verdict(msgspec.Struct, frozen=True):
    """Whether KVM is usable, and why (not)."""

    usable: bool
    reason: str


def rom() -> bytes:
    """The guest: 64 KiB of firmware with the code at the reset vector."""
    image = bytearray(b"\xf4" * 0x10000)
    image[_RESET_OFFSET : _RESET_OFFSET + len(_CODE)] = _CODE
    return bytes(image)


def run_tiny_guest(accelerator: str, deadline: float = DEADLINE_SECONDS) -> Verdict:
    """Run the guest with `accelerator` (kvm or tcg) for at most `deadline` seconds."""
    with tempfile.TemporaryDirectory(prefix="node0-probe-") as folder:
        firmware = Path(folder) / "rom"
        firmware.write_bytes(rom())
        argv = [QEMU, "-machine", "q35", "-accel", accelerator, "-cpu", "max", "-m", "16", "-nodefaults"]
        argv += ["-no-user-config", "-display", "none", "-bios", str(firmware), "-debugcon", "stdio"]
        argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=deadline, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Verdict(False, f"a guest of fourteen bytes did not end within {deadline:g} s")
        except OSError as error:
            return Verdict(False, f"{QEMU}: {error.strerror}")
    if done.returncode == _EXIT_CODE and done.stdout == b"K":
        return Verdict(True, "a guest has run")
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return Verdict(False, words[0] if words else f"QEMU ended with {done.returncode}")


def _asked() -> str:
    """What a verdict is about besides the boot: the guest, this QEMU, and whether there is a KVM to ask."""
    program = shutil.which(QEMU)
    about: list[object] = [rom().hex(), program, Path("/dev/kvm").exists()]
    if program:
        status = os.stat(program)
        about += [status.st_size, status.st_mtime_ns]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:12]


def probe() -> Verdict:
    """Whether KVM is usable; asked once a boot. NODE0_ACCEL=tcg or kvm overrules it."""
    forced = os.environ.get("NODE0_ACCEL")
    if forced:
        return Verdict(forced == "kvm", f"NODE0_ACCEL={forced}")
    cached = cache_dir() / f"kvm-{boot_id()}-{_asked()}.json"
    try:
        return msgspec.json.decode(cached.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        pass
    verdict = run_tiny_guest("kvm") if Path("/dev/kvm").exists() else Verdict(False, "there is no /dev/kvm")
    for old in cache_dir().glob("kvm-*.json"):
        if boot_id() not in old.name:
            old.unlink(missing_ok=True)
    fresh = cached.with_name(f"{cached.name}.{os.getpid()}")
    fresh.write_bytes(msgspec.json.encode(verdict))
    fresh.replace(cached)
    return verdict
