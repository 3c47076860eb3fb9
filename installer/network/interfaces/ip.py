"""The `ipv4` and `ipv6` sections of an interface (reference/nmstate.md §2.2, §2.3)."""

from __future__ import annotations

import re

from installer.network.keyfile import flag
from installer.network.reading.model import LOOPBACK, MAIN_TABLE, IpConfig
from installer.network.reading.reader import Fields

FOREVER = "forever"
# NetworkManager keeps trying for this many seconds, about 68 years: an address that comes late is still taken.
NO_TIMEOUT = "2147483647"
_DUID = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){2,127}")
_HOSTNAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


def read_ip(parent: Fields, family: int) -> IpConfig | None:
    """Read one family's section; None when it is missing. Problems go to the parent's collection."""
    name = f"ipv{family}"
    fields = parent.table(name)
    if fields is None:
        return None
    on = fields.boolean("enabled")
    dhcp = fields.boolean("dhcp") or False
    autoconf = False
    if family == 6:
        autoconf = fields.boolean("autoconf") or False
    elif fields.raw("autoconf") is not None:
        fields.problem("autoconf", fields.raw("autoconf"), "is of IPv6 only")
    addresses = _addresses(fields, family)
    enabled = on is True
    if not enabled:
        _refuse_without_enabled(fields, on, dhcp=dhcp, autoconf=autoconf, addressed=bool(addresses))
    if autoconf and not dhcp and enabled and not fields.problems.covers(fields.at("dhcp")):
        fields.problem("autoconf", True, "autoconf without dhcp is not supported")
    auto_dns, auto_table, dynamic = _dynamic(fields, family)
    addr_gen_mode, token = _addr_gen_mode(fields, autoconf) if family == 6 else ("", "")
    if family == 6:
        dynamic.update(_dynamic6(fields, token))
    else:
        dynamic["dhcp-client-id"] = _client_id(fields)
    fields.boolean("allow-extra-address", plain=True)
    fields.close()
    return IpConfig(
        path=fields.path,
        family=family,
        enabled=enabled,
        dhcp=dhcp,
        autoconf=autoconf,
        addresses=addresses,
        auto_dns=auto_dns,
        auto_table=auto_table,
        addr_gen_mode=addr_gen_mode,
        dynamic=dynamic,
    )


def loopback_ip(family: int) -> IpConfig:
    """Return the address that every loopback interface has, in the document or not."""
    address = "127.0.0.1/8" if family == 4 else "::1/128"
    return IpConfig(
        path=f"{LOOPBACK}.ipv{family}",
        family=family,
        enabled=True,
        dhcp=False,
        autoconf=False,
        addresses=(address,),
        auto_dns=True,
        auto_table=MAIN_TABLE,
        addr_gen_mode="0",
        dynamic={},
    )


def _refuse_without_enabled(fields: Fields, on: bool | None, *, dhcp: bool, autoconf: bool, addressed: bool) -> None:
    """Upstream drops all of these silently (§3): a host that was meant to have an address would have none."""
    if on is None and fields.problems.covers(fields.at("enabled")):
        return
    why = "needs enabled: true, which is missing" if on is None else "contradicts enabled: false"
    if addressed:
        fields.problem("address", fields.raw("address"), why)
    if dhcp:
        fields.problem("dhcp", True, why)
    if autoconf:
        fields.problem("autoconf", True, why)


