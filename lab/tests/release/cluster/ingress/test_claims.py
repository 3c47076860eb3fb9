"""Routes and Ingresses as claims: what they may say, who wins, and that nothing of theirs is haproxy's language."""

from __future__ import annotations

import re
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.release.cluster.errors import ApiError
from lab.release.cluster.ingress import certificates, endpoints, ingresses, routes, tuning
from lab.release.cluster.ingress.claims import CLAIMED, Claim, Domain, Options, Refused, Target, admit
from lab.release.cluster.ingress.config import Settings, pattern, render
from lab.release.cluster.ingress.controller import Controller, State, plan
from lab.release.cluster.ingress.endpoints import Server
from lab.release.cluster.ingress.haproxy import ConfigurationRefused, Haproxy
from lab.release.cluster.kube.client import Kube
from lab.testing.router import APPS, pair, route

SETTINGS = Settings("/run/router", "PEM", "CA")
HARMLESS = routes.claim(route("harmless"), APPS)
#: All that a backend of the router has a line for.
LINES = re.compile(
    r"(mode (http|tcp)|balance [a-z]+|hash-type consistent|option forwardfor( if-none)?|timeout (server|tunnel) \d+ms"
    r"|acl allowed src -f /files/[0-9a-f]{32}\.allowed|tcp-request content reject if !allowed"
    r"|acl ipv6_source src -m sub :|http-request (add|set)-header (X-Forwarded-\w+|Forwarded) \S+( if [^\n]+)?"
    r"|http-request replace-path '\^[^' ]*\(\.\*\)\$' '/[A-Za-z0-9._~!&*+,;=:@()/-]*\\1'"
    r"|cookie [A-Za-z0-9_-]+ insert indirect nocache httponly( secure attr SameSite=\w+)?"
    r"|http-response set-header Strict-Transport-Security 'max-age=\d+(;includeSubDomains|;preload)*'"
    r"|server [0-9a-f]{32} [0-9.]+:\d+ weight \d+( cookie [0-9a-f]{32})?( ssl no-check-ssl verify required"
    r" ca-file /files/[0-9a-f.a-z]+( verifyhost [a-z0-9.-]+)?)?( maxconn \d+)?)"
)
#: Texts that mean to be more than a value, and any others.
TEXTS = st.one_of(
    st.sampled_from(
        [
            "x\n    server evil 192.0.2.1:80",
            "/p\r\nbackend evil",
            "/p' '/q",
            "/%[file(/etc/shadow)]",
            '/"${HOME}"',
            "/a b",
            "/a#b",
            "a\\\nb",
            "30s\n",
            "max-age=1\n",
            "h.example.com\n",
            "h.example.com ",
            "../../etc/passwd",
            "/ok",
            "ok",
            "/ok\n    server evil 192.0.2.1:80",
            "name\n    server evil 192.0.2.1:80",
            "roundrobin\n",
            "10.0.0.0/8 -f /etc/shadow",
            "::1%x y",
        ]
    ),
    st.text(max_size=30),
    st.from_regex(r"/[ -~\n]{0,20}"),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "host": TEXTS,
        "subdomain": TEXTS,
        "path": TEXTS,
        "to": st.fixed_dictionaries({"kind": st.just("Service"), "name": TEXTS}),
        "alternateBackends": st.lists(st.fixed_dictionaries({"name": TEXTS}), max_size=2),
        "port": st.fixed_dictionaries({"targetPort": TEXTS}),
        "wildcardPolicy": st.sampled_from(["None", "Subdomain"]),
        "annotations": st.dictionaries(st.sampled_from([*tuning.ANNOTATIONS, "other"]), TEXTS, max_size=4),
        "tls": st.fixed_dictionaries(
            {"termination": st.sampled_from(["edge", "reencrypt", "passthrough"])},
            optional={"insecureEdgeTerminationPolicy": st.sampled_from(["Allow", "Redirect"]), "certificate": TEXTS},
        ),
    },
)


@settings(max_examples=120, deadline=None)
@given(spec=SPECS)
def test_no_value_of_a_route_is_more_than_a_value(spec: dict[str, Any]):
    try:
        claim = routes.claim(route("odd", **spec), APPS)
    except Refused:
        return
    server = Server(claim.targets[0].service, "192.0.2.1", 80)
    without = render([(HARMLESS, [server])], SETTINGS, "/files")
    files = render([(HARMLESS, [server]), (claim, [server])], SETTINGS, "/files")
    assert files["haproxy.cfg"].startswith(without["haproxy.cfg"])
    head, *lines = files["haproxy.cfg"].removeprefix(without["haproxy.cfg"]).splitlines()[1:]
    assert re.fullmatch(r"backend be_\w+:ns:odd", head)
    for line in lines:
        assert LINES.fullmatch(line.strip()), line
    for name in ("http.map", "tls.map", "sni.map", "certificates.list"):
        added = [line for line in files[name].splitlines() if line not in without[name].splitlines()]
        assert len(added) <= 1
        for line in added:
            key, value = line.split(" ")
            assert key.isprintable()
            assert re.compile(key)
            assert value == head.removeprefix("backend ") or value in ("redirect", "openshift_default")
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in files)


