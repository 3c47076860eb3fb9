"""Faults by their owner: a caller's is answered with the field's name, ours is a 500 and in the log."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp.test_utils import TestClient

from installer.assisted import inventory as inv
from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.enums import StepType
from installer.rendezvous.api.handlers.routes import ROUTES
from installer.rendezvous.resources import replies
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests import hosts as hostrequests
from installer.rendezvous.resources.requests import hub as hubrequests
from installer.rendezvous.store import documents, shapes
from installer.rendezvous.store.links import PeersReport
from installer.rendezvous.store.logs import Upload
from installer.testing.engine.fleet_kit import Fleet
from installer.testing.service.api_kit import JSON, filled, header, no_brakes, serve
from installer.testing.service.rendezvous_kit import PULL_SECRET

UUID = "00000000-0000-4000-8000-000000000001"
C, I = "/clusters/{cluster_id}", "/infra-envs/{infra_env_id}"  # noqa: E741
H = I + "/hosts/{host_id}"
CLUSTER = {"name": "other", "openshift_version": "4.18.0", "pull_secret": PULL_SECRET}
IMPORT = {"name": "there", "api_vip_dnsname": "api.there.example", "openshift_cluster_id": UUID}

# Every operation that takes an object, and one that it takes.
OBJECTS: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {
    ("POST", "/clusters"): (requests.ClusterParams, CLUSTER),
    ("PATCH", C): (requests.ClusterUpdate, {}),
    ("PUT", C + "/progress"): (requests.FinalizingProgress, {"finalizing_stage": "Done"}),
    ("POST", C + "/manifests"): (requests.ManifestParams, {"file_name": "a.yaml", "content": "YTogMQ=="}),
    ("PATCH", C + "/manifests"): (requests.ManifestParams, {"file_name": "a.yaml"}),
    ("POST", C + "/actions/complete-installation"): (requests.Completion, {"is_success": True}),
    ("PUT", C + "/monitored-operators"): (requests.OperatorReport, {"name": "console"}),
    ("PUT", C + "/logs-progress"): (requests.LogsProgress, {"logs_state": "requested"}),
    ("PUT", C + "/ignored-validations"): (requests.IgnoredValidations, {}),
    ("POST", "/events"): (
        requests.EventParams,
        {"severity": "info", "message": "m", "event_time": "2026-01-01T00:00:00.000Z", "cluster_id": UUID},
    ),
    ("POST", "/infra-envs"): (hostrequests.InfraEnvParams, {"name": "x", "pull_secret": PULL_SECRET}),
    ("PATCH", I): (hostrequests.InfraEnvUpdate, {}),
    ("POST", I + "/hosts"): (hostrequests.HostCreate, {"host_id": UUID}),
    ("PATCH", H): (hostrequests.HostUpdate, {}),
    ("POST", H + "/instructions"): (hostrequests.StepReply, {"step_type": "ntp-synchronizer", "output": "{}"}),
    ("PUT", H + "/progress"): (hostrequests.HostProgressParams, {"current_stage": "Installing"}),
    ("PUT", H + "/logs-progress"): (requests.LogsProgress, {"logs_state": "requested"}),
    ("PATCH", H + "/installer-args"): (hostrequests.InstallerArgs, {"args": []}),
    ("PATCH", H + "/ignition"): (hostrequests.IgnitionParams, {}),
    ("PUT", C): (requests.ClusterParams, CLUSTER),
    ("PUT", I): (hostrequests.InfraEnvParams, {"name": "x", "pull_secret": PULL_SECRET}),
    ("POST", "/clusters/import"): (hubrequests.ImportParams, IMPORT),
    ("PUT", C + "/import"): (hubrequests.ImportParams, IMPORT),
    ("PUT", H + "/joined"): (hubrequests.Joined, {"current_stage": "Joined"}),
    ("PUT", "/releases"): (hubrequests.ReleaseParams, {"image": "r.example/r", "pull_secret": PULL_SECRET}),
    ("POST", H + "/actions/bind"): (hostrequests.Binding, {"cluster_id": UUID}),
}
# Operations whose body is a JSON text, the one that takes a file, and those that take nothing.
TEXTS = {("PATCH", C + "/install-config"), ("PUT", C + "/ui-settings"), ("POST", C + "/uploads/ingress-cert")}
FILES = {("POST", C + "/logs")}
ADD_HOSTS = ("allow-add-hosts", "allow-add-workers")
NOTHING = {
    *(("POST", f"{C}/actions/{name}") for name in ("install", "cancel", "reset", *ADD_HOSTS)),
    *(("POST", f"{H}/actions/{name}") for name in ("unbind", "install", "reset")),
    ("PATCH", H + "/actions/reset-validation/{validation_id}"),
    ("POST", I + "/regenerate-signing-key"),
}
SCHEMES = {(method, path): min(schemes) for method, path, schemes, _ in ROUTES}
# What the objects hold that the resources judge as a whole.
WITHIN: dict[str, Any] = {
    "platform": shapes.Platform,
    "cluster_networks": list[shapes.ClusterNetwork],
    "service_networks": list[shapes.Network],
    "machine_networks": list[shapes.Network],
    "api_vips": list[shapes.Vip],
    "ingress_vips": list[shapes.Vip],
    "disk_encryption": shapes.DiskEncryption,
    "load_balancer": shapes.LoadBalancer,
}
SAMPLES: dict[str, Any] = {
    "cidr": "10.0.0.0/16",
    "ip": "192.168.111.5",
    "type": "baremetal",
    "enable_on": "all",
    "mac_address": "52:54:00:00:00:01",
}
FENCING = {"address": "redfish://x", "username": "u", "password": "p"}
FEATURED: dict[str, Any] = {"host_prefix": 24, "verification": "unverified"}
EACH_KIND: dict[str, Any] = {"text": "x", "number": 7, "fraction": 1.5, "truth": True, "list": [], "object": {}}
FITTING: dict[type, set[str]] = {
    msgspec.inspect.StrType: {"text"},
    msgspec.inspect.LiteralType: set(),
    msgspec.inspect.EnumType: set(),
    msgspec.inspect.IntType: {"number"},
    msgspec.inspect.FloatType: {"number", "fraction"},
    msgspec.inspect.BoolType: {"truth"},
    msgspec.inspect.ListType: {"list"},
    msgspec.inspect.DictType: {"object"},
    msgspec.inspect.StructType: {"object"},
    msgspec.inspect.TypedDictType: {"object"},
}


def plain(kind: Any) -> Any:
    """Return the type without null and without limits."""
    if isinstance(kind, msgspec.inspect.UnionType):
        [kind] = [item for item in kind.types if not isinstance(item, msgspec.inspect.NoneType)]
    return kind


def fields(kind: Any) -> Any:
    return kind.fields if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.TypedDictType) else ()


def sample(kind: Any, name: str = "") -> Any:
    """Return a value that fits."""
    kind = plain(kind)
    if name in SAMPLES or name in FEATURED:
        return {**SAMPLES, **FEATURED}[name]
    if isinstance(kind, msgspec.inspect.LiteralType):
        return kind.values[0]
    if fields(kind) or isinstance(kind, msgspec.inspect.StructType):
        return {field.encode_name: sample(field.type, field.encode_name) for field in fields(kind) if field.required}
    return {
        msgspec.inspect.StrType: "",
        msgspec.inspect.IntType: 1,
        msgspec.inspect.FloatType: 1.0,
        msgspec.inspect.BoolType: False,
        msgspec.inspect.ListType: [],
        msgspec.inspect.DictType: {},
    }[type(kind)]


def wrongs(kind: Any) -> Iterator[tuple[str, Any]]:
    """(path, value) of what does not fit a type: itself, and with one thing wrong somewhere within."""
    kind = plain(kind)
    if isinstance(kind, msgspec.inspect.AnyType):
        return
    yield from (("", value) for name, value in EACH_KIND.items() if name not in FITTING[type(kind)])
    if isinstance(kind, msgspec.inspect.ListType):
        for path, value in [*wrongs(kind.item_type), *([("", None)] if fields(plain(kind.item_type)) else [])]:
            yield f"[0]{path}", [value]
    for field in fields(kind):
        whole = sample(kind)
        for path, value in wrongs(field.type):
            yield f".{field.encode_name}{path}", {**whole, field.encode_name: value}
        if field.required:
            yield f".{field.encode_name}", {key: value for key, value in whole.items() if key != field.encode_name}


def refusal(text: str) -> str:
    body = json.loads(text)
    return str(body.get("message") or body["reason"])


def test_every_operation_with_a_body_is_here() -> None:
    changing = {(method, path) for method, path, _, _ in ROUTES if method in ("POST", "PUT", "PATCH")}
    assert changing == OBJECTS.keys() | TEXTS | FILES | NOTHING


@pytest.mark.parametrize("where", OBJECTS, ids=" ".join)
def test_what_a_caller_gets_wrong_is_told_by_its_name(
    where: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, good = OBJECTS[where]
    info: Any = msgspec.inspect.type_info(kind)

    async def use(client: TestClient, fleet: Fleet) -> None:
        async def send(body: Any) -> tuple[int, str]:
            answer = await client.request(
                where[0], filled(where[1], fleet), data=json.dumps(body), headers=JSON | header(SCHEMES[where])
            )
            return answer.status, await answer.text()

        for other in (None, [], [good], "text", 7, True):
            assert await send(other) == (400, '{"code":400,"message":"body must be a JSON object"}')
        for body in ({}, *({key: value for key, value in good.items() if key != name} for name in good)):
            status, text = await send(body)
            assert status < 500, (body, text)
        for field in info.fields:
            name = field.encode_name
            for path, value in wrongs(field.type):
                status, text = await send({**good, name: value})
                assert status == 400, (name, value, text)
                assert refusal(text).startswith(f"{name}{path} "), (value, text)
            if name in WITHIN:
                for _, value in wrongs(msgspec.inspect.type_info(WITHIN[name])):
                    status, text = await send({**good, name: value})
                    assert status == 400, (name, value, text)
                    assert name.split("_")[0] in refusal(text), (name, value, text)
        if kind is hostrequests.HostUpdate:
            for name in (*FENCING, "certificate_verification"):
                for value in EACH_KIND.values():
                    if name == "certificate_verification" or value != "x":
                        status, text = await send({"fencing_credentials": {**FENCING, name: value}})
                        assert (status, "fencing_credentials" in refusal(text)) == (400, True), (name, value, text)
        # Null is as if it were not there.
        status, text = await send(dict.fromkeys(field.encode_name for field in info.fields))
        assert status < 500, text

    with no_brakes():
        serve(tmp_path, use)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("where", sorted(TEXTS), ids=" ".join)
def test_a_body_that_must_be_a_text_is_refused_as_an_object(where: tuple[str, str], tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        bodies: tuple[Any, ...] = (None, [], {}, 7, True, ["x"])
        for body in bodies:
            answer = await client.request(
                where[0], filled(where[1], fleet), data=json.dumps(body), headers=JSON | header(SCHEMES[where])
            )
            assert answer.status == 400, (body, await answer.text())

    serve(tmp_path, use)


T = StepType
OUTPUTS: dict[StepType, Any] = {
    T.INVENTORY: inv.Inventory,
    T.CONNECTIVITY: PeersReport,
    T.NTP: replies._NtpSources,
    T.DOMAINS: documents.Resolutions,
    T.FREE_ADDRESSES: list[documents.FreeNetwork],
    T.VERIFY_VIPS: list[documents.VerifiedVip],
    T.TANG: documents.Tang,
    T.API_VIP: documents.ApiVip,
    T.DISK_SPEED: replies._DiskSpeed,
    T.IMAGES: replies._Images,
}
# Right in type, and no address.
NO_ADDRESSES = {
    T.FREE_ADDRESSES: [{"network": "everything", "free_addresses": []}],
}


def test_every_step_that_is_read_is_here() -> None:
    assert OUTPUTS.keys() == replies.HANDLERS.keys()


@pytest.mark.parametrize("step", OUTPUTS)
def test_what_a_step_prints_is_judged_where_it_is_read(
    step: StepType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    info: Any = msgspec.inspect.type_info(OUTPUTS[step])

    async def use(client: TestClient, fleet: Fleet) -> None:
        machine = fleet.machines[0]
        before = fleet.host(machine)
        cases = [value for _, value in wrongs(info)]
        for value in [*cases, *([NO_ADDRESSES[step]] if step in NO_ADDRESSES else [])]:
            body = {
                "step_type": step.value,
                "step_id": fleet.world.step_id(fleet.infra_env_id, step, machine.id),
                "exit_code": 0,
                "output": json.dumps(value),
            }
            answer = await client.post(filled(f"{H}/instructions", fleet), json=body, headers=header(Scheme.AGENT))
            text = await answer.text()
            assert answer.status == 400, (value, text)
            assert re.search(r"cannot be (understood|read)", refusal(text)), (value, text)
        assert fleet.host(machine) == before

    with no_brakes():
        serve(tmp_path, use)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("fault", [KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError])
def test_what_we_get_wrong_is_ours_and_in_the_log(
    fault: type[Exception], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise fault("a fault within")

    async def use(client: TestClient, fleet: Fleet) -> None:
        before = fleet.host(fleet.machines[0])
        monkeypatch.setitem(replies.HANDLERS, T.NTP, broken)  # type: ignore[arg-type]
        monkeypatch.setattr(fleet.world.store, "infra_envs", broken)
        for number, (method, path, scheme, body) in enumerate(
            (
                ("GET", "/infra-envs", Scheme.USER, None),
                ("POST", f"{H}/instructions", Scheme.AGENT, OBJECTS["POST", f"{H}/instructions"][1]),
            ),
            1,
        ):
            answer = await client.request(method, filled(path, fleet), json=body, headers=header(scheme))
            problem = await answer.json()
            assert (answer.status, problem["code"], problem["kind"]) == (500, "500", "Error")
            assert "a fault within" not in problem["reason"]
            [*_, record] = [item for item in caplog.records if item.levelno == logging.ERROR]
            assert record.exc_info is not None
            assert record.exc_info[0] is fault
            # The log and the answer name each other.
            assert problem["reason"].split()[-1] in record.getMessage()
            assert caplog.text.count("Traceback (most recent call last)") == number
        assert fleet.host(fleet.machines[0]) == before

    with no_brakes():
        serve(tmp_path, use)


def test_an_upload_that_we_cannot_write_is_not_the_senders_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("a fault within")

    async def use(client: TestClient, fleet: Fleet) -> None:
        path = filled(C + "/logs?logs_type=controller", fleet)
        monkeypatch.setattr(Upload, "write", broken)
        answer = await client.post(path, data={"upfile": io.BytesIO(b"logs")}, headers=header(Scheme.AGENT))
        assert answer.status == 500, await answer.text()
        assert "Traceback" in caplog.text

    serve(tmp_path, use)


@pytest.mark.parametrize("coding", ["deflate", "gzip"])
def test_a_bodys_content_encoding_is_passed_over(tmp_path: Path, coding: str) -> None:
    """No body is larger than what was sent (api/serving.py)."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        headers = {**JSON, **header(Scheme.USER), "Content-Encoding": coding}
        for body, status in ((b"{}", 201), (gzip.compress(b"{}"), 400)):
            answer = await client.patch(filled(C, fleet), data=io.BytesIO(body), headers=headers)
            assert answer.status == status

    serve(tmp_path, use)


