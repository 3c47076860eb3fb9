"""A machine's card while its firmware has it: up, with an address, and down again for the machine's own kernel."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, TypeVar

from lab.host.namespaces import CLONE_NEWNET, setns
from lab.machines.container.firmware.netboot.dhcp import Client, Lease, lease
from lab.machines.container.firmware.netboot.errors import NoLease, NotFetched
from lab.machines.container.spec import MachineSpec, Nic

T = TypeVar("T")
_FETCH_SECONDS = 60.0
_PIECE = 1 << 20
# IANA's processor architecture types (RFC 4578; dhcpv6-parameters): PC with BIOS, x86-64 with UEFI, the same by HTTP.
_BIOS, _UEFI, _UEFI_HTTP = 0, 7, 16


def within(namespace: int, action: Callable[[], T]) -> T:
    """Run an action in another network namespace, by a thread of its own; returns or raises what it does."""

    def work() -> T:
        setns(namespace, CLONE_NEWNET)
        return action()

    with ThreadPoolExecutor(1, "network-boot") as pool:
        return pool.submit(work).result()


class Cards:
    """A machine's cards, by the network namespace that they are in; one of them at most has an address."""

    def __init__(self, spec: MachineSpec, namespace: int) -> None:
        self._spec, self._namespace = spec, namespace
        self._up: Nic | None = None

    def lease(self, name: str, *, http: bool) -> Lease:
        """An address for the card of that name. Raises NoLease."""
        self.down()
        nic = next((nic for nic in self._spec.nics if nic.name == name), None)
        if nic is None or self._namespace < 0:
            raise NoLease(f"there is no card {name}")
        uefi = self._spec.firmware == "uefi"
        client = Client("HTTPClient", _UEFI_HTTP) if http else Client("PXEClient", _UEFI if uefi else _BIOS, ipxe=True)
        self._up = nic
        return within(self._namespace, lambda: _configured(nic, self._spec.uuid, client))

    def fetch(self, url: str, most: int) -> int:
        """A file in memory with what lies at a URL. Raises NotFetched."""
        if self._up is None:
            raise NotFetched(f"{url}: no card has an address")
        return within(self._namespace, lambda: _fetch(url, min(most, self._spec.memory_mib << 19)))

    def down(self) -> None:
        """Take the card down and its address away, as a kernel expects to find it."""
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


def _fetch(url: str, most: int) -> int:
    file = os.memfd_create("fetched")
    try:
        with _opened(url, most) as answer, os.fdopen(file, "wb", closefd=False) as out:
            count = 0
            while piece := answer.read(_PIECE):
                count += len(piece)
                if count > most:
                    raise NotFetched(f"{url}: larger than the memory that is left")
                out.write(piece)
        os.lseek(file, 0, os.SEEK_SET)
    except BaseException:
        os.close(file)
        raise
    return file


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
