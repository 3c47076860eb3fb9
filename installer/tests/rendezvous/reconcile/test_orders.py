"""Random orders of events with several hosts: the tables are kept to."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.assisted.errors import ServiceError
from installer.rendezvous.resources import clusters
from installer.testing.engine.fleet_kit import API_VIP, discovered

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["poll", "register", "stage", "next", "time", "break", "mend", "install", "cancel", "reset"]),
        st.integers(0, 4),
        st.integers(0, 12),
    ),
    max_size=40,
)


@hypothesis_settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(ACTIONS, st.sampled_from([3, 5]), st.booleans())
def test_no_order_of_actions_leads_outside_of_the_tables(
    tmp_path_factory: Any, actions: list[Any], count: int, started: bool
) -> None:
    fleet = discovered(tmp_path_factory.mktemp("w"), count)
    world, network = fleet.world, fleet.machines[0].network
    try:
        if started:
            fleet.prepare()
        for action, place, number in actions:
            machine = fleet.machines[place % count]
            try:
                if action == "poll":
                    fleet.poll(machine)
                elif action == "register":
                    fleet.register(machine)
                elif action == "stage":
                    stages = fleet.stages(machine)
                    fleet.progress(machine, stages[number % len(stages)])
                elif action == "next":
                    done = fleet.host(machine).progress.current_stage
                    stages = fleet.stages(machine)
                    at = stages.index(done.value) + 1 if done and done.value in stages else 0
                    fleet.progress(machine, stages[min(at, len(stages) - 1)])
                elif action == "time":
                    world.wait(number * 200)
                    fleet.tick()
                elif action == "break":
                    network.taken.add(API_VIP)
                elif action == "mend":
                    network.taken.clear()
                elif action == "install":
                    clusters.install(world.engine, fleet.cluster_id)
                    world.prepared(fleet.cluster_id, {})
                elif action == "cancel":
                    clusters.cancel(world.engine, fleet.cluster_id)
                elif action == "reset":
                    clusters.reset(world.engine, fleet.cluster_id)
            except ServiceError:
                pass
            # What was settled stays settled: judging all anew, without any short cut, changes nothing.
            fleet.tick()
            before = fleet.judgements()
            world.engine.scratch.reconciled.clear()
            world.engine.judgements.forget()
            fleet.tick()
            assert fleet.judgements() == before
            assert sum(fleet.host(m).bootstrap for m in fleet.machines) <= 1
    finally:
        world.store.close()
