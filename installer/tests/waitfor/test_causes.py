"""Each way in which an installation fails: the first error that `wait-for` prints names the cause.

The service's own rules make the answers, hosts that exist as data make the trouble; only the clock is driven.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import StepType
from installer.assisted.errors import ServiceError
from installer.rendezvous.api.views import Views, encode
from installer.rendezvous.resources import clusters
from installer.rendezvous.validations import hints
from installer.testing.engine import sent_kit
from installer.testing.engine.fleet_kit import API_VIP, Fleet, Machine, Network
from installer.testing.engine.world_kit import World
from installer.testing.waitfor_kit import QUICK, Moment, Run

SHORT = replace(QUICK, bootstrap=1.5, interval=0.1)
NAMES = ("host-0", "host-1", "host-2")


def moment(fleet: Fleet) -> Moment:
    """Return the service's answers at this moment."""
    views = Views(fleet.world.engine)
    hosts = fleet.world.store.hosts(infra_env_id=fleet.infra_env_id)
    rows = fleet.world.store.select_events("ORDER BY seq", [])
    return Moment(
        json.loads(encode(views.cluster(fleet.cluster, with_hosts=False))),
        [json.loads(encode(views.host_map(host))) for host in hosts],
        [msgspec.json.decode(doc) for _, doc in rows],
    )


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    worlds = []

    def build(count: int = 3, network: Network | None = None, **env: str) -> Fleet:
        machines = [Machine(number, network or Network()) for number in range(count)]
        world = World(tmp_path / "service", BOOTSTRAP_HOST_MAC=machines[0].mac, **env)
        worlds.append(world)
        return Fleet(world, machines)

    yield build
    for world in worlds:
        world.store.close()


def first_error(run: Run, fleet: Fleet, names: tuple[str, ...] = NAMES, settings: Any = QUICK) -> str:
    assert run([moment(fleet)], names=names, settings=settings) == 5
    return run.lines("ERROR")[0]


def test_a_host_with_too_little_memory(run: Run, make: Any) -> None:
    fleet = make()
    fleet.machines[1] = Machine(1, Network(), ram_mib=512)
    fleet.discover()
    line = first_error(run, fleet)
    assert line.startswith(
        "Host host-1 validation has-min-memory failed: The host is not eligible to participate in Openshift Cluster "
        "because the minimum required RAM for any role is 1.00 GiB, found only 512 MiB"
    )


def test_a_host_outside_of_the_machine_network(run: Run, make: Any) -> None:
    fleet = make()
    fleet.machines[2] = Machine(2, Network(), ip="10.9.9.9/24")
    fleet.discover()
    assert "Host host-2 validation belongs-to-machine-cidr failed" in first_error(run, fleet)


def test_two_hosts_with_one_name(run: Run, make: Any) -> None:
    fleet = make()
    fleet.machines[2] = Machine(2, Network(), hostname="host-0")
    fleet.discover()
    line = first_error(run, fleet)
    assert "hostname-unique failed" in line
    assert fleet.machines[2].mac in line


def test_a_vip_that_is_taken(run: Run, make: Any) -> None:
    fleet = make(network=Network(taken={API_VIP}))
    fleet.discover()
    assert f"api-vips-valid failed: api vips <{API_VIP}> is already in use" in first_error(run, fleet)


def test_a_clock_that_is_wrong(run: Run, make: Any) -> None:
    fleet = make()
    fleet.machines[1].clock_offset = 900
    fleet.discover()
    assert "host-1 is 15.0 minutes ahead of host-0" in first_error(run, fleet)


def test_a_name_that_does_not_resolve(run: Run, make: Any, tmp_path: Path) -> None:
    world = World(tmp_path / "service")
    fleet = Fleet(
        world,
        [Machine(number, Network()) for number in range(3)],
        platform={"type": "none"},
        api_vips=[],
        ingress_vips=[],
    )
    real = Machine.answer

    def without_api(self: Machine, kind: str, args: list[str]) -> Any:
        answer = real(self, kind, args)
        for item in (answer or {}).get("resolutions", []) if isinstance(answer, dict) else []:
            if item["domain_name"].startswith("api."):
                item["ipv4_addresses"] = []
        return answer

    for machine in fleet.machines:
        machine.answer = without_api.__get__(machine)  # type: ignore[method-assign]
    fleet.discover()
    line = first_error(run, fleet)
    world.store.close()
    assert "Couldn't resolve domain name api.ostest.test.node0.example on the host" in line


def test_a_host_that_never_registers(run: Run, make: Any) -> None:
    fleet = make(2)
    fleet.discover()
    line = first_error(run, fleet, settings=SHORT)
    assert line == "Host host-2 never registered (2 of 3 expected hosts registered)"


def test_a_service_that_never_answers(run: Run) -> None:
    assert run([Moment()], settings=SHORT) == 5
    line = run.lines("ERROR")[0]
    assert line.startswith("The rendezvous service was never reached: https://127.0.0.1:")
    assert line.endswith(": the host is up, its service answers nothing")


def test_a_host_too_many(run: Run, make: Any) -> None:
    fleet = make(4)
    fleet.discover()
    line = first_error(run, fleet)
    assert line.startswith("4 hosts registered, the configuration has replicas for 3")


