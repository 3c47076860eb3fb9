"""Agents' answers to steps: the change that each brings (installer.md §5.5, §6.3), and the events of a failed step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from installer.assisted import inventory as inv
from installer.assisted.enums import HostStatus, Result, StepType
from installer.assisted.errors import BadRequest
from installer.rendezvous.resources import hosts
from installer.rendezvous.store.model import encode
from installer.rendezvous.validations.hostview import load_json
from installer.testing.engine import sent_kit
from installer.testing.engine.disks_kit import named
from installer.testing.engine.world_kit import HOST_ID, World
from installer.testing.service.rendezvous_kit import CLUSTER, SMALL, inventory

T = StepType
BY_PATH = "/dev/disk/by-path/pci-0000:04:00.0"


def messages(world: World, name: str) -> list[str]:
    """Return the texts of events of this name."""
    return [event.message for event in named(world, name)]


def small(**changes: Any) -> str:
    """Write requirements of which each role has these."""
    document = json.loads(SMALL)
    for role in document[0].values():
        if isinstance(role, dict):
            role.update(changes)
    return json.dumps(document)


def disk(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "path": f"/dev/{name}",
        "drive_type": "SSD",
        "size_bytes": 50 * 1000**3,
        **changes,
    }


@pytest.mark.parametrize("kind", [T.INVENTORY, T.FREE_ADDRESSES, T.NTP, T.DISK_SPEED, T.IMAGES, T.VERIFY_VIPS])
def test_a_go_programs_empty_list_is_an_answer_and_says_nothing(world: World, kind: StepType) -> None:
    _, infra_env_id = world.known_host()
    before = world.host(infra_env_id)
    sent_kit.receive(world.engine, infra_env_id, HOST_ID, {"step_type": kind, "exit_code": 0, "output": "null\n"})
    assert world.host(infra_env_id) == before


@pytest.mark.parametrize("kind", ["", None])
def test_an_answer_to_no_step_changes_nothing(world: World, kind: Any) -> None:
    _, infra_env_id = world.known_host()
    before = world.host(infra_env_id)
    sent_kit.receive(world.engine, infra_env_id, HOST_ID, {"step_type": kind, "output": "{}"})
    assert world.host(infra_env_id) == before


@pytest.mark.parametrize("kind", ["reboot", "INVENTORY"])
def test_an_unknown_step_is_refused(world: World, kind: Any) -> None:
    _, infra_env_id = world.known_host()
    with pytest.raises(BadRequest, match="is not a step type"):
        sent_kit.receive(world.engine, infra_env_id, HOST_ID, {"step_type": kind, "output": "{}"})


DOMAIN = f"{CLUSTER['name']}.{CLUSTER['base_dns_domain']}"
ANSWERS = {
    T.NTP: ("ntp_sources", {"ntp_sources": [{"source_name": "a", "source_state": "synced"}]}),
    T.DOMAINS: (
        "domain_name_resolutions",
        {"resolutions": [{"domain_name": f"validateNoWildcardDNS.{DOMAIN}."}]},
    ),
    T.FREE_ADDRESSES: ("free_addresses", [{"network": "192.168.111.0/24", "free_addresses": ["192.168.111.5"]}]),
    T.VERIFY_VIPS: ("verified_vips", [{"vip": "192.168.111.5", "verification": "succeeded"}]),
    T.TANG: ("tang_connectivity", {"is_success": True}),
    T.API_VIP: ("api_vip_connectivity", {"is_success": False}),
    T.CONNECTIVITY: ("connectivity", {"remote_hosts": []}),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_each_answer_is_kept_in_its_place(world: World, kind: StepType) -> None:
    _, infra_env_id = world.known_host()
    field, answer = ANSWERS[kind]
    before = json.loads(encode(world.host(infra_env_id)))
    world.reply(infra_env_id, kind, answer)
    after = json.loads(encode(world.host(infra_env_id)))
    assert {name for name in after if after[name] != before[name]} - {"validations_info", "updated_at"} == {field}
    assert json.loads(after[field]) == (answer["ntp_sources"] if kind is T.NTP else answer)


@pytest.mark.parametrize("kind", [*ANSWERS, T.DISK_SPEED, T.IMAGES, T.INVENTORY])
@pytest.mark.parametrize("output", ["", "{", "no JSON"])
def test_what_is_no_json_is_refused_by_name(world: World, kind: StepType, output: str) -> None:
    _, infra_env_id = world.known_host()
    before = world.host(infra_env_id)
    if kind in (T.DISK_SPEED, T.IMAGES) and not output:
        world.reply(infra_env_id, kind, output)
        assert world.host(infra_env_id) == before
        return
    words = {T.CONNECTIVITY: "the connectivity report cannot be read", T.INVENTORY: "the inventory cannot be read"}
    with pytest.raises(BadRequest, match=words.get(kind, f"the output of step {kind.value} is not JSON")):
        world.reply(infra_env_id, kind, output)
    assert world.host(infra_env_id) == before


@pytest.mark.parametrize(
    ("kind", "output", "reason"),
    [
        (T.INVENTORY, {"cpu": {"count": "x"}}, "the inventory cannot be read: cpu.count must be a "),
        (
            T.CONNECTIVITY,
            {"remote_hosts": [{"host_id": 5}]},
            "the connectivity report cannot be read: remote_hosts[0].host_id must be a text, not a whole number",
        ),
    ],
)
def test_documents_are_refused_in_the_words_of_all_others(
    world: World, kind: StepType, output: dict[str, Any], reason: str
) -> None:
    _, infra_env_id = world.known_host()
    with pytest.raises(BadRequest) as caught:
        world.reply(infra_env_id, kind, output)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        (T.NTP, "[]"),
        (T.IMAGES, '{"images": [7]}'),
        (T.IMAGES, '{"images": [{"size_bytes": "big", "result": "success"}]}'),
        (T.DISK_SPEED, '{"io_sync_duration": []}'),
        (T.DISK_SPEED, "5"),
    ],
)
def test_a_shape_that_nobody_expects_is_refused_as_a_whole(world: World, kind: StepType, output: str) -> None:
    _, infra_env_id = world.known_host()
    before, events = world.host(infra_env_id), len(world.store.events())
    with pytest.raises(BadRequest, match=f"the output of step {kind.value} cannot be understood"):
        world.reply(infra_env_id, kind, output)
    assert (world.host(infra_env_id), len(world.store.events())) == (before, events)


def test_no_sources_are_an_answer_too(world: World) -> None:
    _, infra_env_id = world.known_host()
    world.reply(infra_env_id, T.NTP, {"ntp_sources": None})
    assert world.host(infra_env_id).ntp_sources.text == "[]"


def test_steps_without_an_answer_change_nothing(world: World) -> None:
    _, infra_env_id = world.known_host()
    before = world.host(infra_env_id)
    for kind in (T.LOGS, T.STOP, T.EXECUTE):
        world.reply(infra_env_id, kind, "")
    assert world.host(infra_env_id) == before


def test_interfaces_that_carry_no_cluster_are_left_out(world: World) -> None:
    """OpenShift's agent tells of all, its service keeps the hardware's, VLANs and bonds; agents of old say no type."""
    _, infra_env_id = world.known_host()
    kinds = ("physical", "device", "vlan", "bridge", "bond", "tun", "veth", "dummy", "")
    nics = [{"name": f"n-{kind}", "type": kind, "ipv4_addresses": ["192.168.111.80/24"]} for kind in kinds]
    world.reply(infra_env_id, T.INVENTORY, inventory(interfaces=nics))
    kept = world.host(infra_env_id).inventory.value
    assert kept is not None
    assert [nic.name for nic in kept.interfaces] == ["n-physical", "n-vlan", "n-bond", "n-veth", "n-"]


@pytest.mark.parametrize("name", ["worker-7", "localhost", "", "a" * 243])
def test_names(world: World, name: str) -> None:
    """A name is kept as the agent tells it (which makes one where the machine has none); hostname-valid judges it."""
    _, infra_env_id = world.known_host(hostname=name)
    host = world.host(infra_env_id)
    assert (host.requested_hostname, inv.decode(host.inventory.text).hostname) == (name, name)
    assert host.validations_info.results()["hostname-valid"] is (
        Result.SUCCESS if name == "worker-7" else Result.FAILURE
    )


def test_bootable_disks_are_told_as_to_be_formatted(world: World) -> None:
    disks = [
        disk("sda", bootable=True),
        disk("sdb"),
        disk("sdc", bootable=True, is_installation_media=True),
        disk("sdd", bootable=True, size_bytes=1),
        disk("sde", bootable=True),
        # What others may use, and what somebody has put in.
        disk("sdf", bootable=True, removable=True),
        disk("sdg", bootable=True, by_path="/dev/disk/by-path/platform-mmcblk0"),
        disk("sdh", bootable=True, drive_type="iSCSI", iscsi={"host_ip_address": "192.168.111.80"}),
        disk("dm-0", bootable=True, drive_type="Multipath"),
    ]
    _, infra_env_id = world.known_host(disks=disks)
    assert world.host(infra_env_id).disks_to_be_formatted == ["sda", "sde"]


@pytest.mark.parametrize(("need", "measured", "slow"), [(10, 10, False), (10, 11, True), (0, 11, False)])
def test_speed_of_a_disk(tmp_path: Path, need: int, measured: int, slow: bool) -> None:
    world = World(tmp_path, HW_VALIDATOR_REQUIREMENTS=small(installation_disk_speed_threshold_ms=need))
    _, infra_env_id = world.known_host()
    world.reply(infra_env_id, T.DISK_SPEED, {"path": "/dev/vdb", "io_sync_duration": 3})
    world.reply(infra_env_id, T.DISK_SPEED, {"path": BY_PATH, "io_sync_duration": measured})
    assert load_json(world.host(infra_env_id).disks_info.text) == {
        "/dev/vdb": {"path": "/dev/vdb", "disk_speed": {"tested": True, "exit_code": 0, "speed_ms": 3}},
        BY_PATH: {"path": BY_PATH, "disk_speed": {"tested": True, "exit_code": 0, "speed_ms": measured}},
    }
    wanted = f"Host master-0: disk {BY_PATH} is slower than supported: {measured} ms, threshold {need} ms"
    assert messages(world, "disk_speed_slower_than_supported") == ([wanted] if slow else [])
    # Measured again: the last one counts.
    world.reply(infra_env_id, T.DISK_SPEED, {"path": BY_PATH})
    assert load_json(world.host(infra_env_id).disks_info.text)[BY_PATH]["disk_speed"]["speed_ms"] == 0
    world.store.close()


def test_images(world: World) -> None:
    _, infra_env_id = world.known_host()
    images = [
        {"name": "r/a:1", "result": "success", "size_bytes": 1000.4, "time": 1.236},
        {"name": "r/b:1", "result": "success"},
        {"name": "r/c:1", "result": "failure", "error": "no route", "time": 9},
        {"name": "r/d:1", "result": "failure"},
    ]
    world.reply(infra_env_id, T.IMAGES, {"images": images})
    assert json.loads(world.host(infra_env_id).images_status.text) == images
    reported = [(event.severity, event.message) for event in named(world, "image_status_updated")]
    head = "Host master-0: New image status r/"
    assert reported == [
        ("info", f"{head}a:1. result: success. time: 1.24 seconds; size: 1000 bytes"),
        ("info", f"{head}b:1. result: success. time: 0.00 seconds; size: 0 bytes"),
        ("error", f"{head}c:1. result: failure. no route"),
        ("error", f"{head}d:1. result: failure. "),
    ]
    world.reply(infra_env_id, T.IMAGES, {})
    assert world.host(infra_env_id).images_status.text == "[]"


def test_images_of_which_one_cannot_be_pulled(world: World) -> None:
    """Upstream's agent ends with code 2 then, and says of each image what became of it."""
    _, infra_env_id = world.known_host()
    images = [{"name": "r/a:1", "result": "success"}, {"name": "r/b:1", "result": "failure"}]
    failed(world, infra_env_id, T.IMAGES, 2, output=json.dumps({"images": images}))
    assert json.loads(world.host(infra_env_id).images_status.text) == images


