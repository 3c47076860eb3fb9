"""Answers in the form that the specification, or upstream's framework, gives them. All of it: ci/bench conformity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from installer.assisted.auth import Scheme
from installer.rendezvous.client import manifests as client_manifests
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import JSON, UUID, filled, header, serve
from installer.testing.service.rendezvous_kit import PULL_SECRET


@pytest.mark.parametrize(
    ("method", "path", "scheme", "query", "body", "status", "code"),
    [
        ("GET", "/events", Scheme.USER, {"offset": "x"}, None, 400, 400),
        ("GET", "/events", Scheme.USER, {"host_ids": "x"}, None, 400, 400),
        ("GET", "/clusters", Scheme.USER, {"openshift_cluster_id": "x"}, None, 400, 400),
        ("GET", "/clusters/{cluster_id}/hosts", Scheme.USER, {"role": "x"}, None, 400, 400),
        ("GET", "/support-levels/features", Scheme.USER, {"openshift_version": "4.19", "platform_type": "x"}, None,
         400, 400),
        ("GET", "/events", Scheme.USER, {"limit": "x"}, None, 400, 400),
        ("GET", "/events", Scheme.USER, {"limit": str(1 << 63)}, None, 400, 400),
        ("GET", "/events", Scheme.USER, {"order": "up"}, None, 400, 400),
        ("GET", "/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", Scheme.AGENT, {"timestamp": "1.5"}, None,
         400, 400),
        ("PUT", "/clusters/{cluster_id}/logs-progress", Scheme.AGENT, {}, '{"logs_state": "some"}', 400, 400),
        ("GET", "/clusters/{cluster_id}/logs", Scheme.USER, {"logs_type": "host"}, None, 400, 400),
        ("GET", "/clusters/{cluster_id}/logs", Scheme.USER, {"logs_type": "host", "host_id": "x"}, None, 400, 400),
        ("PUT", "/clusters/{cluster_id}/logs-progress", Scheme.AGENT, {}, "{", 400, 400),
        ("PUT", "/clusters/{cluster_id}/progress", Scheme.AGENT, {}, "[]", 400, 400),
        ("PUT", "/infra-envs/{infra_env_id}/hosts/{host_id}/progress", Scheme.AGENT, {}, "{}", 400, 400),
        ("POST", "/clusters/{cluster_id}/actions/complete-installation", Scheme.AGENT, {}, "{}", 400, 400),
        ("PUT", "/clusters/{cluster_id}/monitored-operators", Scheme.AGENT, {}, '{"name": -345}', 400, 400),
        ("PUT", "/clusters/{cluster_id}/monitored-operators", Scheme.AGENT, {}, '{"status": "?"}', 400, 400),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_specification_is_refused_as_go_swagger_does(
    tmp_path: Path, method: str, path: str, scheme: Scheme, query: Any, body: str | None, status: int, code: int
) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        answer = await client.request(
            method, filled(path, fleet), params=query, data=body, headers=JSON | header(scheme)
        )
        told = await answer.json()
        assert (answer.status, told["code"], set(told)) == (status, code, {"code", "message"}), told

    serve(tmp_path, use)


def test_logs_that_are_no_multipart_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/clusters/{cluster_id}/logs", fleet) + "?logs_type=controller"
        kind = {"Content-Type": "multipart/form-data; boundary=a", **header(Scheme.AGENT)}
        for body in (b"--a\r\n[1]--a--\r\n", b"", b"--a\r\n\r\nx", b"--a--\r\n"):
            answer = await client.post(path, data=body, headers=kind)
            assert answer.status == 400, (body, await answer.text())
        assert not [file for file in tmp_path.rglob("logs/*/*") if file.is_file()]
        form = b'--a\r\nContent-Disposition: form-data; name="upfile"; filename="x"\r\n\r\nabc\r\n--a--\r\n'
        assert (await client.post(path, data=form, headers=kind)).status == 204
        found = await client.get(path, headers=header(Scheme.USER))
        assert (await found.read(), found.headers["Content-Type"]) == (b"abc", "application/octet-stream")

    serve(tmp_path, use)


def test_errors_of_downloads_have_their_content_type(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/clusters/{cluster_id}/downloads/files", fleet) + "?file_name=master.ign"
        missing = await client.get(path, headers=header(Scheme.USER))
        assert missing.headers["Content-Type"] == "application/octet-stream"
        assert json.loads(await missing.read())["reason"]
        refused = await client.get(path)
        assert (refused.status, refused.content_type) == (401, "application/json")

    serve(tmp_path, use)


@pytest.mark.parametrize(
    "changes",
    [
        {"load_balancer": {"type": "AAA"}},
        {"disk_encryption": {"tang_servers": {}}},
        {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": 200}]},
        {"cluster_networks": [{"cidr": "10.128.0.0/14", "host_prefix": "23"}]},
        {"platform": {}},
        {"platform": {"type": "external", "external": {"cloud_controller_manager": "Mine"}}},
        {"hyperthreading": "some"},
    ],
)
def test_a_cluster_keeps_nothing_that_the_specification_does_not_have(tmp_path: Path, changes: dict[str, Any]) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/clusters/{cluster_id}", fleet)
        answer = await client.patch(path, json=changes, headers=header(Scheme.USER))
        assert answer.status == 400
        good: dict[str, Any] = {"service_networks": [{"cidr": "198.18.0.0/16", "cluster_id": ""}]}
        answer = await client.patch(path, json=good, headers=header(Scheme.USER))
        assert (answer.status, (await answer.json())["service_networks"]) == (201, [{"cidr": "198.18.0.0/16"}])
        good["service_networks"][0]["more"] = 1
        answer = await client.patch(path, json=good, headers=header(Scheme.USER))
        assert answer.status == 400
        assert (await answer.json())["message"] == 'service_networks[0]: unknown field "more"'

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("path", "scheme", "status"),
    [
        (f"/events?infra_env_id={UUID}", Scheme.USER, 200),
        ("/events?offset=-1", Scheme.USER, 200),
        ("/events?limit=-5", Scheme.USER, 200),
        ("/clusters/{cluster_id}/hosts?role=master", Scheme.USER, 200),
        ("/clusters/{cluster_id}/monitored-operators?operator_name=console", Scheme.AGENT, 200),
        ("/clusters/{cluster_id}/monitored-operators?operator_name=lso", Scheme.AGENT, 404),
        ("/clusters/{cluster_id}/monitored-operators?operator_name=cvo", Scheme.AGENT, 404),
        ("/infra-envs/{infra_env_id}/downloads/minimal-initrd", Scheme.USER, 204),
        (f"/infra-envs/{UUID}/downloads/minimal-initrd", Scheme.USER, 404),
    ],
)
def test_what_upstream_answers_where_nothing_is_found(tmp_path: Path, path: str, scheme: Scheme, status: int) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        assert (await client.get(filled(path, fleet), headers=header(scheme))).status == status

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/clusters?with_hosts=maybe", {}, "with_hosts in query"),
        ("/clusters/{cluster_id}?exclude-hosts=2", {}, "exclude-hosts in query"),
        ("/clusters/{cluster_id}", {"exclude-hosts": "x"}, "exclude-hosts in header"),
        ("/clusters/{cluster_id}/hosts?with-inventory=x", {}, "with-inventory in query"),
        ("/clusters/{cluster_id}/hosts?with-connectivity=x", {}, "with-connectivity in query"),
        ("/clusters/{cluster_id}/manifests?include_system_generated=x", {}, "include_system_generated in query"),
        ("/events?cluster_level=x", {}, "cluster_level in query"),
        ("/events?deleted_hosts=x", {}, "deleted_hosts in query"),
    ],
)
def test_a_boolean_that_is_none_is_named(tmp_path: Path, path: str, headers: dict[str, str], name: str) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        answer = await client.get(filled(path, fleet), headers={**header(Scheme.USER), **headers})
        assert answer.status == 400
        assert (await answer.json())["message"].startswith(f"{name} must be of type bool: ")

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("text", "truth"),
    [(word, True) for word in ("true", "True", "1", "YES", "on", "t")]
    + [(word, False) for word in ("False", "0", "no", "off", "", "None", "null")],
)
def test_what_counts_as_true(tmp_path: Path, text: str, truth: bool) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        [cluster] = await (
            await client.get(filled("/clusters") + f"?with_hosts={text}", headers=header(Scheme.USER))
        ).json()
        assert bool(cluster["hosts"]) is truth

    serve(tmp_path, use)


def test_where_events_come_from(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        async def told(query: str) -> list[Any]:
            answer = await client.get(filled("/events") + f"?{query}", headers=header(Scheme.USER))
            return [event.get("host_id") for event in await answer.json()]

        hosts = [machine.id for machine in fleet.machines]
        everyone = await told("")
        assert {None, *hosts[:2]} <= set(everyone)
        for query, wanted in (
            (f"host_ids={hosts[0]}", {hosts[0]}),
            ("cluster_level=true", {None}),
            (f"host_ids={hosts[0]}&cluster_level=true", {hosts[0], None}),
            ("deleted_hosts=true", set()),
            (f"host_ids={hosts[0]}&cluster_level=true&deleted_hosts=true", {hosts[0], None}),
        ):
            assert await told(query) == [host_id for host_id in everyone if host_id in wanted], query
        path = filled("/infra-envs/{infra_env_id}/hosts/", fleet) + hosts[1]
        assert (await client.delete(path, headers=header(Scheme.USER))).status == 204
        assert set(await told("deleted_hosts=true")) == {hosts[1]}
        assert set(await told("deleted_hosts=true&cluster_level=true")) == {hosts[1], None}

    serve(tmp_path, use)


def test_an_infra_envs_proxy_is_of_texts(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/infra-envs/{infra_env_id}", fleet)
        answer = await client.patch(path, json={"proxy": {"http_proxy": -46}}, headers=header(Scheme.USER))
        assert answer.status == 400

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("external", "sent"),
    [
        ({"platformName": ""}, {}),
        (
            {"platformName": "oci", "cloudControllerManager": "External"},
            {"platform_name": "oci", "cloud_controller_manager": "External"},
        ),
    ],
)
def test_the_client_sends_no_empty_platform_name(external: dict[str, str], sent: dict[str, str]) -> None:
    install = {"metadata": {"name": "x"}, "spec": {"platformType": "External", "external": external}}
    manifests = client_manifests.Manifests(install, {}, {}, {}, PULL_SECRET)
    assert client_manifests.cluster_params(manifests, "", "4.18.0")["platform"]["external"] == sent
