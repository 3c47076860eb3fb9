"""The loop that follows Routes and Ingresses, and writes back what became of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lab.release.cluster.errors import ApiError
from lab.release.cluster.ingress import endpoints, ingresses, routes
from lab.release.cluster.ingress.claims import INVALID, NO_HOST, Claim, Domain, Refused, admit
from lab.release.cluster.ingress.config import Settings, render
from lab.release.cluster.ingress.endpoints import Server
from lab.release.cluster.ingress.haproxy import ConfigurationRefused, Haproxy, HaproxyError
from lab.release.cluster.kube.client import Kube, Object, Objects
from lab.release.cluster.kube.conditions import stamp

log = logging.getLogger(__name__)

#: The Secret with the certificate of hosts that bring none.
CERTIFICATE = ("openshift-ingress", "router-certs-default")
Served = tuple[tuple[Claim, tuple[Server, ...]], ...]
Key = tuple[str, str]


@dataclass(frozen=True)
class State:
    """The API's objects, by (namespace, name)."""

    routes: Objects
    ingresses: Objects
    services: Objects
    slices: Objects
    secrets: Objects


@dataclass
class Plan:
    """The outcome of a state: the claims that hold, the oldest first, and all refusals by who asked."""

    claims: list[Claim]
    routes: dict[Key, Refused] = field(default_factory=dict)
    ingresses: dict[Key, list[Refused]] = field(default_factory=dict)

    def refuse(self, claim: Claim, refused: Refused) -> None:
        """Take a claim for refused."""
        key = (claim.namespace, claim.name)
        if claim.kind == "Route":
            self.routes[key] = refused
        else:
            self.ingresses.setdefault(key, []).append(refused)


def plan(state: State, domain: Domain) -> Plan:
    """Determine which claims hold."""
    result, claims = Plan([]), list[Claim]()
    for key, route in state.routes.items():
        try:
            claims.append(routes.claim(route, domain.apps))
        except Refused as refused:
            result.routes[key] = refused
    for key, ingress in state.ingresses.items():
        if not ingresses.is_ours(ingress):
            continue
        try:
            claims += ingresses.claims(ingress, state.secrets)
        except Refused as refused:
            result.ingresses[key] = [refused]
    result.claims, refusals = admit(claims)
    for claim, refusal in refusals.items():
        result.refuse(claim, refusal)
    return result


def served(claims: Sequence[Claim], state: State) -> Served:
    """Return the claims with their servers."""
    slices = endpoints.by_service(state.slices)
    return tuple((claim, tuple(endpoints.servers(claim, state.services, slices))) for claim in claims)


