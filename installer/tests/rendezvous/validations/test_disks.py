"""The disk to install on: the choice of a user or a hint stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.client import AssistedClient
from installer.assisted.enums import HostStatus, StepType
from installer.assisted.errors import ClientError, Conflict, DiskMissing, ServiceError
from installer.rendezvous.api import fields
from installer.rendezvous.client.command import Client
from installer.rendezvous.client.manifests import HostConfig
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.steps import instructions as steps
from installer.testing.engine import sent_kit
from installer.testing.engine.disks_kit import BIG, GB, MARKED, SMALL, disk, late, named, select, tell, three, verdict
from installer.testing.engine.world_kit import HOST_ID, World


@pytest.fixture
def chosen(world: World) -> tuple[World, str, str]:
    """Provide a host whose third disk was chosen."""
    cluster_id, infra_env_id = world.known_host(disks=three())
    assert world.host(infra_env_id).installation_disk_id == SMALL
    select(world, infra_env_id, MARKED)
    return world, cluster_id, infra_env_id


def test_a_chosen_disk_that_is_late_is_waited_for(chosen: tuple[World, str, str]) -> None:
    world, cluster_id, infra_env_id = chosen
    for _ in range(2):
        tell(world, infra_env_id, late())
        host = world.host(infra_env_id)
        assert (host.installation_disk_id, host.installation_disk_path, host.user_disk) == (MARKED, MARKED, True)
        assert host.status is HostStatus.INSUFFICIENT
        words = (
            f"The chosen installation disk {MARKED} is not among the host's disks: "
            "/dev/vda (20 GB), /dev/vdb (30 GB), /dev/vdc (40 GB)"
        )
        assert verdict(world, infra_env_id) == ("failure", words)
        assert words in host.status_info
    with pytest.raises(Conflict):
        clusters.install(world.engine, cluster_id)
    props = [event.props for event in named(world, "host_validation_failed")]
    assert any(MARKED in text for text in props)
    tell(world, infra_env_id, three())
    host = world.host(infra_env_id)
    assert (host.status, host.installation_disk_id) == (HostStatus.KNOWN, MARKED)
    assert verdict(world, infra_env_id) == ("success", "Sufficient disk capacity")
    assert any("has-min-valid-disks" in event.message for event in named(world, "host_validation_fixed"))
    assert named(world, "host_installation_disk_changed") == []


def test_a_chosen_disk_that_is_unfit_is_kept_and_told(chosen: tuple[World, str, str]) -> None:
    world, _, infra_env_id = chosen
    unfit = {"eligible": False, "not_eligible_reasons": ["it holds a mounted file system", "and another reason"]}
    tell(world, infra_env_id, three(installation_eligibility=unfit))
    assert world.host(infra_env_id).installation_disk_id == MARKED
    words = f"The chosen installation disk {MARKED} cannot be installed on: it holds a mounted file system, and another"
    assert verdict(world, infra_env_id) == ("failure", f"{words} reason")
    tell(world, infra_env_id, [])
    host = world.host(infra_env_id)
    assert (host.installation_disk_id, host.user_disk) == (MARKED, True)
    assert verdict(world, infra_env_id)[1] == (
        f"The chosen installation disk {MARKED} is not among the host's disks: it has none"
    )


def test_a_choice_outlives_the_agents_restart(chosen: tuple[World, str, str]) -> None:
    world, _, infra_env_id = chosen
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert world.host(infra_env_id).inventory.text == ""
    tell(world, infra_env_id, late())
    assert world.host(infra_env_id).installation_disk_id == MARKED
    assert verdict(world, infra_env_id)[0] == "failure"


def test_only_the_user_takes_another(chosen: tuple[World, str, str]) -> None:
    world, cluster_id, infra_env_id = chosen
    tell(world, infra_env_id, late())
    select(world, infra_env_id, "/dev/vdb")
    host = world.host(infra_env_id)
    assert (host.installation_disk_id, host.status) == (BIG, HostStatus.KNOWN)
    clusters.install(world.engine, cluster_id)
    world.prepared(cluster_id, {})
    assert _ordered(world, infra_env_id)["boot_device"] == BIG


def _ordered(world: World, infra_env_id: str) -> Any:
    """Return the request of the host's install step."""
    view = world.engine.view(world.host(infra_env_id))
    [text] = steps.MAKERS[StepType.INSTALL](view) or []
    return json.loads(text)


