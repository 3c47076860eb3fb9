"""The controller between a real API server and a real haproxy."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from installer.common import certificates
from installer.common.formats import yamltext
from lab.release.cluster.ingress import command
from lab.release.cluster.ingress.claims import Domain
from lab.release.cluster.ingress.controller import Controller
from lab.release.cluster.ingress.endpoints import Server
from lab.release.cluster.ingress.health import Health, serve
from lab.release.cluster.kube.client import Kube, read_kubeconfig
from lab.release.cluster.kube.conditions import stamp
from lab.release.cluster.nodes.probes import ingress as probe
from lab.release.cluster.nodes.probes.view import View
from lab.testing import router as kit
from lab.testing.hub import LoopbackHub, loopback_hub
from lab.testing.router import APPS, Router
from lab.waiting import wait_until

pytestmark = pytest.mark.lab

MANIFESTS = Path(command.__file__).parents[1] / "manifests"
SECONDS = 30
#: Loopback's own addresses may be no endpoint.
ADDRESS = "192.0.2.10"
NO_NAMES = ("a b", "Upper.example.com", "-a.b", "a..b", "a.b.", f"{'a' * 64}.b")


class AsRouter(Kube):
    """A client with the rights of the router's ServiceAccount, and no more."""

    def _session(self) -> requests.Session:
        session = super()._session()
        session.headers["Impersonate-User"] = "system:serviceaccount:openshift-ingress:router"
        return session


class World:
    """A cluster with a router."""

    def __init__(self, hub: LoopbackHub, router: Router) -> None:
        self.hub = hub
        self.router = router
        self.health = Health()
        self.stop = threading.Event()
        self.service: dict[str, Any] = {}

    def kubectl(self, *words: str, text: str | None = None) -> str:
        done = self.hub.kubectl(*words, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(objects))

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def route(self, name: str, namespace: str = "default", **spec: Any) -> None:
        meta = {"name": name, "namespace": namespace, "annotations": spec.pop("annotations", {})}
        whole = {"to": {"name": "web"}, **spec}
        self.apply({"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": meta, "spec": whole})

    def admitted(self, name: str, namespace: str = "default") -> str:
        """Return the condition Admitted of a Route: True, or the reason and message; empty without a word."""
        status = self.get("route", name, "-n", namespace).get("status") or {}
        [*entries] = status.get("ingress") or []
        if not entries:
            return ""
        [condition] = entries[0]["conditions"]
        return "True" if condition["status"] == "True" else f"{condition['reason']}: {condition['message']}"

    def status(self, url: str) -> int:
        return self.hub.inside(self.router.get, url).status

    def until(self, name: str, wanted: str, namespace: str = "default") -> None:
        wait_until(
            lambda: wanted in self.admitted(name, namespace),
            SECONDS,
            f"route {name}: {wanted}",
            lambda: self.admitted(name, namespace),
        )


def served(world: World, url: str, status: int = 200) -> None:
    wait_until(lambda: world.status(url) == status, SECONDS, f"{url} to answer {status}", lambda: world.status(url))


def slices(server_port: int) -> list[dict[str, Any]]:
    """Return a Service and its endpoints, as its controllers would."""
    port = {"name": "http", "port": 80, "targetPort": server_port}
    slice_port = {"name": "http", "port": server_port, "protocol": "TCP"}
    meta = {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"ports": [port]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1beta1",
            "kind": "EndpointSlice",
            "metadata": meta,
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": [slice_port],
        },
    ]


