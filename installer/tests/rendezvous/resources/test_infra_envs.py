"""Infra-envs: who boots their image, and whose time sources exclude each other."""

from __future__ import annotations

import msgspec
import pytest

from installer.assisted.enums import HostStatus, Stage
from installer.assisted.errors import BadRequest, NotFound
from installer.rendezvous.resources import infra_envs
from installer.rendezvous.store.model import HostProgress
from installer.testing.engine import sent_kit
from installer.testing.engine.fleet_kit import Fleet, discovered
from installer.testing.service.rendezvous_kit import PULL_SECRET


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return discovered(tmp_path_factory.mktemp("fleet"), 3)


H = HostStatus


@pytest.mark.parametrize(
    ("status", "stage", "boots"),
    [
        (H.KNOWN, None, True),
        (H.INSTALLING, Stage.STARTING, True),
        (H.INSTALLING_IN_PROGRESS, Stage.WRITING, True),
        (H.INSTALLING_IN_PROGRESS, Stage.REBOOTING, False),
        (H.INSTALLING_IN_PROGRESS, Stage.WAITING_IGNITION, False),
        (H.INSTALLING_IN_PROGRESS, Stage.JOINED, False),
        (H.INSTALLING_PENDING_USER_ACTION, Stage.REBOOTING, False),
        (H.INSTALLED, Stage.DONE, False),
        (H.ERROR, Stage.REBOOTING, True),
        (H.RESETTING, Stage.REBOOTING, True),
    ],
)
def test_a_machine_that_has_been_written_boots_from_its_disk(
    fleet: Fleet, status: HostStatus, stage: Stage | None, boots: bool
) -> None:
    machine, store = fleet.machines[1], fleet.world.store
    infra_env = store.infra_env(fleet.infra_env_id)
    with store.change():
        progress = HostProgress(current_stage=stage)
        store.put_host(msgspec.structs.replace(fleet.host(machine), status=status, progress=progress))
    for mac in (machine.mac, machine.mac.upper().replace(":", "-")):
        if boots:
            infra_envs.check_boots_image(fleet.world.engine, infra_env, mac)
        else:
            with pytest.raises(NotFound, match="boots from its disk"):
                infra_envs.check_boots_image(fleet.world.engine, infra_env, mac)
    infra_envs.check_boots_image(fleet.world.engine, infra_env, "52:54:00:ff:ff:ff")


def test_only_sources_and_additional_ones_exclude_each_other(fleet: Fleet) -> None:
    engine, refused = fleet.world.engine, "ntp_sources and additional_ntp_source(s|) are mutually exclusive"
    body = {"name": "n", "pull_secret": PULL_SECRET, "openshift_version": "4.18.0"}
    both = {"ntp_sources": "a.a", "additional_ntp_source": "b.b"}
    plural = {"ntp_sources": "a.a", "additional_ntp_sources": "b.b"}
    for register, fields in ((sent_kit.register_cluster, both), (sent_kit.register_infra_env, plural)):
        with pytest.raises(BadRequest, match=refused):
            register(engine, {**body, **fields})
        with pytest.raises(BadRequest, match="ntp_sources: ';x'"):
            register(engine, {**body, "ntp_sources": ";x"})
    cluster = sent_kit.register_cluster(engine, {**body, "ntp_sources": "a.a"})
    infra_env = sent_kit.register_infra_env(engine, {**body, "ntp_sources": "a.a"})
    with pytest.raises(BadRequest, match=refused):
        sent_kit.update_cluster(engine, cluster.id, {"additional_ntp_source": "b.b"})
    with pytest.raises(BadRequest, match=refused):
        sent_kit.update_infra_env(engine, infra_env.id, {"additional_ntp_sources": "b.b"})
    instead = {"ntp_sources": "", "additional_ntp_source": "b.b"}
    assert sent_kit.update_cluster(engine, cluster.id, instead).ntp_sources == ""
