"""The first process of a lab's PID namespace: sets up namespaces, starts services, reaps, serves control.sock."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from lab.host import namespaces
from lab.supervisor import logs, watch
from lab.supervisor.plan import Bridge, Ended, Event, Plan, Ready, Reply, Request, Service

_POLL_SECONDS = 0.02
# A machine alone makes dnsmasq write some MiB in that time.
_LOGS_SECONDS = 1.0
_END_SECONDS = 20.0
BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}


class _ServiceFailedError(Exception):
    """A service did not come up."""

    def __init__(self, service: str, message: str, tail: str) -> None:
        super().__init__(message)
        self.service = service
        self.tail = tail


def run(plan: Plan, status_fd: int) -> NoReturn:
    """Run the lab until killed. Reports one `up` or `failed` event on `status_fd` and closes it."""
    try:
        namespaces.die_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        _isolate(plan)
        lab = Services(plan)
        seconds = lab.start_all()
        # Opened before the owner is told that the lab is up, and may send requests.
        server = lab.listen()
        os.write(status_fd, msgspec.json.encode(Event(event="up", seconds=seconds)) + b"\n")
        os.close(status_fd)
        status_fd = -1
        lab.serve(server)
    except _ServiceFailedError as error:
        _report(status_fd, Event(event="failed", message=str(error), service=error.service, tail=error.tail[-2000:]))
    except BaseException as error:
        print(f"init: {error!r}", file=sys.stderr, flush=True)
        _report(status_fd, Event(event="failed", message=repr(error)[:2000], service="init"))
    finally:
        # Whatever happens, this forked process must not return into its parent's code.
        os._exit(1)


def _report(status_fd: int, event: Event) -> None:
    """Send an event to the lab's owner, if it still listens; after `up` it does not."""
    with contextlib.suppress(OSError):
        os.write(status_fd, msgspec.json.encode(event) + b"\n")


def _isolate(plan: Plan) -> None:
    namespaces.unshare(namespaces.CLONE_NEWNET | namespaces.CLONE_NEWNS)
    namespaces.mount("none", "/", flags=namespaces.MS_REC | namespaces.MS_PRIVATE)
    namespaces.mount("proc", "/proc", "proc")
    # A sysfs shows the network namespace that it was mounted in; without this mount, /sys/class/net is the host's.
    namespaces.mount("sysfs", "/sys", "sysfs")
    for source, target in plan.mounts:
        if not Path(source).is_file():
            Path(target).mkdir(parents=True, exist_ok=True)
        namespaces.mount(source, target, flags=namespaces.MS_BIND)
    for line in ("link set lo up", *(line for bridge in plan.bridges for line in _bridge(bridge))):
        subprocess.run(["ip", *line.split()], check=True, capture_output=True, text=True)
    if len(plan.bridges) > 1:
        # The lab is the router between its networks, and answers for an address in that address's network only.
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/arp_ignore"):
            Path("/proc/sys/net", name).write_text("1")


def _bridge(bridge: Bridge) -> list[str]:
    name = bridge.name
    return [
        # No spanning tree and no forwarding delay: a port forwards frames as soon as it is up. Nobody asks for groups,
        # so a switch that listened for it would keep neighbour discovery from new ports.
        f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        # The bridge's own MTU: otherwise it takes the lowest of its ports' as soon as it has one.
        f"link set {name} mtu {bridge.mtu}",
        f"link set {name} up",
        # An address is there at once: nobody else can have it yet.
        *(f"addr add {address} dev {name}{' nodad' * (':' in address)}" for address in bridge.addresses),
    ]


def _ntp_answers(address: str) -> bool:
    """Return whether an NTP server there answers a client's packet (RFC 5905 §7.3: version 4, mode 3)."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        sock.sendto(struct.pack("!B47x", 0x23), (address, 123))
        return len(sock.recv(512)) >= 48


def _https_answers(ready: Ready) -> bool:
    """Return whether a GET of the path is answered by 200. The certificate is its own user's to check."""
    import http.client  # with ssl 0.1 s, which is not for labs without a hub
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(ready.address, ready.port, timeout=1, context=context)
    with contextlib.closing(connection):
        try:
            connection.request("GET", ready.path)
            return connection.getresponse().status == http.client.OK
        except http.client.HTTPException:
            return False


def _is_ready(ready: Ready) -> bool:
    try:
        if ready.kind == "ntp":
            return _ntp_answers(ready.address)
        if ready.kind == "https":
            return _https_answers(ready)
        if ready.kind == "unix":
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(ready.address)
        else:
            socket.create_connection((ready.address, ready.port), timeout=1).close()
    except OSError:
        return False
    return True


