"""Bonds: the `link-aggregation` section (reference/nmstate.md §2.8)."""

from __future__ import annotations

from installer.network.reading import values
from installer.network.reading.model import Port, Shape
from installer.network.reading.reader import Fields

MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")

_U16, _U32 = (1 << 16) - 1, (1 << 32) - 1
# Highest value of each number; the kernel's documentation of bonding and NetworkManager's checks give the same.
_NUMBERS = {
    "ad_actor_sys_prio": (1, _U16),
    "ad_user_port_key": (0, 1023),
    "arp_interval": (0, (1 << 31) - 1),
    "downdelay": (0, (1 << 31) - 1),
    "lp_interval": (1, (1 << 31) - 1),
    "miimon": (0, (1 << 31) - 1),
    "min_links": (0, (1 << 31) - 1),
    "num_grat_arp": (0, 255),
    "num_unsol_na": (0, 255),
    "packets_per_slave": (0, _U16),
    "resend_igmp": (0, 255),
    "updelay": (0, (1 << 31) - 1),
}
_SWITCHES = ("tlb_dynamic_lb", "use_carrier")
_NAMES = {
    "ad_select": ("stable", "bandwidth", "count"),
    "all_slaves_active": ("dropped", "delivered"),
    "arp_all_targets": ("any", "all"),
    "arp_validate": ("none", "active", "backup", "all", "filter", "filter_active", "filter_backup"),
    "fail_over_mac": ("none", "active", "follow"),
    "lacp_rate": ("slow", "fast"),
    "primary_reselect": ("always", "better", "failure"),
    "xmit_hash_policy": ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"),
}
# NetworkManager drops these in other modes silently, or refuses the profile.
_WITH_ARP = ("balance-rr", "active-backup", "balance-xor", "broadcast")
_ONLY = {
    **dict.fromkeys(("ad_actor_sys_prio", "ad_actor_system", "ad_user_port_key", "lacp_rate"), ("802.3ad",)),
    **dict.fromkeys(("arp_interval", "arp_ip_target", "arp_validate"), _WITH_ARP),
    "packets_per_slave": ("balance-rr",),
    "primary": ("active-backup", "balance-tlb", "balance-alb"),
    "tlb_dynamic_lb": ("balance-tlb", "balance-alb"),
}
_ARP_MISSED_DEFAULT = 2


def read_bond(fields: Fields) -> Shape:
    """Read the section; its ports are None when the document lists none."""
    fields.required("link-aggregation")
    section = fields.table("link-aggregation")
    if section is None:
        return Shape()
    section.required("mode")
    mode = section.choice("mode", _numbered(MODES))
    keys = {"mode": mode or ""}
    options = section.table("options")
    if options is not None:
        keys |= _options(options)
        _check_together(fields, options, mode, keys)
    ports = _ports(section)
    section.close()
    primary = keys.get("primary")
    if options is not None and primary and ports is not None and primary not in [port.name for port in ports]:
        options.problem("primary", primary, "must be a port of this bond")
    return Shape({"bond": keys}, ports=ports)


def _numbered(names: tuple[str, ...]) -> dict[str | int, str]:
    return {**{name: name for name in names}, **dict(enumerate(names))}


def _options(options: Fields) -> dict[str, str]:
    keys: dict[str, str] = {}
    for name, (low, high) in _NUMBERS.items():
        if (number := options.integer(name, low=low, high=high)) is not None:
            keys[name] = str(number)
    for name, names in _NAMES.items():
        if (word := options.choice(name, _numbered(names))) is not None:
            keys[name] = str(names.index(word)) if name == "all_slaves_active" else word
    for name in _SWITCHES:
        if (switch := options.boolean(name)) is not None:
            keys[name] = str(int(switch))
    if (switch := options.boolean("balance-slb", "balance_slb")) is not None:
        keys["balance-slb"] = str(int(switch))
    missed = options.integer("arp_missed_max", low=0, high=255)
    if missed is not None and missed != _ARP_MISSED_DEFAULT:
        keys["arp_missed_max"] = str(missed)
    if (system := options.mac("ad_actor_system")) is not None:
        keys["ad_actor_system"] = system
        if int(system[:2], 16) & 1 or system == "00:00:00:00:00:00":
            options.problem("ad_actor_system", system, "must be a unicast MAC address")
    if (primary := options.interface("primary")) is not None:
        keys["primary"] = primary
    if (targets := options.text("arp_ip_target")) is not None:
        addresses = [values.address(part.strip()) for part in targets.split(",")]
        if any(address is None or address.version != 4 for address in addresses) or len(addresses) > 16:
            options.problem("arp_ip_target", targets, "must be 1 to 16 IPv4 addresses joined by commas")
        else:
            keys["arp_ip_target"] = ",".join(str(address) for address in addresses)
    options.close()
    return keys


