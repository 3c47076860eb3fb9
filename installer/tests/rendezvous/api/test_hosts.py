"""Hosts that are silent, skewed or answer nonsense, without a network."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.assisted.enums import HostStatus, StepType
from installer.assisted.errors import BadRequest, DiskRefused
from installer.rendezvous.resources import hosts
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import HOST_ID, JSON, World
from installer.testing.service.rendezvous_kit import inventory


def test_silent_and_skewed_hosts(world: World) -> None:
    cluster_id, infra_env_id = world.known_host()
    hosts.next_steps(world.engine, infra_env_id, HOST_ID, "", timestamp=int(world.clock().timestamp()) + 6000)
    assert "host time is ahead of service by 100.0 minutes" in world.host(infra_env_id).status_info
    world.wait(301)
    with world.store.change():
        world.engine.reconcile(cluster_id)
    assert world.host(infra_env_id).status is HostStatus.DISCONNECTED
    world.poll(infra_env_id)
    assert world.host(infra_env_id).status is HostStatus.KNOWN


def test_hint_that_matches_nothing_is_refused(world: World) -> None:
    unfit = {"eligible": False, "not_eligible_reasons": ["Disk has unknown storage controller"]}
    pmem = {"path": "/dev/pmem0", "size_bytes": 30 * 1000**3, "aliases": ["/dev/disk/by-id/pmem-1"], "id": "/dev/pmem0"}
    pmem |= {"drive_type": "HDD", "installation_eligibility": unfit}
    _, infra_env_id = world.known_host(disks=[*inventory()["disks"], pmem])
    body = {"disks_selected_config": [{"id": "/dev/not-found-by-hints", "role": "install"}]}
    every = (
        "matches the root device hints: /dev/vda (20 GB), /dev/disk/by-path/pci-0000:04:00.0: can be installed on; "
        "/dev/pmem0 (30 GB), /dev/disk/by-id/pmem-1: Disk has unknown storage controller"
    )
    with pytest.raises(DiskRefused, match=re.escape(every)):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    body["disks_selected_config"][0]["id"] = "/dev/sdx"
    with pytest.raises(DiskRefused, match="/dev/sdx is not part of the host's disks"):
        sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    assert [event.name for event in world.store.events()].count("host_disk_not_found") == 2


REPLIES = (
    st.text(max_size=40)
    | JSON.map(json.dumps)
    | st.fixed_dictionaries({"remote_hosts": JSON, "ntp_sources": JSON, "images": JSON, "path": JSON}).map(json.dumps)
)


@hypothesis_settings(deadline=None, max_examples=30)
@given(REPLIES, st.sampled_from([kind.value for kind in StepType]), st.sampled_from((0, 0, 1, -1, 256)))
def test_no_reply_breaks_the_service(tmp_path_factory: Any, text: str, kind: str, code: int) -> None:
    world = World(tmp_path_factory.mktemp("w"))
    try:
        _, infra_env_id = world.known_host()
        with contextlib.suppress(BadRequest):
            world.reply(infra_env_id, StepType(kind), text, code)
        assert world.host(infra_env_id).status in HostStatus
        world.poll(infra_env_id)
    finally:
        world.store.close()