def test_the_services_own_choice_may_change_and_says_so(world: World) -> None:
    _, infra_env_id = world.known_host(disks=three())
    tell(world, infra_env_id, three())
    assert named(world, "host_installation_disk_changed") == []
    # A better one does not take its place ...
    tell(world, infra_env_id, [disk("vdz", "/dev/disk/by-path/pci-9", 15), *three()])
    assert world.host(infra_env_id).installation_disk_id == SMALL
    # ... but another does when it is gone, or unfit.
    tell(world, infra_env_id, three()[1:])
    host = world.host(infra_env_id)
    assert (host.installation_disk_id, host.installation_disk_path, host.user_disk) == (BIG, BIG, False)
    unfit = three()[1:]
    unfit[0]["installation_eligibility"] = {"eligible": False, "not_eligible_reasons": ["it is worn out"]}
    tell(world, infra_env_id, unfit)
    assert world.host(infra_env_id).installation_disk_id == MARKED
    tell(world, infra_env_id, [])
    assert world.host(infra_env_id).installation_disk_id == ""
    assert verdict(world, infra_env_id) == (
        "error",
        "Failed to detect disks: the host shows none",
    )
    tell(world, infra_env_id, three())
    assert world.host(infra_env_id).installation_disk_id == SMALL
    messages = [event.message for event in named(world, "host_installation_disk_changed")]
    prefix = "Host master-0: the installation disk that the service chose is"
    assert messages == [
        f"{prefix} {BIG} now, it was {SMALL} (it is gone)",
        f"{prefix} {MARKED} now, it was {BIG} (it is worn out)",
        f"{prefix} none now, it was {MARKED} (it is gone)",
    ]
    assert {event.severity for event in named(world, "host_installation_disk_changed")} == {"warning"}


def test_what_is_installed_is_settled_by_asking_for_it(world: World) -> None:
    cluster_id, infra_env_id = world.known_host(disks=three())
    clusters.install(world.engine, cluster_id)
    before = world.host(infra_env_id)
    assert before.status is HostStatus.PREPARING
    # Refused, so that the agent sends it again when it is asked the next time.
    with pytest.raises(Conflict, match="host is in status preparing-for-installation: its inventory is not taken"):
        tell(world, infra_env_id, three()[1:], hostname="another")
    host = world.host(infra_env_id)
    assert (host.inventory, host.installation_disk_id) == (before.inventory, SMALL)
    assert host.requested_hostname == "master-0"
    assert named(world, "host_installation_disk_changed") == []


@pytest.mark.parametrize("name", ["/dev/vdb", BIG, "/dev/disk/by-path/pci-2", "/dev/disk/by-id/other"])
def test_a_disk_to_be_left_alone_is_so_by_any_of_its_names(world: World, name: str) -> None:
    disks = [
        disk("vda", SMALL, 20, bootable=True),
        disk("vdb", BIG, 30, bootable=True, by_id="/dev/disk/by-id/other"),
        disk("vdc", MARKED, 40, by_id=MARKED, bootable=True),
        disk("vdd", "/dev/disk/by-path/pci-4", 50),
    ]
    _, infra_env_id = world.known_host(disks=disks)
    assert _ordered(world, infra_env_id)["disks_to_format"] == [SMALL, BIG, MARKED]
    body: dict[str, Any] = {"disks_skip_formatting": [{"disk_id": name, "skip_formatting": True}]}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    assert _ordered(world, infra_env_id)["disks_to_format"] == [SMALL, MARKED]
    body["disks_skip_formatting"][0]["skip_formatting"] = False
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    assert _ordered(world, infra_env_id)["disks_to_format"] == [SMALL, BIG, MARKED]


def test_a_disk_to_be_left_alone_that_is_missing_is_not_passed_over(world: World) -> None:
    disks = [disk("vda", SMALL, 20), disk("vdc", MARKED, 40, by_id=MARKED, bootable=True)]
    _, infra_env_id = world.known_host(disks=disks)
    body = {"disks_skip_formatting": [{"disk_id": MARKED, "skip_formatting": True}]}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)
    assert (
        "Requesting to skip the formatting of the installation disk is not allowed"
        in verdict(world, infra_env_id, "no-skip-installation-disk")[1]
    )
    select(world, infra_env_id, SMALL)
    assert world.host(infra_env_id).status is HostStatus.KNOWN
    # Its link is late: the same disk has another name, and would be wiped by that.
    renamed = [disk("vda", SMALL, 20), disk("vdc", "/dev/disk/by-path/pci-3", 40, bootable=True)]
    tell(world, infra_env_id, renamed)
    assert world.host(infra_env_id).status is HostStatus.INSUFFICIENT
    assert verdict(world, infra_env_id, "no-skip-missing-disk") == (
        "failure",
        "One or more of the disks that you have requested to skip the formatting of are no longer present on this "
        "host: "
        f'["{MARKED}"]. Please remove the request, and give it again with the new ID if needed',
    )