def _addresses(fields: Fields, family: int) -> tuple[str, ...]:
    addresses: list[str] = []
    longest = 32 if family == 4 else 128
    for entry in fields.tables("address"):
        entry.required("ip")
        entry.required("prefix-length")
        ip = entry.address("ip")
        length = entry.integer("prefix-length", low=1, high=longest)
        lifetime = entry.text("valid-life-time", "valid-left", "valid-lft")
        entry.ignore("preferred-life-time", "preferred-left", "preferred-lft", "mptcp-flags")
        entry.close()
        if ip is None or length is None:
            continue
        if ip.version != family:
            entry.problem("ip", str(ip), f"is an IPv{ip.version} address in the ipv{family} section")
        elif ip.is_unspecified or ip.is_multicast:
            entry.problem("ip", str(ip), "must be an address that an interface can have")
        elif f"{ip}/{length}" in addresses:
            continue  # NetworkManager keeps one of equal addresses
        elif (family == 6 and ip.is_link_local) or lifetime not in (None, FOREVER):
            # `nmstatectl show` prints the kernel's link-local addresses and those of DHCP leases (§2.2, §2.3).
            continue
        else:
            addresses.append(f"{ip}/{length}")
    return tuple(addresses)


def _dynamic(fields: Fields, family: int) -> tuple[bool, int, dict[str, str]]:
    """(auto-dns, the table for automatic routes, the keyfile keys) that both families share when dynamic."""
    auto = {name: fields.boolean(name) is not False for name in ("auto-dns", "auto-gateway", "auto-routes")}
    table = fields.integer("auto-route-table-id")
    metric = fields.integer("auto-route-metric")
    send = fields.boolean("dhcp-send-hostname", plain=True) is not False
    hostname = fields.text(
        "dhcp-custom-hostname",
        rule="must be a host name",
        check=lambda text: len(text) < 254 and _HOSTNAME.fullmatch(text) is not None,
    )
    keys = {
        "ignore-auto-dns": flag(not auto["auto-dns"]),
        "never-default": flag(not auto["auto-gateway"]),
        "ignore-auto-routes": flag(not auto["auto-routes"]),
        "dhcp-send-hostname": flag(send),
        "route-table": "" if table is None else str(table),
        "route-metric": "" if metric is None else str(metric),
    }
    if hostname is not None and send:
        keys["dhcp-fqdn" if family == 4 and "." in hostname else "dhcp-hostname"] = hostname
    elif hostname is not None:
        fields.problem("dhcp-custom-hostname", hostname, "contradicts dhcp-send-hostname: false")
    return auto["auto-dns"], table or MAIN_TABLE, keys


def _client_id(fields: Fields) -> str:
    text = fields.text("dhcp-client-id")
    keywords = {"ll": "mac", "iaid+duid": "duid"}
    return keywords.get((text or "ll").lower(), text or "")


def _addr_gen_mode(fields: Fields, autoconf: bool) -> tuple[str, str]:
    modes = {"eui64": "0", "EUI64": "0", "stable-privacy": "1", "STABLE-PRIVACY": "1", 0: "0", 1: "1"}
    mode = fields.choice("addr-gen-mode", modes) or "0"
    token = fields.address("token") if fields.raw("token") != "" else None
    if token is None or (token.version == 6 and int(token) == 0):
        return mode, ""
    if token.version != 6 or int(token) >> 64:
        fields.problem("token", str(token), "must be an IPv6 token: 64 zero bits, then the interface part")
    elif not autoconf:
        fields.problem("token", str(token), "needs autoconf: true")
    elif mode != "0":
        # NetworkManager refuses the whole profile (§2.3).
        fields.problem("token", str(token), "needs addr-gen-mode eui64")
    return mode, str(token)


def _dynamic6(fields: Fields, token: str) -> dict[str, str]:
    keywords = {"ll": "ll", "llt": "llt"}
    text = fields.text("dhcp-duid") or "ll"
    duid = keywords.get(text.lower(), text)
    if duid not in keywords and not _DUID.fullmatch(duid):
        # `en` and `uuid` need numbers that nmstate has no field for; NetworkManager refuses them as they stand.
        fields.problem("dhcp-duid", text, "must be ll, llt, or a DUID as hexadecimal bytes joined by colons")
    return {"dhcp-duid": duid, "dhcp-iaid": "mac", "ra-timeout": NO_TIMEOUT, "token": token}
