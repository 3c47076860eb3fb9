"""Acknowledged changes outlive SIGKILL and SIGTERM at any moment; repeated and late answers change nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.assisted.enums import StepType
from installer.assisted.errors import Conflict
from installer.rendezvous.events import make
from installer.rendezvous.resources import hosts
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Cluster
from installer.testing.engine.fleet_kit import Fleet, Machine, Network
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.forked_kit import forked, process
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, inventory, running, wait_for

pytestmark = pytest.mark.slow


def write(path: Path, size: int) -> int:
    """Store cluster N with its event and a file in one change, then print N, for ever."""
    store = Store(path)
    number = len(store.clusters())
    while True:
        with store.change():
            cluster = Cluster(id=str(number), name="c", status_info="x" * (number % 7) * 2000)
            store.put_cluster(cluster)
            store.add_event(make("cluster_registration_succeeded", cluster=cluster, name=str(number)))
            store.put_file(cluster.id, "bootstrap.ign", bytes([number % 251]) * size)
        print(number, flush=True)
        number += 1


@pytest.mark.parametrize("size", [100, 1_000_000])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_acknowledged_is_lost(tmp_path: Path, ending: signal.Signals, size: int) -> None:
    """Killed anywhere: between changes, or with the bigger ones in the midst of a write."""
    path, acknowledged = tmp_path / "assisted.db", -1
    chance = random.Random(11)
    for _ in range(6):
        writer = process(partial(write, path, size), stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        wanted = acknowledged + chance.randint(1, 40 if size < 1000 else 4)
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged >= wanted:
                break
        # Somewhere within the following changes.
        time.sleep(chance.random() / 200)
        writer.send_signal(ending)
        assert writer.wait() == -ending
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        writer.stdout.close()
        store = Store(path)
        ids = [int(cluster.id) for cluster in store.clusters()]
        # All of it, and a change is there as a whole or not at all.
        assert ids == list(range(len(ids)))
        assert len(ids) >= acknowledged + 1
        assert [event.cluster_id for event in store.events()] == [str(number) for number in ids]
        for number in ids:
            assert store.file(str(number), "bootstrap.ign") == bytes([number % 251]) * size
        acknowledged = len(ids) - 1
        store.close()


# Hangs until it may go on, and has a child; what it makes then says which run it was.
HANGING = """#!/bin/sh
place=%s
run=$(ls $place | grep -c run)
: > $place/run-$run
while [ "$1" != --dir ]; do what=$1; shift; done
if [ ! -e $place/go ]; then
    sleep 600 &
    echo $$ $! > $place/.pids && mv $place/.pids $place/pids
    wait
fi
case $what in
manifests) mkdir "$2/manifests" "$2/openshift" ;;
*) for name in bootstrap-in-place-for-live-iso bootstrap master worker; do
    printf '{"ignition": {"version": "3.2.0"}, "run": "%%s"}' $run > "$2/$name.ign"
