"""Routes, rules and resolver settings belong to the host, but keyfiles hold them: which profile gets which."""

from __future__ import annotations

from dataclasses import replace

from installer.network.interfaces.ip import loopback_ip
from installer.network.profiles.plan import Plan, userspace
from installer.network.reading.dns import Extra, place_dns
from installer.network.reading.model import LOOPBACK, MAIN_TABLE, Document, Interface, Route, Rule, Shape
from installer.network.reading.reader import Problems
from installer.network.reading.routes import route_keys, rule_text


def place(document: Document, plan: Plan, problems: Problems) -> tuple[Plan, Extra]:
    """Return the plan, with a profile for `lo` when something needs one, and the keys of each (interface, family)."""
    by_holder = _place_routes(document, plan, problems)
    rules = _place_rules(document, plan, by_holder, problems)
    # Interfaces made for ports have no addresses anyway.
    gateways = {key for key, routes in by_holder.items() if any(_leads_out(route) for route in routes)}
    extra: Extra = place_dns(document.dns, plan.interfaces, gateways, problems) if document.dns is not None else {}
    for key, routes in by_holder.items():
        extra.setdefault(key, {}).update(route_keys(routes))
    for key, texts in rules.items():
        extra.setdefault(key, {}).update({f"routing-rule{index}": text for index, text in enumerate(texts)})
    if any(name == LOOPBACK for name, _ in extra) and LOOPBACK not in [interface.name for interface in plan.interfaces]:
        plan = replace(plan, interfaces=(*plan.interfaces, _loopback()))
    _check_addresses(plan, by_holder, problems)
    return plan, extra


def _leads_out(route: Route) -> bool:
    return route.kind is None and route.destination.prefixlen == 0 and route.table == MAIN_TABLE


def _place_routes(document: Document, plan: Plan, problems: Problems) -> dict[tuple[str, int], list[Route]]:
    present = {interface.name: interface for interface in plan.interfaces if not userspace(interface)}
    states = {interface.name: interface.state for interface in document.interfaces if not userspace(interface)}
    placed: dict[tuple[str, int], list[Route]] = {}
    for route in document.routes:
        path = f"{route.path}.next-hop-interface"
        if route.kind is not None:
            placed.setdefault((LOOPBACK, route.family), []).append(route)
        elif route.interface is None:
            continue  # reported when the route was read
        elif route.interface not in present:
            rule = "is not an interface of this document"
            if route.interface in states:
                rule = f"is the name of an interface that this document has in state {states[route.interface]}"
            problems.add(path, route.interface, rule)
        elif not present[route.interface].enabled(route.family) or not plan.has_ip(present[route.interface]):
            problems.add(path, route.interface, f"does not have IPv{route.family} enabled")
        else:
            placed.setdefault((route.interface, route.family), []).append(route)
    return placed


def _place_rules(
    document: Document, plan: Plan, routes: dict[tuple[str, int], list[Route]], problems: Problems
) -> dict[tuple[str, int], list[str]]:
    kernel = [interface for interface in plan.interfaces if not userspace(interface)]
    placed: dict[tuple[str, int], list[str]] = {}
    for rule in document.rules:
        holder = _holder(rule, kernel, plan, routes)
        if rule.iif is not None and rule.iif not in [interface.name for interface in kernel]:
            problems.add(f"{rule.path}.iif", rule.iif, "is not an interface of this document")
            continue
        placed.setdefault((holder, rule.family), []).append(rule_text(rule))
    return placed


def _holder(rule: Rule, kernel: list[Interface], plan: Plan, routes: dict[tuple[str, int], list[Route]]) -> str:
    """Choose the profile for a rule, which belongs to the whole host, in upstream's steps (§2.5).

    Upstream's choice among several interfaces with routes varies from run to run; here the document's order decides.
    Only profiles with addresses of the family can hold a rule: NetworkManager keeps none on a disabled family.
    """
    able = [interface.name for interface in kernel if interface.enabled(rule.family) and plan.has_ip(interface)]
    if rule.iif in able:
        return rule.iif or ""
    for name in able:
        if any(route.table == rule.table for route in routes.get((name, rule.family), ())):
            return name
    for interface in sorted(kernel, key=lambda interface: interface.name):
        ip = interface.ip(rule.family)
        if interface.name in able and (MAIN_TABLE if ip is None else ip.auto_table) == rule.table:
            return interface.name
    return able[0] if able else LOOPBACK


def _check_addresses(plan: Plan, routes: dict[tuple[str, int], list[Route]], problems: Problems) -> None:
    """NetworkManager before 1.46 refuses a static profile that has routes and no address (§2.4)."""
    for interface in plan.interfaces:
        for family in (4, 6):
            ip = interface.ip(family)
            if (interface.name, family) in routes and ip is not None and not ip.auto and not ip.addresses:
                rule = f"has a route of IPv{family} and so needs an address, dhcp or autoconf"
                problems.add(f"{interface.path}.ipv{family}.address", None, rule)


def _loopback() -> Interface:
    return Interface(
        path=LOOPBACK,
        name=LOOPBACK,
        kind="loopback",
        state="up",
        shape=Shape(),
        ipv4=loopback_ip(4),
        ipv6=loopback_ip(6),
    )
