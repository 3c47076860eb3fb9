"""The early boot: the units of the image's initramfs, started in systemd's order.

It runs as the machine's first process, in the machine's namespaces and in its fence (see
lab.machines.container.holder): what it reads and starts was written by whoever made the image.
"""

from __future__ import annotations

import contextlib
import os
import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from lab.machines.container.firmware.early import units
from lab.machines.container.firmware.early.initramfs import Initramfs
from lab.machines.container.firmware.early.units import BadUnits, Unit
from lab.machines.container.firmware.entry import BootAgain, BootStopped
from lab.machines.container.firmware.screen import Screen

#: Units that are not started, and what takes their place (docs/machines.md has this table).
REPLACED: Mapping[str, str] = {
    "systemd-journald.service": "output is kept in /run/node0/firmware/early.log",
    "systemd-journald.socket": "as systemd-journald.service",
    "systemd-journald-dev-log.socket": "as systemd-journald.service",
    "systemd-udevd.service": "the firmware makes nodes of disks, partitions and the CD, and their links",
    "systemd-udevd-control.socket": "as systemd-udevd.service",
    "systemd-udevd-kernel.socket": "as systemd-udevd.service",
    "systemd-udev-trigger.service": "as systemd-udevd.service",
    "systemd-tmpfiles-setup-dev.service": "the firmware lays out /dev",
    "systemd-fsck-root.service": "fsck -a of the initramfs, on the root partition",
    "initrd-parse-etc.service": "nothing: the image's /etc/fstab is empty",
    "initrd-cleanup.service": "the runtime takes the root and /run as they lie",
    "initrd-switch-root.target": "as initrd-cleanup.service",
}
_GENERATOR_DIRECTORIES = ("run/systemd/generator", "run/systemd/generator.early", "run/systemd/generator.late")
_GENERATORS = "usr/lib/systemd/system-generators"
# Generators of systemd that read the command line for what an initramfs mounts.
_WITHOUT = ("systemd-debug-generator", "systemd-gpt-auto-generator")
# Ignition's first words where there is no journal to take its log; it goes to its output then.
_NO_SYSLOG = "unable to open syslog"
LOG = "node0/firmware/early.log"
#: systemd's private socket, where Ignition asks for its version when a config enables or disables units with instances
#: (ignition 2.14, warnOnOldSystemdVersion), and fails without an answer.
MANAGER = "run/systemd/private"
# What a report of a failed boot asks, answered from what is known here.
_SYSTEMCTL = """\
if [ "$1" = reboot ]; then : >/run/node0/firmware/reboot; exit; fi
exec cat /run/node0/firmware/failed
"""
_JOURNALCTL = """\
patterns=()
while [ $# -gt 0 ]; do
    if [ "$1" = -u ]; then patterns+=("$2"); shift; fi
    shift
done
while IFS=$'\\t' read -r unit line; do
    for pattern in "${patterns[@]}"; do
        # Patterns are not to be quoted.
        if [[ $unit == $pattern || $unit == $pattern.service ]]; then printf '%s\\n' "$line"; break; fi
    done
done </run/node0/firmware/journal
"""


class Stage:
    """The early boot of a machine, from its initrds to its root (lab.machines.container.spec.Stage)."""

    def __init__(self, memory_mib: int, arguments: Sequence[str]) -> None:
        self._initramfs = Initramfs(memory_mib, arguments)

    def lay_out(self, place: Path, images: Sequence[memoryview]) -> None:
        """Do as lab.machines.container.spec.Stage says."""
        self._initramfs.lay_out(place, images)

    def go(self, console: BinaryIO) -> Path:
        """Do as lab.machines.container.spec.Stage says."""
        screen = Screen(console, end="\n")
        try:
            self._initramfs.equip()
            Early(self._initramfs, screen).go()
        except BootStopped as error:
            screen.line(error.reason)
            raise
        sysroot = self._initramfs.tree / "sysroot"
        if not os.path.ismount(sysroot):
            reason = "Failed to switch root: Specified switch root path '/sysroot' does not seem to be an OS tree."
            screen.line(reason)
            raise BootStopped(reason)
        return sysroot


@contextlib.contextmanager
def _answering(place: Path, version: str) -> Iterator[None]:
    """Answer each question at a socket with systemd's version."""

    class Answer(socketserver.StreamRequestHandler):
        """One question and its answer (D-Bus specification 0.43, "Authentication Protocol", "Message Protocol")."""

        def handle(self) -> None:
            """Let everybody in who can open the socket, root, and answer the first message."""
            with contextlib.suppress(OSError, struct.error):
                while (line := self.rfile.readline(1024).strip(b"\0\r\n")) not in (b"", b"BEGIN"):
                    accepted = b"OK " + b"0" * 32 if line.startswith(b"AUTH EXTERNAL") else b"ERROR"
                    self.wfile.write((b"REJECTED EXTERNAL" if line == b"AUTH" else accepted) + b"\r\n")
                serial = struct.unpack_from("<I", self.rfile.read(16), 8)[0]
                # Of a reply to this serial number, whose body is a variant with a string.
                fields = struct.pack("<4sI8s", b"\x05\1u\0", serial, b"\x08\1g\0\1v\0")
                body = b"\1s\0\0" + struct.pack("<I", len(version)) + version.encode() + b"\0"
                head = struct.pack("<cBBBIII", b"l", 2, 1, 1, len(body), 1, len(fields) - 1)
                self.wfile.write(head + fields + body)
                self.rfile.read()

    place.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(place), Answer) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            place.unlink(missing_ok=True)


