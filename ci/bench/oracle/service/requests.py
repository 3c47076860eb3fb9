"""Wrong requests, as scripts send them: bodies, ids, tokens and orders of calls; both services' status codes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.bench.oracle.service import values
from ci.bench.oracle.service.api import Api
from ci.bench.oracle.service.play import Played, play
from ci.bench.oracle.service.scenarios import World
from installer.testing.service.api_kit import EVERY
from installer.testing.service.words_kit import HEADERS, Scheme, StepType

_INFRA_ENV = "/infra-envs/{infra_env_id}"
_HOST = f"{_INFRA_ENV}/hosts/{{host_id}}"


@dataclass(frozen=True)
class Request:
    """One request. In `path`: the ids of a known host and its cluster; {new}: a cluster of its own."""

    kind: str
    method: str
    path: str
    body: Any = None
    scheme: Scheme | None = Scheme.USER
    headers: Mapping[str, str] | None = None


def _fields(kind: str, path: str, base: Mapping[str, Any], fields: Mapping[str, Sequence[Any]]) -> Iterator[Request]:
    method = kind.split(" ")[0]
    for name, samples in fields.items():
        for value in (*samples, *values.ODD):
            yield Request(f"{kind} {name}", method, path, {**base, name: value})
    for missing in base:
        yield Request(f"{kind} without {missing}", method, path, {key: base[key] for key in base if key != missing})
    for text in (b"", b"x", b"[]", b"null", b'{"a":', b'"x"'):
        yield Request(f"{kind} body", method, path, text)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    yield Request(f"{kind} content type", method, path, b"a=b", headers=form)


_READS = (
    *(f"/clusters/{{cluster_id}}/downloads/credentials?file_name={name}" for name in ("kubeconfig", "x")),
    *(f"/clusters/{{cluster_id}}/downloads/files?file_name={name}" for name in ("bootstrap.ign", "x")),
    *(f"/clusters/{{cluster_id}}/logs?logs_type={kind}" for kind in ("all", "x")),
    *(f"{_INFRA_ENV}/downloads/files?file_name={name}" for name in ("discovery.ign", "x")),
    *(f"/events?{query}" for query in ("cluster_id={cluster_id}", "host_id={host_id}", "severities=x", "limit=-1")),
    *("/support-levels/features?openshift_version=4.20", "/nothing"),
)


def _strangers() -> Iterator[Request]:
    """Every operation with malformed ids and unknown ones; reading ones as they are, and with wrong tokens and none."""
    for method, path, schemes in (*EVERY, *(("GET", path, {Scheme.USER}) for path in _READS)):
        scheme = min(schemes)
        if method == "GET":  # the others would change what later ones need, or have to have a body
            yield Request("as it is", method, path, None, scheme)
            yield Request("token", method, path, None, None)
            yield Request("token", method, path, None, None, {HEADERS[scheme]: "Bearer x"})
        for what, value in (("unknown id", values.NOBODY), ("bad id", "x")) if "{" in path else ():
            yield Request(what, method, re.sub(r"\{\w+\}", value, path), None, scheme)
        if "{host_id}" in path:
            yield Request("unknown host", method, path.replace("{host_id}", values.NOBODY), None, scheme)


def _of_hosts() -> Iterator[Request]:
    yield from _fields("PATCH host", _HOST, {}, values.HOST)
    for args in values.INSTALLER_ARGS:
        yield Request("PATCH installer-args", "PATCH", f"{_HOST}/installer-args", {"args": args})
    for config in ("{}", "x", '{"ignition":{"version":"3.2.0"}}', "", None):
        yield Request("PATCH ignition", "PATCH", f"{_HOST}/ignition", {"config": config})
    for body in ({"host_id": values.NOBODY}, {"host_id": "x"}, {}, {"host_id": None}):
        for path in (f"{_INFRA_ENV}/hosts", f"/infra-envs/{values.NOBODY}/hosts"):
            yield Request("POST hosts", "POST", path, body, Scheme.AGENT)
    for kind in StepType:
        replies: list[dict[str, Any]] = [{"exit_code": 0, "output": output} for output in values.OUTPUTS]
        replies += ({"exit_code": code, "output": "x", "error": "y"} for code in (1, -1))
        for reply in replies:
            body = {"step_type": kind, "step_id": "s", **reply}
            yield Request(f"POST {kind}", "POST", f"{_HOST}/instructions", body, Scheme.AGENT)
    for stage in values.STAGES:
        yield Request("PUT progress", "PUT", f"{_HOST}/progress", {"current_stage": stage}, Scheme.AGENT)


def _of_clusters(base: Mapping[str, Any]) -> Iterator[Request]:
    yield from _fields("POST cluster", "/clusters", base, values.CLUSTER)
    yield from _fields("PATCH cluster", "/clusters/{new}", {}, values.CLUSTER)
    infra_env = {"name": "bench", "pull_secret": base["pull_secret"]}
    yield from _fields("POST infra-env", "/infra-envs", infra_env, values.INFRA_ENV)
    yield from _fields("PATCH infra-env", _INFRA_ENV, {}, values.INFRA_ENV)
    validations = {"ignored_host_validations": "[]", "ignored_cluster_validations": "x"}
    operators = [{"name": name, "status": status} for name in ("lvm", "cvo") for status in ("available", "x")]
    bodies: Mapping[str, tuple[Scheme, Sequence[Any]]] = {
        "POST manifests": (Scheme.USER, values.MANIFESTS),
        "PUT ignored-validations": (Scheme.USER, [{"reports": []}, [], "x", validations]),
        "PATCH install-config": (Scheme.USER, ["x", "{}", '{"networking":{}}', {}, "x: {"]),
        "POST actions/complete-installation": (Scheme.AGENT, [{}, *({"is_success": value} for value in (True, "x"))]),
        "PUT monitored-operators": (Scheme.AGENT, [*operators, {}]),
        "PUT progress": (Scheme.AGENT, [{"finalizing_stage": name} for name in ("Waiting for finalizing", "x")] + [{}]),
        **{f"POST actions/{name}": (Scheme.USER, [None]) for name in ("install", "cancel", "reset")},
    }  # fmt: skip
    for kind, (scheme, some) in bodies.items():
        method, name = kind.split(" ")
        yield from (Request(kind, method, f"/clusters/{{new}}/{name}", body, scheme) for body in some)
    yield Request("DELETE cluster", "DELETE", "/clusters/{new}")


def every(version: str) -> list[Request]:
    """All of them, in an order in which none takes away what a later one needs."""
    base = {**World("requests", "compact").cluster, "openshift_version": version}
    return [*_of_clusters(base), *_of_hosts(), *_strangers()]


def asked(api: Api, requests: Sequence[Request], version: str) -> list[int]:
    """Return the status code of each, over one known host."""
    played = Played(World("requests", "sno"))
    play(api, [played], version)
    names = {"cluster_id": played.cluster_id, "infra_env_id": played.infra_env_id, "host_id": played.world.hosts[0].id}
    base = {**World("requests", "compact").cluster, "openshift_version": version}
    codes = []
    for request in requests:
        new = api.ask("POST", "/clusters", base)[1]["id"] if "{new}" in request.path else ""
        path = request.path.format_map(defaultdict(lambda: "x", names, new=new))
        codes.append(api.ask(request.method, path, request.body, scheme=request.scheme, headers=request.headers)[0])
    return codes