def secret(name: str, namespace: str, pair: certificates.Pair) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {"tls.crt": pair.certificate, "tls.key": pair.key},
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(loopback_hub(tmp_path_factory.mktemp("h") / "hub"))
        router = stack.enter_context(kit.router(tmp_path_factory.mktemp("r"), (80, 443, 1936)))
        made = World(hub, router)
        stack.callback(made.stop.set)
        rights = [
            obj
            for name in ("0000_10_openshift_01_routes.crd.yaml", "0000_50_ingress_02_router.yaml")
            for obj in yamltext.load_all((MANIFESTS / name).read_text())
            if obj["kind"] != "DaemonSet"
        ]
        names = ("openshift-ingress", "other")
        made.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names), *rights)
        made.apply(secret("router-certs-default", "openshift-ingress", kit.pair(f"*.{APPS}")))
        server = hub.inside(_serve, stack)
        made.apply(*slices(server.port))
        hub.inside(_begin, made, _client(made))
        yield made


def _serve(stack: contextlib.ExitStack) -> Server:
    """Start a server in the network of the hub."""
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    return stack.enter_context(kit.echo("web", address=ADDRESS))


def _client(world: World) -> AsRouter:
    """Make a client of the hub's API whose files are not in memory: the hub has a /proc of its own."""
    access = read_kubeconfig(world.hub.kubeconfig)
    ca, certificate, key = (world.router.run / name for name in ("api.crt", "client.crt", "client.key"))
    for path, memory in zip((ca, certificate, key), (access.ca_file, *access.cert_files), strict=True):
        path.write_bytes(Path(memory).read_bytes())
    return AsRouter(access.server, str(ca), (str(certificate), str(key)))


def _begin(world: World, kube: AsRouter) -> None:
    """Start controller and haproxy in the network of the hub."""
    serve(world.health, world.router.run / "controller.sock")
    controller = Controller(kube, world.router.haproxy, Domain(APPS, ("192.0.2.80",)))
    thread = threading.Thread(target=command.run, args=(kube, controller, world.health, world.stop), daemon=True)
    thread.start()
    config = world.router.run / "haproxy.cfg"
    wait_until(config.exists, SECONDS, "a configuration", lambda: world.health.problem)
    world.router.start()
    wait_until(lambda: not world.health.problem, SECONDS, "a healthy controller", lambda: world.health.problem)


def test_a_route_without_a_host_is_given_one_and_served(world: World):
    world.route("named")
    world.until("named", "True")
    route = world.get("route", "named")
    assert route["spec"]["host"] == f"named-default.{APPS}"
    assert route["metadata"]["annotations"]["openshift.io/host.generated"] == "true"
    [entry] = route["status"]["ingress"]
    assert (entry["routerName"], entry["routerCanonicalHostname"]) == ("default", f"router-default.{APPS}")
    served(world, f"http://named-default.{APPS}/")
    world.kubectl("delete", "route", "named")
    served(world, f"http://named-default.{APPS}/", 503)


def test_the_oldest_has_a_host_and_others_wait_for_it(world: World):
    world.route("first", host="claimed.example.com")
    world.until("first", "True")
    # Creation times are whole seconds, and the names of two within one decide nothing.
    wait_until(lambda: world.status("http://claimed.example.com/") == 200, SECONDS, "the first route")
    world.route("second", host="claimed.example.com")
    world.route("below", host="claimed.example.com", path="/below")
    world.route("foreign", "other", host="claimed.example.com", path="/other")
    world.until("second", "HostAlreadyClaimed: route first already exposes claimed.example.com and is older")
    world.until("below", "True")
    world.until("foreign", "HostAlreadyClaimed: a route in another namespace holds claimed.example.com", "other")
    world.kubectl("delete", "route", "first")
    world.until("second", "True")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"host": "", "subdomain": "a." * 120 + "a"}, "InvalidHost"),
        ({"path": "/a b\n  server evil 192.0.2.1:80"}, "ExtendedValidationFailed: spec.path"),
        ({"annotations": {"haproxy.router.openshift.io/timeout": "5s\n  use"}}, "ExtendedValidationFailed: metadata"),
        ({"annotations": {"haproxy.router.openshift.io/rate-limit-connections": "true"}}, "is not supported"),
        ({"tls": {"termination": "edge", "key": "no key"}}, "spec.tls.certificate"),
        ({"tls": {"termination": "passthrough"}, "path": "/x"}, "passthrough termination does not support paths"),
        ({"httpHeaders": {"actions": {}}}, "spec.httpHeaders: is not supported"),
    ],
)
def test_what_is_refused(world: World, spec: dict[str, Any], said: str):
    world.route("refused", **{"host": "refused.example.com", **spec})
    world.until("refused", said)
    world.kubectl("delete", "route", "refused")


