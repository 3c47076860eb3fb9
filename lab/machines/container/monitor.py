"""The monitor of a machine that is on: `python -m lab.machines.container.monitor DIR GROUP STATUS_FD [FIRMWARE]`.

DIR holds machine.json; GROUP names its control groups (LAB/MACHINE); FIRMWARE is `module:function`. The monitor runs in
the lab's network and PID namespaces with a mount namespace of its own. It makes the hardware, runs the firmware, starts
the machine's first process, which runs the image's early boot and then its init, and answers its calls and its console
until it ends. A line goes to STATUS_FD when init runs. Exit code: 0 powered off, 10 restart. A machine that finds
nothing to boot, whose boot stops, or whose init dies stays on, and its console says so.

The machine ends with its monitor, however that ends; loop devices, mounts and NICs go with their last user. The control
groups are left to the daemon.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from lab.host.namespaces import die_with_parent
from lab.machines.container import holder
from lab.machines.container.fence.broker import Broker
from lab.machines.container.fence.caller import devices, mountinfo
from lab.machines.container.hardware import cables, pseudofs
from lab.machines.container.hardware.disks import Device, Disk, in_dev
from lab.machines.container.hardware.line import SerialLine
from lab.machines.container.kernel import cgroups, syscalls, users
from lab.machines.container.spec import Boot, Drive, Fence, Firmware, MachineSpec, NotBootable

FIRMWARE = "lab.machines.container.firmware:boot"
_MEMORY_SECONDS = 5.0
_GROUPS_SECONDS = 0.5
_STEP_SECONDS = 60.0
# On proc_pid_oom_score_adj(5)'s scale of -1000 to 1000; the host's own processes usually have 0.
OOM_SCORE = 300
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Monitor:
    """A running machine's parts, in the order in which they are made."""

    def __init__(self, directory: Path, group: str, firmware: Firmware, status: int) -> None:
        """Make its namespaces, console and disks; `status` is a descriptor that a line goes to when init runs."""
        self._status = status
        self._drives: tuple[Drive, ...] = ()
        self._switched_off = False
        spec = MachineSpec.load(directory)
        # Kept to the end, by this process and the holder.
        first, self._claim = users.claim(spec.uid_base)
        self.spec = msgspec.structs.replace(spec, uid_base=first)
        self._work = directory / "run"
        self._firmware = firmware
        self._selector = selectors.DefaultSelector()
        self._work.mkdir(exist_ok=True)
        syscalls.own_mounts()
        syscalls.mount("work", str(self._work), "tmpfs", syscalls.MS_NOSUID, data="mode=755")
        for name in ("root", "place", "empty"):
            (self._work / name).mkdir()
        self._console = SerialLine(Path(self.spec.console_log), Path(self.spec.console_socket), self._selector)
        self.hierarchies = cgroups.mount_all(self._work / "cgroups")
        self._group = cgroups.Group(self.hierarchies, group)
        self.outer, self._line = self._hold()
        self._users = os.open(f"/proc/{self.outer}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        self._fence = Fence(self._users, self._work / "empty")
        self._disks = [Disk(disk, self._fence) for disk in self.spec.disks]
        self._broker: Broker | None = None

    def own_devices(self) -> Mapping[tuple[int, int], str]:
        """Name the machine's disks and partitions, by their device numbers."""
        media = {drive.number: drive.name for drive in self._drives}
        return media | {number: name for disk in self._disks for number, name in disk.names().items()}

    def drives(self) -> tuple[Drive, ...]:
        """Return the media in it, which stay its own until power-off."""
        return self._drives

    def init(self) -> int:
        """Find the machine's first process: the only child of the process that holds its namespaces."""
        for pid in syscalls.children(self.outer):
            return pid
        raise ProcessLookupError(errno.ESRCH, "the machine's first process has ended")

    def reread(self, number: tuple[int, int]) -> None:
        """Look at a disk's table again. Raises OSError with EBUSY when a partition of it is mounted."""
        for disk in self._disks:
            if number not in disk.names():
                continue
            if devices(mountinfo(self.init())) & set(disk.names()):
                raise OSError(errno.EBUSY, "a partition is mounted")
            disk.rescan()
            for new in disk.names():
                self._group.allow("{}:{}".format(*new))
            self._show_devices()

    def _show_devices(self) -> None:
        labels = {drive.name: (f"by-label/{in_dev(drive.label)}",) for drive in self._drives}
        shown = [
            dataclasses.replace(device, links=device.links + labels.pop(device.name, ()))
            for disk in self._disks
            for device in disk.devices()
        ]
        shown += [
            Device(name=drive.name, number=drive.number, size=0, links=labels[drive.name])
            for drive in self._drives
            if drive.name in labels
        ]
        pseudofs.show_devices(self.spec, shown, self._work / "dev", self._work / "files")

    def _hold(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            holder.hold(theirs, self._work, self.spec.uid_base)
        theirs.close()
        ours.settimeout(_STEP_SECONDS)
        _expect(ours.recv(1 << 16), b"namespaces")
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(f"0 {self.spec.uid_base} {users.COUNT}\n")
        return pid, ours

    def start(self) -> None:
        """Switch the machine on, up to the start of its init. Raises NotBootable, OSError."""
        spec = self.spec
        numbers = ["{}:{}".format(*number) for number in self.own_devices()]
        self._group.make(memory_mib=spec.memory_mib, vcpus=spec.vcpus, devices=numbers)
        # A cable may have been pulled since.
        cables.plug(spec.nics, self.outer, MachineSpec.load(self._work.parent).pulled)
        paths = {name: path for disk in self._disks for name, path in disk.paths().items()}
        root = self._work / "root"
        network = os.open(f"/proc/{self.outer}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fence = Fence(self._users, self._fence.empty, self._group.take, network)
            boot = self._firmware(spec, devices=paths, root=root, console=self._console.log, fence=fence)
        finally:
            os.close(network)
        for disk in self._disks:
            disk.rescan()
        self._drives = boot.early.drives
        pseudofs.make_files(spec, self._work / "files", boot.arguments)
        pseudofs.show_nics(spec, self._work / "files")
        pseudofs.make_dev(spec, self._work / "dev", self._console.terminal)
        self._show_devices()
        for number in self.own_devices():
            self._group.allow("{}:{}".format(*number))
        self._group.delegate(spec.uid_base)
        self._group.take(self.outer)
        # With CAP_SYS_RESOURCE, which not every host's root has, its children cannot choose less.
        Path(f"/proc/{self.outer}/oom_score_adj").write_text(str(OOM_SCORE))
        self._send(boot)
        message, fds, _, _ = socket.recv_fds(self._line, 1 << 16, 1)
        if message.startswith(holder.REFUSED):
            reason = message[len(holder.REFUSED) :].decode(errors="replace")
            self.say(reason)
            raise NotBootable(reason)
        _expect(message, holder.LISTENING)
        self._group.put_beside(self.outer)
        self._broker = Broker(fds[0], self._users, self)
        self._selector.register(self._broker, selectors.EVENT_READ, self._broker.answer)
        self._selector.register(self._line, selectors.EVENT_READ, self._hear_init)

    def _send(self, boot: Boot) -> None:
        """Send the order to the process that holds the namespaces, with the initrds."""
        order = holder.Order(
            cgroups=self.hierarchies.v1,
            argv=(*boot.init, *self._init_arguments()),
            environment={"container": "node0", "PATH": _PATH, "TERM": "vt220"} | boot.environment,
            memory_mib=self.spec.memory_mib,
            arguments=tuple(boot.arguments),
            stage=boot.early.stage,
        )
        socket.send_fds(self._line, [msgspec.json.encode(order)], boot.early.images)
        for image in boot.early.images:
            os.close(image)

    def _hear_init(self) -> None:
        """Receive from the machine's first process that init runs, or an error."""
        message = self._line.recv(1 << 16)
        if message == holder.RUNNING:
            os.write(self._status, b"running\n")
        else:
            self._selector.unregister(self._line)
            if message:
                self.say(f"node0: the machine's first process says: {message.decode(errors='replace')}")

    def _init_arguments(self) -> tuple[str, ...]:
        """Say to systemd which version of control groups it has, and what its services' environment is."""
        # Disks in /sys are files of the lab's: libudev must not insist on a sysfs (a variable of systemd's).
        environment = ("systemd.setenv=SYSTEMD_DEVICE_VERIFY_SYSFS=0",)
        if self.hierarchies.unified:
            return ("systemd.unified_cgroup_hierarchy=1", *environment)
        return ("systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=1", *environment)

    def serve(self) -> int:
        """Answer calls and serve the console until the machine ends; returns the exit code of its holder."""
        outer = os.pidfd_open(self.outer)
        self._selector.register(outer, selectors.EVENT_READ, None)
        looked = emptied = 0.0
        groups = cgroups.EmptyGroups(self._group.of_systemd) if self._group.of_systemd else None
        while True:
            for key, _ in self._selector.select(_GROUPS_SECONDS if groups else _MEMORY_SECONDS):
                if key.data is None:
                    status = os.waitpid(self.outer, 0)[1]
                    self._selector.unregister(outer)
                    self._console.drain()
                    return holder.POWERED_OFF if self._switched_off else os.waitstatus_to_exitcode(status)
                key.data()
            if groups is not None and time.monotonic() - emptied > _GROUPS_SECONDS:
                emptied = time.monotonic()
                # The machine may just have ended.
                with contextlib.suppress(OSError):
                    self.hold_to_its_groups()
                    groups.report(Path(f"/proc/{self.init()}/root"))
            if time.monotonic() - looked > _MEMORY_SECONDS:
                looked = time.monotonic()
                text = pseudofs.meminfo(self.spec.memory_mib, self._group.memory_used())
                # In place: the machine has this file mounted.
                (self._work / "files/proc/meminfo").write_text(text)

    def hold_to_its_groups(self) -> None:
        """Switch the machine off if it has too many control groups: the host has them back only when it is off."""
        if not self._switched_off and self._group.too_many():
            self.say(f"node0: more than {cgroups.MOST_GROUPS} control groups: the machine is switched off")
            self._switched_off = True
        if self._switched_off:
            os.kill(self.init(), signal.SIGKILL)
            self._group.unhold()

    def wait_for_ever(self) -> NoReturn:
        """Serve the console of a stopped machine until it is powered off."""
        while True:
            for key, _ in self._selector.select():
                key.data()

    def close(self) -> None:
        """Give the hardware back."""
        cables.unplug(self.spec.nics)
        for disk in self._disks:
            disk.close()
        self._console.close()

    def say(self, text: str) -> None:
        """Write a line of the firmware's on the console."""
        self._console.say(text.replace("\n", "\r\n").encode() + b"\r\n")


def _expect(message: bytes, wanted: bytes) -> None:
    if message != wanted:
        raise OSError(
            errno.EPROTO, f"the machine's first process says: {message.decode(errors='replace') or 'nothing'}"
        )


def firmware_named(name: str) -> Firmware:
    """Import `module:function`."""
    module, _, function = name.partition(":")
    firmware: Firmware = getattr(importlib.import_module(module), function)
    return firmware


def main(argv: list[str]) -> int:
    """Run the machine with the arguments of the module's docstring."""
    die_with_parent()
    directory, group, status = Path(argv[0]), argv[1], int(argv[2])
    os.set_inheritable(status, False)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # A machine's root may not raise it himself (setrlimit(2)), and daemons ask for much.
    most = int(Path("/proc/sys/fs/nr_open").read_text())
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[0], most))
    monitor = Monitor(directory, group, firmware_named(argv[3] if len(argv) > 3 else FIRMWARE), status)
    try:
        monitor.start()
    except NotBootable:
        # The firmware has said why.
        monitor.wait_for_ever()
    except Exception as error:
        monitor.say(f"node0: the machine cannot be started: {error}")
        raise
    code = monitor.serve()
    if code == holder.STOPPED:
        monitor.wait_for_ever()
    if code not in (holder.POWERED_OFF, holder.REBOOTED):
        # Linux, kernel/exit.c.
        monitor.say("Kernel panic - not syncing: Attempted to kill init!")
        monitor.wait_for_ever()
    monitor.close()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
