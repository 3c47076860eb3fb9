"""What was acknowledged outlives SIGKILL at any moment; what comes twice or late changes nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.rendezvous import hosts
from installer.rendezvous.engine import Engine
from installer.rendezvous.enums import StepType
from installer.rendezvous.store import Store
from installer.tests.fleet_kit import Fleet, Machine, Network
from installer.tests.rendezvous_kit import REPOSITORY
from installer.tests.world_kit import World

# Writes cluster N with its event in one change, then says that N is kept.
WRITER = """
import sys
from pathlib import Path
from installer.rendezvous.events import make
from installer.rendezvous.model import Cluster
from installer.rendezvous.store import Store
store = Store(Path(sys.argv[1]))
number = len(store.clusters())
while True:
    with store.change():
        cluster = Cluster(id=str(number), name="c", status_info="x" * (number % 7) * 2000)
        store.put_cluster(cluster)
        store.add_event(make("cluster_registration_succeeded", cluster=cluster, name=str(number)))
    print(number, flush=True)
    number += 1
"""


def test_nothing_acknowledged_is_lost_by_sigkill(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "assisted.db", -1
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    chance = random.Random(11)
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, env=env, text=True)
        assert writer.stdout is not None
        wanted = acknowledged + chance.randint(1, 40)
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= wanted:
                break
        # Somewhere within the following changes.
        time.sleep(chance.random() / 200)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        writer.stdout.close()
        store = Store(path)
        found = [int(cluster.id) for cluster in store.clusters()]
        # All of it, and a change is there as a whole or not at all.
        assert found == list(range(len(found)))
        assert len(found) >= acknowledged + 1
        assert [event.cluster_id for event in store.events()] == [str(number) for number in found]
        acknowledged = len(found) - 1
        store.close()


def test_a_restarted_service_goes_on_with_states_and_time_outs(tmp_path: Path) -> None:
    world = World(tmp_path)
    fleet = Fleet(world, [Machine(number, Network()) for number in range(3)])
    fleet.discover()
    fleet.prepare()
    for machine in fleet.machines:
        fleet.progress(machine, "Starting installation")
    before = fleet.judgements()
    world.store.close()
    world.store = Store(world.engine.settings.db_path)
    world.engine = Engine(world.store, world.engine.settings, world.engine.requirements, world.clock)
    fleet.tick()
    assert fleet.judgements() == before
    # The stage began before the restart, and ends 30 minutes after its beginning.
    for _ in range(29):
        fleet.go(60, every=60)
    assert set(fleet.statuses()) == {"installing-in-progress"}
    for _ in range(2):
        fleet.go(60, every=60)
    assert set(fleet.statuses()) == {"error"}
    world.store.close()


SENT = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["poll", "next", "register"])), max_size=25)


@hypothesis_settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(SENT, st.booleans())
def test_what_comes_twice_changes_nothing(tmp_path_factory: Any, sent: list[Any], started: bool) -> None:
    """Every answer and every stage once more, and all answers of before once more at the end."""
    world = World(tmp_path_factory.mktemp("w"))
    fleet = Fleet(world, [Machine(number, Network()) for number in range(3)])
    answers: list[tuple[str, StepType, Any]] = []
    real = world.reply

    def twice(
        infra_env_id: str, kind: StepType, output: Any, code: int = 0, host_id: str = "", step_id: str | None = None
    ) -> None:
        real(infra_env_id, kind, output, code, host_id)
        after = (fleet.judgements(), len(world.store.events()))
        real(infra_env_id, kind, output, code, host_id)
        # An image's availability is told each time that it is looked at.
        assert (fleet.judgements(), len(world.store.events())) == after or kind is StepType.IMAGES
        answers.append((host_id, kind, output))

    world.reply = twice  # type: ignore[method-assign]
    try:
        fleet.discover()
        if started:
            fleet.prepare()
        for which, what in sent:
            machine = fleet.machines[which]
            if what == "poll":
                fleet.poll(machine)
            elif what == "next":
                at = fleet.host(machine).progress.current_stage
                stages = fleet.stages(machine)
                stage = stages[min(stages.index(at.value) + 1, len(stages) - 1)] if at else stages[0]
                if fleet.progress(machine, stage, "10%"):
                    after = (fleet.judgements(), len(world.store.events()))
                    assert fleet.progress(machine, stage, "10%")
                    assert (fleet.judgements(), len(world.store.events())) == after
            elif fleet.host(machine).status in hosts.EDITABLE:
                fleet.register(machine)
                fleet.poll(machine)
        fleet.go(20)
        before = fleet.judgements()
        for host_id, kind, output in answers:
            if kind in (StepType.INVENTORY, StepType.NTP):
                real(fleet.infra_env_id, kind, output, 0, host_id)
        assert fleet.judgements() == before
    finally:
        world.store.close()


def test_a_write_outside_of_a_change_is_an_error_of_the_program(tmp_path: Path) -> None:
    world = World(tmp_path)
    cluster_id, _ = world.cluster()
    with pytest.raises(RuntimeError, match="outside"):
        world.store.put_cluster(world.store.cluster(cluster_id))
    world.store.close()
