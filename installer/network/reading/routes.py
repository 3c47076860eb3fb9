"""`routes` and `route-rules` (reference/nmstate.md §2.4, §2.5): read, canonical, not yet placed on an interface."""

from __future__ import annotations

import ipaddress

from installer.network.reading import values
from installer.network.reading.model import LOOPBACK, MAIN_TABLE, Route, Rule
from installer.network.reading.reader import Fields

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SPECIAL = ("blackhole", "unreachable", "prohibit")
# The first priority that a rule without one gets; NetworkManager's own start at the same number.
FIRST_AUTO_PRIORITY = 30000
_NETWORK_RULE = "must be ADDRESS or ADDRESS/LENGTH"
_ZERO_NET = ipaddress.IPv4Network("0.0.0.0/8")
_U32 = (1 << 32) - 1


def read_routes(document: Fields) -> tuple[Route, ...]:
    """Return the static routes in document order. `running` is what a host had, and says nothing about what it shall
    have."""
    fields = document.table("routes")
    if fields is None:
        return ()
    fields.ignore("running")
    routes = [route for entry in fields.tables("config") if (route := _read_route(entry)) is not None]
    fields.close()
    return tuple(routes)


def _read_route(entry: Fields) -> Route | None:
    absent = entry.choice("state", ("absent",)) is not None
    text = entry.text("destination")
    destination = values.network(text) if text is not None else None
    interface = entry.interface("next-hop-interface") if entry.raw("next-hop-interface") != "" else None
    next_hop = entry.address("next-hop-address")
    metric = entry.integer("metric", low=-1)
    table = entry.integer("table-id")
    weight = entry.integer("weight", low=1, high=256)
    kind = entry.choice("route-type", SPECIAL)
    cwnd = entry.integer("cwnd", low=1, plain=True)
    source = entry.address("source")
    entry.close()
    if text is not None and destination is None:
        entry.problem("destination", text, _NETWORK_RULE)
    if absent:
        return None
    if text is None:
        # Upstream leaves such a route out silently (§2.4).
        entry.problem("destination", None, "is required")
    if kind is None and interface is None and not entry.has("next-hop-interface"):
        entry.problem("next-hop-interface", None, "is required")
    if kind is not None and (next_hop is not None or interface not in (None, LOOPBACK)):
        entry.problem("route-type", kind, "cannot have a next hop")
    if destination is None:
        return None
    _check_families(entry, destination, next_hop, source)
    if weight is not None and destination.version == 6:
        entry.problem("weight", weight, "is of IPv4 routes only")
    if kind is None and isinstance(destination, ipaddress.IPv4Network) and _ZERO_NET.supernet_of(destination):
        entry.problem("destination", text, "must not be within 0.0.0.0/8; the default route is 0.0.0.0/0")
    return Route(
        path=entry.path,
        destination=destination,
        interface=None if kind is not None else interface,
        next_hop=None if next_hop is None else str(next_hop),
        metric=max(metric or 0, 0),
        table=table or MAIN_TABLE,
        weight=weight,
        kind=kind,
        cwnd=cwnd,
        source=None if source is None else str(source),
    )


def _check_families(
    entry: Fields, destination: Network, next_hop: values.Address | None, source: values.Address | None
) -> None:
    """NetworkManager drops a route of mixed families silently (§2.4)."""
    for name, address in (("next-hop-address", next_hop), ("source", source)):
        if address is not None and address.version != destination.version:
            entry.problem(name, str(address), f"must be an IPv{destination.version} address as the destination is")


def route_keys(routes: list[Route]) -> dict[str, str]:
    """routeN and routeN_options of one family of one interface, in upstream's order; equal routes count once.

    Upstream also drops a route that differs from another in its metric alone; both are kept here.
    """

    def order(route: Route) -> tuple[int, str, str, str, int, int]:
        hop, source = route.next_hop or "", route.source or ""
        return route.table, str(route.destination), hop, source, route.weight or 0, route.cwnd or 0

    keys: dict[str, str] = {}
    texts = dict.fromkeys(_route_text(route) for route in sorted(routes, key=order))
    for index, (target, options) in enumerate(texts):
        keys[f"route{index}"] = target
        keys[f"route{index}_options"] = options
    return keys