class Early:
    """One early boot."""

    def __init__(self, initramfs: Initramfs, screen: Screen) -> None:
        self._initramfs, self._screen = initramfs, screen
        # Lines of output, each with the unit that wrote it.
        self._log: list[tuple[str, str]] = []
        self._done: list[Unit] = []

    def go(self) -> None:
        """Run everything up to the switch to the real root, which then lies at the tree's /sysroot.

        Raises BootStopped: a unit failed that the boot cannot do without.
        """
        tree = self._initramfs.tree
        self._generate()
        wanted = units.needed(tree, "initrd.target", without=REPLACED)
        try:
            with _answering(tree / MANAGER, self._version()):
                for unit in units.ordered(wanted):
                    if units.applies(unit, tree, self._initramfs.arguments):
                        self._start(unit)
                self._end()
        except BadUnits as error:
            raise BootStopped(str(error)) from error
        finally:
            self._keep_log()

    def _version(self) -> str:
        """Return systemd's version, of which its programs say: "systemd 252 (252.39-1~deb12u2)"."""
        return self._initramfs.program(("systemctl", "--version")).output.partition("(")[2].partition(")")[0]

    def _end(self) -> None:
        """Stop the services that have something to do at the switch to the real root."""
        for unit in reversed(self._done):
            environment = units.environment(unit, self._initramfs.tree)
            for command in units.commands(unit, "ExecStop", environment):
                self._run(command.words, environment, unit)

    def _generate(self) -> None:
        """Run the image's generators: units that the command line asks for."""
        tree = self._initramfs.tree
        for name in _GENERATOR_DIRECTORIES:
            (tree / name).mkdir(parents=True, exist_ok=True)
        directories = [f"/{name}" for name in _GENERATOR_DIRECTORIES]
        for generator in sorted((tree / _GENERATORS).glob("*")):
            if generator.name not in _WITHOUT:
                self._run((f"/{_GENERATORS}/{generator.name}", *directories), {})

    def _run(self, words: tuple[str, ...], environment: Mapping[str, str], unit: Unit | None = None) -> int:
        done, name = self._initramfs.program(words, environment), unit.name if unit else ""
        self._log += [(name, line) for line in done.output.splitlines() if _NO_SYSLOG not in line]
        return done.code

    def _start(self, unit: Unit) -> None:
        if unit.name.endswith(".mount"):
            self._mount(unit)
        elif unit.name.endswith(".service"):
            self._service(unit)
        elif unit.name.endswith(".target") and unit.all("Unit", "Description"):
            self._screen.finished(f"target {unit.description}", "Reached")

    def _service(self, unit: Unit) -> None:
        kind = unit.last("Service", "Type", "simple")
        if kind != "oneshot":
            raise BadUnits(f"{unit.name}: Type={kind} in an initramfs; only oneshot can be run here")
        environment = units.environment(unit, self._initramfs.tree)
        self._screen.starting(unit.description)
        for command in units.commands(unit, "ExecStart", environment):
            if self._run(command.words, environment, unit) and not command.lenient:
                self._screen.failed(unit.description)
                if unit.fatal:
                    self._stop(unit)
                return
        self._screen.finished(unit.description)
        self._done.append(unit)

    def _mount(self, unit: Unit) -> None:
        """Start a mount unit, its file system checked first (systemd-fsck(8): a code of 2 or more stops the boot)."""
        what, where = unit.last("Mount", "What"), unit.last("Mount", "Where")
        options, kind = unit.last("Mount", "Options"), unit.last("Mount", "Type")
        if self._run(("fsck", "-a", what), {}, unit) & 0x7E:
            self._screen.failed(f"file system check on {what}")
            self._stop(unit)
        command = ["mount", what, where]
        command += ["-t", kind] if kind else []
        command += ["-o", options] if options else []
        if self._run(tuple(command), {}, unit):
            self._screen.failed(where, "mount")
            self._stop(unit)
        self._screen.finished(where, "Mounted")

    def _stop(self, unit: Unit) -> None:
        """Print the image's own report of an early boot that failed; programs that it asks say what is known here."""
        tree = self._initramfs.tree
        (tree / "run/node0/firmware").mkdir(parents=True, exist_ok=True)
        (tree / "run/node0/firmware/failed").write_text(f"{unit.name} loaded failed failed {unit.description}\n")
        self._keep_log()
        emergency = units.load(tree, "emergency.service")
        lines = tree / "run/node0/firmware/journal"
        lines.touch(mode=0o600)
        lines.write_text("".join(f"{unit_name or '-'}\t{line}\n" for unit_name, line in self._log))
        for name, script in (("systemctl", _SYSTEMCTL), ("journalctl", _JOURNALCTL)):
            program = tree / "usr/bin" / name
            program.unlink(missing_ok=True)
            program.write_text(f"#!/bin/bash\n{script}")
            program.chmod(0o755)
        if emergency is not None:
            for command in units.commands(emergency, "ExecStart", {}):
                self._screen.line(self._initramfs.program(command.words).output.rstrip("\n"))
        stopped = BootAgain if (tree / "run/node0/firmware/reboot").exists() else BootStopped
        raise stopped(f"{unit.name} failed")

    def _keep_log(self) -> None:
        """Keep what units wrote, as the journal does, for root alone: Ignition logs its config."""
        place = self._initramfs.run / LOG
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text("".join(f"{line}\n" for _, line in self._log))
