"""Claims served by a real haproxy, as curl sees them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.release.cluster.ingress import routes
from lab.release.cluster.ingress.claims import Claim
from lab.release.cluster.ingress.config import backend_name
from lab.release.cluster.ingress.endpoints import Server
from lab.testing import router as kit
from lab.testing.router import APPS, Router, echo, route

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    # A socket's path may be 107 signs long.
    with kit.router(tmp_path_factory.mktemp("r")) as made:
        yield made


@pytest.fixture(scope="module")
def a() -> Iterator[Server]:
    with echo("a") as server:
        yield server


@pytest.fixture(scope="module")
def b() -> Iterator[Server]:
    with echo("b") as server:
        yield server


def claim(name: str, **spec: object) -> Claim:
    return routes.claim(route(name, **spec), APPS)


def test_each_termination(router: Router, a: Server, tmp_path: Path):
    own = kit.pair("own.example.com")
    names = ("passed.example.com", "secure.ns.svc")
    with echo("passed", kit.pair("passed.example.com"), tmp_path) as passed, echo("s", kit.pair(*names), tmp_path) as s:
        secure = replace(s, service="secure")
        edge = {"termination": "edge"}
        named = {"certificate": own.certificate, "key": own.key}
        trusted = {"destinationCACertificate": kit.authority().certificate}
        stranger = {"destinationCACertificate": kit.pair("x").certificate}
        router.load(
            (claim("plain"), [a]),
            (claim("edge", tls=edge), [a]),
            (claim("both", tls={**edge, "insecureEdgeTerminationPolicy": "Allow"}), [a]),
            (claim("redirected", tls={**edge, "insecureEdgeTerminationPolicy": "Redirect"}), [a]),
            (claim("own", host="own.example.com", tls={**edge, **named}), [a]),
            (claim("passed", host="passed.example.com", tls={"termination": "passthrough"}), [passed]),
            (claim("secure", tls={"termination": "reencrypt"}), [secure]),
            (claim("other", tls={"termination": "reencrypt"}), [replace(s, service="other")]),
            (claim("trusted", tls={"termination": "reencrypt", **trusted}), [s]),
            (claim("stranger", tls={"termination": "reencrypt", **stranger}), [s]),
        )
        served = {
            (scheme, name): router.get(f"{scheme}://{name}/p?q=1").status
            for name in (
                *(f"{n}.{APPS}" for n in ("plain", "edge", "both", "redirected", "secure", "other", "trusted")),
                *(f"stranger.{APPS}", "own.example.com", "passed.example.com", f"nobody.{APPS}"),
            )
            for scheme in ("http", "https")
        }
        redirect = router.get(f"http://redirected.{APPS}/p?q=1").headers["location"]
    short = {(scheme, name.removesuffix(f".{APPS}")): status for (scheme, name), status in served.items()}
    assert {name: (short["http", name], short["https", name]) for _, name in short} == {
        "plain": (200, 503),
        "edge": (503, 200),
        "both": (200, 200),
        "redirected": (302, 200),
        "secure": (503, 200),
        "other": (503, 503),  # the service CA's, but not for this service
        "trusted": (503, 200),
        "stranger": (503, 503),
        "own.example.com": (503, 200),
        "passed.example.com": (503, 200),
        "nobody": (503, 503),
    }
    assert redirect == f"https://redirected.{APPS}/p?q=1"


def test_hosts_and_paths(router: Router, a: Server):
    def path(name: str, path: str, *, exact: bool = False, host: str = "h.example.com", wildcard: bool = False):
        made = Claim("Ingress", "ns", name, host, (), path=path, exact=exact, wildcard=wildcard)
        return made, [replace(a, service=name)]

    router.load(
        path("root", ""),
        path("foo", "/foo"),
        path("foobar", "/foo/bar"),
        path("exact", "/foo/bar", exact=True),
        path("dots", "/a.b"),
        path("wild", "", host="example.com", wildcard=True),
        path("any", "", host=""),
        path("slash", "/end/", host=""),
    )

    def of(url: str) -> str:
        answer = router.get(url)
        cookie = answer.headers.get("set-cookie", "")
        found = [name for name, digest in digests.items() if cookie.startswith(digest)]
        return found[0] if found else str(answer.status)

    import hashlib

    names = ("root", "foo", "foobar", "exact", "dots", "wild", "any", "slash")
    digests = {n: hashlib.sha256(f"ns:{n}:ingress-0".encode()).hexdigest()[:32] for n in names}
    wanted = {
        "http://h.example.com": "root",
        "http://h.example.com/": "root",
        "http://H.EXAMPLE.com:80/x": "root",
        "http://h.example.com/fooo": "root",
        "http://h.example.com/foo": "foo",
        "http://h.example.com/foo/": "foo",
        "http://h.example.com/foo/x?/foo/bar": "foo",
        "http://h.example.com/foo/bar": "exact",
        "http://h.example.com/foo/bar/": "foobar",
        "http://h.example.com/a.b/c": "dots",
        "http://h.example.com/axb/c": "root",
        "http://w.example.com/": "wild",
        "http://w.w.example.com/": "any",
        "http://example.com/": "any",
        "http://192.0.2.1/end/x": "slash",
        "http://192.0.2.1/end": "any",
    }
    assert {url: of(url) for url in wanted} == wanted


def test_servers_learn_of_the_client(router: Router, a: Server):
    router.load((claim("h", tls={"termination": "edge"}), [a]))
    seen = router.get(f"https://h.{APPS}/", "-H", "Proxy: x", "-H", "X-SSL-Client-CN: root").seen["headers"]
    assert seen["x-forwarded-for"] == ["127.0.0.1"]
    assert seen["x-forwarded-proto"] == ["https"]
    assert seen["x-forwarded-host"] == seen["host"] == [f"h.{APPS}"]
    assert seen["forwarded"] == [f"for=127.0.0.1;host=h.{APPS};proto=https"]
    assert not {"proxy", "x-ssl-client-cn"} & set(seen)
    spoofed = ["-H", "X-Forwarded-For: 192.0.2.9", "-H", "Forwarded: for=192.0.2.9"]
    for how, wanted in {
        "append": ["192.0.2.9", "127.0.0.1"],
        "replace": ["127.0.0.1"],
        "if-none": ["192.0.2.9"],
        "never": ["192.0.2.9"],
    }.items():
        note = {"haproxy.router.openshift.io/set-forwarded-headers": how}
        router.load((claim("h", tls={"termination": "edge"}, annotations=note), [a]))
        assert router.get(f"https://h.{APPS}/", *spoofed).seen["headers"]["x-forwarded-for"] == wanted, how


def test_clients_stay_with_their_server(router: Router, a: Server, b: Server, tmp_path: Path):
    edge = {"termination": "edge"}
    router.load((claim("h", tls=edge), [a, b]))
    jar = ["-b", str(tmp_path / "jar"), "-c", str(tmp_path / "jar")]
    assert len({router.get(f"https://h.{APPS}/", *jar).seen["server"] for _ in range(8)}) == 1
    cookie = router.get(f"https://h.{APPS}/").headers["set-cookie"]
    assert cookie.endswith("; path=/; HttpOnly; Secure; SameSite=None")
    router.load((claim("h", tls=edge, annotations={"haproxy.router.openshift.io/disable_cookies": "true"}), [a, b]))
    assert {router.get(f"https://h.{APPS}/", *jar).seen["server"] for _ in range(30)} == {"a", "b"}
    assert "set-cookie" not in router.get(f"https://h.{APPS}/").headers


def test_weights(router: Router, a: Server, b: Server):
    note = {"haproxy.router.openshift.io/disable_cookies": "true"}
    router.load((claim("h", annotations=note), [replace(a, weight=192), replace(b, weight=64)]))
    seen = [router.get(f"http://h.{APPS}/").seen["server"] for _ in range(16)]
    assert seen.count("a") == 12
    router.load((claim("h", annotations=note), [replace(a, weight=0), replace(b, weight=256)]))
    assert {router.get(f"http://h.{APPS}/").seen["server"] for _ in range(6)} == {"b"}


@pytest.mark.parametrize(
    ("path", "target", "asked", "seen"),
    [
        ("/foo", "/", "/foo", "/"),
        ("/foo", "/", "/foo/bar?x=1", "/bar?x=1"),
        ("/foo", "/new", "/foo/bar", "/new/bar"),
        ("/a.b+c", "/new", "/a.b+c/bar", "/new/bar"),
    ],
)
def test_rewriting(router: Router, a: Server, path: str, target: str, asked: str, seen: str):
    note = {"haproxy.router.openshift.io/rewrite-target": target}
    router.load((claim("h", path=path, annotations=note), [a]))
    assert router.get(f"http://h.{APPS}{asked}").seen["path"] == seen


def test_networks_and_security_headers(router: Router, a: Server):
    notes = {
        "haproxy.router.openshift.io/ip_whitelist": " ".join(["192.0.2.1", "2001:db8::/32"] * 40),
        "haproxy.router.openshift.io/hsts_header": 'max-age="31536000" ; includesubdomains;preload',
    }
    router.load((claim("h", tls={"termination": "edge"}, annotations=notes), [a]))
    assert router.get(f"https://h.{APPS}/").status == 0
    notes["haproxy.router.openshift.io/ip_whitelist"] += " 127.0.0.0/8"
    router.load((claim("h", tls={"termination": "edge"}, annotations=notes), [a]))
    answer = router.get(f"https://h.{APPS}/")
    assert answer.headers["strict-transport-security"] == "max-age=31536000;includeSubDomains;preload"


def test_a_timeout(router: Router):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = Server("silent", "127.0.0.1", silent.getsockname()[1])
        router.load((claim("h", annotations={"haproxy.router.openshift.io/timeout": "300ms"}), [server]))
        assert router.get(f"http://h.{APPS}/").status == 504


def test_a_websocket_outlasts_reloads(router: Router, a: Server):
    router.load((claim("h"), [a]))
    with socket.create_connection(("127.0.0.1", router.settings.http_port), timeout=20) as connection:
        head = f"GET / HTTP/1.1\r\nHost: h.{APPS}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        connection.sendall(head.encode())
        assert b"101" in connection.recv(4096)
        for _ in range(2):
            router.load((claim("h"), [a]))
        connection.sendall(b"still there\n")
        assert b"still there" in connection.recv(4096)


def test_no_request_is_lost_to_a_reload(router: Router, a: Server, b: Server):
    router.load((claim("h"), [a]))
    answers: list[int] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answers.append(router.get(f"http://h.{APPS}/").status)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for servers in ([a, b], [b], [a], [a, b]):
            router.load((claim("h"), servers))
    finally:
        done.set()
        for thread in threads:
            thread.join(30)
    assert set(answers) == {200}


def test_a_server_that_is_gone_costs_no_answer(router: Router, a: Server):
    with echo("leaving") as leaving:
        note = {"haproxy.router.openshift.io/disable_cookies": "true"}
        router.load((claim("h", annotations=note), [a, leaving]))
        seen = {router.get(f"http://h.{APPS}/").seen["server"] for _ in range(20)}
    assert seen == {"a", "leaving"}
    answers = [router.get(f"http://h.{APPS}/") for _ in range(20)]
    assert {(answer.status, answer.seen["server"]) for answer in answers} == {(200, "a")}


def test_health_is_the_controllers_too(router: Router, a: Server):
    router.load((claim("h"), [a]))
    from lab.waiting import wait_until

    router.health.say("broken")
    wait_until(lambda: router.stats("/healthz/ready") == 500, 40, "the controller to be missed")
    assert router.stats("/healthz") == 200
    assert router.get(f"http://h.{APPS}/").status == 200
    router.health.say()
    wait_until(lambda: router.stats("/healthz/ready") == 200, 20, "the controller to be seen")


def test_names_of_backends():
    assert backend_name(claim("h")) == "be_http:ns:h"
    assert backend_name(claim("h", tls={"termination": "reencrypt"})) == "be_secure:ns:h"
