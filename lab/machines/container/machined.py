"""The daemon that owns a lab's machines: `python -m lab.machines.container.machined DIR SOCKET LAB [FIRMWARE]`.

DIR has a directory for each machine, with its machine.json; a request for an unknown machine has them read again. It
runs in the lab's namespaces; requests and answers are those of drivers.container. All machines end with it.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from drivers.container import Reply, Request, View
from lab.host import namespaces
from lab.machines.container.kernel import cgroups, syscalls
from lab.machines.container.machine import Machine, MachineError
from lab.machines.container.spec import FILE

_REQUEST_SECONDS = 5.0


class Daemon:
    """The machines below `directory`."""

    def __init__(self, directory: Path, lab: str, firmware: str) -> None:
        syscalls.own_mounts()
        self._directory = directory
        self._lab = lab
        self._firmware = firmware
        self._hierarchies = cgroups.mount_all(directory / ".cgroups")
        self._machines: dict[str, Machine] = {}
        self._selector = selectors.DefaultSelector()

    def _load_new(self) -> None:
        """Load machines that have been added."""
        for file in sorted(self._directory.glob(f"*/{FILE}")):
            if file.parent.name not in self._machines:
                machine = Machine(file.parent, self._lab, self._firmware, self._hierarchies)
                self._machines[file.parent.name] = machine

    def _find(self, name: str) -> Machine:
        self._load_new()
        for machine in self._machines.values():
            if name in (machine.spec.name, machine.spec.uuid):
                return machine
        raise MachineError("unknown", f"there is no machine {name!r}")

    def do(self, request: Request) -> tuple[View, ...]:
        """Carry a request out, and return the machines that it was about. Raises MachineError, OSError."""
        if request.op == "list":
            self._load_new()
            return tuple(machine.view() for machine in self._machines.values())
        machine = self._find(request.machine)
        if request.op in ("off", "reset"):
            self._forget(machine)
            machine.power_off()
        if request.op in ("on", "reset"):
            machine.power_on()
            self._listen(machine)
        elif request.op == "shutdown":
            machine.shut_down()
        elif request.op in ("suspend", "resume"):
            machine.suspend(request.op == "suspend")
        elif request.op == "cpu":
            machine.limit_cpu(int(request.value) if request.value else None)
        elif request.op == "media":
            machine.media(request.value)
        elif request.op == "first":
            machine.first(request.value, request.once)
        elif request.op == "link":
            machine.link(request.value, request.up)
        return (machine.view(),)

    def _listen(self, machine: Machine) -> None:
        if machine.status >= 0 and machine.status not in self._selector.get_map():
            self._selector.register(machine.status, selectors.EVENT_READ, machine)

    def _forget(self, machine: Machine) -> None:
        if machine.status >= 0 and machine.status in self._selector.get_map():
            self._selector.unregister(machine.status)

    def serve(self, path: Path) -> NoReturn:
        """Answer requests until the process ends."""
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            path.chmod(0o600)
            server.listen()
            self._selector.register(server, selectors.EVENT_READ, None)
            while True:
                for key, _ in self._selector.select():
                    if key.data is None:
                        self._answer(server)
                    elif key.data.status == key.fd:
                        self._forget(key.data)
                        self.read_status(key.data)
                        self._listen(key.data)

    def read_status(self, machine: Machine) -> None:
        """Read a machine's status from its monitor; an error goes to the log."""
        try:
            machine.read_status()
        except Exception:
            # A machine that cannot be cleared away must not affect the lab's others.
            print(f"{machine.spec.name}:", file=sys.stderr)
            traceback.print_exc(file=sys.stderr)

    def _answer(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_REQUEST_SECONDS)
            line = connection.makefile("rb").readline()
            if not line:
                # A client that only checks whether the daemon is up.
                return
            connection.sendall(msgspec.json.encode(self.reply_to(line)) + b"\n")

    def reply_to(self, line: bytes) -> Reply:
        """Answer a request, whatever breaks."""
        try:
            return Reply(machines=self.do(msgspec.json.decode(line, type=Request)))
        except MachineError as error:
            return Reply(error=str(error), kind=error.kind)  # type: ignore[arg-type]
        except (OSError, msgspec.DecodeError) as error:
            return Reply(error=str(error), kind="other")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return Reply(error=f"{type(error).__name__}: {error}", kind="other")


def main(argv: list[str]) -> int:
    """Run the daemon with the arguments of the module's docstring."""
    namespaces.die_with_parent()
    try:
        daemon = Daemon(Path(argv[0]), argv[2], argv[3] if len(argv) > 3 else "")
    except cgroups.UnsupportedHostError as error:
        print(error, file=sys.stderr)
        return 1
    return daemon.serve(Path(argv[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
