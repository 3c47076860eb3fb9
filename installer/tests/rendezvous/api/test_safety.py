"""The API as strangers meet it: every endpoint without the right token, limits, signed URLs, bodies of any shape."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.endpoint import BASE
from installer.rendezvous.api.bodies import MAX_BODY
from installer.rendezvous.api.handlers.routes import NOT_OFFERED, OPEN
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import EVERY, JSON, KEYS, UUID, filled, header, no_brakes, serve
from installer.testing.service.rendezvous_kit import PULL_SECRET, make_keys


@pytest.mark.slow
def test_every_endpoint_wants_its_own_token(tmp_path: Path) -> None:
    strangers = make_keys()

    async def use(client: TestClient, fleet: Fleet) -> None:
        before = len(fleet.world.store.events())
        for method, path, schemes in EVERY:
            assert schemes, path
            attempts: list[dict[str, str]] = [{}]
            accepted: list[dict[str, str]] = []
            for scheme in Scheme:
                attempts.append({HEADERS[scheme]: strangers.token(scheme.value)})
                attempts.append(header(scheme, exp=1))
                attempts.append({HEADERS[scheme]: "x.y.z"})
                # Another's token in the right header, and the right one's in another's header.
                wrong = [other for other in Scheme if other not in schemes or other is not scheme]
                # Where that header is looked at, the caller is known then; but not that it may do this.
                some = accepted if scheme in schemes else attempts
                some += [{HEADERS[scheme]: KEYS.token(other.value)} for other in wrong]
            for headers, status in [*((sent, 401) for sent in attempts), *((sent, 403) for sent in accepted)]:
                answer = await client.request(method, filled(path, fleet), headers=headers)
                assert answer.status == status, (method, path, headers)
                body = await answer.json()
                assert body["code"] == status
                assert "eyJ" not in body["message"]
        assert len(fleet.world.store.events()) == before

    # The brake on strangers would end this long before all has been tried.
    with no_brakes():
        serve(tmp_path, use)


def test_what_is_open_tells_no_secret(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        for path in ("/", *(path for path, _ in OPEN)):
            answer = await client.get(re.sub(r"\{[a-z_]+\}", UUID, path))
            text = await answer.text()
            assert answer.status in (200, 401, 404), path
            for secret in (PULL_SECRET, fleet.cluster.pull_secret, fleet.machines[0].mac):
                assert secret not in text

    serve(tmp_path, use)


def test_bodies_past_the_limit_are_refused(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        data = b'{"name": "' + b"x" * MAX_BODY + b'"}'
        answer = await client.post(filled("/clusters"), data=io.BytesIO(data), headers=JSON | header(Scheme.USER))
        assert answer.status == 413
        assert (await answer.json())["code"] == "413"

    serve(tmp_path, use)


def test_requests_past_the_rate_are_refused(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        seen = [await client.get(filled("/clusters"), headers=header(Scheme.USER)) for _ in range(30)]
        assert {answer.status for answer in seen} == {200, 429}
        assert next(answer for answer in seen if answer.status == 429).headers["Retry-After"] == "1"

    serve(tmp_path, use, REQUESTS_PER_SECOND="1")


def test_other_methods_and_paths(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        answer = await client.put(filled("/clusters"), headers=header(Scheme.USER))
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET, POST"
        for method, status in (("GET", 404), ("PUT", 404), ("POST", 405)):
            answer = await client.request(method, f"{BASE}/clusters/%7Bx%7D", headers=header(Scheme.USER))
            assert answer.status == status
        assert (await client.get(BASE.replace("v2", "v1") + "/clusters", headers=header(Scheme.USER))).status == 404
        for method, path, error in NOT_OFFERED:
            answer = await client.request(method, filled(path, fleet), headers=header(Scheme.USER))
            assert (answer.status, (await answer.json())["reason"]) == (error.status, error.reason)
            if "{" in path:
                assert (await client.request(method, filled(path), headers=header(Scheme.USER))).status == 404

    serve(tmp_path, use)


WORDS = st.sampled_from(
    [
        *("name", "cluster_id", "host_name", "host_role", "disks_selected_config", "id", "role", "cidr", "ip", "type"),
        *("machine_networks", "cluster_networks", "api_vips", "platform", "folder", "file_name", "content", "stage"),
        *("current_stage", "step_type", "output", "exit_code", "static_network_config", "kernel_arguments", "proxy"),
        *("node_labels", "disk_encryption", "pull_secret", "openshift_version", "logs_state", "args", "config"),
        *("host-validation-ids", "is_success", "ntp_source", "control_plane_count", "network_yaml", "key", "value"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=12) | st.just("1") | st.just(UUID)
BODIES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6), max_leaves=14
)


def test_no_body_of_any_shape_is_the_services_fault(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        loop = asyncio.get_running_loop()
        good = {
            "name": "other",
            "openshift_version": "4.18.0",
            "pull_secret": PULL_SECRET,
            "host_id": UUID,
            "cluster_id": fleet.cluster_id,
        }
        # What everything else hangs on stays.
        lasting = ("/clusters/{cluster_id}", "/infra-envs/{infra_env_id}")
        routes = [(m, p, s) for m, p, s in EVERY if m != "DELETE" or p not in lasting]

        def attempt(route: Any, body: Any, mixed: bool, query: dict[str, str]) -> None:
            method, path, schemes = route
            value = {**good, **body} if mixed and isinstance(body, dict) else body

            async def call() -> tuple[int, str]:
                answer = await client.request(
                    method,
                    filled(path, fleet),
                    params=query,
                    data=json.dumps(value) if method != "GET" else None,
                    headers=header(sorted(schemes)[0]),
                )
                return answer.status, await answer.text()

            status, text = asyncio.run_coroutine_threadsafe(call(), loop).result(60)
            assert status in (200, 201, 202, 204, 400, 401, 404, 405, 409, 413, 422), (
                method,
                path,
                value,
                status,
                text,
            )
            if status >= 400:
                problem = json.loads(text)
                assert problem.get("reason") or problem.get("message")

        @hypothesis_settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
        @given(
            st.sampled_from(routes),
            BODIES,
            st.booleans(),
            st.dictionaries(
                st.sampled_from(["limit", "offset", "order", "file_name", "cluster_id", "logs_type", "timestamp"]),
                st.text(st.characters(codec="utf-8"), max_size=8) | st.just("-1") | st.just(UUID),
                max_size=2,
            ),
        )
        def fuzz(route: Any, body: Any, mixed: bool, query: dict[str, str]) -> None:
            attempt(route, body, mixed, query)

        await asyncio.to_thread(fuzz)
        # Nothing of it has poisoned what everybody reads.
        for path in ("/clusters?with_hosts=true", "/infra-envs", "/events"):
            answer = await client.get(filled(path), headers=header(Scheme.USER))
            assert answer.status == 200, await answer.text()
            await answer.json()
        fleet.tick()

    with no_brakes():
        serve(tmp_path, use)


def test_secrets_reach_no_event_status_or_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        token = KEYS.token("agentAuth")
        fleet.prepare()
        machine = fleet.machines[0]
        fleet.progress(machine, "Starting installation")
        path = filled("/infra-envs/{infra_env_id}/hosts/{host_id}", fleet)
        agent = header(Scheme.AGENT)
        failure = {"step_type": "ntp-synchronizer", "step_id": "x", "exit_code": 1, "error": f"curl -H {token}"}
        await client.post(f"{path}/instructions", json=failure, headers=agent)
        stage = {"current_stage": "Failed", "progress_info": f"pull with {PULL_SECRET} and {token} failed"}
        await client.put(f"{path}/progress", json=stage, headers=agent)
        await client.get(filled("/clusters"), headers={"Authorization": token})
        for path in ("/clusters?with_hosts=true", "/events", "/infra-envs"):
            answer = await client.get(filled(path), headers=header(Scheme.USER))
            text = await answer.text()
            assert token not in text
            assert "c2VjcmV0OnNlY3JldA" not in text
        assert "[redacted]" in fleet.host(machine).status_info

    serve(tmp_path, use)
    assert "eyJ" not in caplog.text
    assert "c2VjcmV0OnNlY3JldA" not in caplog.text
