"""What a host's hardware validations say (installer.md §5.4): both sides of each threshold, in the user's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import HostStatus, MediaStatus, Result, Role
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations.disks import GB
from installer.rendezvous.validations.requirements import DOCUMENTED, Requirements
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.service.rendezvous_kit import inventory
from installer.testing.service.verdict_kit import HOST, cluster_host, host_view, with_inventory

OK, BAD, PENDING = Result.SUCCESS, Result.FAILURE, Result.PENDING
AUTO = {"role": Role.AUTO}
WORKER = {"role": Role.WORKER}
BY_PATH = HOST.installation_disk_id


def disk(name: str = "vda", **changes: Any) -> dict[str, Any]:
    """A disk as the service keeps it: judged."""
    return {
        "id": f"id-{name}",
        "name": name,
        "path": f"/dev/{name}",
        "size_bytes": 120 * GB,
        "drive_type": "HDD",
        "installation_eligibility": {"eligible": True, "not_eligible_reasons": []},
        **changes,
    }


def unfit(name: str, *reasons: str, **changes: Any) -> dict[str, Any]:
    return disk(name, installation_eligibility={"eligible": False, "not_eligible_reasons": list(reasons)}, **changes)


def cut(kind: str, *reasons: str) -> dict[str, Any]:
    return {"found": {"truncation": {"type": kind, "reasons": list(reasons)}}}


def bytes_of(mib: int, less: int = 0) -> dict[str, Any]:
    return {"memory": {"physical_bytes": mib * 1024**2 - less, "usable_bytes": 1}}


def speed(**answer: Any) -> str:
    return json.dumps({BY_PATH: {"disk_speed": answer}})


VMWARE = {"system_vendor": {"manufacturer": "VMware, Inc.", "product_name": "x"}}
NAMELESS = {"system_vendor": {"manufacturer": "", "product_name": "x"}}
OPENSTACK = {"system_vendor": {"manufacturer": "Red Hat", "product_name": "OpenStack Compute"}}
HIDDEN = [disk("sda"), disk("sdb", has_uuid=True), unfit("sdc", "small"), disk("sdd")]

CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("media_connected", {}, OK, "Media is connected"),
    (
        "media_connected",
        {"host": {"media_status": MediaStatus.DISCONNECTED}},
        BAD,
        "Media is disconnected: the discovery media cannot be read",
    ),
    ("has_inventory", {}, OK, "Valid inventory exists for the host"),
    ("not_partially_truncated", {}, OK, "Inventory is complete"),
    ("not_partially_truncated", cut("partial", "gpus", "disks"), BAD, "Inventory was cut: gpus, disks"),
    ("not_partially_truncated", cut("partial"), BAD, "Inventory was cut: partial"),
    ("not_fully_truncated", {}, OK, "Inventory is usable"),
    ("not_fully_truncated", cut("partial", "gpus"), OK, "Inventory is usable"),
    ("not_fully_truncated", cut("full", "too long", "gpus"), BAD, "Inventory was dropped: too long, gpus"),
    # For any role at all: what a worker needs, unless the role is chosen (which is another check's).
    ("min_cpu", {"found": {"cpus": 2}}, OK, "Sufficient CPU cores: found 2, 2 needed"),
    ("min_cpu", {"found": {"cpus": 1}}, BAD, "Too few CPU cores for any role: found 1, at least 2 needed"),
    ("min_memory", {"found": {"ram_mib": 8192}}, OK, "Sufficient memory: found 8192 MiB, 8192 MiB needed"),
    # 100 MiB may be missing: what firmware keeps for itself.
    ("min_memory", {"found": bytes_of(8092)}, OK, "Sufficient memory: found 8092 MiB, 8192 MiB needed"),
    (
        "min_memory",
        {"found": bytes_of(8092, 1)},
        BAD,
        "Too little memory for any role: found 8091 MiB, at least 8192 MiB needed",
    ),
    ("role_cpu", {"found": {"cpus": 4}}, OK, "Sufficient CPU cores for role master"),
    ("role_cpu", {"found": {"cpus": 3}}, BAD, "Role master needs at least 4 CPU cores, found 3"),
    ("role_cpu", {"found": {"cpus": 2}, "host": WORKER}, OK, "Sufficient CPU cores for role worker"),
    ("role_memory", {"found": bytes_of(16284)}, OK, "Sufficient memory for role master"),
    (
        "role_memory",
        {"found": bytes_of(16284, 1)},
        BAD,
        "Role master needs at least 16384 MiB of memory, found 16283 MiB",
    ),
    ("min_disks", {"found": {"disks": [disk()]}}, OK, "Sufficient disk capacity"),
    (
        "min_disks",
        {"found": {"disks": [unfit("vda", "too small", "is a CD"), unfit("vdb", "busy", path="")]}},
        BAD,
        "No eligible disks were found, a disk of at least 100 GB is needed: /dev/vda (too small, is a CD); vdb (busy)",
    ),
    (
        "min_disks",
        {"found": {"disks": []}},
        BAD,
        "No eligible disks were found, a disk of at least 100 GB is needed: the host has no disks",
    ),
    # The chosen disk is never replaced by another.
    (
        "min_disks",
        {"host": {"user_disk": True, "installation_disk_id": "id-vdb"}, "found": {"disks": [disk("vda"), disk("vdb")]}},
        OK,
        "Sufficient disk capacity",
    ),
    (
        "min_disks",
        {
            "host": {"user_disk": True, "installation_disk_id": "gone"},
            "found": {"disks": [disk("vda"), disk("vdb", path="", size_bytes=2 * GB)]},
        },
        BAD,
        "The chosen installation disk gone is not among the host's disks: /dev/vda (120 GB), id-vdb (2 GB)",
    ),
    (
        "min_disks",
        {"host": {"user_disk": True, "installation_disk_id": "gone"}, "found": {"disks": []}},
        BAD,
        "The chosen installation disk gone is not among the host's disks: it has none",
    ),
    (
        "min_disks",
        {
            "host": {"user_disk": True, "installation_disk_id": "id-vdb"},
            "found": {"disks": [disk("vda"), unfit("vdb", "too small", "busy")]},
        },
        BAD,
        "The chosen installation disk id-vdb cannot be installed on: too small, busy",
    ),
    (
        "min_disks",
        {"host": {"installation_disk_id": "gone"}, "found": {"disks": [disk("vda")]}},
        OK,
        "Sufficient disk capacity",
    ),
    ("hostname_unique", {}, OK, "Hostname master-0 is unique in cluster"),
    ("hostname_valid", {}, OK, "Hostname master-0 is allowed"),
    ("hostname_valid", {"host": {"user_hostname": "a.b-c.d"}}, OK, "Hostname a.b-c.d is allowed"),
    ("hostname_valid", {"host": {"user_hostname": "localhost"}}, BAD, "Hostname localhost is forbidden"),
    (
        "hostname_valid",
        {"host": {"user_hostname": "Big"}},
        BAD,
        "Hostname 'Big' does not match the required pattern " + hw.HOSTNAME.pattern,
    ),
    ("platform_network", {}, OK, "Platform baremetal is allowed"),
    ("platform_network", {"cluster": {"platform": {}}}, OK, "Platform none is allowed"),
    ("platform_network", {"found": OPENSTACK}, BAD, "Platform OpenStack Compute needs user managed networking"),
    (
        "platform_network",
        {"found": OPENSTACK, "cluster": {"user_managed_networking": True}},
        OK,
        "Platform baremetal is allowed",
    ),
    ("disk_speed", {}, OK, "Speed of installation disk has not yet been measured"),
    (
        "disk_speed",
        {"host": {"status": HostStatus.PREPARING}},
        PENDING,
        "Speed of installation disk is being measured",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": json.dumps({"/dev/other": {"disk_speed": {"tested": True, "speed_ms": 99}}})}},
        OK,
        "Speed of installation disk has not yet been measured",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=2, error="fio: no space", speed_ms=99)}},
        OK,
        "Speed of installation disk could not be measured: fio: no space",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=2)}},
        OK,
        "Speed of installation disk could not be measured: ",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=0, speed_ms=10)}},
        OK,
        "Speed of installation disk is sufficient: 10 ms",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=0)}},
        OK,
        "Speed of installation disk is sufficient: 0 ms",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=0, speed_ms=11)}},
        BAD,
        f"Disk {BY_PATH} is too slow: a synced write took 11 ms, at most 10 ms allowed",
    ),
    (
        "disk_speed",
        {
            "host": {"disks_info": speed(tested=True, exit_code=0, speed_ms=11)},
            "needs": {**DOCUMENTED, "master": Requirements(1, 1, 1, disk_speed_ms=0)},
        },
        OK,
        "Speed of installation disk is sufficient: 11 ms",
    ),
    ("platform", {}, OK, "Host is compatible with cluster platform baremetal"),
    ("platform", {"cluster": {"platform": {}}}, OK, "Host is compatible with cluster platform none"),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}, "found": VMWARE},
        OK,
        "Host is compatible with cluster platform vsphere",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}},
        BAD,
        "Host is not compatible with cluster platform vsphere: maker is qemu",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}, "found": NAMELESS},
        BAD,
        "Host is not compatible with cluster platform vsphere: maker is unknown",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "nutanix"}}},
        BAD,
        "Host is not compatible with cluster platform nutanix: maker is qemu",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "nutanix"}}, "found": NAMELESS},
        BAD,
        "Host is not compatible with cluster platform nutanix: maker is unknown",
    ),
    (
        "platform",
        {
            "cluster": {"platform": {"type": "nutanix"}},
            "found": {"system_vendor": {"manufacturer": "Nutanix", "product_name": "AHV"}},
        },
        OK,
        "Host is compatible with cluster platform nutanix",
    ),
    ("vsphere_uuid", {"found": {"disks": HIDDEN}}, OK, "VSphere disk.EnableUUID is not needed on this platform"),
    (
        "vsphere_uuid",
        {"found": {"disks": HIDDEN}, "cluster": {"platform": {"type": "vsphere"}}},
        BAD,
        "VSphere disk.EnableUUID is not enabled: /dev/sda, /dev/sdd without UUID",
    ),
    (
        "vsphere_uuid",
        {"found": {"disks": HIDDEN[1:3]}, "cluster": {"platform": {"type": "vsphere"}}},
        OK,
        "VSphere disk.EnableUUID is enabled",
    ),
    ("compatible_agent", {}, OK, "Host agent compatibility checking is satisfied"),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent:1"}},
        OK,
        "Host agent compatibility checking is satisfied",
    ),
    (
        "compatible_agent",
        {"host": {"discovery_agent_version": "r/agent:1"}},
        OK,
        "Host agent compatibility checking is satisfied",
    ),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent@sha256:1"}, "host": {"discovery_agent_version": "mirror/a@sha256:1"}},
        OK,
        "Host agent compatibility checking is satisfied",
    ),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent:2"}, "host": {"discovery_agent_version": "r/agent:1"}},
        BAD,
        "Agent is r/agent:1, the service needs r/agent:2",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skip_formatting_disks": ""}},
        OK,
        "No request to skip formatting of the installation disk",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skip_formatting_disks": "/dev/vdb,"}},
        OK,
        "No request to skip formatting of the installation disk",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skip_formatting_disks": "/dev/vdb,/dev/vda"}},
        BAD,
        "Disk /dev/vda is both the installation disk and to be skipped in formatting",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skip_formatting_disks": "/dev/vdb", "installation_disk_id": ""}},
        OK,
        "No request to skip formatting of the installation disk",
    ),
    (
        "no_skip_missing_disk",
        {"host": {"skip_formatting_disks": "/dev/vda,"}},
        OK,
        "All disks that have skipped formatting are present in the host inventory",
    ),
    (
        "no_skip_missing_disk",
        {"host": {"skip_formatting_disks": "/dev/vdb,/dev/vda,/dev/vdc"}},
        BAD,
        'Disks to be skipped in formatting do not exist: ["/dev/vdb", "/dev/vdc"]',
    ),
]
NO_VIEW_ONLY = {"media_connected", "has_inventory", "compatible_agent"}


def verdict(check: str, changes: dict[str, Any]) -> Verdict:
    view = host_view(**changes)
    call: Any = getattr(hw, check)
    found: Verdict = call(view) if check in NO_VIEW_ONLY else call(view, view.inventory)
    return found


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert verdict(check, changes) == Verdict(result, message)


def test_without_an_inventory_there_is_none() -> None:
    view = host_view()
    object.__setattr__(view, "inventory", None)
    assert hw.has_inventory(view) == Verdict(PENDING, "Inventory has not been received from the host")


def test_hosts_of_one_name_are_told_apart() -> None:
    twins = (
        with_inventory(cluster_host(1), hostname="master-0", mac="52:54:00:00:00:81"),
        cluster_host(2, requested_hostname="master-0"),
        with_inventory(cluster_host(3), hostname="master-3"),
    )
    view = host_view(peers=twins)
    assert view.inventory is not None
    assert hw.hostname_unique(view, view.inventory) == Verdict(
        BAD,
        "Hostname master-0 is not unique in the cluster: host master-0 (MAC 52:54:00:00:00:80) and host "
        "master-0 (MAC 52:54:00:00:00:81), master-0 have it",
    )


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a", True),
        ("0", True),
        ("a" * 63, True),
        ("a" * 64, False),
        (f"a.{'b' * 63}", True),
        (f"a.{'b' * 64}", False),
        ("-a", False),
        ("a..b", False),
        ("a.", False),
        ("a_b", False),
        ("a b", False),
        # As a file of names would hold it.
        ("a\n", False),
        ("ä", False),
    ],
)
def test_names(name: str, good: bool) -> None:
    assert verdict("hostname_valid", {"host": {"user_hostname": name}}).result is (OK if good else BAD)


def test_the_kits_inventory_is_enough_for_a_master() -> None:
    """So that each case above fails for its own reason."""
    assert inventory()["hostname"] == "master-0"
    for check in ("min_cpu", "min_memory", "min_disks", "role_cpu", "role_memory", "hostname_unique"):
        assert verdict(check, {}).result is OK, check