@pytest.mark.parametrize("kind", [T.DISK_SPEED, T.IMAGES])
def test_a_check_that_runs_already_says_nothing(world: World, kind: StepType) -> None:
    _, infra_env_id = world.known_host()
    before = world.host(infra_env_id)
    world.reply(infra_env_id, kind, "")
    assert world.host(infra_env_id) == before
    failed(world, infra_env_id, kind)
    assert world.host(infra_env_id) != before


def failed(
    world: World, infra_env_id: str, kind: StepType, code: int = 1, *, output: str = "", error: str = ""
) -> None:
    step_id = world.step_id(infra_env_id, kind)
    body = {"step_type": kind.value, "step_id": step_id, "exit_code": code, "output": output, "error": error}
    sent_kit.receive(world.engine, infra_env_id, HOST_ID, body)


def test_a_failing_step_is_told_once_for_each_reason(world: World) -> None:
    _, infra_env_id = world.known_host()
    for kind, error, output in (
        (T.NTP, "chronyc: no", "said before"),
        (T.NTP, "chronyc: no", "said again"),
        (T.DOMAINS, "chronyc: no", ""),
        (T.NTP, "", " only output \n"),
        (T.NTP, "", ""),
        (T.TANG, "x" * 2000 + "the end", ""),
    ):
        failed(world, infra_env_id, kind, 7, output=output, error=error)
    end = "x" * 993 + "the end"
    assert [text.removeprefix("Host master-0: step ") for text in messages(world, "host_step_failed")] == [
        "ntp-synchronizer failed: chronyc: no",
        "domain-resolution failed: chronyc: no",
        "ntp-synchronizer failed: only output",
        "ntp-synchronizer failed: exit code 7",
        f"tang-connectivity-check failed: {end}",
    ]
    assert world.host(infra_env_id).step_errors == {
        "ntp-synchronizer": "exit code 7",
        "domain-resolution": "chronyc: no",
        "tang-connectivity-check": end,
    }
    # Nothing of it is an answer.
    assert (world.host(infra_env_id).ntp_sources.text, world.host(infra_env_id).status) == ("", HostStatus.KNOWN)


