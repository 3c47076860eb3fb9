"""Files of the agent ISO for one host: /etc/assisted/network/hostN/ (nmstate.md §1.5, installer.md §4.2)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from installer.network.errors import InvalidNetworkConfig
from installer.network.generate import SUFFIX, planned, profiles
from installer.network.keyfile import render
from installer.network.profiles.plan import Plan
from installer.network.reading.model import Document, Interface
from installer.network.reading.reader import Fields, Problems

log = logging.getLogger(__name__)

MAC_FILE = "mac_interface.ini"
# How the paths of problems with the host itself begin, as no path in a document does.
HOST = "hosts[]"
# What a host's NIC is called that install-config knows by its MAC address alone (installer/config/rules/agent.py).
BOOT_NIC = "boot"
_COLONS = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
# Names that systemd gives by a NIC's slot: they are the same at every boot, so they need no mapping.
_PREDICTABLE = re.compile(r"en[PsvxXbucaipod]")


def host_network_files(
    interfaces: Sequence[Mapping[str, Any]], config: Mapping[str, Any], *, warn: Callable[..., None] = log.warning
) -> dict[str, str]:
    """File name to text of one host's network directory.

    `interfaces` are the host's {name, macAddress}: by these MAC addresses a machine knows at boot that the directory is
    its own, and renames each logical name to the kernel's; of a name that is no NIC's in the document, this warns
    (`warn` is called as a logger's method is).
    Every profile gets autoconnect=true and autoconnect-priority=1, as the assisted service does it (state: down is
    overridden by that, as there). Raises InvalidNetworkConfig with all problems of both arguments; paths into
    `interfaces` start with `hosts[].interfaces`, those into the document are its own.
    """
    problems = Problems()
    pairs = _read_mapping(interfaces, problems)
    rendered: list[tuple[str, dict[str, dict[str, str]]]] = []
    try:
        document, plan, extra = planned(config, {name: mac.upper() for mac, name in pairs})
        rendered = profiles(plan, extra)
        if not rendered:
            problems.add("interfaces", None, "no profile comes out of this document, so the host would have no network")
    except InvalidNetworkConfig as err:
        problems.all += err.problems
    if problems.all:
        raise InvalidNetworkConfig(problems.all)
    pairs = _mapped(pairs, document, plan, warn)
    files = {}
    for name, sections in rendered:
        sections["connection"] |= {"autoconnect": "true", "autoconnect-priority": "1"}
        files[f"{name}{SUFFIX}"] = render(sections)
    # Upstream ends the last line without a newline, and the shell's `read` takes such a line for the end of the file.
    files[MAC_FILE] = "".join(f"{line}\n" for line in sorted(f"{mac}={name}" for mac, name in pairs))
    return files


def _read_mapping(interfaces: Sequence[Mapping[str, Any]], problems: Problems) -> list[tuple[str, str]]:
    """(MAC address, logical name) of each, as given; the name may be empty or one that the document does not use."""
    pairs: list[tuple[str, str]] = []
    host = Fields({"interfaces": interfaces}, HOST, problems)
    entries = list(host.tables("interfaces"))
    if not entries:
        host.problem("interfaces", None, "at least one interface for host must be provided")
    for fields in entries:
        fields.required("macAddress")
        name, mac = str(fields.raw("name") or ""), fields.mac("macAddress")
        if name in [other for _, other in pairs]:
            fields.problem("name", name, "interface names must be unique within a host")
        if not name.isprintable():
            fields.problem("name", name, "must have no line breaks and other control characters")
        if mac is None:
            continue
        written = str(fields.raw("macAddress"))
        if not _COLONS.fullmatch(written):
            text = "is incorrectly formatted, use XX:XX:XX:XX:XX:XX format"
            fields.problem("macAddress", written, text)
        if mac in [other.upper() for other, _ in pairs]:
            fields.problem("macAddress", mac, "MAC addresses must be unique within a host")
        pairs.append((written, name))
    return pairs


def _mapped(
    pairs: Sequence[tuple[str, str]], document: Document, plan: Plan, warn: Callable[..., None]
) -> list[tuple[str, str]]:
    """Return the pairs with the names that the document has for these NICs, empty for a name that is another
    interface's: the boot script would give that one the NIC's name. Warns of those, of names without use, and of NICs
    without a name."""
    nics = _nics(plan)
    kinds = {interface.name: interface.kind for interface in document.interfaces} | {
        interface.name: interface.kind for interface in plan.interfaces
    }
    written = {name for _, name in pairs}
    mapped = []
    for mac, name in pairs:
        # The NIC may set its own address again, or be found by it.
        same = [
            interface
            for interface in nics.values()
            if interface and interface.mac == mac.upper() and interface.name not in written
        ]
        if name not in nics and len(same) == 1:
            if name and not same[0].by_mac:
                warn("interface %s of MAC address %s is taken for %s of networkConfig", name, mac, same[0].name)
            name = same[0].name
        elif name in kinds and name not in nics:
            warn(
                "the name %s of MAC address %s is that of the %s in networkConfig, not of a NIC: only the MAC address "
                "counts",
                *(name, mac, kinds[name]),
            )
            name = ""
        elif name not in (*nics, "", BOOT_NIC):
            text = "networkConfig does not use interface %s of MAC address %s; its NICs are: %s"
            warn(text, name, mac, ", ".join(nics) or "none")
        mapped.append((mac, name))
    for name in sorted(nics.keys() - {name for _, name in mapped}):
        nic = nics[name]
        # At boot another NIC may have that name, or none.
        if not ((nic and nic.by_mac) or _PREDICTABLE.match(name)):
            warn(
                "networkConfig has interface %s, which is not among the host's interfaces: it gets its network only "
                "if the kernel calls it so",
                name,
            )
    return mapped


def _nics(plan: Plan) -> dict[str, Interface | None]:
    """Return the hardware that the document names, by name: None for what is only the base of a VLAN or the like."""
    peers = {interface.shape.peer for interface in plan.interfaces}
    made = {interface.name: interface for interface in plan.interfaces}
    bases = {interface.shape.parent for interface in plan.interfaces if interface.shape.parent} - made.keys() - peers
    hardware = {
        interface.name: interface
        for interface in plan.interfaces
        if (interface.kind == "ethernet" or (interface.kind == "infiniband" and not interface.shape.parent))
        and interface.name not in peers
    }
    return hardware | dict.fromkeys(sorted(bases))
