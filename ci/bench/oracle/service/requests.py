"""Wrong requests, as scripts send them: bodies, ids, tokens and orders of calls; both services' status codes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.bench.oracle.service import drive
from ci.bench.oracle.service.programs import Api
from ci.bench.oracle.service.worlds import PULL_SECRET, TOPOLOGIES, V4, World
from installer.testing.service.words_kit import HEADERS, Scheme, StepType

NOBODY = "6d3f6d5a-0000-4000-8000-000000000000"
_ODD: tuple[Any, ...] = ("", None, 0, -1, True, [], {}, "x", ["x"], {"x": 1}, "x" * 300)
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop test"
_SECRETS = (
    "x",
    "{}",
    '{"auths":{}}',
    '{"auths":{"a":{}}}',
    '{"auths":{"a":{"auth":"!"}}}',
    '{"auths":{"a":{"auth":"YQ=="}}}',
)
_VIPS: tuple[Any, ...] = (
    [],
    [{"ip": "192.168.111.5"}],
    [{"ip": "x"}],
    [{"ip": "192.168.111.4"}],
    [{"ip": "192.168.111.5"}] * 2,
    [{}],
)
_CIDRS: tuple[Any, ...] = (
    [],
    [{"cidr": V4}],
    [{"cidr": "x"}],
    [{"cidr": "192.168.111.7/24"}],
    [{"cidr": "192.168.111.0/31"}],
    [{}],
)
_PROXIES = (
    "http://a.example:3128",
    "https://a.example",
    "a.example",
    "ftp://a.example",
    "http://u:p@a.example",
    "http://",
)
#: Values that a field may be given, beside those that no field takes.
CLUSTER: Mapping[str, Sequence[Any]] = {
    "name": ("good", "Bad", "a_b", "-a", "a.b", "a" * 54, "a" * 55),
    "base_dns_domain": ("a.example", "a", "-a.example", "a..example", "A.example", "a.example."),
    "openshift_version": ("4.20", "4.20.1", "4.99", "4", "latest", "4.20.1-multi"),
    "pull_secret": _SECRETS,
    "ssh_public_key": (_KEY, "ssh-rsa", f"{_KEY}\n{_KEY}", "ecdsa x"),
    "control_plane_count": (1, 2, 3, 4, 5, 6),
    "high_availability_mode": ("Full", "None", "Half"),
    "api_vips": _VIPS,
    "ingress_vips": _VIPS,
    "machine_networks": _CIDRS,
    "service_networks": _CIDRS,
    "cluster_networks": (
        *_CIDRS,
        [{"cidr": "10.128.0.0/14", "host_prefix": 33}],
        [{"cidr": "10.0.0.0/8", "host_prefix": 0}],
    ),
    "http_proxy": _PROXIES,
    "https_proxy": _PROXIES,
    "no_proxy": ("*", "a.example,.b.example", "192.0.2.0/24", "a b", "*,a"),
    "additional_ntp_source": ("a.example", "192.0.2.1,b", "a b", ","),
    "user_managed_networking": (True, False),
    "network_type": ("OVNKubernetes", "OpenShiftSDN", "Calico", "Other"),
    "hyperthreading": ("all", "none", "masters", "some"),
    "schedulable_masters": (True, False),
    "platform": tuple({"type": kind} for kind in ("none", "baremetal", "vsphere", "nutanix", "external", "aws")),
    "cpu_architecture": ("x86_64", "arm64", "aarch64", "sparc", "multi"),
    "load_balancer": ({"type": "user-managed"}, {"type": "cluster-managed"}, {"type": "x"}),
    "disk_encryption": (
        {"enable_on": "all", "mode": "tpmv2"},
        {"enable_on": "some"},
        {"enable_on": "all", "mode": "tang"},
    ),
    "olm_operators": ([{"name": "lvm"}], [{"name": "nothing"}]),
    "tags": ("a,b", "a b", ","),
    "nothing": ("x",),
}
INFRA_ENV: Mapping[str, Sequence[Any]] = {
    "name": ("good",),
    "pull_secret": _SECRETS,
    "ssh_authorized_key": (_KEY, "ssh-rsa"),
    "cluster_id": (NOBODY, "x"),
    "openshift_version": ("4.20", "4.99"),
    "cpu_architecture": ("x86_64", "arm64", "sparc"),
    "image_type": ("full-iso", "minimal-iso", "tiny-iso"),
    "additional_ntp_sources": ("a.example", "a b"),
    "additional_trust_bundle": ("x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"),
    "ignition_config_override": ("{}", '{"ignition":{"version":"3.2.0"}}', "x", '{"ignition":{"version":"9.0.0"}}'),
    "proxy": ({"http_proxy": "http://a.example:1"}, {"http_proxy": "a"}, {"no_proxy": "a b"}),
    "static_network_config": ([{"network_yaml": "interfaces: []", "mac_interface_map": []}], [{"network_yaml": "{"}]),
    "kernel_arguments": ([{"operation": "append", "value": "a=b"}], [{"operation": "other", "value": "a"}]),
    "nothing": ("x",),
}
HOST: Mapping[str, Sequence[Any]] = {
    "host_role": ("master", "worker", "arbiter", "auto-assign", "bootstrap", "king"),
    "host_name": ("good", "localhost", "Bad", "a_b", "a" * 64, "a.b"),
    "disks_selected_config": ([{"id": "/dev/nothing", "role": "install"}], [{"id": "x", "role": "y"}], [{}]),
    "disks_skip_formatting": ([{"disk_id": "/dev/nothing", "skip_formatting": True}], [{}]),
    "machine_config_pool_name": ("worker", "a b"),
    "node_labels": (
        [{"key": "a", "value": "b"}],
        [{"key": "a b", "value": "c"}],
        [{"key": "a"}],
        [{"key": "", "value": ""}],
    ),
    "ignition_endpoint_token": ("x",),
    "ignition_endpoint_http_headers": ([{"key": "a", "value": "b"}],),
    "fencing_credentials": (
        {"address": "redfish+https://192.0.2.1/redfish/v1/Systems/1", "username": "a", "password": "b"},
        {"address": "x"},
        {},
    ),
    "nothing": ("x",),
}
_ARGS: tuple[Any, ...] = (
    ["--append-karg", "a=b"],
    ["--rm-rf"],
    ["--append-karg"],
    ["--copy-network"],
    ["x"],
    [],
    "x",
    None,
    ["--save-partlabel", "d*"],
)
_OUTPUTS = ("", "x", "{}", "[]", "null", '{"remote_hosts":[]}', '{"ntp_sources":[]}', '{"resolutions":[]}', "1", '"x"')
_MANIFESTS = (
    {"file_name": "a.yaml", "content": "YTogYg==", "folder": "manifests"},
    {"file_name": "a b.yaml", "content": "YTogYg=="},
    {"file_name": "a.txt", "content": "YTogYg=="},
    {"file_name": "a.yaml", "content": "!"},
    {"file_name": "a.yaml", "content": "e3s="},
    {"file_name": "a.json", "content": "YTogYg=="},
    {"file_name": "../a.yaml", "content": "YTogYg=="},
    {"file_name": "a.yaml", "content": "YTogYg==", "folder": "elsewhere"},
    {"file_name": ".a.yaml", "content": "YTogYg=="},
    {"content": "YTogYg=="},
    {"file_name": "a.yaml"},
)
_STAGES = ("Starting installation", "Writing image to disk", "Done", "Nothing", "", None, 1)


@dataclass(frozen=True)
class Request:
    """One request. In ``path``: {cluster}, {infra_env} and {host} of a known host, {fresh} of a cluster of its own."""

    kind: str
    method: str
    path: str
    body: Any = None
    scheme: Scheme | None = Scheme.USER
    headers: Mapping[str, str] | None = None


def _fields(
    kind: str, method: str, path: str, base: Mapping[str, Any], *, values: Mapping[str, Any]
) -> Iterator[Request]:
    for name, samples in values.items():
        for value in (*samples, *_ODD):
            yield Request(f"{kind} {name}", method, path, {**base, name: value})
    for missing in base:
        yield Request(f"{kind} without {missing}", method, path, {key: base[key] for key in base if key != missing})
    for text in (b"", b"x", b"[]", b"null", b'{"a":', b'"x"'):
        yield Request(f"{kind} body", method, path, text)
    yield Request(
        f"{kind} content type", method, path, b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}
    )


_ACTIONS = (
    *(("POST", f"/clusters/{{cluster}}/actions/{name}") for name in ("install", "cancel", "reset")),
    *(("POST", f"/clusters/{{cluster}}/actions/{name}") for name in ("allow-add-hosts", "allow-add-workers")),
    ("GET", "/clusters"), ("GET", "/clusters/{cluster}"), ("GET", "/clusters/{cluster}/hosts"),
    ("GET", "/clusters/{cluster}/install-config"), ("GET", "/clusters/{cluster}/credentials"),
    ("GET", "/clusters/{cluster}/downloads/credentials?file_name=kubeconfig"),
    ("GET", "/clusters/{cluster}/downloads/credentials?file_name=x"),
    ("GET", "/clusters/{cluster}/downloads/files?file_name=bootstrap.ign"),
    ("GET", "/clusters/{cluster}/downloads/files?file_name=x"),
    ("GET", "/clusters/{cluster}/logs"), ("GET", "/clusters/{cluster}/logs?logs_type=all"),
    ("GET", "/clusters/{cluster}/logs?logs_type=x"), ("GET", "/clusters/{cluster}/manifests"),
    ("GET", "/clusters/{cluster}/manifests/files?file_name=a.yaml"),
    ("GET", "/clusters/{cluster}/preflight-requirements"),
    ("GET", "/clusters/{cluster}/supported-platforms"), ("GET", "/clusters/{cluster}/monitored-operators"),
    ("GET", "/clusters/{cluster}/ignored-validations"), ("GET", "/clusters/{cluster}/ui-settings"),
    ("GET", "/clusters/default-config"), ("GET", "/infra-envs"), ("GET", "/infra-envs/{infra_env}"),
    ("GET", "/infra-envs/{infra_env}/hosts"), ("GET", "/infra-envs/{infra_env}/hosts/{host}"),
    ("GET", "/infra-envs/{infra_env}/hosts/{host}/ignition"), ("GET", "/events?cluster_id={cluster}"),
    ("GET", "/events?host_id={host}"), ("GET", "/events?severities=x"), ("GET", "/events?limit=-1"), ("GET", "/events"),
    ("GET", "/component-versions"), ("GET", "/openshift-versions"), ("GET", "/supported-operators"),
    ("GET", "/supported-operators/lvm"), ("GET", "/supported-operators/x"), ("GET", "/domains"),
    ("GET", "/support-levels/features?openshift_version=4.20"), ("GET", "/support-levels/features"),
    ("GET", "/nothing"),
    ("PUT", "/clusters"), ("DELETE", "/clusters"), ("POST", "/infra-envs/{infra_env}/hosts/{host}/actions/unbind"),
    ("POST", "/infra-envs/{infra_env}/hosts/{host}/actions/reset"),
    ("POST", "/infra-envs/{infra_env}/hosts/{host}/actions/install"),
    ("PATCH", "/infra-envs/{infra_env}/hosts/{host}/actions/reset-validation/ntp-synced"),
    ("PATCH", "/infra-envs/{infra_env}/hosts/{host}/actions/reset-validation/x"),
    ("DELETE", "/clusters/{cluster}/manifests?file_name=x.yaml"),
    ("GET", "/infra-envs/{infra_env}/downloads/files?file_name=discovery.ign"),
    ("GET", "/infra-envs/{infra_env}/downloads/files?file_name=x"),
)  # fmt: skip


def _strangers() -> Iterator[Request]:
    """Every operation with malformed ids and unknown ones, and with malformed tokens and unknown ones."""
    for method, path in _ACTIONS:
        yield Request("as it is", method, path)
        if "{" in path:
            for what, value in (("unknown id", NOBODY), ("bad id", "x")):
                yield Request(what, method, path.format(cluster=value, infra_env=value, host=value))
            yield Request("unknown host", method, path.replace("{host}", NOBODY))
        for headers in ({}, {HEADERS[Scheme.USER]: "x"}, {HEADERS[Scheme.USER]: "Bearer x"}):
            yield Request("token", method, path, scheme=None, headers=headers)


def _of_hosts() -> Iterator[Request]:
    one = "/infra-envs/{infra_env}/hosts/{host}"
    yield from _fields("PATCH host", "PATCH", one, {}, values=HOST)
    for args in _ARGS:
        yield Request("PATCH installer-args", "PATCH", f"{one}/installer-args", {"args": args})
    for config in ("{}", "x", '{"ignition":{"version":"3.2.0"}}', "", None):
        yield Request("PATCH ignition", "PATCH", f"{one}/ignition", {"config": config})
    for body in ({"host_id": NOBODY}, {"host_id": "x"}, {}, {"host_id": None}, {"host_id": NOBODY, "nothing": 1}):
        yield Request("POST hosts", "POST", "/infra-envs/{infra_env}/hosts", body, Scheme.AGENT)
        yield Request("POST hosts elsewhere", "POST", f"/infra-envs/{NOBODY}/hosts", body, Scheme.AGENT)
    for kind in StepType:
        for output in _OUTPUTS:
            reply: Any = {"step_type": kind, "step_id": "s", "exit_code": 0, "output": output}
            yield Request(f"POST {kind}", "POST", f"{one}/instructions", reply, Scheme.AGENT)
        for code in (1, -1):
            reply = {"step_type": kind, "step_id": "s", "exit_code": code, "output": "x", "error": "y"}
            yield Request(f"POST {kind} failed", "POST", f"{one}/instructions", reply, Scheme.AGENT)
    for stage in _STAGES:
        yield Request("PUT progress", "PUT", f"{one}/progress", {"current_stage": stage}, Scheme.AGENT)
    for state in ("requested", "collecting", "completed", "x", "", None):
        yield Request("PUT logs-progress", "PUT", f"{one}/logs-progress", {"logs_state": state}, Scheme.AGENT)


def _of_clusters() -> Iterator[Request]:
    cluster, _ = TOPOLOGIES["compact"]()
    yield from _fields("POST cluster", "POST", "/clusters", cluster, values=CLUSTER)
    updates = {
        key: CLUSTER[key]
        for key in CLUSTER
        if key not in ("openshift_version", "cpu_architecture", "high_availability_mode")
    }
    yield from _fields("PATCH cluster", "PATCH", "/clusters/{fresh}", {}, values=updates)
    infra_env = {"name": "bench", "pull_secret": PULL_SECRET}
    yield from _fields("POST infra-env", "POST", "/infra-envs", infra_env, values=INFRA_ENV)
    changed = {
        key: INFRA_ENV[key]
        for key in INFRA_ENV
        if key not in ("name", "cluster_id", "openshift_version", "cpu_architecture")
    }
    yield from _fields("PATCH infra-env", "PATCH", "/infra-envs/{infra_env}", {}, values=changed)
    bodies: Mapping[tuple[str, str, Scheme], Sequence[Any]] = {
        ("POST", "manifests", Scheme.USER): _MANIFESTS,
        ("PUT", "ignored-validations", Scheme.USER): (
            *({"reports": []}, [], "x"),
            {"ignored_host_validations": "[]", "ignored_cluster_validations": "x"},
        ),
        ("PATCH", "install-config", Scheme.USER): ("x", "{}", '{"networking":{}}', {}, "x: {"),
        ("POST", "actions/complete-installation", Scheme.AGENT): (
            *({"is_success": True}, {"is_success": False, "error_info": "x"}, {}, {"is_success": "x"}),
        ),
        ("PUT", "monitored-operators", Scheme.AGENT): (
            *({"name": "lvm", "status": "available"}, {"name": "cvo", "status": "available"}),
            *({"name": "cvo", "status": "x"}, {}),
        ),
        ("PUT", "progress", Scheme.AGENT): (
            *({"finalizing_stage": "Waiting for finalizing"}, {"finalizing_stage": "x"}, {}),
        ),
        **{("POST", f"actions/{name}", Scheme.USER): (None,) for name in ("install", "cancel", "reset")},
    }
    for (method, name, scheme), bodies_sent in bodies.items():
        for body in bodies_sent:
            yield Request(f"{method} {name}", method, f"/clusters/{{fresh}}/{name}", body, scheme)
    yield Request("DELETE cluster", "DELETE", "/clusters/{fresh}")


def every() -> list[Request]:
    """All of them, in an order in which none takes away what a later one needs."""
    return [*_of_clusters(), *_of_hosts(), *_strangers()]


def asked(api: Api, requests: Sequence[Request]) -> list[int]:
    """The status code of each, over one known host."""
    cluster, hosts = TOPOLOGIES["sno"]()
    played = drive.play(api, World("requests", cluster, hosts))
    base, _ = TOPOLOGIES["compact"]()
    names = {"cluster": played.cluster_id, "infra_env": played.infra_env_id, "host": drive.host_id(played.world, 0)}
    codes = []
    for request in requests:
        fresh = ""
        if "{fresh}" in request.path:
            fresh = str(api.ask("POST", "/clusters", base).body["id"])
        path = request.path.format(**names, fresh=fresh) if "{" in request.path else request.path
        codes.append(api.ask(request.method, path, request.body, scheme=request.scheme, headers=request.headers).code)
    return codes


def differences(requests: Sequence[Request], theirs: Sequence[int], ours: Sequence[int]) -> list[tuple[str, int, str]]:
    """(kind with both codes, how often, an example), the most frequent first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for request, left, right in zip(requests, theirs, ours, strict=True):
        if left != right:
            key = f"{request.kind}: {left} there, {right} here"
            counts[key] += 1
            shown = request.body if not isinstance(request.body, dict) else dict(list(request.body.items())[-1:])
            examples.setdefault(key, f"{request.method} {request.path} {json.dumps(shown, default=repr)[:160]}")
    return [(key, count, examples[key]) for key, count in counts.most_common()]
