"""Answers in the form that the specification, or upstream's framework, gives them. All of it: ci/bench conformity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from installer.assisted.auth import Scheme
from installer.rendezvous.client import manifests as client_manifests
from installer.rendezvous.resources.requests.params import boolean
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
        ("GET", "/events", Scheme.USER, {"limit": "1_0"}, None, 400, 400),
        ("GET", "/events", Scheme.USER, {"limit": " 1"}, None, 400, 400),
        ("GET", "/events", Scheme.USER, {"offset": "\u0661"}, None, 400, 400),
        ("POST", "/infra-envs/{infra_env_id}/hosts/{host_id}/instructions", Scheme.AGENT, {},
         '{"step_type": "installation-disk-speed-check", "exit_code": 9223372036854775808}', 400, 400),
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
        problem = await answer.json()
        assert (answer.status, problem["code"], set(problem)) == (status, code, {"code", "message"}), problem

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
        response = await client.get(path, headers=header(Scheme.USER))
        assert (await response.read(), response.headers["Content-Type"]) == (b"abc", "application/octet-stream")

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
    ("path", "message"),
    [
        ("/support-levels/features", "openshift_version in query is required"),
        ("/support-levels/features?openshift_version=", "openshift_version in query is required"),
        (
            "/support-levels/features?openshift_version=4.18&cpu_architecture=x",
            "cpu_architecture in query should be one of x86_64, aarch64, arm64, ppc64le, s390x, multi, not 'x'",
        ),
        ("/clusters/{cluster_id}/downloads/files", "file_name in query is required"),
        ("/clusters/{cluster_id}/downloads/files-presigned", "file_name in query is required"),
        ("/clusters/{cluster_id}/downloads/credentials-presigned", "file_name in query is required"),
        ("/infra-envs/{infra_env_id}/downloads/files-presigned", "file_name in query is required"),
        # As the specification has it: it is a file, and there is no URL for it.
        (
            "/clusters/{cluster_id}/downloads/files-presigned?file_name=arbiter.ign",
            "file_name in query should be one of bootstrap.ign, master.ign, worker.ign, metadata.json, "
            "install-config.yaml, logs, manifests, not 'arbiter.ign'",
        ),
        (
            "/clusters/{cluster_id}/downloads/files-presigned?file_name=logs&logs_type=x",
            "logs_type in query should be one of host, controller, all, not 'x'",
        ),
        (
            "/infra-envs/{infra_env_id}/downloads/files-presigned?file_name=static-network-config",
            "file_name in query should be one of discovery.ign, ipxe-script, not 'static-network-config'",
        ),
    ],
)
def test_each_parameter_is_refused_in_the_same_words(tmp_path: Path, path: str, message: str) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        answer = await client.get(filled(path, fleet), headers=header(Scheme.USER))
        assert (answer.status, await answer.json()) == (400, {"code": 400, "message": message})

    serve(tmp_path, use)


EVENT = {"severity": "info", "message": "m", "event_time": "2026-01-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *((name, "x", f"{name}: must match ") for name in ("cluster_id", "host_id", "infra_env_id", "request_id")),
        ("host_id", "", "host_id: must match "),
        ("category", "zzz", "category 'zzz' is not one of metrics, user"),
        *(
            ("event_time", text, f"event_time in body must be of type date-time: {text!r}")
            for text in ("x", "2026-13-01T00:00:00Z", "20260101T000000Z", "2026-W01-1", "", "12:00")
        ),
        *(  # in UTC the year would be 10000, or 0
            ("event_time", text, f"event_time in body must be of type date-time: {text!r}")
            for text in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")
        ),
    ],
)
def test_an_event_has_ids_and_a_time(tmp_path: Path, field: str, value: str, message: str) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        body = {**EVENT, "cluster_id": fleet.cluster_id, field: value}
        answer = await client.post(filled("/events"), json=body, headers=header(Scheme.AGENT))
        assert answer.status == 400, await answer.text()
        assert (await answer.json())["message"].startswith(message)

    serve(tmp_path, use)


def test_an_event_is_kept_as_the_api_shows_others(tmp_path: Path) -> None:
    """Forms of times and ids that upstream's parsers take; without a category it is a user's."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        host = fleet.machines[0].id
        times = {
            "2026-01-01T01:00:00.123456+01:00": "2026-01-01T00:00:00.123Z",
            "2026-01-01T01:00:00.5+0100": "2026-01-01T00:00:00.500Z",
            "2026-01-01T00:00:00.123456789Z": "2026-01-01T00:00:00.123Z",
            "2026-01-01T00:00Z": "2026-01-01T00:00:00.000Z",
            "2026-01-01 00:00:00": "2026-01-01T00:00:00.000Z",
            "2026-01-01": "2026-01-01T00:00:00.000Z",
        }
        for sent, kept in times.items():
            body = {
                **EVENT,
                "event_time": sent,
                "cluster_id": fleet.cluster_id.upper(),
                "host_id": host.replace("-", ""),
            }
            answer = await client.post(filled("/events"), json=body, headers=header(Scheme.AGENT))
            assert answer.status == 201, await answer.text()
            event = fleet.world.store.events()[-1]
            assert (event.event_time, event.cluster_id, event.host_id) == (kept, fleet.cluster_id, host)
            assert event.category == "user"

    serve(tmp_path, use)


