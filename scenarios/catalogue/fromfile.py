"""`--topology FILE`: what it describes, and which of the scenarios are installed in it."""

from __future__ import annotations

import pytest

from lab import topology as shapes
from lab.errors import TopologyError
from lab.host.unsupported import unsupported
from scenarios.catalogue.ids import size_of
from scenarios.catalogue.scheduling import unit_of


def file_topology(config: pytest.Config) -> shapes.Topology | None:
    """Return the topology of --topology, or None without the option. Raises UsageError with all that is wrong with it
    or cannot be made here."""
    file = config.getoption("--topology")
    if not file:
        return None
    try:
        topology = shapes.load(file).with_machines(config.getoption("--machines"))
        if not topology.masters:
            raise TopologyError(file, "nodes: none is a master, and a cluster has one at least")
        if lines := unsupported(topology):
            raise TopologyError(file, lines)
    except TopologyError as error:
        raise pytest.UsageError(str(error)) from error
    return topology


def of_topology(items: list[pytest.Item], topology: shapes.Topology) -> list[pytest.Item]:
    """Return the tests for a topology from a file: of each, the scenario of its size that is most like it."""
    size = size_of(topology)
    families = {subnet.version for subnet in topology.machine_subnets}
    stack = "dual" if len(families) > 1 else f"ipv{min(families)}"
    likeness = {f"-{stack}-": 4, f"-{topology.addressing}-": 2, f"-{topology.nodes[0].firmware}": 1}
    by_id: dict[str, tuple[int, pytest.Item]] = {}
    for item in items:
        words = unit_of(item.nodeid).split("-")
        if words[0] != size or len(words) != 4:
            continue
        points = sum(worth for text, worth in likeness.items() if text in unit_of(item.nodeid))
        name = item.nodeid.partition("[")[0]
        if name not in by_id or points > by_id[name][0]:
            by_id[name] = (points, item)
    return [item for _, item in by_id.values()]
