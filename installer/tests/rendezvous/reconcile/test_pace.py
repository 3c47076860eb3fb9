"""Judging only what has changed, and big clusters later: verdicts are the same, and never late for long."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.agent.swarm.report import cpu_of
from installer.assisted.enums import ClusterStatus, HostStatus, StepType
from installer.assisted.errors import ServiceError
from installer.rendezvous.reconcile.pace import AT_ONCE, LONGEST, REST, Pace, Slices
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.documents import HostInventory
from installer.rendezvous.validations import host as host_validations
from installer.testing.engine import sent_kit
from installer.testing.engine.fleet_kit import Fleet, Machine, Network, discovered
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import running

BIG = AT_ONCE + 2


class Hand:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@given(
    st.lists(st.floats(0.001, 3.0), min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 11)), max_size=80),
)
def test_nothing_waits_long_and_most_of_the_time_is_left(costs: list[float], changes: list[tuple[float, int]]) -> None:
    """Clusters that take costs[i] seconds to judge; changes come after each other, for one of them each."""
    clock = Hand()
    pace = Pace(clock)
    since: dict[str, float] = {}
    busy, started = 0.0, clock.at
    worst = 0.0

    def judge(name: str) -> None:
        nonlocal busy, worst
        worst = max(worst, clock.at - since.pop(name, clock.at))
        clock.at += costs[int(name)]
        busy += costs[int(name)]
        pace.judged(name, BIG, costs[int(name)])

    def work(until: float) -> None:
        """As Service.judge does."""
        while (waiting := pace.next()) is not None and clock.at + waiting[1] <= until:
            clock.at += waiting[1]
            judge(waiting[0])
        clock.at = max(clock.at, until)

    for gap, place in changes:
        work(clock.at + gap)
        name = str(place % len(costs))
        if pace.may(name, BIG):
            judge(name)
        else:
            since.setdefault(name, clock.at)
    assert worst <= LONGEST + sum(costs) + max(costs) + 1e-6
    if max(costs) * len(costs) * (1 + REST) < LONGEST:
        # Nobody is about to wait too long, so after each judgement there is a rest of twice its length.
        work(clock.at + REST * max(costs))
        assert busy <= (clock.at - started) / (1 + REST) + max(costs)


def test_small_clusters_never_wait() -> None:
    clock = Hand()
    pace = Pace(clock)
    woken: list[int] = []
    pace.wake = lambda: woken.append(1)
    assert pace.may("big", BIG)
    pace.judged("big", BIG, 1.0)
    assert not pace.may("big", BIG)
    assert woken
    assert pace.may("small", AT_ONCE)
    assert pace.next() == ("big", 1.0 * REST)
    pace.drop("big")
    assert pace.next() is None


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the hosts whose validations ran."""
    seen: list[str] = []
    real = host_validations.evaluate

    def evaluate(view: Any) -> Any:
        seen.append(view.host.id)
        return real(view)

    monkeypatch.setattr(host_validations, "evaluate", evaluate)
    return seen


def test_a_report_makes_only_its_own_host_judged_anew(tmp_path: Path, counted: list[str]) -> None:
    fleet = discovered(tmp_path, 5)
    world = fleet.world
    assert fleet.status() is ClusterStatus.READY
    counted.clear()
    first, second = fleet.machines[:2]
    world.reply(fleet.infra_env_id, StepType.NTP, {"ntp_sources": []}, host_id=first.id)
    assert set(counted) == {first.id}
    assert fleet.host(first).status is HostStatus.KNOWN
    # A name that two have concerns those two, before and after. (The cluster is not ready throughout: hosts follow it.)
    last = fleet.machines[-1]
    world.reply(fleet.infra_env_id, StepType.INVENTORY, last.inventory | {"routes": []}, host_id=last.id)
    counted.clear()
    sent_kit.update_host(world.engine, fleet.infra_env_id, first.id, {"host_name": "host-1"})
    assert set(counted) == {first.id, second.id}
    assert "not unique" in fleet.host(second).status_info
    sent_kit.update_host(world.engine, fleet.infra_env_id, first.id, {"host_name": "host-0"})
    assert set(counted) == {first.id, second.id}
    assert [fleet.host(machine).status for machine in (first, second)] == [HostStatus.KNOWN] * 2
    world.store.close()


# With the user's own load balancer nothing tells the networks but the user.
FAR = {"machine_networks": [{"cidr": "10.9.0.0/24"}], "load_balancer": {"type": "user-managed"}}