class Services:
    """The services of a lab, children of this process, which reaps whatever ends."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._by_name = {s.name: s for s in plan.services}
        self._pids: dict[int, str] = {}
        # Pids that were killed on request; names of services that are suspended, and of those started by request.
        self._killed: set[int] = set()
        self._paused: set[str] = set()
        self._requested: set[str] = set()
        self._state = Path(plan.state)
        self._logs = self._state / "log"

    def start_all(self) -> dict[str, float]:
        """Start every service at once but those by request and those that need another, and wait for all; returns how
        many seconds each took to be ready."""
        begin = time.monotonic()
        seconds: dict[str, float] = {}
        later = [s for s in self._plan.services if not s.by_request]
        waiting: list[Service] = []
        while later or waiting:
            self._reap()
            for service in [s for s in later if not s.needs or s.needs in seconds]:
                later.remove(service)
                self._spawn(service)
                if service.ready is not None:
                    waiting.append(service)
            for service in list(waiting):
                self._expect_running(service)
                spent = time.monotonic() - begin
                if service.ready is not None and _is_ready(service.ready):
                    seconds[service.name] = round(spent, 3)
                    waiting.remove(service)
                elif spent > service.timeout:
                    raise self._failure(service, f"{service.name} was not ready after {service.timeout:g} s")
            time.sleep(_POLL_SECONDS)
        return seconds

    def _spawn(self, service: Service) -> None:
        with open(self._logs / f"{service.name}.log", "ab") as log:
            try:
                process = subprocess.Popen(
                    service.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=BASE_ENV | service.env,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise self._failure(service, f"{service.name} cannot be started: {error}") from error
        # This process reaps all children (it is init): keep Popen from waiting itself.
        process.returncode = 0
        self._pids[process.pid] = service.name

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self._pids.pop(pid, None)
            if name is not None:
                code = os.waitstatus_to_exitcode(status)
                now = time.strftime("%H:%M:%S", time.gmtime())
                print(f"{now} {name} ended with {code}", file=sys.stderr, flush=True)
                # A requested stop waits for its process there, so this one has ended by itself.
                tail = watch.tail_of(self._logs / f"{name}.log")
                asked = pid in self._killed
                self._killed.discard(pid)
                watch.note(Path(self._plan.state), Ended(name, code, now, tail, asked=asked))

    def _expect_running(self, service: Service) -> None:
        if service.name not in self._pids.values():
            raise self._failure(service, f"{service.name} ended while it started")

    def _failure(self, service: Service, message: str) -> _ServiceFailedError:
        return _ServiceFailedError(service.name, message, watch.tail_of(self._logs / f"{service.name}.log"))

    def listen(self) -> socket.socket:
        """Open control.sock."""
        path = Path(self._plan.state) / "control.sock"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        path.chmod(0o600)
        server.listen()
        return server

    def serve(self, server: socket.socket) -> NoReturn:
        """Reap children and answer control.sock for ever."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with server, selectors.DefaultSelector() as selector:
            handlers: dict[int, Callable[[], None]] = {
                wake_read: lambda: _drain(wake_read),
                server.fileno(): lambda: self._answer(server),
            }
            for fd in handlers:
                selector.register(fd, selectors.EVENT_READ)
            trimmed = time.monotonic()
            while True:
                self._reap()
                for key, _ in selector.select(_LOGS_SECONDS):
                    handlers[key.fd]()
                if time.monotonic() - trimmed > _LOGS_SECONDS:
                    trimmed = time.monotonic()
                    logs.trim_all(self._state)

    def _answer(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            try:
                line = connection.makefile("rb").readline()
                reply = self.do(msgspec.json.decode(line, type=Request))
            except (OSError, msgspec.DecodeError, _ServiceFailedError) as error:
                reply = Reply(error=str(error), broken=isinstance(error, _ServiceFailedError))
            try:
                connection.sendall(msgspec.json.encode(reply) + b"\n")
            except OSError:
                return

    def do(self, request: Request) -> Reply:
        """Carry out a request."""
        # What has ended by itself is noted as that.
        self._reap()
        if request.op != "status":
            service = self._by_name.get(request.service)
            if service is None:
                return Reply(error=f"no service {request.service!r}; there are {', '.join(self._by_name)}")
            running = [pid for pid, name in self._pids.items() if name == service.name]
            if request.op == "stop":
                for pid in running:
                    # Its end is on request, and nothing to be noted.
                    del self._pids[pid]
                    self._kill(service, pid)
            elif request.op == "kill":
                if not running:
                    return Reply(error="it does not run")
                for pid in running:
                    self._killed.add(pid)
                    self._kill(service, pid)
            elif request.op == "pause":
                if not running:
                    return Reply(error="it does not run")
                self._paused.add(service.name)
                self._signal(service, signal.SIGSTOP)
            elif request.op == "resume":
                # One that is down will start as any other.
                self._paused.discard(service.name)
                self._signal(service, signal.SIGCONT)
            elif not running:
                self._requested.add(service.name)
                self._spawn(service)
                self._wait_started(service)
                if service.name in self._paused:
                    self._signal(service, signal.SIGSTOP)
        started = [name for name, service in self._by_name.items() if not service.by_request or name in self._requested]
        return Reply(running={name: name in self._pids.values() for name in started})

    def _signal(self, service: Service, number: signal.Signals) -> None:
        for pid, name in self._pids.items():
            if name == service.name:
                os.kill(pid, number)

    def _kill(self, service: Service, pid: int) -> None:
        """Kill a service with all of its process group, and return when nobody of it is left: a child of dnsmasq's for
        somebody's TCP connection keeps the port that the next one wants."""
        os.killpg(pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        while True:
            self._reap()
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return
            if time.monotonic() > deadline:
                raise self._failure(service, f"{service.name} has not ended {_END_SECONDS:g} s after SIGKILL")
            time.sleep(_POLL_SECONDS)

    def _wait_started(self, service: Service) -> None:
        deadline = time.monotonic() + service.timeout
        while service.ready is not None and not _is_ready(service.ready):
            self._reap()
            self._expect_running(service)
            if time.monotonic() > deadline:
                raise self._failure(service, f"{service.name} was not ready after {service.timeout:g} s")
            time.sleep(_POLL_SECONDS)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return