def test_a_disk_whose_speed_could_not_be_measured(world: World) -> None:
    _, infra_env_id = world.known_host()
    failed(world, infra_env_id, T.DISK_SPEED, 3, error="fio: " + "x" * 400)
    assert load_json(world.host(infra_env_id).disks_info.text) == {
        BY_PATH: {
            "path": BY_PATH,
            "disk_speed": {"tested": True, "exit_code": 3, "error": "fio: " + "x" * 292 + "..."},
        }
    }


def test_images_that_could_not_be_looked_for(world: World) -> None:
    _, infra_env_id = world.known_host()
    failed(world, infra_env_id, T.IMAGES, 3, error="podman: " + "x" * 400)
    assert json.loads(world.host(infra_env_id).images_status.text) == [
        {"name": "r.example/installer@sha256:1", "result": "failure", "error": "podman: " + "x" * 289 + "..."}
    ]


@pytest.mark.parametrize(
    ("code", "info"),
    [(1, "The installer failed: it broke"), (2, "Failed to pull the installer image: it broke")],
)
def test_an_installer_that_fails_ends_the_hosts_installation(world: World, code: int, info: str) -> None:
    _, infra_env_id = world.installing()
    failed(world, infra_env_id, T.INSTALL, code, error="it broke")
    host = world.host(infra_env_id)
    assert (host.status, host.status_info) == (HostStatus.ERROR, info)
    assert host.step_errors["install"] == "it broke"