done ;;
esac
"""


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_service_that_ends_in_the_midst_of_a_preparation(tmp_path: Path, ending: signal.Signals) -> None:
    place = tmp_path / "place"
    place.mkdir()
    binary = tmp_path / "openshift-install"
    binary.write_text(HANGING % place)
    binary.chmod(0o755)
    # Ending in good order needs the whole program; SIGKILL leaves a fork of it no more time than that.
    start = running if ending is signal.SIGTERM else forked
    with start(tmp_path, INSTALLER_BINARY=str(binary), DISABLED_STEPS="container-image-availability") as service:
        user, agent = service.client(), service.client("agentAuth")
        cluster = user.call("POST", "/clusters", CLUSTER)["id"]
        body = {"name": "e", "pull_secret": PULL_SECRET, "cluster_id": cluster}
        hosts_of = f"/infra-envs/{user.call('POST', '/infra-envs', body)['id']}/hosts"
        agent.call("POST", hosts_of, {"host_id": HOST_ID})
        instructions = f"{hosts_of}/{HOST_ID}/instructions"
        reply = {"step_type": "inventory", "step_id": "i", "exit_code": 0, "output": json.dumps(inventory())}
        agent.call("POST", instructions, reply)
        agent.call("GET", instructions, query={"timestamp": str(int(time.time()))})
        probe = f"validateNoWildcardDNS.{CLUSTER['name']}.{CLUSTER['base_dns_domain']}."
        answers = json.dumps({"resolutions": [{"domain_name": probe}]})
        agent.call("POST", instructions, {**reply, "step_type": "domain-resolution", "output": answers})
        user.call("POST", f"/clusters/{cluster}/actions/install")
        wait_for("the program to run", (place / "pids").is_file)
        program, child = map(int, (place / "pids").read_text().split())
        attempts = tmp_path / "data/install/attempts"
        secrets = [path for path in attempts.rglob("install-config.yaml") if PULL_SECRET in path.read_text()]
        assert len(secrets) == 1
        assert service.process is not None
        service.process.send_signal(ending)
        code = service.process.wait(20)
        if ending is signal.SIGTERM:
            assert code == 0
            wait_for("the program and its child to end", lambda: ended(program) and ended(child), 10)
            # Neither keys nor the pull secret stay on the disk.
            assert not [path for path in attempts.rglob("*") if path.is_file()]
        else:
            assert code == -signal.SIGKILL
            assert secrets[0].is_file()
        before = len(list(place.glob("run-*")))
        (place / "go").touch()
        service.start()
        # What a killed one left is swept by the next, which begins anew: all of one run.
        wait_for("the ignition", lambda: "bootstrap.ign" in files_of(tmp_path / "data/assisted.db", cluster))
        assert not secrets[0].exists()
        bootstrap = files_of(tmp_path / "data/assisted.db", cluster)["bootstrap.ign"]
        assert json.loads(bootstrap)["run"] == str(before + 1)
        assert user.call("GET", f"/clusters/{cluster}")["status"] == "preparing-for-installation"
        for pid in (program, child):
            if not ended(pid):
                os.kill(pid, signal.SIGKILL)


def files_of(database: Path, cluster_id: str) -> dict[str, bytes]:
    """Return the files that a running service has kept, by name."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        return dict(db.execute("SELECT name, content FROM files WHERE cluster_id=?", (cluster_id,)).fetchall())


SENT = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["poll", "next", "register"])), max_size=25)


@hypothesis_settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
@given(SENT, st.booleans())
def test_repeated_answers_and_stages_change_nothing(tmp_path_factory: Any, sent: list[Any], started: bool) -> None:
    """Every answer and every stage once more, and all answers of before once more at the end."""
    world = World(tmp_path_factory.mktemp("w"))
    fleet = Fleet(world, [Machine(number, Network()) for number in range(3)])
    answers: list[tuple[str, StepType, Any]] = []
    real = world.reply

    def twice(
        infra_env_id: str, kind: StepType, output: Any, code: int = 0, *, host_id: str = "", step_id: str | None = None
    ) -> None:
        real(infra_env_id, kind, output, code, host_id=host_id)
        after = (fleet.judgements(), len(world.store.events()))
        real(infra_env_id, kind, output, code, host_id=host_id)
        # An image's availability is told each time that it is looked at.
        assert (fleet.judgements(), len(world.store.events())) == after or kind is StepType.IMAGES
        answers.append((host_id, kind, output))

    world.reply = twice  # type: ignore[method-assign]
    try:
        fleet.discover()
        if started:
            fleet.prepare()
        for place, action in sent:
            machine = fleet.machines[place]
            if action == "poll":
                fleet.poll(machine)
            elif action == "next":
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
                # An inventory of a host that is being installed is refused, and changes nothing either.
                with contextlib.suppress(Conflict):
                    real(fleet.infra_env_id, kind, output, 0, host_id=host_id)
        assert fleet.judgements() == before
    finally:
        world.store.close()