class Controller:
    """One round after the other; ``problem`` is what is wrong with the last, empty when nothing is."""

    def __init__(self, kube: Kube, haproxy: Haproxy, domain: Domain, service_ca: Path | None = None) -> None:
        self._kube = kube
        self._haproxy = haproxy
        self._domain = domain
        self._service_ca = service_ca
        self._certificate = ""
        #: What was wanted last, and what of it haproxy has been given.
        self._wanted: tuple[Served, Settings] | None = None
        self._applied: tuple[Served, Settings] | None = None
        self._loaded = True
        #: Claims that haproxy itself refuses, though all else has been checked.
        self._unfit: dict[Claim, Refused] = {}
        self._said: set[Key] = set()
        self.problem = ""

    def step(self, state: State) -> None:
        """Bring haproxy to this state, and say so in the objects' statuses. Raises ApiError."""
        before = self.problem
        self._problem_of_certificate(state.secrets)
        result = plan(state, self._domain)
        try:
            if self._certificate:
                self._bring(result, state)
        except HaproxyError as error:
            self.problem = str(error)
        if self.problem and self.problem != before:
            log.warning("%s", self.problem)
        if self._applied:
            self._report(result, state)

    def _problem_of_certificate(self, secrets: Objects) -> None:
        """Take over the default certificate; one that cannot be used leaves the one before in force."""
        self.problem = ""
        try:
            self._certificate = ingresses.secret_pem(secrets.get(CERTIFICATE))
        except ValueError as error:
            self.problem = f"Secret {'/'.join(CERTIFICATE)} {error}"

    def _bring(self, result: Plan, state: State) -> None:
        """Put the claims that hold into force; those that haproxy refuses are taken out. Raises HaproxyError."""
        # Its kubelet replaces this file while a successor of the CA is on its way.
        authority = self._service_ca.read_text() if self._service_ca else ""
        settings = Settings(str(self._haproxy.run), self._certificate, authority)
        self._unfit = {claim: refused for claim, refused in self._unfit.items() if claim in result.claims}
        wanted = served([c for c in result.claims if c not in self._unfit], state)
        if (wanted, settings) != self._wanted:
            try:
                self._haproxy.put(partial(render, wanted, settings))
                self._applied = (wanted, settings)
            except ConfigurationRefused:
                self._applied = self._fit(wanted, settings)
                self._haproxy.put(partial(render, *self._applied))
            self._wanted, self._loaded = (wanted, settings), False
        if self._applied and self._applied[1] != settings:
            self.problem = f"Secret {'/'.join(CERTIFICATE)} has a certificate that haproxy refuses"
        for claim, refused in self._unfit.items():
            result.refuse(claim, refused)
        result.claims = [c for c in result.claims if c not in self._unfit]
        if not self._loaded:
            self._haproxy.reload()
            self._loaded = True
            log.info("Serving %d routes", len(result.claims))

    def _fit(self, wanted: Served, settings: Settings) -> tuple[Served, Settings]:
        """Leave out those claims that haproxy refuses, found by halves of the new ones beside those before them; and
        a certificate that it refuses. Raises HaproxyError where that is not enough."""
        before = {claim for claim, _ in self._applied[0]} if self._applied else set()
        fit = [entry for entry in wanted if entry[0] in before]
        try:
            self._haproxy.try_out(partial(render, fit, settings))
        except ConfigurationRefused:
            if self._applied is None or self._applied[1] == settings:
                raise
            settings = self._applied[1]
            self._haproxy.try_out(partial(render, fit, settings))

        def take(entries: Served) -> None:
            try:
                self._haproxy.try_out(partial(render, [*fit, *entries], settings))
                fit.extend(entries)
            except ConfigurationRefused as error:
                if len(entries) == 1:
                    self._unfit[entries[0][0]] = Refused(INVALID, str(error))
                    return
                half = len(entries) // 2
                take(entries[:half])
                take(entries[half:])

        if new := tuple(entry for entry in wanted if entry[0] not in before):
            take(new)
        return tuple(entry for entry in wanted if entry[0] not in self._unfit), settings

    def _report(self, result: Plan, state: State) -> None:
        now = dt.datetime.now(dt.UTC)
        for key, route in state.routes.items():
            with _of_this_object():
                self._report_route(route, result.routes.get(key), now)
        admitted = {(c.namespace, c.name) for c in result.claims if c.kind == "Ingress"}
        for key, ingress in state.ingresses.items():
            if ingresses.is_ours(ingress):
                with _of_this_object():
                    self._report_ingress(ingress, key in admitted)
                for refused in result.ingresses.get(key, []):
                    with _of_this_object():
                        self._tell(event(ingress, refused, now))

    def _report_route(self, route: Object, refused: Refused | None, now: dt.datetime) -> None:
        if refused and refused.reason == NO_HOST:
            meta = {"resourceVersion": route["metadata"]["resourceVersion"], "annotations": routes.GENERATED}
            spec = {"host": routes.generated_host(route, self._domain.apps)}
            self._kube.merge_patch(route, {"metadata": meta, "spec": spec})
            return
        status = routes.status(route, self._domain, refused, now)
        if status != (route.get("status") or {}):
            self._kube.replace({**route, "status": status}, "status")

    def _report_ingress(self, ingress: Object, admitted: bool) -> None:
        addresses = [{"ip": text} for text in self._domain.addresses] or [{"hostname": self._domain.canonical}]
        wanted = {"ingress": addresses} if admitted else {}
        if ((ingress.get("status") or {}).get("loadBalancer") or {}) != wanted:
            self._kube.replace({**ingress, "status": {"loadBalancer": wanted}}, "status")

    def _tell(self, said: Object) -> None:
        """Send an event, once."""
        key = (said["metadata"]["namespace"], said["metadata"]["name"])
        if key not in self._said:
            self._kube.create(said)
            self._said.add(key)


@contextlib.contextmanager
def _of_this_object() -> Iterator[None]:
    """Let pass what keeps no other object from its report: another router wrote first, or the object is gone, as its
    next event says; and the API refuses this one, as it does events of a namespace that ends. Raises ApiError."""
    try:
        yield
    except ApiError as error:
        if error.status in (403, 422):
            log.warning("%s", error)
        elif error.status not in (404, 409):
            raise


def event(ingress: Object, refused: Refused, now: dt.datetime) -> Object:
    """Return the event by which an Ingress, which has no conditions, is refused; the same has the same name."""
    meta = ingress["metadata"]
    said = f"{meta.get('uid')} {meta.get('generation')} {refused.reason} {refused}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta['name'][:200]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}",
            "namespace": meta["namespace"],
        },
        "involvedObject": {
            "apiVersion": ingresses.API,
            "kind": "Ingress",
            **{key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta},
        },
        "reason": refused.reason,
        "message": str(refused)[:1024],
        "source": {"component": "router-default"},
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
        "count": 1,
        "type": "Warning",
    }
