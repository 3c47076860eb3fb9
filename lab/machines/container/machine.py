"""A machine in its daemon: its description, and the monitor process that runs it while it is on."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from drivers.container import DiskView, View
from lab.errors import LabError
from lab.machines.container import holder
from lab.machines.container.hardware import cables
from lab.machines.container.kernel import cgroups
from lab.machines.container.kernel.syscalls import children
from lab.machines.container.spec import USUAL_ORDER, BootFrom, MachineSpec

_DEVICES: tuple[BootFrom, ...] = ("hd", "cdrom", "network")
END_SECONDS = 30.0
# systemd(1): SIGRTMIN+4 starts poweroff.target.
_POWER_OFF = signal.SIGRTMIN + 4


class MachineError(LabError):
    """A request cannot be done; `kind` as in drivers.container.Reply."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Machine:
    """A machine in `directory`. `lab` and its name make the name of its control groups; `firmware` is module:function
    ("" for the usual firmware)."""

    def __init__(self, directory: Path, lab: str, firmware: str, hierarchies: cgroups.Hierarchies) -> None:
        self.directory = directory
        self.spec = MachineSpec.load(directory)
        self._firmware = firmware
        self._group = f"{lab}/{self.spec.name}"
        self._hierarchies = hierarchies
        self.monitor: subprocess.Popen[bytes] | None = None
        # Readable when its monitor has written something, and at its end; -1 while the machine is off.
        self.status = -1
        self.running = False

    @property
    def on(self) -> bool:
        """Its power is on."""
        return self.monitor is not None

    def view(self) -> View:
        """Show the machine as the daemon does."""
        spec = self.spec
        return View(
            name=spec.name,
            uuid=spec.uuid,
            on=self.on,
            running=self.running,
            first=spec.order[0],
            once=spec.boot_once is not None,
            media=spec.cdrom or "",
            memory_mib=spec.memory_mib,
            vcpus=spec.vcpus,
            firmware=spec.firmware,
            macs=tuple(nic.mac for nic in spec.nics),
            pulled=spec.pulled,
            disks=msgspec.convert(spec.disks, tuple[DiskView, ...], from_attributes=True),
        )

    def change(self, **fields: object) -> None:
        """Change its description; it counts from the next power-on."""
        self.spec = msgspec.structs.replace(self.spec, **fields)
        self.spec.save(self.directory)

    def _change_powered(self, **fields: object) -> None:
        """Change the description that counts while it is on."""
        powered = self.directory / "on"
        msgspec.structs.replace(MachineSpec.load(powered), **fields).save(powered)

    def power_on(self) -> None:
        """Start it, unless it is on. Its description of now counts until it is powered off, at restarts too."""
        if self.on:
            return
        powered = self.directory / "on"
        powered.mkdir(exist_ok=True)
        self.spec.save(powered)
        self._start()
        if self.spec.boot_once is not None:
            self.change(boot_once=None)

    def _start(self) -> None:
        read, write = os.pipe()
        arguments = [str(self.directory / "on"), self._group, str(write), *([self._firmware] if self._firmware else [])]
        try:
            self.monitor = subprocess.Popen(
                [sys.executable, "-m", "lab.machines.container.monitor", *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[write],
            )
        except OSError as error:
            os.close(read)
            raise MachineError("power", f"its monitor cannot be started: {error}") from error
        finally:
            os.close(write)
        self.status = read

    def read_status(self) -> None:
        """Read from its monitor that init runs, or, at its end, how the machine ended.

        Raises MachineError, OSError: see `_end`."""
        if os.read(self.status, 64):
            self.running = True
            return
        if self._end() == holder.REBOOTED:
            # The device that was to be tried once has been tried.
            self._change_powered(boot_once=None)
            self._start()

    def _end(self) -> int:
        """Wait for the monitor, and remove the control groups; returns its exit code. Raises MachineError when it does
        not end: the machine stays on then, until it is powered off; OSError when a group stays."""
        if self.status >= 0:
            os.close(self.status)
        self.status = -1
        self.running = False
        try:
            code = self.monitor.wait(END_SECONDS) if self.monitor is not None else 0
        except subprocess.TimeoutExpired as error:
            raise MachineError("power", f"its monitor has not ended within {END_SECONDS:.0f} s") from error
        self.monitor = None
        self._limits().remove()
        return code

    def power_off(self) -> None:
        """End it at once, and return when nothing of it runs any more. Raises MachineError, OSError: see `_end`."""
        if self.monitor is not None:
            # The monitor holds the machine's devices, so the processes that could still open them end before it does.
            # It is stopped meanwhile, or it would report the end of the first process as a panic.
            self.monitor.send_signal(signal.SIGSTOP)
            for init in self._inits():
                self._kill(init)
            self.monitor.kill()
            self._end()

    def _kill(self, init: int) -> None:
        """End the machine's first process, which ends when all its others have."""
        try:
            process = os.pidfd_open(init)
        except ProcessLookupError:
            return
        try:
            group = self._limits()
            signal.pidfd_send_signal(process, signal.SIGKILL)
            deadline = time.monotonic() + END_SECONDS
            while not select.select([process], [], [], 0.1)[0] and time.monotonic() < deadline:
                group.unhold()
        except ProcessLookupError:
            return
        finally:
            os.close(process)

    def shut_down(self) -> None:
        """Ask its init to power off."""
        if self.monitor is None or not self.running:
            return
        # None when its init has died: nobody would receive the signal.
        for init in self._inits():
            os.kill(init, _POWER_OFF)

    def _inits(self) -> list[int]:
        """Find the machine's first process, the child of the monitor's only child; none when it has ended."""
        outer = children(self.monitor.pid) if self.monitor is not None else []
        return [init for pid in outer for init in children(pid)]

    def suspend(self, suspended: bool) -> None:
        """Freeze all its processes, or let them run again, as a power-off does too. Raises MachineError where it is
        off, or no init runs in it yet."""
        if self._has_processes(needed=suspended):
            self._limits().freeze(suspended)

    def limit_cpu(self, percent: int | None) -> None:
        """Limit it to this percentage of a processor, or (None) to its own ones. Raises MachineError as `suspend`."""
        if self._has_processes(needed=percent is not None):
            self._limits().limit_cpu(MachineSpec.load(self.directory / "on").vcpus, percent)

    def _has_processes(self, *, needed: bool) -> bool:
        if needed and not self.running:
            raise MachineError("power", "nothing in it runs: it is off, or starting")
        return self.running

    def _limits(self) -> cgroups.Group:
        return cgroups.Group(self._hierarchies, self._group)

    def media(self, path: str) -> None:
        """Put an image into the drive, or ("") take it out."""
        if path and not os.access(path, os.R_OK):
            raise MachineError("media", f"{path} cannot be read")
        self.change(cdrom=path or None)

    def first(self, device: str, once: bool) -> None:
        """Try this device first, always or once."""
        first_device: BootFrom | None = next((name for name in _DEVICES if name == device), None)
        if first_device is None:
            raise MachineError("boot", f"it has no {device} to boot from")
        if once:
            self.change(boot_once=first_device)
        else:
            order = (first_device, *(name for name in USUAL_ORDER if name != first_device))
            self.change(boot=order, boot_once=None)
            if self.on:
                # Firmware reads it at every start.
                self._change_powered(boot=order)

    def link(self, mac: str, up: bool) -> None:
        """Plug a cable in, or pull it out, now and for later."""
        nic = next((nic for nic in self.spec.nics if nic.mac == mac), None)
        if nic is None:
            raise MachineError("unknown", f"it has no NIC {mac}")
        pulled = tuple(sorted({*self.spec.pulled} - {mac} | (set() if up else {mac})))
        self.change(pulled=pulled)
        if self.on:
            self._change_powered(pulled=pulled)
            try:
                cables.set_link(nic, up)
            except subprocess.CalledProcessError as error:
                # Its monitor is about to plug it in, and will read that.
                if self.running:
                    raise MachineError("other", f"cable {mac}: {error.stderr.strip()}") from error