def test_bytes_that_are_no_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In paths, queries and headers."""

    async def use(client: TestClient, fleet: Fleet) -> None:
        async def send(method: str, path: str, name: bytes = b"x", value: bytes = b"x", *, body: bytes = b"") -> int:
            scheme = Scheme.AGENT if "hosts/" in path or method == "POST" else Scheme.USER
            proof = header(scheme)[HEADERS[scheme]].encode()
            reader, writer = await asyncio.open_connection(client.host, client.port)
            head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % (method.encode(), path.encode())
            headers = b"" if name == HEADERS[scheme].encode() else b"%s: %s\r\n" % (HEADERS[scheme].encode(), proof)
            writer.write(head + headers + b"%s: %s\r\nContent-Length: %d\r\n\r\n%s" % (name, value, len(body), body))
            answer = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            return int(answer.split()[1])

        odd = "%ff%ed%a0%80%00"
        host = filled(H, fleet)
        for path in (
            *(filled("/clusters") + f"/{odd}", f"/images/{odd}/{odd}", filled(C, fleet) + f"/hosts?role={odd}"),
            *(filled("/events") + f"?{name}={odd}" for name in ("cluster_id", "message", "severities", "limit", odd)),
            filled("/infra-envs") + f"?cluster_id={odd}",
            filled(C, fleet) + f"/manifests/files?file_name={odd}",
            filled(C, fleet) + f"/downloads/files?file_name={odd}",
            f"{host}/instructions?timestamp={odd}",
        ):
            assert await send("GET", path) in (200, 400, 401, 404, 422), path
        bad = b"\xff\xfe\xed\xa0\x80"
        for name, status in ((b"If-None-Match", 200), (b"exclude-hosts", 400), (b"Content-Type", 200)):
            assert await send("GET", filled(C, fleet), name, bad) == status, name
        for name in (b"Authorization", b"X-Secret-Key"):
            assert await send("GET", filled(C, fleet), name, bad) in (200, 401), name
        assert await send("GET", f"{host}/instructions", b"discovery_agent_version", bad) == 400
        new = json.dumps({"host_id": UUID}).encode()
        assert await send("POST", filled(I, fleet) + "/hosts", b"discovery_agent_version", bad, body=new) == 400
        assert await send("POST", filled(C, fleet) + "/logs?logs_type=controller", b"Content-Type", bad) == 400
        assert await send("GET", filled("/clusters")) == 200

    with no_brakes():
        serve(tmp_path, use)
    assert "Traceback" not in caplog.text


def test_what_the_service_itself_has_put_wrong_is_no_fault_of_the_caller(tmp_path: Path) -> None:
    async def use(client: TestClient, fleet: Fleet) -> None:
        store, wrong = fleet.world.store, cast(Any, 5)
        with store.change():
            store.put_cluster(msgspec.structs.replace(store.cluster(fleet.cluster_id), network_type=wrong))
            infra_env = store.infra_env(fleet.infra_env_id)
            store.put_infra_env(msgspec.structs.replace(infra_env, openshift_version=wrong))
        for path, body in (
            ("/clusters/{cluster_id}", {"tags": "a"}),
            ("/infra-envs/{infra_env_id}", {"ssh_authorized_key": ""}),
        ):
            answer = await client.patch(filled(path, fleet), json=body, headers=header(Scheme.USER))
            assert answer.status == 500, await answer.text()
            assert "internal error" in (await answer.json())["reason"]

    serve(tmp_path, use)
