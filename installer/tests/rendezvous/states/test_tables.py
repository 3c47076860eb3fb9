"""The tables of states, steps and validations: whole, and of one mind."""

from __future__ import annotations

from types import ModuleType

import pytest

from installer.assisted import stages
from installer.assisted.enums import ClusterStatus, HostStatus, Stage
from installer.rendezvous.states import cluster as cs
from installer.rendezvous.states import host as hs
from installer.rendezvous.states.table import Guard
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations.cluster import table as cv
from installer.waitfor import decide

WARNINGS = {
    *("ntp-synced", "container-images-available", "mtu-valid", "release-domain-name-resolved-correctly"),
    "inventory-not-partially-truncated",
}


def test_the_seconds_of_a_stage_can_be_set() -> None:
    assert stages.timeout_of(Stage.REBOOTING, False, {}) == 40 * 60
    assert stages.timeout_of(Stage.REBOOTING, True, {}) == 80 * 60
    assert stages.timeout_of(Stage.REBOOTING, True, {"REBOOTING": 5.0}) == 5.0


def test_every_step_of_the_table_can_be_made() -> None:
    assert {kind for kinds, _, _ in steps.TABLE.values() for kind in kinds} <= set(steps.MAKERS)


def test_each_validation_blocks_warns_or_tells_of_presence() -> None:
    ids = {line.id for line in hv.TABLE}
    deciding = {*hs.MIN_HARDWARE, *hs.SUFFICIENT, "machine-cidr-defined"}
    assert ids - deciding == WARNINGS | {"connected", "media-connected"}
    assert decide.WARNINGS == WARNINGS
    assert {"connected", "media-connected"} == decide.PRESENCE
    assert deciding <= ids
    assert ids >= decide.LASTING
    assert set(cs.REQUIRED_INPUT) | set(cs.REQUIRED_INSTALL) <= {line.id for line in cv.TABLE}
    assert ids >= hv.NOT_IGNORABLE
    assert {line.id for line in cv.TABLE} >= cv.NOT_IGNORABLE


def test_every_status_is_somewhere_in_the_tables() -> None:
    sources = {status for row in hs.TABLE for status in row.sources}
    assert sources == set(HostStatus)
    assert {status for row in cs.TABLE for status in row.sources} == set(ClusterStatus)
    # Reclaiming is not offered: nothing leads there.
    reached = {row.to for row in hs.TABLE if row.to}
    assert set(HostStatus) - reached == {
        *(HostStatus.DISABLED, HostStatus.DISABLED_UNBOUND, HostStatus.RESETTING),
        *(HostStatus.RECLAIMING, HostStatus.RECLAIMING_REBOOTING),
    }


@pytest.mark.parametrize("states", [hs, cs], ids=["hosts", "clusters"])
def test_every_guard_is_asked_by_some_row(states: ModuleType) -> None:
    defined = {name: item for name, item in vars(states).items() if isinstance(item, Guard)}
    asked = {guard.test for row in states.TABLE for guard in row.guards}
    assert sorted(name for name, guard in defined.items() if guard.test not in asked) == []
    assert asked == {guard.test for guard in defined.values()}, "a row asks a guard that has no name"
    assert not any(guard.negated for guard in defined.values())


def test_a_negated_guard_holds_where_the_guard_does_not() -> None:
    for facts in (hs.HostFacts(), hs.HostFacts(connected=False), hs.HostFacts(media_connected=False)):
        assert hs.CONNECTED(facts) is (facts.connected and facts.media_connected)
        assert (~hs.CONNECTED)(facts) is not hs.CONNECTED(facts)
        assert (~~hs.CONNECTED) == hs.CONNECTED
