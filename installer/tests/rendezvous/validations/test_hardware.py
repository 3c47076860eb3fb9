"""Verdicts on a host's hardware and name (installer.md §5.4): both sides of each threshold, in the user's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from installer.assisted.enums import HostStatus, MediaStatus, Result, Role
from installer.rendezvous.store.diskidentity import named
from installer.rendezvous.validations import hardware as hw
from installer.rendezvous.validations.disks import GB
from installer.rendezvous.validations.verdict import Verdict
from installer.testing.engine.verdict_kit import HOST, cluster_host, host_view, with_inventory
from installer.testing.service.rendezvous_kit import inventory

OK, BAD, PENDING, ERROR = Result.SUCCESS, Result.FAILURE, Result.PENDING, Result.ERROR
SUPPRESSED = Result.SUPPRESSED
AUTO = {"role": Role.AUTO}
WORKER = {"role": Role.WORKER}
BY_PATH = HOST.installation_disk_id


NO_VIEW_ONLY = {
    *("media_connected", "has_inventory", "compatible_agent", "disk_speed", "disk_encryption", "vsphere_uuid"),
    "no_skip_installation_disk",
}


def verdict(check: str, changes: dict[str, Any]) -> Verdict:
    """Return the verdict of a host that differs so from one that is enough for a master."""
    view = host_view(**changes)
    call: Any = getattr(hw, check)
    verdict: Verdict = call(view) if check in NO_VIEW_ONLY else call(view, view.inventory)
    return verdict


def disk(name: str = "vda", **changes: Any) -> dict[str, Any]:
    """Return a disk as the service keeps it: judged."""
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
    return {"reported": {"truncation": {"type": kind, "reasons": list(reasons)}}}


def bytes_of(mib: int, less: int = 0, method: str = "dmidecode") -> dict[str, Any]:
    return {"memory": {"physical_bytes": mib * 1024**2 - less, "usable_bytes": 1, "physical_bytes_method": method}}


def speed(**answer: Any) -> str:
    return json.dumps({BY_PATH: {"disk_speed": answer}})


VMWARE = {"system_vendor": {"manufacturer": "VMware, Inc.", "product_name": "x"}}
NAMELESS = {"system_vendor": {"manufacturer": "", "product_name": "x"}}
OPENSTACK = {"system_vendor": {"manufacturer": "Red Hat", "product_name": "OpenStack Compute"}}
HIDDEN = [disk("sda"), disk("sdb", has_uuid=True), unfit("sdc", "small"), disk("sdd")]
UNMEASURED = (
    "While preparing the previous installation the installation disk speed measurement failed or was found to be "
    "insufficient"
)
FOR_ANY_ROLE = "The host is not eligible to participate in Openshift Cluster because the minimum required"
CASES: list[tuple[str, dict[str, Any], Result, str]] = [
    ("media_connected", {}, OK, "Media device is connected"),
    (
        "media_connected",
        {"host": {"media_status": MediaStatus.DISCONNECTED}},
        BAD,
        "Unable to read from the discovery media. It was either disconnected or poor network conditions",
    ),
    ("has_inventory", {}, OK, "Valid inventory exists for the host"),
    ("not_partially_truncated", {}, OK, "Inventory is not truncated"),
    ("not_partially_truncated", cut("partial", "gpus", "disks"), BAD, "Inventory is truncated (partial): gpus; disks"),
    ("not_partially_truncated", cut("partial"), BAD, "Inventory is truncated (partial)"),
    ("not_fully_truncated", {}, OK, "Inventory is not truncated"),
    ("not_fully_truncated", cut("partial", "gpus"), OK, "Inventory is partially truncated"),
    ("not_fully_truncated", cut("full", "too long", "gpus"), BAD, "Inventory is truncated (full): too long; gpus"),
    # For any role at all: what a worker needs, unless the role is chosen (which is another check's).
    ("min_cpu", {"reported": {"cpus": 2}}, OK, "Sufficient CPU cores"),
    (
        "min_cpu",
        {"reported": {"cpus": 1}},
        BAD,
        f"{FOR_ANY_ROLE} CPU cores for any role is 2, found only 1",
    ),
    ("min_memory", {"reported": {"ram_mib": 8192}}, OK, "Sufficient minimum RAM"),
    # 100 MiB may be missing: what firmware keeps for itself.
    ("min_memory", {"reported": bytes_of(8092)}, OK, "Sufficient minimum RAM"),
    (
        "min_memory",
        {"reported": bytes_of(8092, 1)},
        BAD,
        f"{FOR_ANY_ROLE} RAM for any role is 8.00 GiB, found only 7.90 GiB",
    ),
    # What the kernel counts is less than what is built in: 2 % more may be missing.
    ("min_memory", {"reported": bytes_of(7929, method="meminfo")}, OK, "Sufficient minimum RAM"),
    (
        "min_memory",
        {"reported": bytes_of(7929, 1, method="meminfo")},
        BAD,
        f"{FOR_ANY_ROLE} RAM for any role is 8.00 GiB, found only 7.74 GiB",
    ),
    ("role_cpu", {"reported": {"cpus": 4}}, OK, "Sufficient CPU cores for role master"),
    ("role_cpu", {"reported": {"cpus": 3}}, BAD, "Require at least 4 CPU cores for master role, found only 3"),
    ("role_cpu", {"reported": {"cpus": 2}, "host": WORKER}, OK, "Sufficient CPU cores for role worker"),
    ("role_memory", {"reported": bytes_of(16284)}, OK, "Sufficient RAM for role master"),
    (
        "role_memory",
        {"reported": bytes_of(16284, 1)},
        BAD,
        "Require at least 16.00 GiB RAM for role master, found only 15.90 GiB",
    ),
    ("min_disks", {"reported": {"disks": [disk()]}}, OK, "Sufficient disk capacity"),
    (
        "min_disks",
        {"reported": {"disks": [unfit("vda", "too small", "is a CD"), unfit("vdb", "busy", path="")]}},
        BAD,
        "No eligible disks were found, please check specific disks to see why they are not eligible: "
        "/dev/vda (too small, is a CD); vdb (busy); at least 100 GB are needed",
    ),
    (
        "min_disks",
        {"reported": {"disks": []}},
        ERROR,
        "Failed to detect disks: the host shows none",
    ),
    # The chosen disk is never replaced by another.
    (
        "min_disks",
        {
            "host": {"user_disk": True, "installation_disk_id": "id-vdb"},
            "reported": {"disks": [disk("vda"), disk("vdb")]},
        },
        OK,
        "Sufficient disk capacity",
    ),
    (
        "min_disks",
        {"host": {"installation_disk_id": "gone"}, "reported": {"disks": [disk("vda")]}},
        OK,
        "Sufficient disk capacity",
    ),
    ("hostname_unique", {}, OK, "Hostname master-0 is unique in cluster"),
    ("hostname_valid", {}, OK, "Hostname master-0 is allowed"),
    ("hostname_valid", {"host": {"user_hostname": "a.b-c.d"}}, OK, "Hostname a.b-c.d is allowed"),
    ("hostname_valid", {"host": {"user_hostname": "localhost"}}, BAD, "The host name localhost is forbidden"),
    (
        "hostname_valid",
        {"host": {"user_hostname": "Big"}},
        BAD,
        "Hostname Big is forbidden, hostname should match pattern "
        "^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:[.][a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$",
    ),
    ("platform_network", {}, OK, "Platform Standard PC is allowed"),
    ("platform_network", {"cluster": {"platform": {}}}, OK, "Platform Standard PC is allowed"),
    (
        "platform_network",
        {"reported": OPENSTACK},
        BAD,
        "Platform OpenStack Compute is allowed only for Single Node OpenShift or user-managed networking",
    ),
    (
        "platform_network",
        {"reported": OPENSTACK, "cluster": {"user_managed_networking": True}},
        OK,
        "Platform OpenStack Compute is allowed",
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
        BAD,
        f"{UNMEASURED}: fio: no space",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=2)}},
        BAD,
        f"{UNMEASURED}: exit code 2",
    ),
    (
        "disk_speed",
        {"host": {"disks_info": speed(tested=True, exit_code=0, speed_ms=10)}},
        OK,
        "Speed of installation disk is sufficient",
    ),
    ("platform", {}, OK, "Host is compatible with cluster platform baremetal"),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}, "reported": VMWARE},
        OK,
        "Host is compatible with cluster platform vsphere",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}},
        BAD,
        "Host is not compatible with cluster platform vsphere; either disable this host or discover "
        "a new compatible host (its maker is QEMU, not VMware, Inc.).",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "vsphere"}}, "reported": NAMELESS},
        BAD,
        "Host is not compatible with cluster platform vsphere; either disable this host or discover "
        "a new compatible host (its maker is unknown, not VMware, Inc.).",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "nutanix"}}},
        BAD,
        "Host is not compatible with cluster platform nutanix; either disable this host or discover "
        "a new compatible host (its maker is QEMU, not Nutanix).",
    ),
    (
        "platform",
        {"cluster": {"platform": {"type": "nutanix"}}, "reported": NAMELESS},
        BAD,
        "Host is not compatible with cluster platform nutanix; either disable this host or discover "
        "a new compatible host (its maker is unknown, not Nutanix).",
    ),
    (
        "platform",
        {
            "cluster": {"platform": {"type": "nutanix"}},
            "reported": {"system_vendor": {"manufacturer": "Nutanix", "product_name": "AHV"}},
        },
        OK,
        "Host is compatible with cluster platform nutanix",
    ),
    ("vsphere_uuid", {"reported": {"disks": [], **VMWARE}}, PENDING, "no disks"),
    ("vsphere_uuid", {"reported": {"disks": HIDDEN}}, SUPPRESSED, ""),
    (
        "vsphere_uuid",
        {"reported": {"disks": HIDDEN, **VMWARE}},
        BAD,
        "VSphere disk.EnableUUID isn't enabled for this virtual machine, it's necessary for disks to "
        "be mounted properly: /dev/sda, /dev/sdd",
    ),
    (
        "vsphere_uuid",
        {"reported": {"disks": HIDDEN[1:3], **VMWARE}},
        OK,
        "VSphere disk.EnableUUID is enabled for this virtual machine",
    ),
    ("compatible_agent", {}, OK, "Host agent compatibility checking is disabled"),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent:1", "disabled_steps": frozenset({"upgrade-agent"})}},
        OK,
        "Host agent compatibility checking is disabled",
    ),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent:1"}},
        BAD,
        "This host's agent is in the process of being upgraded to a compatible version: it is of "
        "unknown version, the service needs r/agent:1",
    ),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent@sha256:1"}, "host": {"discovery_agent_version": "mirror/a@sha256:1"}},
        OK,
        "Host agent is compatible with the service",
    ),
    (
        "compatible_agent",
        {"settings": {"agent_image": "r/agent:2"}, "host": {"discovery_agent_version": "r/agent:1"}},
        BAD,
        "This host's agent is in the process of being upgraded to a compatible version: it is "
        "r/agent:1, the service needs r/agent:2",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skipped_disks": [named("/dev/vdb")]}},
        OK,
        "No request to skip formatting of the installation disk",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skipped_disks": [named("/dev/vdb"), named("/dev/vda")]}},
        BAD,
        "Requesting to skip the formatting of the installation disk is not allowed: /dev/vda. Please "
        "either change this host's installation disk or do not skip the formatting of the "
        "installation disk",
    ),
    (
        "no_skip_installation_disk",
        {"host": {"skipped_disks": [named("/dev/vdb")], "installation_disk_id": ""}},
        OK,
        "No request to skip formatting of the installation disk",
    ),
    (
        "no_skip_missing_disk",
        {"host": {"skipped_disks": [named("/dev/vda")]}},
        OK,
        "All disks that have skipped formatting are present in the host inventory",
    ),
    (
        "no_skip_missing_disk",
        {"host": {"skipped_disks": [named("/dev/vdb"), named("/dev/vda"), named("/dev/vdc")]}},
        BAD,
        "One or more of the disks that you have requested to skip the formatting of are no longer "
        'present on this host: ["/dev/vdb", "/dev/vdc"]. Please remove the request, and give it '
        "again with the new ID if needed",
    ),
]


@pytest.mark.parametrize(("check", "changes", "result", "message"), CASES)
def test_verdict(check: str, changes: dict[str, Any], result: Result, message: str) -> None:
    assert verdict(check, changes) == Verdict(result, message)


def test_without_an_inventory_there_is_none() -> None:
    view = host_view()
    object.__setattr__(view, "inventory", None)
    assert hw.has_inventory(view) == Verdict(BAD, "Inventory has not been received for the host")


def test_the_kits_inventory_is_enough_for_a_master() -> None:
    """So that each case above fails for its own reason."""
    assert inventory()["hostname"] == "master-0"
    for check in ("min_cpu", "min_memory", "min_disks", "role_cpu", "role_memory", "hostname_unique"):
        assert verdict(check, {}).result is OK, check


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
        (f"a.{'b' * 61}", True),
        # As a whole no longer than one label may be.
        (f"a.{'b' * 62}", False),
        (".".join(["b" * 60] * 4)[:243], False),
        (f"a.{'b' * 64}", False),
        ("-a", False),
        ("node-", False),
        ("a.-b", False),
        ("a-.b", False),
        ("a--b.0c", True),
        ("a..b", False),
        ("a.", False),
        ("a_b", False),
        ("a b", False),
        # As a file of names would hold it.
        ("a\n", False),
        ("ä", False),
    ],
)
def test_hostnames(name: str, good: bool) -> None:
    assert verdict("hostname_valid", {"host": {"user_hostname": name}}).result is (OK if good else BAD)


def test_a_host_without_a_name() -> None:
    nameless = verdict("hostname_valid", {"host": {"requested_hostname": ""}, "reported": {"hostname": ""}})
    assert nameless.result is BAD
    assert nameless.message.startswith("Hostname (empty) is forbidden, hostname should match pattern")