def test_hints_that_match_no_disk(run: Run, make: Any) -> None:
    fleet = make()
    fleet.discover()
    wanted = {"disks_selected_config": [{"id": hints.NOT_FOUND, "role": "install"}]}
    for _ in range(3):
        with pytest.raises(ServiceError):
            sent_kit.update_host(fleet.world.engine, fleet.infra_env_id, fleet.machines[1].id, wanted)
    line = first_error(run, fleet)
    assert line == (
        "Host host-1: no disk that can be installed on matches the root device hints: /dev/vda (20 GB), "
        "/dev/disk/by-path/pci-0000:04:00.0: can be installed on"
    )


def test_two_machines_with_one_id(run: Run, make: Any) -> None:
    fleet = make()
    fleet.discover()
    host = fleet.machines[1].id
    sent = json.loads(fleet.world.host(fleet.infra_env_id, host).inventory.text)
    sent["interfaces"][0]["mac_address"] = "52:54:00:00:00:99"
    fleet.world.reply(fleet.infra_env_id, StepType.INVENTORY, sent, host_id=host)
    line = first_error(run, fleet, settings=SHORT)
    assert line.startswith("Host host-1 validation has-inventory failed: Two machines report as this host")
    assert "52:54:00:00:00:99" in line


def test_a_registry_that_does_not_give_an_image(run: Run, make: Any) -> None:
    fleet = make()
    fleet.discover()
    fleet.machines[2].images = "failure"
    fleet.prepare()
    line = first_error(run, fleet, settings=SHORT)
    assert "host-2: Failed to fetch container images needed for installation (retry" in line


def test_a_preparation_that_fails(run: Run, make: Any) -> None:
    fleet = make()
    fleet.discover()
    clusters.install(fleet.world.engine, fleet.cluster_id)
    fleet.world.prepared(fleet.cluster_id, None, "openshift-install: exit code 1: no such role")
    line = first_error(run, fleet, settings=SHORT)
    assert line == "Failed to prepare the installation: openshift-install: exit code 1: no such role"


def installing(fleet: Fleet) -> None:
    fleet.discover()
    fleet.prepare()
    for machine in fleet.machines:
        fleet.progress(machine, "Starting installation")
        fleet.progress(machine, "Installing")


def test_a_disk_that_cannot_be_written(run: Run, make: Any) -> None:
    fleet = make()
    installing(fleet)
    fleet.progress(fleet.machines[1], "Writing image to disk", "12%")
    fleet.progress(fleet.machines[1], "Failed", "coreos-installer: no space left on device")
    assert first_error(run, fleet) == (
        "Host host-1 failed at stage Writing image to disk: Failed - coreos-installer: no space left on device"
    )


def test_a_bootstrap_that_is_stuck(run: Run, make: Any) -> None:
    fleet = make()
    installing(fleet)
    for stage in ("Writing image to disk", "Waiting for control plane", "Waiting for bootkube"):
        fleet.progress(fleet.machines[0], stage)
    fleet.progress(fleet.machines[0], "Waiting for bootkube", "waiting for ETCD bootstrap to be complete")
    # By wait-for's own limit, ...
    line = first_error(run, fleet, settings=SHORT)
    assert line == "Host host-0 was at stage Waiting for bootkube: waiting for ETCD bootstrap to be complete"


def test_a_bootstrap_host_that_is_gone_in_the_middle(run: Run, make: Any) -> None:
    fleet = make()
    installing(fleet)
    for stage in ("Writing image to disk", "Waiting for control plane"):
        fleet.progress(fleet.machines[0], stage, "waiting for masters to join the bootstrap control plane")
    for machine in fleet.machines[1:]:
        fleet.progress(machine, "Rebooting")
    # The other hosts' API server answers: they are not missing.
    gone = Moment(kube={})
    settings = replace(QUICK, bootstrap=4.0, interval=0.2)
    assert run([replace(moment(fleet), evaluations=1), gone], names=NAMES, settings=settings) == 5
    first, second, *_ = run.lines("ERROR")
    assert re.match(r"The rendezvous service on 127\.0\.0\.1 answers no more: .*; 127\.0\.0\.1 ", first)
    assert second.startswith("Host host-0 was at stage Waiting for control plane: waiting for masters")


def test_a_stage_that_takes_too_long(run: Run, make: Any) -> None:
    fleet = make()
    installing(fleet)
    for stage in ("Writing image to disk", "Waiting for control plane", "Waiting for bootkube"):
        fleet.progress(fleet.machines[0], stage)
    fleet.progress(fleet.machines[0], "Waiting for bootkube", "waiting for ETCD bootstrap to be complete")
    # ... and by the service's.
    for _ in range(61):
        fleet.go(60, every=60)
        for machine in fleet.machines[1:]:
            fleet.progress(machine, "Rebooting")
    line = first_error(run, fleet)
    assert line.startswith("Host host-0 failed at stage Waiting for bootkube")
    assert line.endswith("(3600 s); the last that was heard: waiting for ETCD bootstrap to be complete")


def test_the_wrong_boot_order_is_told_at_once(run: Run, make: Any) -> None:
    fleet = make()
    installing(fleet)
    before = moment(fleet)
    fleet.progress(fleet.machines[1], "Rebooting")
    fleet.register(fleet.machines[1])
    assert run([before, moment(fleet)], names=NAMES, settings=SHORT) == 5
    assert any(
        line.startswith("Host host-1 Expected the host to boot from disk, but it booted the installation image")
        and "/dev/vda" in line
        for line in run.lines("WARNING")
    )