def test_changes_of_peers_and_networks_judge_a_host_anew(tmp_path: Path) -> None:
    """A slow link counts between hosts of one role; networks are the cluster's."""
    fleet = discovered(tmp_path, 4)
    world, network = fleet.world, fleet.machines[0].network
    first, last = fleet.machines[0], next(m for m in fleet.machines if fleet.host(m).suggested_role == "worker")
    network.rtt_ms = 500.0
    # A link that is too slow for a master, and is enough for a worker.
    asked = [{"host_id": last.id, "nics": [{"name": "e", "mac": last.mac, "ip_addresses": [last.ip]}]}]
    world.reply(
        fleet.infra_env_id,
        StepType.CONNECTIVITY,
        first.answer("connectivity-check", [json.dumps(asked)]),
        0,
        host_id=first.id,
    )
    assert "latency" not in fleet.host(first).status_info
    sent_kit.update_host(world.engine, fleet.infra_env_id, last.id, {"host_role": "master"})
    assert "A total network latency above the tolerated threshold of 100.00 ms" in fleet.host(first).status_info
    sent_kit.update_host(world.engine, fleet.infra_env_id, last.id, {"host_role": "worker"})
    assert "latency" not in fleet.host(first).status_info
    second = fleet.machines[1] if last is not fleet.machines[1] else fleet.machines[2]
    assert "does not belong to" not in fleet.host(second).status_info
    sent_kit.update_cluster(world.engine, fleet.cluster_id, FAR)
    assert "does not belong to any machine network CIDR (10.9.0.0/24)" in fleet.host(second).status_info
    world.reply(fleet.infra_env_id, StepType.NTP, {"ntp_sources": []}, host_id=second.id)
    sent_kit.ignore(world.engine, fleet.cluster_id, {"host-validation-ids": '["ntp-synced"]'})
    assert "Ignored by the user: Host couldn't synchronize" in fleet.host(second).validations_info.text
    world.store.close()


def test_a_big_cluster_is_judged_later_but_before_it_is_shown(tmp_path: Path, counted: list[str]) -> None:
    world = World(tmp_path)
    clock = Hand()
    world.engine.pace = Pace(clock)
    fleet = Fleet(world, [Machine(number, Network()) for number in range(BIG)])
    for machine in fleet.machines:
        fleet.register(machine)
    # The first that is one too many was judged, as nothing was going on; after it there is a rest.
    assert world.engine.pace.waits(fleet.cluster_id)
    counted.clear()
    for machine in fleet.machines:
        fleet.poll(machine)
    assert not counted
    assert set(fleet.statuses()) == {"discovering"}
    asyncio.run(Slices(world.engine).reconcile(fleet.cluster_id))
    assert "discovering" not in fleet.statuses()
    assert not world.engine.pace.waits(fleet.cluster_id)
    clock.at += 100
    fleet.go(60)
    assert fleet.status() is ClusterStatus.READY, fleet.cluster.status_info
    # Nobody is installed on an old verdict.
    world.engine.pace.judged("another", BIG, 100.0)
    world.reply(
        fleet.infra_env_id,
        StepType.INVENTORY,
        fleet.machines[0].inventory | {"disks": []},
        host_id=fleet.machines[0].id,
    )
    assert fleet.status() is ClusterStatus.READY
    with pytest.raises(ServiceError, match="Host host-0 is in status insufficient and not ready for install"):
        clusters.install(world.engine, fleet.cluster_id)
    # What a service that was killed had not judged yet, the next one does.
    world.reply(fleet.infra_env_id, StepType.INVENTORY, fleet.machines[0].inventory, host_id=fleet.machines[0].id)
    world.store.close()
    store = Store(world.engine.settings.db_path)
    world.store, world.engine = (
        store,
        type(world.engine)(store, world.engine.settings, world.engine.requirements, world.clock),
    )
    assert not world.engine.is_reconciled(fleet.cluster_id)
    fleet.tick()
    assert fleet.status() is ClusterStatus.READY
    store.close()


WHAT = (
    *("poll", "poll", "register", "time", "cut", "mend", "slow", "quick", "rename", "same", "address", "role"),
    *("ignore", "vip", "clock", "unplug", "networks"),
)