@pytest.mark.parametrize("name", list(tuning.ANNOTATIONS))
@given(text=TEXTS)
def test_an_option_is_a_word_or_nothing(name: str, text: str):
    made, problems = tuning.options({name: text})
    assert not (problems and made != Options())
    for value in vars(made).values():
        for word in value if isinstance(value, tuple) else (value,):
            assert re.fullmatch(r"[A-Za-z0-9._~!&*+,;=:@()/-]*", str(word))


def claim(name: str, *, namespace: str = "ns", host: str = "h.example.com", created: int = 0, **more: Any) -> Claim:
    return Claim(
        "Route", namespace, name, host, (), uid=f"{namespace} {name}", created=f"2026-01-01T00:00:{created:02}Z", **more
    )


CLAIMS = st.lists(
    st.builds(
        lambda n, ns, path, t, created: claim(f"r{n}", namespace=ns, path=path, termination=t, created=created),
        st.integers(0, 9),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["", "/x"]),
        st.sampled_from(["", "edge", "passthrough"]),
        st.integers(0, 3),
    ),
    max_size=6,
    unique_by=lambda c: (c.namespace, c.name),
)


@given(claims=CLAIMS, order=st.randoms())
def test_the_oldest_holds_whatever_comes_first(claims: list[Claim], order: Any):
    admitted, refused = admit(claims)
    assert sorted([*admitted, *refused], key=repr) == sorted(claims, key=repr)
    shuffled = list(claims)
    order.shuffle(shuffled)
    assert admit(shuffled)[0] == admitted
    if claims:
        assert min(claims, key=lambda c: c.age) in admitted
    assert len({(c.names, c.path) for c in admitted}) == len(admitted)
    assert len({c.namespace for c in admitted}) <= 1
    assert all(error.reason == CLAIMED for error in refused.values())
    # Whoever is refused is so by somebody older.
    assert all(any(a.age < c.age for a in admitted) for c in refused)


@pytest.mark.parametrize(
    ("text", "wanted"), [("1", 1), ("30s", 30_000), ("5m", 300_000), ("1500us", 1), ("1us", 1), ("99999d", 2**31 - 1)]
)
def test_times(text: str, wanted: int):
    assert tuning.milliseconds(text) == wanted


def test_all_problems_of_a_route_are_said_at_once():
    spec = {
        "path": "x",
        "tls": {"termination": "passthrough", "certificate": "c"},
        "annotations": {"haproxy.router.openshift.io/balance": "best", "router.openshift.io/new": "1"},
    }
    with pytest.raises(Refused) as error:
        routes.claim(route("r", **spec), APPS)
    assert str(error.value).split("; ") == [
        "metadata.annotations: haproxy.router.openshift.io/balance: 'best': must be one of roundrobin, leastconn, "
        "source, random",
        "metadata.annotations: router.openshift.io/new is not supported",
        "spec.path: 'x' must begin with / and have up to 1024 characters of a URL's path, no quotation marks",
        "spec.tls.certificate: passthrough termination does not support certificates",
        "spec.path: passthrough termination does not support paths",
        "spec.tls.certificate: must be certificates as PEM",
    ]


def ingress(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "i", "namespace": "ns", "uid": "u", "creationTimestamp": "2026"}, "spec": spec}


def backend(port: object) -> dict[str, Any]:
    key = "number" if isinstance(port, int) else "name"
    return {"service": {"name": "web", "port": {key: port}}}


@pytest.mark.parametrize(
    ("was", "put"),
    [("2a8648ce3d030107", "2a8648ce3d030106"), ("a003020102", "a003020104")],
    ids=["a curve that OpenSSL alone knows", "a version that X.509 has not"],
)
def test_a_certificate_that_cannot_be_understood_is_refused(was: str, put: str):
    made = pair("web.example.com")
    der = ssl.PEM_cert_to_DER_cert(made.certificate)
    assert bytes.fromhex(was) in der
    odd = ssl.DER_cert_to_PEM_cert(der.replace(bytes.fromhex(was), bytes.fromhex(put)))
    tls = {"termination": "edge", "certificate": odd, "key": made.key}
    with pytest.raises(Refused, match=r"spec\.tls\.certificate: must"):
        routes.claim(route("odd", tls=tls), APPS)


def test_certificates_of_a_thousand_routes_are_parsed_once():
    made = pair("web.example.com")
    certificates.served.cache_clear()
    for _ in range(2):
        for number in range(1100):
            certificates.served(made.certificate, made.key, "\n" * number)
    assert certificates.served.cache_info().misses == 1100


