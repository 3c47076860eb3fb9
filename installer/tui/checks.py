"""Checks of the network, every few seconds: DNS, gateway, the release's registry (reference/installer.md §4.4)."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from installer.tui import host

EVERY_SECONDS = 5.0
ANSWER_SECONDS = 5.0
_RESOLV = host.ROOT / "etc/resolv.conf"
_REGISTRIES = host.ROOT / "etc/containers/registries.conf"
_CAS = host.ROOT / "etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Check:
    """A check: `ok` is None as long as it has not been made."""

    name: str
    ok: bool | None
    text: str


def mirrors_of(image: str, config: dict[str, Any]) -> list[str]:
    """Return the registries that an image is pulled from, mirrors first, by the longest prefix that fits (as
    containers-registries.conf(5) says)."""
    best: dict[str, Any] = {}
    length = -1
    for entry in config.get("registry", []):
        prefix = str(entry.get("prefix") or entry.get("location") or "")
        fits = prefix and image.startswith(prefix) and image[len(prefix) : len(prefix) + 1] in ("", "/", ":", "@")
        if fits and len(prefix) > length:
            best, length = entry, len(prefix)
    places = [str(mirror.get("location", "")) for mirror in best.get("mirror", [])]
    if not best.get("blocked"):
        places.append(str(best.get("location") or "") or image)
    return list(dict.fromkeys(place.partition("/")[0] for place in places if place))


def registries() -> list[str]:
    """Return the release's registries, as HOST or HOST:PORT."""
    image = host.variables(host.ROOT / "etc/assisted/agent-installer.env").get("RELEASE_IMAGE", "")
    try:
        config = tomllib.loads(_REGISTRIES.read_text())
    except (OSError, ValueError):
        config = {}
    return mirrors_of(image, config) if image else []


def servers() -> list[str]:
    """Return the DNS servers that this machine asks."""
    try:
        words = [line.split() for line in _RESOLV.read_text().splitlines()]
    except OSError:
        return []
    return [word[1] for word in words if len(word) > 1 and word[0] == "nameserver"]


def _name(registry: str) -> str:
    """Return a registry's host without its port."""
    if registry.startswith("["):
        return registry[1:].partition("]")[0]
    return registry.rpartition(":")[0] if registry.count(":") == 1 else registry


def dns(registry: str) -> Check:
    """Check that a DNS server knows the registry's name."""
    asked = servers()
    if not asked:
        return Check("DNS", False, "no DNS server is set")
    name, who = _name(registry), ", ".join(asked)
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        why = "does not answer" if error.errno == socket.EAI_AGAIN else "has no address for"
        text = f"{who} {why}" + (f" (asked for {name})" if error.errno == socket.EAI_AGAIN else f" {name}")
        return Check("DNS", False, text)
    return Check("DNS", True, f"{who}: {name} is {found[0][4][0]}")


def gateway() -> Check:
    """Check that the default gateway is there: by a ping, or because it has given its MAC address."""
    ways = host.gateways()
    if not ways:
        return Check("Gateway", False, "there is no default gateway")
    for address, nic in ways:
        code, _ = host.run("ping", "-c", "1", "-W", "2", "-I", nic, address, seconds=5)
        if code == 0 or host.neighbour(address):
            return Check("Gateway", True, f"{address} on {nic}" + ("" if code == 0 else " (answers no ping)"))
    return Check("Gateway", False, f"{ways[0][0]} on {ways[0][1]} does not answer")


def registry() -> Check:
    """Check that a registry which the release comes from answers; the first that does is enough."""
    failures = []
    for place in registries():
        try:
            context = ssl.create_default_context(cafile=str(_CAS) if _CAS.exists() else None)
            with urllib.request.urlopen(f"https://{place}/v2/", timeout=ANSWER_SECONDS, context=context):
                return Check("Registry", True, f"{place} answers")
        except urllib.error.HTTPError:  # it wants a password, and is there
            return Check("Registry", True, f"{place} answers")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            failures.append(f"{place}: {getattr(reason, 'strerror', None) or reason}")
    proxy = os.environ.get("HTTPS_PROXY", "").rpartition("@")[2]
    by = f" (through the proxy {proxy})" if proxy else ""
    return Check("Registry", False, "; ".join(failures) + by if failures else "no release is named")


class Checks:
    """Checks that are made again and again in a thread; `results` are the last ones."""

    def __init__(self) -> None:
        self.results = [Check(name, None, "being checked") for name in ("DNS", "Gateway", "Registry")]
        self._wake = threading.Event()
        threading.Thread(target=self._loop, daemon=True).start()

    def again(self) -> None:
        """Have them made now."""
        self.results = [Check(check.name, None, "being checked") for check in self.results]
        self._wake.set()

    def _loop(self) -> None:
        makers: tuple[Callable[[], Check], ...] = (lambda: dns((registries() or [""])[0]), gateway, registry)
        while True:
            self._wake.clear()
            for index, make in enumerate(makers):
                check = make()
                if not self._wake.is_set():  # else the network has changed meanwhile
                    self.results = [*self.results[:index], check, *self.results[index + 1 :]]
            self._wake.wait(EVERY_SECONDS)
