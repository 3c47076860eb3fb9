"""The API's fields: lists that are stored as such are texts, as in upstream's service; a state that is known is not
sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient

from installer.assisted.auth import Scheme
from installer.rendezvous.api import fields
from installer.rendezvous.api.handlers.routes import ROUTES
from installer.rendezvous.store.diskidentity import named
from installer.rendezvous.store.model import Host, InfraEnv, KernelArgument, StaticNetwork, StaticNic, decode, encode
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import UUID, filled, header, no_brakes, serve
from installer.testing.service.rendezvous_kit import PULL_SECRET


def test_disks_are_divided_by_commas() -> None:
    bare = fields.host(Host(id="h", infra_env_id="i"))
    assert not {"disks_to_be_formatted", "skip_formatting_disks"} & bare.keys()
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
    assert not {"static_network_config", "kernel_arguments"} & bare.keys()
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


#: By what an answer is about: the fields that upstream's models have even if they are empty.
ALWAYS = {
    "Host": {
        *("id", "href", "kind", "status", "status_info", "status_updated_at", "checked_in_at", "registered_at"),
        *("stage_started_at", "stage_updated_at", "logs_started_at", "logs_collected_at"),
    },
    "Cluster": {
        *("id", "href", "kind", "status", "status_info", "image_info", "hosts", "api_vips", "ingress_vips"),
        *("machine_networks", "cluster_networks", "service_networks", "monitored_operators"),
        *("user_managed_networking", "vip_dhcp_allocation", "schedulable_masters", "schedulable_masters_forced_true"),
        *("imported", "last-installation-preparation", "status_updated_at", "install_started_at"),
        *("install_completed_at", "controller_logs_started_at", "controller_logs_collected_at"),
    },
    "InfraEnv": {"id", "href", "kind", "name", "type", "created_at", "updated_at", "expires_at"},
}


OTHERS = {"ntp_source", "packet_loss_percentage"}


def empty_fields(value: object, path: str = "") -> Iterator[str]:
    """Return the places of an answer whose field is null or empty, and should be left out."""
    if isinstance(value, list):
        for item in value:
            yield from empty_fields(item, path)
    if isinstance(value, dict):
        kind = str(value.get("kind", ""))
        for key, item in value.items():
            if item is None or (item in ("", 0) and key not in ALWAYS.get(kind, OTHERS)):
                yield f"{path}.{key}"
            yield from empty_fields(item, f"{path}.{key}")
        if missing := ALWAYS.get(kind, set()) - value.keys():
            yield f"{path}: {', '.join(sorted(missing))}"


def test_what_is_empty_is_absent_from_every_answer(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        answers: dict[str, object] = {}

        async def ask(method: str, path: str, scheme: Scheme, body: object = None) -> Any:
            answer = await client.request(method, path, json=body, headers=header(scheme))
            if answer.status < 300 and answer.content_type == "application/json":
                answers[f"{method} {path}"] = await answer.json()
            return answers.get(f"{method} {path}")

        # A cluster without hosts, another with a host that has said nothing but that it is there, and one in none.
        body = {"name": "bare", "openshift_version": "4.19", "pull_secret": PULL_SECRET}
        bare, other = [(await ask("POST", filled("/clusters"), Scheme.USER, body))["id"] for _ in range(2)]
        every = [(bare, fleet.infra_env_id, UUID), (fleet.cluster_id, fleet.infra_env_id, fleet.machines[0].id)]
        for cluster_id in ({"cluster_id": other}, {}):
            env = await ask("POST", filled("/infra-envs"), Scheme.USER, {**body, **cluster_id})
            await ask("POST", filled(f"/infra-envs/{env['id']}/hosts"), Scheme.AGENT, {"host_id": UUID})
            every.append((other, env["id"], UUID))
        operator = {"name": "console", "version": "", "status_info": ""}
        await ask("PUT", filled(f"/clusters/{bare}/monitored-operators"), Scheme.AGENT, operator)
        for cluster_id, infra_env_id, host_id in every:
            ids = {"{cluster_id}": cluster_id, "{infra_env_id}": infra_env_id, "{host_id}": host_id}
            for method, route, schemes, _ in ROUTES:
                for name, identity in ids.items():
                    route = route.replace(name, identity)
                if method == "GET":
                    # The user sees most.
                    await ask(method, filled(route), Scheme.USER if Scheme.USER in schemes else Scheme.AGENT)
        assert len(answers) > 40
        assert {path: found for path, answer in answers.items() if (found := [*empty_fields(answer)])} == {}

    with no_brakes():
        serve(tmp_path, use)


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
