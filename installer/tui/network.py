"""NetworkManager's profiles changed on the console, and taken back."""

from __future__ import annotations

import re
import shutil

from installer.tui import host
from installer.tui.keyfiles import OWN, Network, profiles
from installer.tui.rendezvous import write

FOLDER = host.ROOT / "etc/NetworkManager/system-connections"
#: What FOLDER held before the last change.
BEFORE = host.ROOT / "run/agent-tui/before"
# DHCP needs a few; one that has not answered by then may do so later all the same.
UP_SECONDS = "20"
_INTERFACE = re.compile(r"^interface-name=(.*)$", re.MULTILINE)


def can_take_back() -> bool:
    """Return whether there is a change to be taken back."""
    return BEFORE.is_dir()


def apply(network: Network) -> str:
    """Make this the network of its NICs; what they had before is kept. Returns NetworkManager's complaint, or empty.

    It is in place even where NetworkManager complains: a DHCP server that does not answer may do so later.
    """
    remember()
    files = profiles(network)
    claimed = {*network.ports, network.nic, network.base, network.top}
    for file in FOLDER.glob("*.nmconnection"):
        found = _INTERFACE.search(file.read_text())
        if found and found[1].strip() in claimed:
            file.unlink()
    for name, text in files.items():
        write(FOLDER / name, text, 0o600)
    return _brought_up([name.removesuffix(".nmconnection") for name in files])


def remember() -> None:
    """Keep the profiles as they are now, for `take_back`."""
    shutil.rmtree(BEFORE, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copytree(FOLDER, BEFORE)


def take_back() -> str:
    """Put back the profiles that were there before the last change. Returns NetworkManager's complaint, or empty."""
    claimed = _interfaces()
    for file in FOLDER.glob("*.nmconnection"):
        file.unlink()
    names = []
    for file in sorted(BEFORE.glob("*.nmconnection")):
        write(FOLDER / file.name, file.read_text(), 0o600)
        names.append(file.name.removesuffix(".nmconnection"))
    shutil.rmtree(BEFORE)
    complaint = _brought_up([name for name in names if name.startswith(OWN)])
    # NICs that have no profile any more: NetworkManager takes what it has for them, its own if need be.
    for name in sorted((claimed - _interfaces()) & {nic.name for nic in host.nics() if nic.physical}):
        code, why = host.run("nmcli", "--wait", UP_SECONDS, "device", "connect", name)
        complaint = complaint or (why if code else "")
    return complaint


def _interfaces() -> set[str]:
    """Return the interfaces that profiles are for."""
    found = (_INTERFACE.search(file.read_text()) for file in FOLDER.glob("*.nmconnection"))
    return {match[1].strip() for match in found if match}


def _brought_up(names: list[str]) -> str:
    """Have NetworkManager read the profiles, and bring these up. Returns its first complaint, or empty."""
    code, complaint = host.run("nmcli", "connection", "reload")
    complaint = complaint if code else ""
    for name in names:
        code, why = host.run("nmcli", "--wait", UP_SECONDS, "connection", "up", "id", name)
        complaint = complaint or (why if code else "")
    return complaint
