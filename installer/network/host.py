"""What the agent ISO carries for one host: /etc/assisted/network/hostN/ (nmstate.md §1.5, installer.md §4.2)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from installer.network.errors import InvalidNetworkConfig
from installer.network.generate import SUFFIX, profiles
from installer.network.keyfile import render
from installer.network.profiles.plan import Plan
from installer.network.reading.model import Interface
from installer.network.reading.reader import Fields, Problems

log = logging.getLogger(__name__)

MAC_FILE = "mac_interface.ini"
# How the paths of problems with the host itself begin, as no path in a document does.
HOST = "hosts[]"
_COLONS = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
# Names that systemd gives by a NIC's slot: they are the same at every boot, so they need no mapping.
_PREDICTABLE = re.compile(r"en[PsvxXbucaipod]")


def host_network_files(interfaces: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> dict[str, str]:
    """File name to text of one host's network directory.

    `interfaces` are the host's {name, macAddress}: by these MAC addresses a machine knows at boot that the directory is
    its own, and renames each logical name to the kernel's. Every profile gets autoconnect=true and
    autoconnect-priority=1, as the assisted service does it (state: down is overridden by that, as there). Raises
    InvalidNetworkConfig with all problems of both arguments; paths into `interfaces` start with `hosts[].interfaces`,
    those into the document are its own.
    """
    problems = Problems()
    pairs = _read_mapping(interfaces, problems)
    names = {name for _, name in pairs}
    rendered: list[tuple[str, dict[str, dict[str, str]]]] = []
    try:
        rendered = profiles(config, lambda plan, _: _note_unmapped(plan, names))
        if not rendered:
            problems.add("interfaces", None, "no profile comes out of this document, so the host would have no network")
    except InvalidNetworkConfig as err:
        problems.all += err.problems
    if problems.all:
        raise InvalidNetworkConfig(problems.all)
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


def _note_unmapped(plan: Plan, names: Set[str]) -> None:
    """Warn of NICs that are neither mapped nor named by their slot: at boot another NIC may have that name, or none."""
    for one in plan.interfaces:
        if _is_nic(one, plan) and not (one.by_mac or one.name in names or _PREDICTABLE.match(one.name)):
            log.warning(
                "networkConfig has interface %s, which is not among the host's interfaces: it gets its network only "
                "if the kernel calls it so",
                one.name,
            )


def _is_nic(one: Interface, plan: Plan) -> bool:
    if one.kind != "ethernet":
        return False
    virtual = {other.shape.peer for other in plan.interfaces if other.shape.peer is not None}
    return one.name not in virtual