def test_an_installer_that_fails_before_or_after_fails_nothing_else(world: World) -> None:
    _, infra_env_id = world.known_host()
    failed(world, infra_env_id, T.INSTALL, 1, error="it broke")
    host = world.host(infra_env_id)
    assert (host.status, host.step_errors) == (HostStatus.KNOWN, {"install": "it broke"})
    assert messages(world, "host_step_failed") == ["Host master-0: step install failed: it broke"]


def test_media_that_cannot_be_read(world: World) -> None:
    _, infra_env_id = world.known_host()
    failed(world, infra_env_id, T.INVENTORY, 256, error="I/O error")
    host = world.host(infra_env_id)
    assert (host.media_status, host.status, host.step_errors) == ("disconnected", HostStatus.DISCONNECTED, {})
    assert messages(world, "host_media_disconnected") == [
        "Host master-0: Unable to read from the discovery media: I/O error"
    ]
    assert messages(world, "host_step_failed") == []
    # Whoever answers again can read again.
    world.reply(infra_env_id, T.INVENTORY, inventory())
    assert (world.host(infra_env_id).media_status, world.host(infra_env_id).status) == ("connected", HostStatus.KNOWN)


def test_media_that_cannot_be_read_any_more_while_installing(world: World) -> None:
    _, infra_env_id = world.installing()
    failed(world, infra_env_id, T.INSTALL, 256, error="I/O error")
    host = world.host(infra_env_id)
    assert (host.status, host.status_info) == (HostStatus.ERROR, "I/O error")
    # An answer says nothing of the media of a host that has failed for good.
    world.reply(infra_env_id, T.LOGS, "")
    assert world.host(infra_env_id).media_status == "disconnected"


# Not to everywhere, without a gateway, of IPv6, and one that others are better than: the last is taken.
ROUTES = [
    {"interface": "a", "gateway": "192.168.5.9", "destination": "10.7.0.0/16"},
    {"interface": "a", "gateway": "", "destination": "0.0.0.0"},
    {"interface": "a", "gateway": "fd00::1", "destination": "::", "family": 10},
    {"interface": "a", "gateway": "192.168.5.1", "destination": "0.0.0.0", "metric": 200},
    {"interface": "b", "gateway": "10.1.0.1", "destination": "0.0.0.0", "metric": 100},
]
NICS = [
    {"name": "a", "ipv4_addresses": ["192.168.5.2/24"], "ipv6_addresses": ["fd00::2/64"]},
    {"name": "b", "ipv4_addresses": ["10.1.2.3/16"]},
]


def test_a_single_node_brings_its_machine_network(world: World) -> None:
    cluster_id, infra_env_id = world.cluster(machine_networks=[])
    hosts.register(world.engine, infra_env_id, HOST_ID, "")
    world.poll(infra_env_id)
    world.reply(infra_env_id, T.INVENTORY, inventory(routes=ROUTES, interfaces=NICS))
    assert world.store.cluster(cluster_id).machine_networks == [{"cidr": "10.1.0.0/16", "cluster_id": cluster_id}]
    assert messages(world, "cluster_machine_network_set") == [
        "The machine network is 10.1.0.0/16 now, as the VIPs or the single node's addresses tell"
    ]
