"""What follows from a mistake is not reported as another one; independent mistakes all are."""

import copy

import pytest

from installer.network import InvalidNetworkConfig, keyfiles
from installer.network.document import load

GOOD = """
interfaces:
- {name: eno1, type: ethernet, state: up,
   ipv4: {enabled: true, address: [{ip: 10.0.0.2, prefix-length: 24}]},
   ipv6: {enabled: true, dhcp: true, autoconf: true}}
- {name: eno2, type: ethernet}
- {name: eno3, type: ethernet, ipv4: {enabled: true, dhcp: true}}
- {name: bond0, type: bond, link-aggregation: {mode: active-backup, port: [eno2], options: {miimon: 100}}}
- {name: br0, type: linux-bridge, bridge: {options: {stp: {enabled: false}}, port: [{name: eno4}]}}
- {name: vlan7, type: vlan, vlan: {base-iface: bond0, id: 7}}
routes:
  config: [{destination: 0.0.0.0/0, next-hop-address: 10.0.0.1, next-hop-interface: eno1}]
route-rules:
  config: [{ip-from: 10.0.0.0/24, route-table: 254}]
dns-resolver:
  config: {server: [10.0.0.1]}
"""


def places(value, path=()):
    """Yield the path of each value of a document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def problems_of(*changes):
    """Return the problems of the good document with these values changed."""
    document = copy.deepcopy(load(GOOD))
    for path, value in changes:
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    try:
        keyfiles(document)
    except InvalidNetworkConfig as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize("value", ["no such thing", None, [1], 3], ids=repr)
def test_one_mistake_is_one_problem(value):
    found = {path: problems_of((path, value)) for path in places(load(GOOD))}
    assert not {path: lines for path, lines in found.items() if len(lines) > 1}


def test_interfaces_without_a_mistake_are_still_judged():
    typo = (("routes", "config", 0, "next-hop-interface"), "eno9")
    found = problems_of((("interfaces", 2, "mtu"), "x"), typo)
    assert [line.split(":")[0] for line in found] == ["interfaces[2].mtu", "routes.config[0].next-hop-interface"]
    # Its name is not known, so the route may mean it.
    found = problems_of((("interfaces", 2, "name"), 7), typo)
    assert [line.split(":")[0] for line in found] == ["interfaces[2].name"]
