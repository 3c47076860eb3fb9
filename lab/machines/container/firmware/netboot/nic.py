"""A machine's NIC while its firmware has it: up, with an address, and down again for the machine's own kernel."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import TypeVar

from lab.errors import LabError
from lab.host.namespaces import CLONE_NEWNET, setns
from lab.machines.container.firmware.netboot.dhcp import Client, Lease, NoLease, lease
from lab.machines.container.spec import MachineSpec, Nic

T = TypeVar("T")
# Of silence, and altogether: an ISO has some GB.
_SILENT_SECONDS = 60.0
_FETCH_SECONDS = 600.0
_PIECE = 1 << 20
# IANA's processor architecture types (RFC 4578; dhcpv6-parameters): PC with BIOS, x86-64 with UEFI, the same by HTTP.
_BIOS, _UEFI, _UEFI_HTTP = 0, 7, 16


class NotFetched(LabError):
    """A URL that could not be fetched; `str()` says why."""


def within(namespace: int, action: Callable[[], T], seconds: float = _FETCH_SECONDS) -> T:
    """Run an action in another network namespace, by a thread of its own; returns or raises what it does, or raises
    TimeoutError, after which nobody waits for it."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            setns(namespace, CLONE_NEWNET)
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="network-boot", daemon=True).start()
    return future.result(seconds)


class Nics:
    """A machine's NICs, by the network namespace that they are in; one of them at most has an address."""

    def __init__(self, spec: MachineSpec, namespace: int) -> None:
        self._spec, self._namespace = spec, namespace
        self._up: Nic | None = None

    def lease(self, name: str, *, http: bool) -> Lease:
        """Get an address for the NIC of that name. Raises NoLease."""
        self.down()
        nic = next((nic for nic in self._spec.nics if nic.name == name), None)
        if nic is None or self._namespace < 0:
            raise NoLease(f"there is no NIC {name}")
        uefi = self._spec.firmware == "uefi"
        client = Client("HTTPClient", _UEFI_HTTP) if http else Client("PXEClient", _UEFI if uefi else _BIOS, ipxe=True)
        self._up = nic
        return within(self._namespace, lambda: _configured(nic, self._spec.uuid, client))

    def fetch(self, url: str, most: int) -> int:
        """Fetch a URL into a file in memory. Raises NotFetched."""
        if self._up is None:
            raise NotFetched(f"{url}: no NIC has an address")
        return within(self._namespace, lambda: fetch(url, min(most, self._spec.memory_mib << 19)))

    def down(self) -> None:
        """Take the NIC down and its address away, as a kernel expects to find it."""
        nic, self._up = self._up, None
        if nic is not None:
            within(self._namespace, lambda: _down(nic))


def _ip(*words: str) -> str:
    try:
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoLease(f"ip {' '.join(words)}: {error}") from error


def _configured(nic: Nic, machine: str, client: Client) -> Lease:
    _ip("link", "set", nic.name, "up")
    # A pair of veth has its carrier, or has it not, at once.
    [link] = json.loads(_ip("-json", "link", "show", nic.name))
    if "NO-CARRIER" in link["flags"]:
        raise NoLease("no cable is plugged in")
    address = lease(nic.name, nic.mac, machine, client)
    _ip("address", "replace", address.address, "dev", nic.name)
    if address.router:
        _ip("route", "replace", "default", "via", address.router, "dev", nic.name)
    return address


def _down(nic: Nic) -> None:
    for words in (("address", "flush", "dev", nic.name), ("link", "set", nic.name, "down")):
        subprocess.run(["ip", *words], capture_output=True, timeout=30, check=False)


def fetch(url: str, most: int, seconds: float = _FETCH_SECONDS) -> int:
    """Fetch a URL into a file in memory, of `most` bytes. Raises NotFetched."""
    deadline = time.monotonic() + seconds
    file = os.memfd_create("fetched")
    try:
        with _opened(url, most, deadline) as answer, os.fdopen(file, "wb", closefd=False) as out:
            count, length = 0, answer.length
            while count != length and (piece := answer.read1(_PIECE)):
                count += len(piece)
                if count > most:
                    raise NotFetched(f"{url}: larger than the memory that is left")
                out.write(piece)
            if time.monotonic() > deadline:
                raise NotFetched(f"{url}: not whole after {seconds:g} s")
            if length not in (None, count):
                raise NotFetched(f"{url}: {count} bytes of {length}")
        os.lseek(file, 0, os.SEEK_SET)
    except BaseException:
        os.close(file)
        raise
    return file


class _Connection(HTTPConnection):
    """A connection that is hung up on at a deadline: http.client reads a head, and what follows the last chunk, for as
    long as a server goes on."""

    def __init__(self, host: str, *, timeout: float, deadline: float, timers: contextlib.ExitStack) -> None:
        super().__init__(host, timeout=timeout)
        self._deadline, self._timers = deadline, timers

    def connect(self) -> None:
        """As HTTPConnection."""
        super().connect()
        timer = threading.Timer(self._deadline - time.monotonic(), _hang_up, [self.sock])
        timer.daemon = True
        timer.start()
        self._timers.callback(timer.cancel)


class _Http(urllib.request.HTTPHandler):
    """HTTP by such connections."""

    def __init__(self, deadline: float, timers: contextlib.ExitStack) -> None:
        super().__init__()
        self._deadline, self._timers = deadline, timers

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        """As HTTPHandler."""
        answer = self.do_open(partial(_Connection, deadline=self._deadline, timers=self._timers), request)
        if answer.status != 200:
            answer.close()  # urllib reads what comes with a redirection into memory, however long it is
        return answer


def _hang_up(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed
        line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _opened(url: str, most: int, deadline: float) -> Iterator[HTTPResponse]:
    if not url.startswith("http://"):
        raise NotFetched(f"{url}: only http is fetched here")
    # No other scheme after a redirection, and no proxy of the lab's: the machine's firmware knows of none.
    opener = urllib.request.OpenerDirector()
    timers = contextlib.ExitStack()
    for handler in (
        _Http(deadline, timers),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    try:
        with timers, opener.open(url, timeout=_SILENT_SECONDS) as answer:
            _check(answer, most)
            yield answer
    except urllib.error.HTTPError as error:
        raise NotFetched(f"{url}: {error.code} {error.reason}") from error
    except (OSError, ValueError, OverflowError, HTTPException) as error:  # a port of twenty digits overflows
        raise NotFetched(f"{url}: {error}") from error


def _check(answer: HTTPResponse, most: int) -> None:
    """Raise ValueError unless an answer is a whole file, whose end can be told (RFC 9112 §6.3): http.client takes a
    length that is none, or any but the first one, as though it were not there."""
    lengths = set(answer.headers.get_all("Content-Length", ()))
    codings = [coding.lower() for coding in answer.headers.get_all("Transfer-Encoding", ())]
    if answer.status != 200:
        raise ValueError(f"{answer.status} {answer.reason}: not the whole file")
    if len(lengths) > 1 or any(len(length) > 19 or not (length.isascii() and length.isdigit()) for length in lengths):
        raise ValueError(f"its length is none: {', '.join(sorted(lengths))[:80]}")
    if codings not in ([], ["chunked"]):
        raise ValueError(f"Transfer-Encoding: {', '.join(codings)[:80]}")
    if (answer.length or 0) > most:
        raise ValueError("larger than the memory that is left")
