"""What the API shows: lists that are stored as such are texts, as in upstream's service; a state that is known is not
sent again."""

from __future__ import annotations

from pathlib import Path

from aiohttp.test_utils import TestClient

from installer.assisted.auth import Scheme
from installer.rendezvous.api import fields
from installer.rendezvous.store.diskidentity import named
from installer.rendezvous.store.model import Host, InfraEnv, KernelArgument, StaticNetwork, StaticNic, decode, encode
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import filled, header, serve


def test_disks_are_divided_by_commas() -> None:
    bare = fields.host(Host(id="h", infra_env_id="i"))
    assert (bare["disks_to_be_formatted"], bare["skip_formatting_disks"]) == ("", "")
    host = Host(
        id="h",
        infra_env_id="i",
        disks_to_be_formatted=["/dev/a", "/dev/b"],
        skipped_disks=[named("/dev/c"), named("d")],
    )
    shown = fields.host(host)
    assert (shown["disks_to_be_formatted"], shown["skip_formatting_disks"]) == ("/dev/a,/dev/b", "/dev/c,d")


def test_networks_and_arguments_are_json() -> None:
    bare = fields.infra_env(InfraEnv(id="i", name="n"))
    assert (bare["static_network_config"], bare["kernel_arguments"]) == ("", "")
    nic = StaticNic(mac_address="52:54:00:00:00:01", logical_nic_name="eth0")
    infra_env = InfraEnv(
        id="i",
        name="n",
        static_network_config=[StaticNetwork(network_yaml="a: é", mac_interface_map=[nic])],
        kernel_arguments=[KernelArgument(operation="append", value="a=1")],
    )
    shown = fields.infra_env(infra_env)
    assert shown["static_network_config"] == (
        '[{"network_yaml": "a: \\u00e9", '
        '"mac_interface_map": [{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}]}]'
    )
    assert shown["kernel_arguments"] == '[{"operation": "append", "value": "a=1"}]'
    assert decode(encode(infra_env), InfraEnv) == infra_env
    assert "é" not in repr(infra_env.static_network_config)


def test_a_state_that_is_one_of_those_known_is_not_sent_again(tmp_path: Path) -> None:
    """RFC 9110 §13.1.2: several may be named, or any at all."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        for path in (filled("/clusters/{cluster_id}", fleet), filled("/infra-envs/{infra_env_id}/hosts", fleet)):
            etag = (await client.get(path, headers=header(Scheme.USER))).headers["ETag"]
            for if_none_match, status in (
                (etag, 304),
                (f'"a,b", {etag}', 304),
                ("*", 304),
                (etag[:-2], 200),
                ('W/"a"', 200),
            ):
                answer = await client.get(path, headers=header(Scheme.USER) | {"If-None-Match": if_none_match})
                assert (answer.status, answer.headers["ETag"]) == (status, etag), if_none_match

    serve(tmp_path, use)
