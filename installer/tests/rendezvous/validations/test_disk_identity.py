"""A chosen disk is found again by what it is: kernel names change with each boot, and links come late."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.assisted import inventory as inv
from installer.assisted.enums import HostStatus, StepType
from installer.assisted.errors import BadRequest, Conflict
from installer.assisted.inventory import Disk, Eligibility, Inventory
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.store import diskidentity
from installer.rendezvous.store.diskidentity import DiskIdentity
from installer.rendezvous.store.documents import HostInventory
from installer.rendezvous.validations import disks
from installer.testing.engine import sent_kit
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import inventory

GB = 1000**3
FIT = Eligibility(eligible=True)


def disk(name: str, serial: str = "", *, by_id: str = "", by_path: str = "", size_gb: int = 20, wwn: str = "") -> Disk:
    path = f"/dev/{name}"
    return Disk(
        id=by_id or by_path or path,
        name=name,
        path=path,
        by_id=by_id,
        by_path=by_path,
        serial=serial,
        wwn=wwn,
        drive_type="HDD",
        size_bytes=size_gb * GB,
        installation_eligibility=FIT,
    )


def tell(world: World, infra_env_id: str, *present: Disk) -> None:
    world.reply(
        infra_env_id,
        StepType.INVENTORY,
        inventory(disks=json.loads(inv.encode(Inventory(disks=list(present))))["disks"]),
    )


def restart(world: World, infra_env_id: str) -> None:
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    world.poll(infra_env_id)


def select(world: World, infra_env_id: str, name: str) -> None:
    body = {"disks_selected_config": [{"id": name, "role": "install"}]}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)


def skip(world: World, infra_env_id: str, name: str, wanted: bool = True) -> None:
    body = {"disks_skip_formatting": [{"disk_id": name, "skip_formatting": wanted}]}
    sent_kit.update_host(world.engine, infra_env_id, HOST_ID, body)


def min_disks(world: World, infra_env_id: str) -> tuple[str, str]:
    info = json.loads(world.host(infra_env_id).validations_info.text)
    return next(
        (i["status"], i["message"]) for items in info.values() for i in items if i["id"] == "has-min-valid-disks"
    )


def ordered(world: World, infra_env_id: str) -> dict[str, Any] | None:
    arguments = steps.MAKERS[StepType.INSTALL](world.engine.view(world.host(infra_env_id)))
    return dict(json.loads(arguments[0])) if arguments else None


def changes(world: World) -> list[str]:
    return [event.message for event in world.store.events() if event.name == "host_installation_disk_changed"]


def booted(world: World, *present: Disk) -> str:
    _, infra_env_id = world.known_host()
    tell(world, infra_env_id, *present)
    return infra_env_id


# ---- kernel names that are swapped


def test_a_disk_chosen_by_its_kernel_name_is_followed_when_names_are_swapped(world: World) -> None:
    at = booted(world, disk("sda", "EMPTY"), disk("sdb", "DATA", by_id="/dev/disk/by-id/wwn-DATA"))
    select(world, at, "/dev/sda")
    restart(world, at)
    tell(
        world,
        at,
        disk("sda", "DATA", by_id="/dev/disk/by-id/wwn-DATA"),
        disk("sdb", "EMPTY", by_id="/dev/disk/by-id/wwn-EMPTY"),
    )
    host = world.host(at)
    assert host.installation_disk_id == host.installation_disk_path == "/dev/disk/by-id/wwn-EMPTY"
    assert (host.status, min_disks(world, at)[0]) == (HostStatus.KNOWN, "success")
    assert (ordered(world, at) or {})["boot_device"] == "/dev/disk/by-id/wwn-EMPTY"


def test_the_name_alone_leads_to_no_other_disk(world: World) -> None:
    """The chosen disk is gone, and another bears its name."""
    at = booted(world, disk("sda", "EMPTY"), disk("sdb", "DATA"))
    select(world, at, "/dev/sda")
    restart(world, at)
    tell(world, at, disk("sda", "DATA"))
    assert world.host(at).installation_disk_id == "/dev/sda"
    status, words = min_disks(world, at)
    assert status == "failure"
    assert "The chosen installation disk /dev/sda is not among the host's disks" in words
    assert ordered(world, at) is None
    tell(world, at, disk("sda", "DATA"), disk("sdb", "EMPTY"))
    assert (ordered(world, at) or {})["boot_device"] == "/dev/sdb"


def test_a_better_link_loses_no_choice(world: World) -> None:
    ata, wwn = "/dev/disk/by-id/ata-DISK_1", "/dev/disk/by-id/wwn-0x5000"
    at = booted(world, disk("sda", "S1", by_id=ata), disk("sdb", "S2"))
    select(world, at, ata)
    before = changes(world)
    tell(world, at, disk("sda", "S1", by_id=wwn), disk("sdb", "S2"))
    host = world.host(at)
    assert (host.status, host.installation_disk_id) == (HostStatus.KNOWN, wwn)
    assert changes(world) == before


def test_the_services_own_choice_follows_its_disk_too(world: World) -> None:
    at = booted(world, disk("sda", "A", size_gb=20), disk("sdb", "B", size_gb=30))
    assert world.host(at).installation_disk_id == "/dev/sda"
    restart(world, at)
    tell(world, at, disk("sda", "B", size_gb=30), disk("sdb", "A", size_gb=20))
    assert (ordered(world, at) or {})["boot_device"] == "/dev/sdb"


def test_what_was_learnt_later_counts(world: World) -> None:
    """At the choice nothing but the name was known; an inventory of the same boot had the serial numbers."""
    at = booted(world, disk("sda"), disk("sdb"))
    select(world, at, "/dev/sda")
    tell(world, at, disk("sda", "EMPTY"), disk("sdb", "DATA"))
    restart(world, at)
    tell(world, at, disk("sda", "DATA"), disk("sdb", "EMPTY"))
    assert (ordered(world, at) or {})["boot_device"] == "/dev/sdb"


def test_what_cannot_be_told_apart_after_a_restart_is_not_guessed(world: World) -> None:
    at = booted(world, disk("sda"), disk("sdb"))
    select(world, at, "/dev/sda")
    tell(world, at, disk("sda"), disk("sdb"))
    assert min_disks(world, at)[0] == "success"
    restart(world, at)
    for seen_disks in ((disk("sda"), disk("sdb")), (disk("sda"),)):
        tell(world, at, *seen_disks)
        assert min_disks(world, at)[0] == "failure"
        assert ordered(world, at) is None
    select(world, at, "/dev/sda")
    assert min_disks(world, at)[0] == "success"


def test_size_and_model_tell_a_nameless_disk_over_a_restart(world: World) -> None:
    at = booted(world, disk("sda", size_gb=20), disk("sdb", size_gb=30))
    select(world, at, "/dev/sdb")
    restart(world, at)
    tell(world, at, disk("sda", size_gb=30), disk("sdb", size_gb=20))
    assert (ordered(world, at) or {})["boot_device"] == "/dev/sda"


def test_the_path_identifies_a_disk_that_has_nothing_else(world: World) -> None:
    at = booted(world, disk("vda", by_path="/dev/disk/by-path/pci-1"), disk("vdb", by_path="/dev/disk/by-path/pci-2"))
    select(world, at, "/dev/vda")
    restart(world, at)
    tell(world, at, disk("vda", by_path="/dev/disk/by-path/pci-2"), disk("vdb", by_path="/dev/disk/by-path/pci-1"))
    assert (ordered(world, at) or {})["boot_device"] == "/dev/disk/by-path/pci-1"


# ---- disks that stay as they are


def test_a_disk_to_be_left_alone_is_followed_when_names_are_swapped(world: World) -> None:
    both = (disk("sda", "A"), disk("sdb", "KEEP"), disk("sdc", "C"))
    at = booted(world, *(_bootable(item) for item in both))
    select(world, at, "/dev/sda")
    skip(world, at, "/dev/sdb")
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdc"]
    restart(world, at)
    tell(world, at, *map(_bootable, (disk("sda", "A"), disk("sdb", "C"), disk("sdc", "KEEP"))))
    host = world.host(at)
    assert [item.id for item in host.skipped_disks] == ["/dev/sdc"]
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdb"]
    skip(world, at, "/dev/sdc", wanted=False)
    host = world.host(at)
    assert host.skipped_disks == []
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdb", "/dev/sdc"]


def test_a_disk_to_be_left_alone_that_is_gone_is_told(world: World) -> None:
    at = booted(world, disk("sda", "A"), disk("sdb", "KEEP"))
    skip(world, at, "/dev/sdb")
    restart(world, at)
    tell(world, at, disk("sda", "A"), disk("sdb", "ANOTHER"))
    info = json.loads(world.host(at).validations_info.text)
    status = {i["id"]: i["status"] for items in info.values() for i in items}
    assert status["no-skip-missing-disk"] == "failure"


def _bootable(item: Disk) -> Disk:
    return _but(item, bootable=True)


def test_nothing_is_formatted_while_a_disk_to_be_left_alone_is_not_found(world: World) -> None:
    """Two disks without serial numbers: after a restart nobody can tell which one is to be kept."""
    cluster_id, at = world.known_host()
    twins = [_bootable(disk("sda", "SYSTEM", size_gb=40)), _bootable(disk("sdb")), _bootable(disk("sdc"))]
    tell(world, at, *twins)
    select(world, at, "/dev/sda")
    skip(world, at, "/dev/sdb")
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdc"]
    restart(world, at)
    tell(world, at, *twins)
    assert world.host(at).status is HostStatus.INSUFFICIENT
    assert (ordered(world, at) or {})["disks_to_format"] == []
    # Whatever the user wants ignored: it stays as it is.
    sent_kit.ignore(world.engine, cluster_id, {"host-validation-ids": '["all"]'})
    assert world.host(at).status is HostStatus.INSUFFICIENT
    with pytest.raises(Conflict, match="cannot be installed"):
        clusters.install(world.engine, cluster_id)
    with pytest.raises(BadRequest, match="no-skip-missing-disk cannot be ignored"):
        sent_kit.ignore(world.engine, cluster_id, {"host-validation-ids": '["no-skip-missing-disk"]'})
    # Said once more which one it is, all is well.
    skip(world, at, "/dev/sdb", wanted=False)
    skip(world, at, "/dev/sdc")
    assert world.host(at).status is HostStatus.KNOWN
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdb"]
    # A disk that is gone may be behind any name as well.
    tell(world, at, twins[0], twins[1])
    assert (ordered(world, at) or {})["disks_to_format"] == []


def test_a_disk_to_be_left_alone_is_not_installed_on_whatever_is_ignored(world: World) -> None:
    cluster_id, at = world.known_host()
    tell(world, at, disk("sda", "KEEP", size_gb=20), disk("sdb", "B", size_gb=30))
    skip(world, at, "/dev/sda")
    assert world.host(at).installation_disk_id == "/dev/sda"
    sent_kit.ignore(world.engine, cluster_id, {"host-validation-ids": '["all"]'})
    assert world.host(at).status is HostStatus.INSUFFICIENT
    select(world, at, "/dev/sdb")
    assert world.host(at).status is HostStatus.KNOWN


def test_kernel_names_of_the_boot_before_lead_nowhere(world: World) -> None:
    """The agent registered again after the installation had been asked for: no inventory is taken any more."""
    link = "/dev/disk/by-id/wwn-LINK"
    cluster_id, at = world.known_host()
    tell(world, at, *map(_bootable, (disk("sda", "A"), disk("sdb", "B"), disk("sdc", "C", by_id=link))))
    select(world, at, "/dev/sda")
    clusters.install(world.engine, cluster_id)
    restart(world, at)
    assert world.host(at).status is HostStatus.PREPARING
    assert ordered(world, at) is None
    clusters.reset(world.engine, cluster_id)
    restart(world, at)
    tell(world, at, *map(_bootable, (disk("sda", "A"), disk("sdb", "B"), disk("sdc", "C", by_id=link))))
    select(world, at, link)
    clusters.install(world.engine, cluster_id)
    restart(world, at)
    order = ordered(world, at) or {}
    assert (order["boot_device"], order["disks_to_format"]) == (link, [link])


def test_without_an_inventory_nothing_is_installed(world: World) -> None:
    at = booted(world, _bootable(disk("sda", "A")), _bootable(disk("sdb", "B")))
    assert (ordered(world, at) or {})["disks_to_format"] == ["/dev/sda", "/dev/sdb"]
    with world.store.change():
        world.store.put_host(msgspec.structs.replace(world.host(at), inventory=HostInventory()))
    assert ordered(world, at) is None


# ---- in general


NAMES = [f"sd{letter}" for letter in "abcde"]


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_no_other_disk_is_ever_found(data: st.DataObject) -> None:
    """Disks with any part of their marks known, in any order, under any names, before and after a restart."""
    count = data.draw(st.integers(1, 5))
    marked = st.lists(st.sampled_from(["serial", "wwn", "by_id", "by_path"]), unique=True)

    def seen(names: list[str], present: list[int]) -> tuple[Inventory, dict[str, int]]:
        disk_found, whose = [], {}
        for place, number in enumerate(present):
            marks = data.draw(marked)
            values: dict[str, Any] = {
                "serial": f"S{number}",
                "wwn": f"0x{number}",
                "by_id": f"/dev/disk/by-id/wwn-{number}",
                "by_path": f"/dev/disk/by-path/pci-{number}",
            }
            item = disk(names[place], **{key: values[key] for key in marks})
            disk_found.append(item)
            whose[item.path] = number
        return Inventory(disks=disk_found), whose

    first, whose = seen(NAMES[:count], list(range(count)))
    chosen = data.draw(st.sampled_from(first.disks))
    wanted = diskidentity.identify(chosen, first)
    assert diskidentity.find(first, wanted) == chosen
    again = data.draw(st.permutations(range(count)))
    second, now = seen(data.draw(st.permutations(NAMES)), again[: data.draw(st.integers(0, count))])
    disk_found = diskidentity.find(second, diskidentity.restarted(wanted) or wanted)
    # Size and model decide on a disk without any mark that was the only one of its size.
    if disk_found is not None and not (wanted.alone and not wanted.telling):
        assert now[disk_found.path] == whose[chosen.path]


def _but(item: Disk, **changes: Any) -> Disk:
    return Disk(**{**{key: getattr(item, key) for key in item.__struct_fields__}, **changes})


@pytest.mark.parametrize(
    ("own", "changes", "same"),
    [
        ({}, {"serial": "OTHER"}, False),
        ({}, {"wwn": "0xdead"}, False),
        ({}, {"size_bytes": 21 * GB}, True),  # it has grown
        ({}, {"model": "OTHER"}, True),
        ({"serial": "", "wwn": ""}, {"size_bytes": 21 * GB}, False),
        ({"serial": "", "wwn": ""}, {"model": "OTHER"}, False),
        ({"serial": "", "wwn": ""}, {"model": ""}, True),
    ],
)
def test_what_speaks_against_it(own: dict[str, Any], changes: dict[str, Any], same: bool) -> None:
    chosen = Disk(
        **{"path": "/dev/sda", "id": "/dev/sda", "serial": "S", "wwn": "0x1", "size_bytes": GB, "model": "M", **own}
    )
    wanted = diskidentity.identify(chosen, Inventory(disks=[chosen]))
    assert diskidentity.find(Inventory(disks=[chosen]), wanted) == chosen
    other = _but(chosen, **changes)
    assert diskidentity.find(Inventory(disks=[other]), wanted) == (other if same else None)


def test_serial_numbers_that_several_disks_have_tell_nothing() -> None:
    first, second = disk("sda", "0123"), disk("sdb", "0123")
    wanted = diskidentity.identify(first, Inventory(disks=[first, second]))
    assert wanted.telling == []
    assert diskidentity.find(Inventory(disks=[disk("sda", "0123")]), diskidentity.restarted(wanted) or wanted) is None
    placed = [disk("sda", "0123", by_path="/dev/p1"), disk("sdb", "0123", by_path="/dev/p2")]
    wanted = diskidentity.identify(placed[1], Inventory(disks=placed))
    assert diskidentity.find(Inventory(disks=placed[::-1]), wanted) == placed[1]


def test_a_host_of_an_older_database_has_a_name_only() -> None:
    item = disk("sda", "S")
    inventory_now = Inventory(disks=[item])
    host = hosts.Host(id=HOST_ID, infra_env_id="i", installation_disk_id="/dev/sda")
    assert disks.installation(host, inventory_now) == item
    assert disks.select(host, item, inventory_now).installation_disk == diskidentity.identify(item, inventory_now)
    assert disks.skip(host, ["/dev/sdz"], None).skipped_disks == [DiskIdentity(id="/dev/sdz", path="/dev/sdz")]


def test_of_two_disks_that_cannot_be_told_apart_neither_is_found() -> None:
    """Not the first of them: it may be the one with the data."""
    chosen = disk("sda", "S", wwn="0x1")
    wanted = diskidentity.identify(chosen, Inventory(disks=[chosen]))
    twins = [disk("sdb", "S", wwn="0x1"), disk("sdc", "S", wwn="0x1")]
    for found in (twins, twins[::-1]):
        assert diskidentity.find(Inventory(disks=found), wanted) is None
    assert diskidentity.find(Inventory(disks=twins[:1]), wanted) == twins[0]