def test_what_haproxy_alone_refuses_costs_no_other_route(world: World):
    key = rsa.generate_private_key(65537, 1024)
    name = certificates._name("weak.example.com", ())
    builder = certificates._builder(name, name, key, certificates.DAY, ca=False)
    weak = certificates._signed(builder, key, key)
    tls = {"termination": "edge", "certificate": weak.certificate, "key": weak.key}
    world.route("weak", host="weak.example.com", tls=tls)
    world.route("strong", host="strong.example.com", tls={"termination": "edge"})
    world.until("weak", "ExtendedValidationFailed: haproxy refuses it")
    world.until("strong", "True")
    assert world.get("route", "weak")["status"]["ingress"][0]["conditions"][0]["message"].count("files-") == 0
    assert not world.health.problem
    world.kubectl("delete", "route", "weak", "strong")


def test_an_ingress_is_served_once_its_secret_is_there(world: World):
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/shop", "pathType": "Prefix", "backend": backend}]
    meta = {"name": "shop", "namespace": "default"}
    spec = {
        "tls": [{"hosts": ["shop.example.com"], "secretName": "shop"}],
        "rules": [{"host": "shop.example.com", "http": {"paths": paths}}],
    }
    world.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta, "spec": spec})

    def warned() -> list[str]:
        return [e["message"] for e in world.get("events")["items"] if e["involvedObject"]["name"] == "shop"]

    wait_until(lambda: warned() != [], SECONDS, "an event of the Ingress")
    assert warned() == [
        "spec.tls[0].secretName: Secret default/shop is not there, or not of the type kubernetes.io/tls"
    ]
    world.apply(secret("shop", "default", kit.pair("shop.example.com")))
    served(world, "https://shop.example.com/shop/x")
    assert world.status("http://shop.example.com/shop/x") == 302
    assert world.status("https://shop.example.com/shopping") in (0, 503)

    def address() -> Any:
        return world.get("ingress", "shop")["status"]["loadBalancer"]

    wait_until(lambda: address() == {"ingress": [{"ip": "192.0.2.80"}]}, SECONDS, "the Ingress' address", address)
    for name in ("openshift-default", "nginx"):
        patch = json.dumps({"spec": {"ingressClassName": name}})
        world.kubectl("patch", "ingress", "shop", "--type=merge", "-p", patch)
        served(world, "https://shop.example.com/shop/x", 200 if name == "openshift-default" else 0)


def test_a_broken_default_certificate_leaves_the_one_before(world: World):
    world.route("kept", host=f"kept.{APPS}", tls={"termination": "edge"})
    served(world, f"https://kept.{APPS}/")
    broken = secret("router-certs-default", "openshift-ingress", certificates.Pair("no certificate", "no key"))
    world.apply(broken)
    wait_until(
        lambda: "router-certs-default" in world.health.problem, SECONDS, "a problem", lambda: world.health.problem
    )
    world.route("meanwhile", host=f"meanwhile.{APPS}", tls={"termination": "edge"})
    served(world, f"https://meanwhile.{APPS}/")
    world.apply(secret("router-certs-default", "openshift-ingress", kit.pair(f"*.{APPS}")))
    wait_until(lambda: not world.health.problem, SECONDS, "no problem", lambda: world.health.problem)


