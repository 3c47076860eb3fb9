"""A machine's card while its firmware has it: up, with an address, and down again for the machine's own kernel."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeVar

from lab.machines.container.firmware.netboot.dhcp import Client, Lease, lease
from lab.machines.container.firmware.programs import run
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import Nic

T = TypeVar("T")
_SETNS = 308
_FETCH_SECONDS = 60.0
_PIECE = 1 << 20


class NotFetched(Exception):
    """A URL that could not be fetched; `str()` says why."""


def within(namespace: int, action: Callable[[], T]) -> T:
    """What an action returns, or raises, that a thread of its own runs in another network namespace."""
    result: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            syscalls.call("setns", _SETNS, namespace, syscalls.CLONE_NEWNET)
            result.append(action())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="network boot")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def has_link(nic: Nic) -> bool:
    """Whether a card's cable is plugged in; the card is up afterwards."""
    run("ip", "link", "set", nic.name, "up")
    # A pair of veth has its carrier, or has it not, at once.
    [found] = json.loads(run("ip", "-json", "link", "show", nic.name))
    return "NO-CARRIER" not in found["flags"]


@contextlib.contextmanager
def configured(nic: Nic, machine: str, client: Client) -> Iterator[Lease]:
    """The card with the address that a server gave it. Raises NoLease."""
    try:
        found = lease(nic.name, nic.mac, machine, client)
        run("ip", "address", "replace", str(found.address), "dev", nic.name)
        if found.router is not None:
            run("ip", "route", "replace", "default", "via", str(found.router), "dev", nic.name)
        yield found
    finally:
        subprocess.run(["ip", "address", "flush", "dev", nic.name], capture_output=True, timeout=30, check=False)


def down(nic: Nic) -> None:
    """Leave the card as a kernel finds it."""
    run("ip", "link", "set", nic.name, "down")


def fetch(url: str, most: int) -> bytes:
    """What lies at a URL, `most` bytes at most. Raises NotFetched."""
    with _opened(url, most) as answer:
        content = answer.read(most + 1)
    if len(content) > most:
        raise NotFetched(f"{url}: larger than the memory that is left")
    return content


def fetch_to(url: str, out: BinaryIO, most: int) -> int:
    """Write what lies at a URL, `most` bytes at most; how much it was. Raises NotFetched."""
    count = 0
    with _opened(url, most) as answer:
        while piece := answer.read(_PIECE):
            count += len(piece)
            if count > most:
                raise NotFetched(f"{url}: larger than the memory that is left")
            out.write(piece)
    return count


@contextlib.contextmanager
def _opened(url: str, most: int) -> Iterator[BinaryIO]:
    if not url.startswith("http://"):
        raise NotFetched(f"{url}: only http is fetched here")
    # No proxy of the lab's: the machine's firmware knows of none.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_FETCH_SECONDS) as answer:
            if int(answer.headers.get("Content-Length") or 0) > most:
                raise NotFetched(f"{url}: larger than the memory that is left")
            yield answer
    except urllib.error.HTTPError as error:
        raise NotFetched(f"{url}: {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise NotFetched(f"{url}: {error}") from error
