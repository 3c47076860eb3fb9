"""The live host as the console sees it: its files, its programs' answers, its addresses."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where tests have a host's files.
ROOT = Path(os.environ.get("PATH_PREFIX") or "/")
ENVIRONMENT = ROOT / "etc/assisted/rendezvous-host.env"
TEMPLATE = ENVIRONMENT.with_suffix(".env.template")
UNITS = ROOT / "etc/assisted/interactive-units"
TLS = ROOT / "opt/agent/tls"
COMMAND_SECONDS = 90.0


@dataclass(frozen=True)
class Nic:
    """A NIC of this machine, or an interface that was made of some: `addresses` with their prefixes."""

    name: str
    mac: str
    up: bool
    addresses: tuple[str, ...]
    physical: bool = True


def run(*words: str, seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
    """Run a program; returns its exit code, and the last line that it wrote (stderr's, where that has one)."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return 127, f"{words[0]} is not there"
    except subprocess.TimeoutExpired:
        return 124, f"{words[0]} did not end within {seconds:g} s"
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return done.returncode, lines[-1] if lines else ""


def _json(*words: str) -> list[dict[str, Any]]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
        value = json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return [entry for entry in value if isinstance(entry, dict) and entry]


def parse_nics(links: list[dict[str, Any]]) -> list[Nic]:
    """Return the interfaces in the output of `ip -json -details address` that carry a host's networks."""
    nics = []
    for link in links:
        kind = link.get("linkinfo", {}).get("info_kind", "")
        if link.get("link_type") != "ether" or kind not in ("", "bond", "vlan", "veth"):
            continue
        addresses = tuple(
            f"{entry['local']}/{entry['prefixlen']}"
            for entry in link.get("addr_info", [])
            if entry.get("scope") == "global" and not entry.get("temporary")
        )
        physical = kind in ("", "veth")
        nics.append(Nic(link["ifname"], link.get("address", ""), "LOWER_UP" in link["flags"], addresses, physical))
    return nics


def nics() -> list[Nic]:
    """Return this machine's interfaces, in the kernel's order."""
    return parse_nics(_json("ip", "-json", "-details", "address"))


def own_addresses() -> list[str]:
    """Return the addresses that others reach this machine at."""
    return [address.partition("/")[0] for nic in nics() for address in nic.addresses]


def gateways() -> list[tuple[str, str]]:
    """Return the default gateways, each with the interface that it is reached by."""
    routes = [
        *_json("ip", "-json", "route", "show", "default"),
        *_json("ip", "-6", "-json", "route", "show", "default"),
    ]
    found = ((route.get("gateway", ""), route.get("dev", "")) for route in routes)
    return list(dict.fromkeys(pair for pair in found if pair[0]))


def route_to(address: str) -> str:
    """Return the way to an address, in words; empty where there is none."""
    for route in _json("ip", "-json", "route", "get", address):
        by = f" through gateway {route['gateway']}" if route.get("gateway") else ""
        return f"from {route.get('prefsrc', '?')} on {route.get('dev', '?')}{by}"
    return ""


def neighbour(address: str) -> bool:
    """Tell whether a machine on a connected network has answered for an address lately."""
    known = _json("ip", "-json", "neighbour", "show", address)
    return any(entry.get("lladdr") and "FAILED" not in entry.get("state", []) for entry in known)


def variables(path: Path) -> dict[str, str]:
    """Return the variables of an environment file, none where it is not there."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    return {name: value for name, found, value in (line.partition("=") for line in lines) if found}


def hostname() -> str:
    """Return this machine's name."""
    return os.uname().nodename


def notices() -> list[str]:
    """Return what the host's services say on the console: /etc/issue.d, in the order of its names, without what the
    pages say themselves."""
    texts = []
    for file in sorted((ROOT / "etc/issue.d").glob("*.issue")):
        if file.name == "60-rendezvous-host.issue":
            continue
        try:
            texts.append(" ".join(file.read_text().split()))
        except OSError:  # it was taken away meanwhile
            continue
    return [text for text in texts if text]