def test_the_probe_sees_what_a_router_does_not_do(world: World, tmp_path: Path):
    """Each way in which a router can fail, as the operator `ingress` asks it."""
    node = {"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}
    now = dt.datetime.now(dt.UTC)
    view = View(Kube("", "", None), tmp_path, now, [node], [], "", APPS)
    (tmp_path / "router-ca.crt").write_text(kit.authority().certificate)

    def says(text: str) -> None:
        def said() -> str:
            return world.hub.inside(probe.wrong, view, node)

        matches = (lambda: text in said()) if text else (lambda: not said())
        wait_until(matches, 2 * SECONDS, f"the probe: {text!r}", said)

    says(f"https://{view.canary_host}: GET {probe.PAGE}: 503")
    world.route("canary", host=view.canary_host, tls={"termination": "edge"})
    says("")
    stranger = certificates.authority("other", unit="test")
    name = f"*.{APPS}"
    other = certificates.leaf(stranger, name, names=(name,), usages=certificates.SERVER)
    world.apply(secret("router-certs-default", "openshift-ingress", other))
    says("no answer that the ingress CA vouches for")
    world.apply(secret("router-certs-default", "openshift-ingress", kit.pair(name)))
    says("")
    script = MANIFESTS.parent / "data" / "check-router.sh"

    def checked(path: str) -> bool:
        return world.hub.inside(subprocess.run, ["bash", str(script), path]).returncode == 0

    assert checked("/healthz/ready")
    world.kubectl("delete", "secret", "router-certs-default", "-n", "openshift-ingress")
    says("GET :1936/healthz/ready: 500 the controller is not well")
    assert [checked(path) for path in ("/healthz", "/healthz/ready", "/no-page")] == [True, False, False]
    world.apply(secret("router-certs-default", "openshift-ingress", kit.pair(name)))
    says("")
    world.kubectl("delete", "route", "canary")


def test_a_node_that_starts_makes_nothing_unavailable(world: World, tmp_path: Path):
    """One router serves; another, on a worker that was added, does not yet."""
    now = dt.datetime.now(dt.UTC)
    (tmp_path / "router-ca.crt").write_text(kit.authority().certificate)
    world.route("canary", host=f"canary-openshift-ingress-canary.{APPS}", tls={"termination": "edge"})
    served(world, f"https://canary-openshift-ingress-canary.{APPS}{probe.PAGE}")

    def node(name: str, address: str, minutes: int) -> dict[str, Any]:
        created = stamp(now - dt.timedelta(minutes=minutes))
        meta = {"name": name, "creationTimestamp": created, "labels": {"node-role.kubernetes.io/worker": ""}}
        return {"metadata": meta, "status": {"addresses": [{"type": "InternalIP", "address": address}]}}

    def view(*nodes: dict[str, Any]) -> View:
        return View(Kube("", "", None), tmp_path, now, [*nodes], [], "", APPS)

    old = node("old", "127.0.0.1", 600)
    alone = view(old)
    wait_until(lambda: not world.hub.inside(probe.wrong, alone, old), SECONDS, "the router that serves")
    for minutes, changed in ((1, "Progressing"), (60, "Degraded")):
        found = world.hub.inside(probe.ingress, view(old, node("added", "192.0.2.99", minutes)))
        assert (found.good, found.condition) == (False, changed)
        assert found.message.startswith("router of added: GET :1936/healthz/ready: no answer")
    world.kubectl("delete", "route", "canary")


def test_the_api_refuses_malformed_routes_at_the_door(world: World):
    refused: list[tuple[dict[str, Any], str]] = [
        ({"tls": {"termination": "none"}}, "spec.tls.termination"),
        ({"to": {"name": "web", "weight": 257}}, "spec.to.weight"),
        ({"path": "x"}, "spec.path"),
        *(({field: text}, f"spec.{field}: Invalid value") for field in ("host", "subdomain") for text in NO_NAMES),
    ]
    for spec, field in refused:
        meta = {"name": "no", "namespace": "default"}
        whole = {"to": {"name": "web"}, **spec}
        obj = {"apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": meta, "spec": whole}
        done = world.hub.kubectl("create", "-f", "-", text=yaml.safe_dump(obj))
        assert done.returncode, field
        assert field in done.stderr
