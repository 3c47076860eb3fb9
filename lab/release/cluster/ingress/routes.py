"""Routes (route.openshift.io/v1) as claims, and what their status says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from lab.release.cluster.ingress import certificates, tuning
from lab.release.cluster.ingress.claims import (
    INVALID,
    NO_HOST,
    Claim,
    Domain,
    Refused,
    Target,
    check_host,
    check_path,
    is_name,
)
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import put

API = "route.openshift.io/v1"
ROUTER = "default"
#: The annotation of a Route whose host is not its user's.
GENERATED = {"openshift.io/host.generated": "true"}
#: The parts of a Route that this router has no answer to.
UNSUPPORTED = ("httpHeaders",)
_POLICIES = {"": "None", "None": "None", "Allow": "Allow", "Redirect": "Redirect"}


def generated_host(route: Object, apps_domain: str) -> str:
    """Return the host of a Route that names none, as OpenShift's API server makes it up."""
    meta = route["metadata"]
    return f"{meta['name']}-{meta['namespace']}.{apps_domain}"


def host_of(route: Object, apps_domain: str) -> str:
    """Return the Route's host; empty when it has none yet."""
    spec = route["spec"]
    if spec.get("host") or not spec.get("subdomain"):
        return str(spec.get("host") or "")
    return f"{spec['subdomain']}.{apps_domain}"


def _targets(spec: Mapping[str, Any], problems: list[str]) -> tuple[Target, ...]:
    port = str((spec.get("port") or {}).get("targetPort", ""))
    targets = []
    for index, entry in enumerate([spec["to"], *(spec.get("alternateBackends") or [])]):
        place = f"spec.alternateBackends[{index - 1}]" if index else "spec.to"
        if entry.get("kind", "Service") != "Service":
            problems.append(f"{place}.kind: {entry.get('kind')!r} is not supported: it must be Service")
        if not is_name(str(entry.get("name"))):
            problems.append(f"{place}.name: must be the name of a Service")
        weight = entry.get("weight")
        targets.append(Target(str(entry.get("name", "")), port, 100 if weight is None else int(weight)))
    if len(targets) > 4:
        problems.append("spec.alternateBackends: must have at most 3 entries")
    return tuple(targets)


def _tls(tls: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    """Return the claim's fields that spec.tls makes."""
    kind = str(tls.get("termination", ""))
    policy = str(tls.get("insecureEdgeTerminationPolicy") or "")
    if kind not in ("edge", "passthrough", "reencrypt"):
        problems.append(f"spec.tls.termination: {kind!r} must be edge, passthrough or reencrypt")
    if policy not in _POLICIES or (kind == "passthrough" and policy == "Allow"):
        problems.append(f"spec.tls.insecureEdgeTerminationPolicy: {policy!r} is not supported for {kind}")
    if tls.get("externalCertificate"):
        problems.append("spec.tls.externalCertificate: is not supported")
    own = [name for name in ("certificate", "key", "caCertificate", "destinationCACertificate") if tls.get(name)]
    if kind == "passthrough":
        problems += [f"spec.tls.{name}: passthrough termination does not support certificates" for name in own]
        if path:
            problems.append("spec.path: passthrough termination does not support paths")
    elif kind == "edge" and "destinationCACertificate" in own:
        rule = "edge termination does not support destination certificates"
        problems.append(f"spec.tls.destinationCACertificate: {rule}")
    fields: dict[str, Any] = {"termination": kind, "insecure": _POLICIES.get(policy, "None")}
    try:
        if "certificate" in own or "key" in own or "caCertificate" in own:
            texts = [str(tls.get(name) or "") for name in ("certificate", "key", "caCertificate")]
            fields["certificate"] = certificates.served(*texts)
    except ValueError as error:
        problems.append(f"spec.tls.certificate: {error}")
    try:
        if "destinationCACertificate" in own:
            fields["destination_ca"] = certificates.bundle(str(tls["destinationCACertificate"]))
    except ValueError as error:
        problems.append(f"spec.tls.destinationCACertificate: {error}")
    return fields


def claim(route: Object, apps_domain: str) -> Claim:
    """Return what a Route claims. Raises Refused with all its problems."""
    meta, spec = route["metadata"], route["spec"]
    host, path = host_of(route, apps_domain), str(spec.get("path") or "")
    if not host:
        # It is going to get one.
        check_host(generated_host(route, apps_domain))
        raise Refused(NO_HOST, "no host value was defined for the route")
    check_host(host)
    options, problems = tuning.options(meta.get("annotations") or {})
    problems += [f"spec.{name}: is not supported" for name in UNSUPPORTED if spec.get(name)]
    if path and (problem := check_path(path)):
        problems.append(problem)
    wildcard = spec.get("wildcardPolicy") == "Subdomain"
    if wildcard and not host.partition(".")[2]:
        problems.append(f"spec.host: {host!r} has no subdomain for wildcardPolicy")
    targets = _targets(spec, problems)
    tls = _tls(spec["tls"], path, problems) if spec.get("tls") else {}
    if problems:
        raise Refused(INVALID, *problems)
    return Claim(
        kind="Route",
        namespace=meta["namespace"],
        name=meta["name"],
        uid=str(meta.get("uid", "")),
        created=str(meta.get("creationTimestamp", "")),
        host=host.partition(".")[2] if wildcard else host,
        wildcard=wildcard,
        path=path,
        targets=targets,
        options=options,
        **tls,
    )


def status(route: Object, domain: Domain, refused: Refused | None, now: dt.datetime) -> Object:
    """Return the Route's status with this router's word in it; other routers' stay."""
    entries = list((route.get("status") or {}).get("ingress") or [])
    index = next((i for i, entry in enumerate(entries) if entry.get("routerName") == ROUTER), None)
    old = entries[index] if index is not None else {}
    admitted = "False" if refused else "True"
    reason = {"reason": refused.reason, "message": str(refused)} if refused else {}
    entry = {
        "host": host_of(route, domain.apps),
        "routerName": ROUTER,
        "routerCanonicalHostname": domain.canonical,
        "conditions": put(old.get("conditions") or [], "Admitted", admitted, now, **reason),
        "wildcardPolicy": route["spec"].get("wildcardPolicy") or "None",
    }
    if index is None:
        entries.append(entry)
    else:
        entries[index] = entry
    return {**(route.get("status") or {}), "ingress": entries}