def test_an_ingress_makes_a_claim_for_each_path_and_its_default():
    paths = [
        {"path": "/a/", "pathType": "Prefix", "backend": backend(80)},
        {"path": "/a/", "pathType": "Exact", "backend": backend("http")},
        {"pathType": "ImplementationSpecific", "backend": backend(80)},
    ]
    rules = [{"host": "*.example.com", "http": {"paths": paths}}, {"http": {"paths": paths[:1]}}]
    made = ingresses.claims(ingress(rules=rules, defaultBackend=backend(80), tls=[{"hosts": ["*.example.com"]}]), {})
    assert [(c.names, c.path, c.exact, c.termination, c.targets[0].port) for c in made] == [
        ("*.example.com", "/a", False, "edge", "80"),
        ("*.example.com", "/a/", True, "edge", "http"),
        ("*.example.com", "", False, "edge", "80"),
        ("*", "/a", False, "", "80"),
        ("*", "", False, "", "80"),
    ]
    assert len({c.key for c in made}) == len(made)
    assert re.fullmatch(pattern(made[0]), "w.example.com/a/b")
    assert not re.fullmatch(pattern(made[0]), "w.w.example.com/a")


def entry(kind: str, ready: bool | None, *addresses: str, ports: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {
        "addressType": kind,
        "endpoints": [{"addresses": [text], "conditions": conditions} for text in addresses],
        "ports": [{"name": name, "port": number, "protocol": "TCP"} for name, number in ports],
    }


def test_servers_are_ready_endpoints_of_the_wanted_port():
    ports = (("http", 8080), ("metrics", 9090))
    slices = {
        ("ns", "web"): [
            entry("IPv4", True, "192.0.2.1", "127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", ports=ports),
            entry("IPv4", None, "192.0.2.2", ports=ports),
            entry("IPv4", False, "192.0.2.3", ports=ports),
            entry("IPv6", True, "2001:db8::1", ports=ports),
        ]
    }
    spec = {"clusterIP": "172.30.0.9", "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    service = {("ns", "web"): {"spec": spec}}

    def of(target: Target, services: Any = service) -> set[tuple[str, int]]:
        made = endpoints.servers(replace(claim("r"), targets=(target,)), services, slices)
        return {(server.address, server.port) for server in made}

    both = {("192.0.2.1", 8080), ("192.0.2.2", 8080)}
    assert of(Target("web", "8080")) == of(Target("web", "http")) == both
    assert of(Target("web", "80", of_service=True)) == of(Target("web", "http", of_service=True)) == both
    assert of(Target("web", "80")) == of(Target("web", "8080", of_service=True)) == of(Target("none")) == set()
    assert len(of(Target("web"))) == 4
    six = {("ns", "web"): {"spec": {**spec, "clusterIP": "fd02::9"}}}
    assert of(Target("web", "http"), six) == {("2001:db8::1", 8080)}


def test_weights_are_shared_by_endpoints():
    ports = (("http", 80),)
    slices = {
        ("ns", "a"): [entry("IPv4", True, "192.0.2.1", "192.0.2.2", "192.0.2.3", ports=ports)],
        ("ns", "b"): [entry("IPv4", True, "192.0.2.4", ports=ports)],
        ("ns", "c"): [entry("IPv4", True, "192.0.2.5", ports=ports)],
    }
    made = replace(claim("r"), targets=(Target("a", weight=75), Target("b", weight=25), Target("c", weight=0)))
    assert [server.weight for server in endpoints.servers(made, {}, slices)] == [256, 256, 256, 256, 0]


def test_what_haproxy_refuses_is_found_by_halves(tmp_path: Path):
    tried = 0

    class Counted(Haproxy):
        def try_out(self, files: Any) -> None:
            nonlocal tried
            tried += 1
            if b"weak" in b"".join(text.encode() for text in files("/files").values()):
                raise ConfigurationRefused("haproxy refuses it")

    controller = Controller(Kube("https://nobody", "", None), Counted(tmp_path), Domain(APPS))
    names = [f"r{number}" for number in range(200)]
    wanted = tuple((claim(name, host=f"{name}.example.com"), ()) for name in [*names[:150], "weak", *names[150:]])
    fit, _ = controller._fit(wanted, SETTINGS)
    assert [entry for entry in wanted if entry[0].name != "weak"] == list(fit)
    assert [entry.name for entry in controller._unfit] == ["weak"]
    assert tried < 30


def test_a_namespace_that_ends_keeps_no_other_ingress_from_its_report(tmp_path: Path):
    reported = []

    class Api(Kube):
        def create(self, obj: dict[str, Any]) -> None:
            raise ApiError("POST", "/events", 403, "namespace ending is being terminated")

        def replace(self, obj: dict[str, Any], sub: str = "") -> dict[str, Any]:
            reported.append(obj["metadata"]["name"])
            return obj

    notes = {"haproxy.router.openshift.io/timeout": "never"}
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    found = {
        (space, f"of-{space}"): {
            "metadata": {"name": f"of-{space}", "namespace": space, "annotations": more},
            "spec": spec,
        }
        for space, more in (("ending", notes), ("living", {}))
    }
    state = State({}, found, {}, {}, {})
    Controller(Api("https://nobody", "", None), Haproxy(tmp_path), Domain(APPS))._report(
        plan(state, Domain(APPS)), state
    )
    assert reported == ["of-living"]