def _check_together(fields: Fields, options: Fields, mode: str | None, keys: dict[str, str]) -> None:
    """Refuse combinations that upstream or NetworkManager refuses."""
    monitored = int(keys.get("miimon", "0")) > 0
    if monitored and int(keys.get("arp_interval", "0")) > 0:
        options.problem("arp_interval", keys["arp_interval"], "cannot be used with miimon")
    if (int(keys.get("arp_interval", "0")) > 0) != ("arp_ip_target" in keys):
        name, other = (
            ("arp_ip_target", "arp_interval") if "arp_ip_target" in keys else ("arp_interval", "arp_ip_target")
        )
        options.problem(name, keys[name], f"needs {other}")
    for name in ("updelay", "downdelay"):
        if int(keys.get(name, "0")) > 0 and keys.get("miimon") == "0":
            options.problem(name, keys[name], "needs miimon above 0")
    if keys.get("num_grat_arp", keys.get("num_unsol_na")) != keys.get("num_unsol_na", keys.get("num_grat_arp")):
        options.problem("num_unsol_na", keys["num_unsol_na"], "must be the same as num_grat_arp")
    for name, modes in _ONLY.items():
        if name in keys and mode is not None and mode not in modes:
            options.problem(name, keys[name], f"does not apply to mode {mode}, only to {', '.join(modes)}")
    if mode == "active-backup" and keys.get("fail_over_mac") == "active" and fields.has("mac-address"):
        fields.problem("mac-address", None, "cannot be set on a bond in mode active-backup with fail_over_mac active")
    if keys.get("balance-slb") == "1" and not (mode == "balance-xor" and keys.get("xmit_hash_policy") == "vlan+srcmac"):
        options.problem("balance-slb", True, "needs mode balance-xor with xmit_hash_policy vlan+srcmac")


def _ports(section: Fields) -> tuple[Port, ...] | None:
    plain: dict[str, Port] = {}
    for path, port in section.interfaces("port", "ports"):
        if port in plain:
            section.problems.add(path, port, "is given twice")
        plain[port] = Port(port, path)
    listed = section.has("port") or section.has("ports")
    detailed: dict[str, Port] = {}
    queues: dict[int, str] = {}
    for entry in section.tables("ports-config"):
        entry.required("name")
        name = entry.interface("name")
        priority = entry.integer("priority", low=-(1 << 31), high=(1 << 31) - 1)
        queue = entry.integer("queue-id", high=_U16)
        entry.close()
        if queue:
            if queue in queues:
                entry.problem("queue-id", queue, f"is taken by {queues[queue]}")
            queues[queue] = name or ""
        if name is None:
            continue
        if name in detailed:
            entry.problem("name", name, "is given twice")
        keys = {"prio": "" if priority is None else str(priority), "queue-id": "" if queue is None else str(queue)}
        keys = {key: value for key, value in keys.items() if value}
        detailed[name] = Port(name, entry.path, {"bond-port": keys} if keys else {})
    if listed and section.has("ports-config") and set(plain) != set(detailed):
        odd = sorted(set(plain) ^ set(detailed))
        section.problem("ports-config", ", ".join(odd), "must name the same ports as port")
    if not listed and not section.has("ports-config"):
        return None
    return tuple({**plain, **detailed}.values())