@hypothesis_settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([4, BIG]), st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 11)), max_size=25))
def test_judging_only_what_has_changed_gives_the_verdicts_of_judging_all(
    tmp_path_factory: Any, count: int, sent: list[Any]
) -> None:
    """Verdicts and states are those of a service that judges every host anew."""
    fleet = discovered(tmp_path_factory.mktemp("w"), count)
    world, network, engine, where = fleet.world, fleet.machines[0].network, fleet.world.engine, fleet.infra_env_id
    try:
        for action, number in sent:
            machine, other = fleet.machines[number % count], fleet.machines[(number + 1) % count]
            try:
                if action == "register":
                    fleet.register(machine)
                elif action == "time":
                    world.wait(number * 40)
                elif action == "cut":
                    network.broken.add(frozenset((machine.id, other.id)))
                elif action == "mend":
                    network.broken.clear()
                elif action == "slow":
                    network.rtt_ms, network.loss_percent = 2000.0, 30.0
                elif action == "quick":
                    network.rtt_ms, network.loss_percent = 1.0, 0.0
                elif action in ("rename", "same"):
                    name = f"host-{(other if action == 'same' else machine).number}"
                    sent_kit.update_host(engine, where, machine.id, {"host_name": name})
                elif action == "address":
                    changed = machine.inventory | {"interfaces": other.inventory["interfaces"]}
                    world.reply(where, StepType.INVENTORY, changed, host_id=machine.id)
                elif action == "role":
                    role = ("auto-assign", "master", "worker")[number % 3]
                    sent_kit.update_host(engine, where, machine.id, {"host_role": role})
                elif action == "ignore":
                    sent_kit.ignore(engine, fleet.cluster_id, {"host-validation-ids": '["ntp-synced"]' * (number % 2)})
                elif action == "vip":
                    sent_kit.update_cluster(
                        engine, fleet.cluster_id, {"api_vips": [{"ip": f"192.168.111.{5 + number % 2}"}]}
                    )
                elif action == "networks":
                    cidr = ("192.168.111.0/24", "10.9.0.0/24")[number % 2]
                    sent_kit.update_cluster(
                        engine,
                        fleet.cluster_id,
                        {"load_balancer": {"type": "user-managed"}, "machine_networks": [{"cidr": cidr}]},
                    )
                elif action == "clock":
                    machine.clock_offset = number * 60
                elif action == "unplug":
                    world.reply(where, StepType.INVENTORY, machine.inventory | {"routes": []}, host_id=machine.id)
                fleet.poll(machine)
            except ServiceError:
                pass
            fleet.tick()
            before = fleet.judgements()
            engine.scratch.reconciled.clear()
            engine.judgements.forget()
            fleet.tick()
            assert fleet.judgements() == before, action
    finally:
        world.store.close()


def test_steps_are_no_change_and_a_failed_change_leaves_no_verdict(tmp_path: Path) -> None:
    world = World(tmp_path)
    fleet = Fleet(world, [Machine(0, Network())])
    machine = fleet.machines[0]
    fleet.register(machine)
    fleet.poll(machine)
    world.wait(61)
    fleet.tick()
    version = world.store.version(fleet.cluster_id), world.store.host_version(fleet.host(machine))
    asked = hosts.next_steps(world.engine, fleet.infra_env_id, machine.id, "", timestamp=int(world.clock().timestamp()))
    assert asked["instructions"]
    assert version == (world.store.version(fleet.cluster_id), world.store.host_version(fleet.host(machine)))
    # It is kept all the same: a restarted service does not ask twice.
    again = Store(world.engine.settings.db_path)
    assert again.host(fleet.infra_env_id, machine.id).sent_steps == fleet.host(machine).sent_steps
    again.close()
    before = fleet.judgements()

    def broken() -> None:
        with world.store.change():
            host = fleet.host(machine)
            world.store.put_host(
                type(host)(
                    **{**{f: getattr(host, f) for f in host.__struct_fields__}, "inventory": HostInventory("{}")}
                )
            )
            world.engine.reconcile(fleet.cluster_id)
            assert fleet.judgements() != before
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert fleet.judgements() == before
    assert world.store.host_version(fleet.host(machine)) != version[1]
    fleet.tick()
    assert fleet.judgements() == before
    world.store.close()


def test_an_idle_connection_costs_little_memory(tmp_path: Path) -> None:
    """asyncio would keep 256 KiB for each."""
    with running(tmp_path) as service:
        context = ssl.create_default_context(cafile=str(service.ca))
        open_ones: list[http.client.HTTPSConnection] = []

        def connect(count: int) -> float:
            for _ in range(count):
                connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=context, timeout=30)
                connection.request("GET", "/health")
                assert connection.getresponse().read() == b""
                open_ones.append(connection)
            assert service.process is not None
            return cpu_of(service.process.pid)[1]

        before = connect(20)
        grown = (connect(40) - before) * 1024 / 40
        for each in open_ones:
            each.close()
        assert grown < 180, f"{grown:.0f} KiB a connection"