# the client that applies hints


class Rest(AssistedClient):
    """The engine behind the client's calls; only what configure needs."""

    def __init__(self, world: World, infra_env_id: str) -> None:
        self.world, self.infra_env_id = world, infra_env_id
        self.patched: list[Any] = []

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        if path == "/infra-envs":
            return [{"id": self.infra_env_id}]
        if method == "GET":
            return [fields.host(host) for host in self.world.store.hosts(infra_env_id=self.infra_env_id)]
        self.patched.append(body)
        try:
            return fields.host(sent_kit.update_host(self.world.engine, self.infra_env_id, HOST_ID, body))
        except ServiceError as error:
            raise ClientError("PATCH", error.status, error.reason) from None


def client(world: World, infra_env_id: str, root: Path) -> tuple[Client, Rest]:
    rest = Rest(world, infra_env_id)
    return Client(rest, root, root / "failures", {}), rest  # type: ignore[arg-type]


def config(**wanted: Any) -> list[HostConfig]:
    return [HostConfig(name="master-0", macs=frozenset({"52:54:00:00:00:80"}), role="", hints=wanted)]


def test_hints_wait_for_the_disk_that_they_chose(world: World, tmp_path: Path) -> None:
    _, infra_env_id = world.known_host(disks=three())
    mine, rest = client(world, infra_env_id, tmp_path)
    # All three match.
    wanted = config(minSizeGigabytes=25)
    assert mine.configure_once(wanted) == {}
    assert world.host(infra_env_id).installation_disk_id == BIG
    tell(world, infra_env_id, [three()[0], three()[2]])
    for again in (mine, client(world, infra_env_id, tmp_path)[0]):
        # Also one that was started anew and remembers nothing.
        failures = again.configure_once(wanted)
        assert failures == {
            "master-0": f"the installation disk {BIG} that was chosen (minSizeGigabytes=25) is missing, waiting for it"
        }
    assert world.host(infra_env_id).installation_disk_id == BIG
    tell(world, infra_env_id, three())
    assert mine.configure_once(wanted) == {}
    assert len(rest.patched) == 1
    # What the hints chose once is not chosen anew because of what the disk says of itself.
    shrunk = three()
    shrunk[1]["size_bytes"] = 24 * GB
    tell(world, infra_env_id, shrunk)
    assert mine.configure_once(wanted) == {}
    assert len(rest.patched) == 1
    assert world.host(infra_env_id).installation_disk_id == BIG


def test_hints_whose_disk_is_not_there_yet_choose_none(world: World, tmp_path: Path) -> None:
    _, infra_env_id = world.known_host(disks=late())
    mine, rest = client(world, infra_env_id, tmp_path)
    wanted = config(deviceName=MARKED)
    assert "no eligible disk matches the root device hints" in mine.configure_once(wanted)["master-0"]
    assert world.host(infra_env_id).installation_disk_id == SMALL
    tell(world, infra_env_id, three())
    assert mine.configure_once(wanted) == {}
    assert world.host(infra_env_id).installation_disk_id == MARKED
    tell(world, infra_env_id, late())
    assert "is missing" in mine.configure_once(wanted)["master-0"]
    assert len(rest.patched) == 2
    assert DiskMissing("d", "h").disk == "d"


def test_a_user_who_takes_another_disk_than_the_hints_keeps_it(world: World, tmp_path: Path) -> None:
    _, infra_env_id = world.known_host(disks=three())
    mine, rest = client(world, infra_env_id, tmp_path)
    assert mine.configure_once(config(deviceName="/dev/vdb")) == {}
    select(world, infra_env_id, MARKED)
    assert mine.configure_once(config(deviceName="/dev/vdb")) == {}
    assert world.host(infra_env_id).installation_disk_id == MARKED
    assert len(rest.patched) == 1


def test_no_disk_is_missing_before_there_is_an_inventory(world: World, tmp_path: Path) -> None:
    _, infra_env_id = world.known_host(disks=three())
    mine, _ = client(world, infra_env_id, tmp_path)
    wanted = [
        HostConfig(name="master-0", macs=frozenset(), hostname="master-0", role="", hints={"deviceName": "/dev/vdb"})
    ]
    assert mine.configure_once(wanted) == {}
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    assert mine.configure_once(wanted) == {}
    assert world.host(infra_env_id).installation_disk_id == BIG