@pytest.mark.parametrize("host_id", ["x", "", f"{{{UUID}}}", f"urn:uuid:{UUID}", f"{UUID}\n"])
def test_a_host_registers_by_a_uuid(tmp_path: Path, host_id: str) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled("/infra-envs/{infra_env_id}/hosts", fleet)
        answer = await client.post(path, json={"host_id": host_id}, headers=header(Scheme.AGENT))
        assert answer.status == 400, await answer.text()
        assert (await answer.json())["message"].startswith("host_id: must match ")
        answer = await client.post(path, json={"host_id": UUID.replace("-", "").upper()}, headers=header(Scheme.AGENT))
        assert (answer.status, (await answer.json())["id"]) == (201, UUID)

    serve(tmp_path, use)


@pytest.mark.parametrize(
    ("text", "truth"),
    [(word, True) for word in ("true", "True", "1", "YES", "on", "t")]
    + [(word, False) for word in ("False", "0", "no", "off", "", "None", "null")],
)
def test_what_counts_as_true(text: str, truth: bool) -> None:
    assert boolean(text, "with_hosts") is truth


def test_where_events_come_from(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        async def host_ids(query: str) -> list[Any]:
            answer = await client.get(filled("/events") + f"?{query}", headers=header(Scheme.USER))
            return [event.get("host_id") for event in await answer.json()]

        hosts = [machine.id for machine in fleet.machines]
        everyone = await host_ids("")
        assert {None, *hosts[:2]} <= set(everyone)
        for query, wanted in (
            (f"host_ids={hosts[0]}", {hosts[0]}),
            ("cluster_level=true", {None}),
            (f"host_ids={hosts[0]}&cluster_level=true", {hosts[0], None}),
            ("deleted_hosts=true", set()),
            (f"host_ids={hosts[0]}&cluster_level=true&deleted_hosts=true", {hosts[0], None}),
        ):
            assert await host_ids(query) == [host_id for host_id in everyone if host_id in wanted], query
        path = filled("/infra-envs/{infra_env_id}/hosts/", fleet) + hosts[1]
        assert (await client.delete(path, headers=header(Scheme.USER))).status == 204
        assert set(await host_ids("deleted_hosts=true")) == {hosts[1]}
        assert set(await host_ids("deleted_hosts=true&cluster_level=true")) == {hosts[1], None}

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
    manifests = client_manifests.Manifests(install, {}, {}, {}, pull_secret=PULL_SECRET)
    assert client_manifests.cluster_params(manifests, "", "4.18.0")["platform"]["external"] == sent