def _route_text(route: Route) -> tuple[str, str]:
    options = [f"table={route.table}"]
    if route.weight is not None:
        options.append(f"weight={route.weight}")
    if route.kind is not None:
        options.append(f"type={route.kind}")
    if route.cwnd is not None:
        options += [f"cwnd={route.cwnd}", "lock-cwnd=true"]
    if route.source is not None:
        options.append(f"src={route.source}")
    return f"{route.destination},{route.next_hop or ''},{route.metric}", ",".join(options)


def read_rules(document: Fields) -> tuple[Rule, ...]:
    """Return the policy rules in document order; those without a priority get 30000 and up (§2.5)."""
    fields = document.table("route-rules")
    if fields is None:
        return ()
    entries = list(fields.tables("config"))
    fields.close()
    priorities: list[int | None] = []
    live: list[Fields] = []
    for entry in entries:
        absent = entry.choice("state", ("absent",)) is not None
        priority = entry.integer("priority", low=-1)
        if absent:
            _read_rule(entry, 0, absent=True)
        else:
            priorities.append(None if priority == -1 else priority)
            live.append(entry)
    following = max([FIRST_AUTO_PRIORITY - 1, *(number for number in priorities if number is not None)])
    rules = []
    for entry, priority in zip(live, priorities, strict=True):
        if priority is None:
            following += 1
            priority = following
            if priority > _U32:
                entry.problem("priority", None, "is required: the highest one given leaves no number to count on from")
        if (rule := _read_rule(entry, priority)) is not None:
            rules.append(rule)
    return tuple(rules)


def _read_rule(entry: Fields, priority: int, *, absent: bool = False) -> Rule | None:
    ends: list[Network | None] = []
    for name in ("ip-from", "ip-to"):
        text = entry.text(name)
        end = values.network(text) if text is not None else None
        if text is not None and end is None:
            entry.problem(name, text, _NETWORK_RULE)
        ends.append(end)
    family_name = entry.choice("family", ("ipv4", "ipv6"))
    table = entry.integer("route-table")
    mark = entry.integer("fwmark")
    mask = entry.integer("fwmask")
    action = entry.choice("action", SPECIAL)
    iif = entry.interface("iif") if not absent or entry.raw("iif") != "" else None
    suppress = entry.integer("suppress-prefix-length", "suppress_prefixlength", low=0, high=128, plain=True)
    entry.close()
    if absent:
        return None
    if mask is not None and mark is None:
        entry.problem("fwmask", mask, "needs fwmark")
    if mark is not None and not mark and not mask:
        # NetworkManager takes a mark of 0 for no mark, so the rule would match every packet.
        entry.problem("fwmark", mark, "must not be 0 without a fwmask")
    if mark and mask == 0:
        entry.problem("fwmask", mask, "must not be 0 with a fwmark")
    families: set[int] = {end.version for end in ends if end is not None}
    if family_name is not None:
        families.add(int(family_name[-1]))
    if not families and not any(entry.raw(name) for name in ("ip-from", "ip-to", "family")):
        entry.problem("", None, "needs at least one of ip-from, ip-to, family")
    if len(families) > 1:
        entry.problem("family", family_name, "ip-from, ip-to and family must be of the same family")
    if len(families) != 1:
        return None
    if suppress is not None and suppress > 32 and families == {4}:
        entry.problem("suppress-prefix-length", suppress, "must be a whole number between 0 and 32 for IPv4")
    marked = None if mark is None else f"{mark}" if mask is None else f"{mark}/{mask}"
    source, destination = (None if end is None else str(end) for end in ends)
    return Rule(
        path=entry.path,
        family=families.pop(),
        priority=priority,
        source=source,
        destination=destination,
        iif=iif,
        suppress=suppress,
        action=action,
        table=table or MAIN_TABLE,
        mark=marked,
    )


def rule_text(rule: Rule) -> str:
    """One rule in the words of `ip rule`, as NetworkManager reads it."""
    words = [f"priority {rule.priority}"]
    if rule.destination is not None:
        words.append(f"to {rule.destination}")
    if rule.source is not None:
        words.append(f"from {rule.source}")
    if rule.destination is None and rule.source is None:
        words.append("from 0.0.0.0/0" if rule.family == 4 else "from ::/0")
    if rule.iif is not None:
        words.append(f"iif {rule.iif}")
    if rule.suppress is not None:
        words.append(f"suppress_prefixlength {rule.suppress}")
    if rule.action is not None:
        words.append(f"type {rule.action}")
    words.append(f"table {rule.table}")
    if rule.mark is not None:
        words.append(f"fwmark {rule.mark}")
    return " ".join(words)
