"""Arguments for coreos-installer, held against assisted-service's internal/host/hostcommands/install_cmd.go."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import StepType
from installer.rendezvous.steps import installerargs, instructions
from installer.rendezvous.store.documents import InstallerArgs
from installer.rendezvous.store.model import Host, StaticNetwork
from installer.rendezvous.validations.hostview import HostView
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import inventory

replace = msgspec.structs.replace
NIC = "ip=52-54-00-00-00-80:dhcp"
V6 = {"name": "enp2s0", "mac_address": "52:54:00:00:00:81", "ipv6_addresses": ["fd00::81/64"]}
AWAY = {"name": "enp3s0", "mac_address": "52:54:00:00:00:82", "ipv4_addresses": ["10.0.0.9/24", "nonsense"]}
ISCSI = {"name": "enp4s0", "mac_address": "52:54:00:00:00:83", "ipv4_addresses": ["10.9.0.9/24"]}


def view(
    world: World, own: tuple[str, ...] = (), cidrs: tuple[str, ...] = ("192.168.111.0/24",), **changes: Any
) -> HostView:
    cluster_id, infra_env_id = world.known_host(**changes)
    host: Host = replace(world.host(infra_env_id), installer_args=InstallerArgs.of(list(own)))
    with world.store.change():
        networks = [{"cidr": cidr, "cluster_id": cluster_id} for cidr in cidrs]
        world.store.put_cluster(replace(world.store.cluster(cluster_id), machine_networks=networks))
        world.store.put_host(host)
    return world.engine.view(host)


def nics(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [*inventory()["interfaces"], *more]


def disks(**changes: Any) -> list[dict[str, Any]]:
    return [{**inventory()["disks"][0], **changes}]


def kargs(*arguments: str) -> list[str]:
    return [word for argument in arguments for word in ("--append-karg", argument)]


@pytest.mark.parametrize(
    ("own", "cidrs", "changes", "wanted"),
    [
        ((), ("192.168.111.0/24",), {}, kargs(NIC)),
        ((), ("192.168.111.0/24",), {"interfaces": nics(V6, AWAY)}, kargs(NIC)),
        ((), ("fd00::/64",), {"interfaces": nics(V6)}, kargs("ip=52-54-00-00-00-81:dhcp6")),
        ((), ("192.168.111.0/24", "fd00::/64"), {"interfaces": nics(V6)}, kargs(f"{NIC},dhcp6")),
        ((), (), {}, []),
        (("--append-karg", "quiet"), ("192.168.111.0/24",), {}, kargs("quiet", NIC)),
        (("--append-karg", "ip=enp1s0:off"), ("192.168.111.0/24",), {}, kargs("ip=enp1s0:off")),
        (("--append-karg", NIC), ("192.168.111.0/24",), {}, kargs(NIC)),
        ((), ("192.168.111.0/24",), {"disks": disks(drive_type="RAID")}, kargs("rd.md=1", "rd.auto=1", NIC)),
        (
            (),
            ("192.168.111.0/24",),
            {
                "disks": disks(drive_type="iSCSI", iscsi={"host_ip_address": "10.9.0.9"}),
                "interfaces": nics(ISCSI),
            },
            kargs("rd.iscsi.firmware=1", "ip=52-54-00-00-00-83:dhcp", NIC),
        ),
        (
            ("--append-karg", "rd.iscsi.firmware=1", "--append-karg", "ip=dhcp"),
            ("192.168.111.0/24",),
            {"disks": disks(drive_type="iSCSI", iscsi={"host_ip_address": "10.9.0.9"})},
            kargs("rd.iscsi.firmware=1", "ip=dhcp"),
        ),
    ],
)
def test_what_disk_and_network_call_for(
    world: World, own: tuple[str, ...], cidrs: tuple[str, ...], changes: dict[str, Any], wanted: list[str]
) -> None:
    assert installerargs.arguments(view(world, own, cidrs, **changes)) == wanted


def test_a_multipath_device_over_iscsi(world: World) -> None:
    path = {**disks()[0], "drive_type": "iSCSI", "iscsi": {"host_ip_address": "10.9.0.9"}, "holders": "dm-0"}
    paths = [{**path, "name": "sda", "id": "a", "path": "/dev/sda"}, {**path, "name": "sdb", "id": "b"}]
    whole = {**disks()[0], "drive_type": "Multipath", "name": "dm-0", "path": "/dev/dm-0", "id": "m", "by_path": ""}
    # Of another device, whose name begins with this one's.
    others = {**path, "name": "sdc", "id": "c", "holders": "dm-01", "iscsi": {"host_ip_address": "10.0.0.9"}}
    host_view = view(world, disks=[whole, *paths, others], interfaces=nics(ISCSI, AWAY))
    assert installerargs.arguments(host_view) == kargs(
        "rw", "rd.multipath=default", "rd.iscsi.firmware=1", "ip=52-54-00-00-00-83:dhcp", NIC
    )
    request = ordered(world, host_view)
    # machine-config-daemon is given the name that the kernel has for the disk now, which another boot changes.
    assert (request["boot_device"], request["enable_skip_mco_reboot"]) == ("m", False)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ((), ("ip=52-54-00-00-00-83:dhcp", "ip=52-54-00-00-00-84:dhcp", NIC)),
        (("--append-karg", "ip=enp1s0:off"), ()),
    ],
)
def test_each_path_has_a_card_of_its_own(world: World, own: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """As upstream's "multipath iSCSI installation disk": no root=, and no ip= beside one of the user's."""
    second = {"name": "enp5s0", "mac_address": "52:54:00:00:00:84", "ipv4_addresses": ["10.9.1.9/24"]}
    path = {**disks()[0], "drive_type": "iSCSI", "holders": "dm-0"}
    paths = [
        {**path, "name": "sda", "id": "a", "path": "/dev/sda", "iscsi": {"host_ip_address": "10.9.0.9"}},
        {**path, "name": "sdb", "id": "b", "path": "/dev/sdb", "iscsi": {"host_ip_address": "10.9.1.9"}},
    ]
    whole = {**disks()[0], "drive_type": "Multipath", "name": "dm-0", "path": "/dev/dm-0", "id": "m", "by_path": ""}
    host_view = view(world, own, disks=[whole, *paths], interfaces=nics(ISCSI, second))
    assert installerargs.arguments(host_view) == [
        *own,
        *kargs("rw", "rd.multipath=default", "rd.iscsi.firmware=1", *wanted),
    ]


def test_a_network_of_the_users_is_copied_once(world: World) -> None:
    host_view = view(world, ("--copy-network",))
    # One of the host's console, which no infra-env knows: no DHCP beside it.
    assert installerargs.arguments(host_view) == ["--copy-network"]
    with world.store.change():
        assert host_view.infra_env is not None
        world.store.put_infra_env(
            replace(host_view.infra_env, static_network_config=[StaticNetwork(network_yaml="{}", mac_interface_map=[])])
        )
    for host in (host_view.host, replace(host_view.host, installer_args=InstallerArgs())):
        assert installerargs.arguments(world.engine.view(host)) == ["--copy-network"]
    # coreos-installer takes a switch once, in either spelling.
    host = replace(host_view.host, installer_args=InstallerArgs.of(["-n"]))
    assert installerargs.arguments(world.engine.view(host)) == ["-n"]


def ordered(world: World, view_of_host: HostView) -> dict[str, Any]:
    [text] = instructions.MAKERS[StepType.INSTALL](view_of_host) or []
    request: dict[str, Any] = json.loads(text)
    return request


@pytest.mark.parametrize(
    ("own", "kept"), [((), False), (("--save-partlabel", "data*"), True), (("--save-partindex=5-",), True)]
)
def test_partitions_that_are_to_stay(world: World, own: tuple[str, ...], kept: bool) -> None:
    host_view = view(world, own)
    assert ordered(world, host_view)["skip_installation_disk_cleanup"] is kept
    # fio would write over them.
    assert (instructions.MAKERS[StepType.DISK_SPEED](host_view) is None) is kept


def test_the_request_names_no_arguments_when_there_are_none(world: World) -> None:
    request = ordered(world, view(world, cidrs=()))
    assert "installer_args" not in request
    assert (request["enable_skip_mco_reboot"], request["notify_num_reboots"]) == (True, True)


def test_the_disk_and_the_seconds_for_its_measurement(world: World) -> None:
    host_view = view(world)
    assert instructions.MAKERS[StepType.DISK_SPEED](host_view) == [
        '{"path":"/dev/disk/by-path/pci-0000:04:00.0"}',
        "480.00",
    ]
