"""Follow-on errors: a mistake is reported once; independent mistakes all are."""

import copy

import pytest

from installer.network import InvalidNetworkConfig, keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import GOOD


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
