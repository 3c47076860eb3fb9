"""What the agent ISO carries for one host: /etc/assisted/network/hostN/ (nmstate.md §1.5, installer.md §4.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from installer.network.errors import InvalidNetworkConfig
from installer.network.generate import SUFFIX, profiles
from installer.network.keyfile import render
from installer.network.model import Interface
from installer.network.plan import Plan
from installer.network.reader import Fields, Problems

MAC_FILE = "mac_interface.ini"
# Names that systemd gives by a NIC's place in the machine: they are the same at every boot and need no mapping.
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
    logical = _read_mapping(interfaces, problems)
    made: list[tuple[str, dict[str, dict[str, str]]]] = []
    try:
        made = profiles(config, lambda plan, found: _check_mapping(plan, logical, found))
        if not made:
            problems.add("interfaces", None, "no profile comes out of this document, so the host would have no network")
    except InvalidNetworkConfig as err:
        problems.found += err.problems
    if problems.found:
        raise InvalidNetworkConfig(problems.found)
    files = {}
    for name, sections in made:
        sections["connection"] |= {"autoconnect": "true", "autoconnect-priority": "1"}
        files[f"{name}{SUFFIX}"] = render(sections)
    # Upstream ends the last line without a newline, and the shell's `read` takes such a line for the end of the file.
    files[MAC_FILE] = "".join(f"{line}\n" for line in sorted(f"{mac}={name}" for name, mac in logical.items()))
    return files


def _read_mapping(interfaces: Sequence[Mapping[str, Any]], problems: Problems) -> dict[str, str]:
    """Logical name to MAC address, as given."""
    logical: dict[str, str] = {}
    seen: set[str] = set()
    host = Fields({"interfaces": interfaces}, "hosts[]", problems)
    entries = list(host.tables("interfaces"))
    if not entries:
        host.problem("interfaces", None, "at least one interface for host must be provided")
    for fields in entries:
        fields.required("name")
        fields.required("macAddress")
        name, mac = fields.interface("name"), fields.mac("macAddress")
        if name is not None and name in logical:
            fields.problem("name", name, "interface names must be unique within a host")
        if mac is not None and mac in seen:
            fields.problem("macAddress", mac, "MAC addresses must be unique within a host")
        if name is not None and mac is not None:
            logical[name] = str(fields.raw("macAddress")).replace("-", ":")
            seen.add(mac)
    return logical


def _check_mapping(plan: Plan, logical: Mapping[str, str], problems: Problems) -> None:
    """A NIC that is neither mapped nor named by its place could be another machine's, or none."""
    for one in plan.interfaces:
        if _is_nic(one, plan) and not (one.by_mac or one.name in logical or _PREDICTABLE.match(one.name)):
            problems.add(one.path, one.name, "no mac-interface mapping for interface: add it to the host's interfaces")


def _is_nic(one: Interface, plan: Plan) -> bool:
    if one.kind != "ethernet":
        return False
    virtual = {other.shape.peer for other in plan.interfaces if other.shape.peer is not None}
    return one.name not in virtual
