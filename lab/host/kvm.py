"""A test of KVM: two guests that run.

/dev/kvm may open, its version may be right and libvirt may list it, and yet every guest may hang at its first
instruction (reference/feasibility.md), or run simple code and stop where firmware begins (kvm-pvm emulates guests
outside of long mode, and has no x87). So a guest of fourteen bytes is run: it resets the x87, writes a letter to QEMU's
debug port and ends QEMU. Then UEFI firmware is run until it prints on the serial line. The verdict is cached for this
boot of the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import msgspec

from lab.host.identity import boot_id
from lab.host.paths import cache_dir

DEADLINE_SECONDS = 2.0
# Emulated, the firmware takes 4 s of a CPU: a KVM that is slower, on a busy machine, is no gain.
FIRMWARE_SECONDS = 20.0
QEMU = "qemu-system-x86_64"
OVMF_CODE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
# The same firmware with system management mode, which secure boot needs.
OVMF_SECURE_CODE = Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
# The first output of its boot manager, after all firmware phases, 16-bit to 64-bit.
FIRMWARE_SAYS = b"BdsDxe"
# QEMU then pauses the guest and does not exit.
_INTERNAL_ERROR = b"KVM internal error"

# At the reset vector, in real mode: wait; fninit; mov al,'K'; out 0xe9,al; mov al,0x10; out 0xf4,al; hlt; jmp to hlt
_CODE = bytes.fromhex("9bdbe3b04be6e9b010e6f4f4ebfd")
_RESET_OFFSET = 0xFFF0
# isa-debug-exit: QEMU ends with (value << 1) | 1
_EXIT_CODE = (0x10 << 1) | 1


class Verdict(msgspec.Struct, frozen=True):
    """A finding on KVM: usable or not, and why."""

    usable: bool
    reason: str


def rom() -> bytes:
    """Return the guest: 64 KiB of firmware with the code at the reset vector."""
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
            completed = subprocess.run(argv, capture_output=True, timeout=deadline, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Verdict(False, f"a guest of fourteen bytes did not end within {deadline:g} s")
        except OSError as error:
            return Verdict(False, f"{QEMU}: {error.strerror}")
    if completed.returncode == _EXIT_CODE and completed.stdout == b"K":
        return Verdict(True, "a guest has run")
    words = completed.stderr.decode(errors="replace").strip().splitlines()
    return Verdict(False, words[0] if words else f"QEMU ended with {completed.returncode}")


def run_firmware(accelerator: str, deadline: float = FIRMWARE_SECONDS) -> Verdict:
    """Run UEFI firmware with `accelerator` (kvm or tcg) until it prints, for at most `deadline` seconds."""
    argv = [QEMU, "-machine", "q35", "-accel", accelerator, "-cpu", "host" if accelerator == "kvm" else "max"]
    argv += ["-m", "128", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio"]
    argv += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={OVMF_CODE}"]
    output = b""
    try:
        qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return Verdict(False, f"{QEMU}: {error.strerror}")
    end = time.monotonic() + deadline
    with qemu, selectors.DefaultSelector() as selector:
        if qemu.stdout is None:
            raise RuntimeError("QEMU's output is a pipe")
        selector.register(qemu.stdout, selectors.EVENT_READ)
        try:
            while (left := end - time.monotonic()) > 0 and selector.select(left):
                chunk = os.read(qemu.stdout.fileno(), 4096)
                output += chunk
                if FIRMWARE_SAYS in output:
                    return Verdict(True, "guest and firmware have run")
                if _INTERNAL_ERROR in output:
                    return Verdict(False, "the firmware stops with a KVM internal error")
                if not chunk:
                    words = output.decode(errors="replace").strip().splitlines()
                    return Verdict(False, words[0] if words else "QEMU ended without output")
        finally:
            qemu.kill()
    return Verdict(False, f"the firmware printed nothing within {deadline:g} s")


def _look() -> Verdict:
    if not Path("/dev/kvm").exists():
        return Verdict(False, "there is no /dev/kvm")
    tiny = run_tiny_guest("kvm")
    return run_firmware("kvm") if tiny.usable and OVMF_CODE.exists() else tiny


def _asked() -> str:
    """Return a verdict's inputs besides the boot: the guests, this QEMU, and whether /dev/kvm exists."""
    about: list[object] = [rom().hex(), FIRMWARE_SAYS.decode(), Path("/dev/kvm").exists()]
    for file in (shutil.which(QEMU), OVMF_CODE):
        if file is not None and Path(file).exists():
            status = os.stat(file)
            about += [str(file), status.st_size, status.st_mtime_ns]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:12]


def probe() -> Verdict:
    """Find out whether KVM is usable, once per boot. NODE0_ACCEL=tcg or kvm overrides it."""
    forced = os.environ.get("NODE0_ACCEL")
    if forced:
        return Verdict(forced == "kvm", f"NODE0_ACCEL={forced}")
    cached = cache_dir() / f"kvm-{boot_id()}-{_asked()}.json"
    try:
        return msgspec.json.decode(cached.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        pass
    verdict = _look()
    for old in cache_dir().glob("kvm-*.json"):
        if boot_id() not in old.name:
            old.unlink(missing_ok=True)
    temporary = cached.with_name(f"{cached.name}.{os.getpid()}")
    temporary.write_bytes(msgspec.json.encode(verdict))
    temporary.replace(cached)
    return verdict
