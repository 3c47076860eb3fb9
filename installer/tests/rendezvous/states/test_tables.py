"""The tables in code against those of the reference, installer.md §5.4 to §5.6 (typed off, so that both must agree)."""

from __future__ import annotations

from types import ModuleType

import pytest

from installer.assisted import stages
from installer.assisted.enums import ClusterStatus, HostStatus, Role, Stage
from installer.rendezvous import settings
from installer.rendezvous.states import cluster as cs
from installer.rendezvous.states import host as hs
from installer.rendezvous.states.table import Guard
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.validations import host as hv
from installer.rendezvous.validations import requirements as hwreqs
from installer.rendezvous.validations.cluster import table as cv
from installer.waitfor import decide

STEPS = """
discovering: inventory | 60
known: connectivity-check tang-connectivity-check free-network-addresses dhcp-lease-allocate inventory \
ntp-synchronizer domain-resolution verify-vips | 60
insufficient pending-for-input: inventory connectivity-check tang-connectivity-check free-network-addresses \
dhcp-lease-allocate ntp-synchronizer domain-resolution verify-vips | 60
disconnected: inventory | 120
preparing-for-installation: dhcp-lease-allocate installation-disk-speed-check container-image-availability | 60
installing: install dhcp-lease-allocate | 60
installing-in-progress: dhcp-lease-allocate | 60
error cancelled: logs-gather stop-installation | 120
disabled resetting: | 120
resetting-pending-user-action unbinding-pending-user-action: stop-installation | 60
binding: | 0
"""
STAGES = {
    ("master", True, False): "Starting installation,Installing,Writing image to disk,Copying registry data to disk,"
    "Waiting for control plane,Waiting for bootkube,Waiting for controller,Rebooting,Configuring,Joined,Done",
    ("master", False, False): "Starting installation,Installing,Writing image to disk,Copying registry data to disk,"
    "Rebooting,Configuring,Joined,Done",
    ("arbiter", False, False): "Starting installation,Installing,Writing image to disk,Copying registry data to disk,"
    "Rebooting,Configuring,Joined,Done",
    ("worker", False, False): "Starting installation,Installing,Writing image to disk,Waiting for control plane,"
    "Rebooting,Waiting for ignition,Configuring,Joined,Done",
    ("master", True, True): "Starting installation,Installing,Waiting for bootkube,Writing image to disk,"
    "Copying registry data to disk,Rebooting,Joined,Done",
}
MINUTES = {
    "Starting installation": 30,
    "Installing": 60,
    "Writing image to disk": 30,
    "Copying registry data to disk": 90,
    "Waiting for control plane": 60,
    "Waiting for controller": 60,
    "Waiting for bootkube": 60,
    "Rebooting": 40,
    "Waiting for ignition": 24 * 60,
    "Configuring": 60,
    "Joined": 60,
    "Done": 60,
}
THRESHOLDS = {
    "master": (4, 16384, 100, 10, 100, 0),
    "arbiter": (2, 8192, 50, 10, 1000, 0),
    "worker": (2, 8192, 100, 10, 1000, 10),
    "sno": (8, 16384, 100, 10, None, None),
    "edge-worker": (2, 8192, 15, 10, None, None),
}
WARNINGS = {
    *("ntp-synced", "container-images-available", "mtu-valid", "release-domain-name-resolved-correctly"),
    "inventory-not-partially-truncated",
}


def test_steps() -> None:
    for line in STEPS.strip().splitlines():
        names, _, rest = line.partition(":")
        kinds, _, seconds = rest.partition("|")
        for name in names.split():
            kinds_asked, period, post = steps.TABLE[HostStatus(name)]
            assert [kind.value for kind in kinds_asked] == kinds.split(), name
            assert period == int(seconds)
            assert post == ("exit" if name == "binding" else "continue")


def test_every_step_of_the_table_can_be_made() -> None:
    assert {kind for kinds, _, _ in steps.TABLE.values() for kind in kinds} <= set(steps.MAKERS)


@pytest.mark.parametrize("key", STAGES)
def test_stages(key: tuple[str, bool, bool]) -> None:
    role, bootstrap, sno = key
    assert [stage.value for stage in stages.stages_of(Role(role), bootstrap, sno)] == STAGES[key].split(",")


def test_stage_time_outs() -> None:
    for name, minutes in MINUTES.items():
        assert stages.timeout_of(Stage(name), False, {}) == minutes * 60, name
    assert stages.timeout_of(Stage.REBOOTING, True, {}) == 80 * 60
    assert stages.timeout_of(Stage.REBOOTING, True, {"REBOOTING": 5.0}) == 5.0


def test_other_time_outs() -> None:
    config = settings.Settings()
    assert (config.host_installing, config.prepare_host, config.prepare_cluster) == (20 * 60, 8 * 60, 10 * 60)
    assert (config.pending_user_action, config.host_disconnect, config.bootstrap_grace) == (3600, 180, 120)
    assert config.max_clock_gap == 240
    facts = cs.ClusterFacts()
    assert (facts.installing_timeout, facts.finalizing_timeout) == (24 * 3600, 5 * 3600)


def test_thresholds() -> None:
    for role, wanted in THRESHOLDS.items():
        need = hwreqs.DOCUMENTED[role]
        actual = (
            *(need.cpu_cores, need.ram_mib, need.disk_size_gb, need.disk_speed_ms),
            *(need.latency_ms, need.packet_loss_percent),
        )
        assert actual == wanted, role


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
    # Adding hosts to an installed cluster, and reclaiming, are not offered: nothing leads there.
    reached = {row.to for row in hs.TABLE if row.to}
    assert set(HostStatus) - reached == {
        *(HostStatus.DISABLED, HostStatus.DISABLED_UNBOUND, HostStatus.RESETTING, HostStatus.ADDED_TO_EXISTING),
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
