"""Ingresses (networking.k8s.io/v1) as claims."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from lab.release.cluster.ingress import certificates, tuning
from lab.release.cluster.ingress.claims import INVALID, Claim, Refused, Target, check_host, check_path
from lab.release.cluster.kube.client import Object, Objects

API = "networking.k8s.io/v1"
CLASS = "openshift-default"
#: What says in the place of spec.ingressClassName in older manifests.
CLASS_NOTE = "kubernetes.io/ingress.class"
TERMINATION_NOTE = "route.openshift.io/termination"


def is_ours(ingress: Object) -> bool:
    """Return whether the Ingress is of the router's class, or of none."""
    notes = ingress["metadata"].get("annotations") or {}
    return (ingress["spec"].get("ingressClassName") or notes.get(CLASS_NOTE) or CLASS) == CLASS


def secret_pem(secret: Object | None) -> str:
    """Return certificate and key of a Secret of the type kubernetes.io/tls, as haproxy reads them. Raises ValueError
    with the rule."""
    if secret is None:
        raise ValueError("is not there, or not of the type kubernetes.io/tls")
    try:
        data = secret.get("data") or {}
        texts = [base64.b64decode(data[name]).decode() for name in ("tls.crt", "tls.key")]
    except (KeyError, ValueError):
        raise ValueError("must have tls.crt and tls.key as PEM") from None
    return certificates.served(*texts)


def _target(backend: Mapping[str, Any], place: str, problems: list[str]) -> Target:
    service = backend.get("service")
    if not service:
        problems.append(f"{place}.resource: is not supported: it must be a service")
        return Target("")
    port = service.get("port") or {}
    return Target(str(service["name"]), str(port.get("name") or port.get("number") or ""), of_service=True)


def _path(entry: Mapping[str, Any], place: str, problems: list[str]) -> tuple[str, bool]:
    """Return a rule's path, and whether it is exact."""
    path, exact = str(entry.get("path") or "/"), entry.get("pathType") == "Exact"
    if problem := check_path(path, place):
        problems.append(problem)
    # A prefix is one of whole elements, and a slash at its end says nothing (KEP-1453).
    return (path if exact else path.rstrip("/")), exact


def claims(ingress: Object, secrets: Objects) -> list[Claim]:
    """Return what an Ingress claims, one for each of its paths, and for its default. Raises Refused with all its
    problems."""
    meta, spec = ingress["metadata"], ingress["spec"]
    notes = meta.get("annotations") or {}
    options, problems = tuning.options(notes)
    termination = str(notes.get(TERMINATION_NOTE, "edge"))
    if termination not in ("edge", "passthrough", "reencrypt"):
        rule = "must be edge, passthrough or reencrypt"
        problems.append(f"metadata.annotations: {TERMINATION_NOTE}: {termination[:64]!r} {rule}")
    tls: dict[str, str] = {}
    for index, entry in enumerate(spec.get("tls") or []):
        pem, name = "", entry.get("secretName")
        if name and termination != "passthrough":
            try:
                pem = secret_pem(secrets.get((meta["namespace"], name)))
            except ValueError as error:
                problems.append(f"spec.tls[{index}].secretName: Secret {meta['namespace']}/{name} {error}")
        tls |= dict.fromkeys(entry.get("hosts") or [""], pem)
    found: list[Claim] = []

    def add(host: str, path: str, exact: bool, target: Target) -> None:
        wildcard = host.startswith("*.")
        name = host.removeprefix("*.")
        if name:
            check_host(name)
        secured = host in tls or "" in tls
        if secured and termination == "passthrough" and (path or not host):
            problems.append(f"spec.rules: passthrough termination of {host or 'any host'} does not support paths")
        further = {"termination": termination, "insecure": "Redirect"} if secured else {}
        found.append(
            Claim(
                kind="Ingress",
                namespace=meta["namespace"],
                name=meta["name"],
                uid=str(meta.get("uid", "")),
                created=str(meta.get("creationTimestamp", "")),
                index=len(found),
                host=name,
                wildcard=wildcard,
                path=path,
                exact=exact,
                targets=(target,),
                certificate=tls.get(host, tls.get("", "")) if secured else "",
                options=options,
                **further,
            )
        )

    for index, rule in enumerate(spec.get("rules") or []):
        for number, entry in enumerate((rule.get("http") or {}).get("paths") or []):
            place = f"spec.rules[{index}].http.paths[{number}]"
            path, exact = _path(entry, f"{place}.path", problems)
            add(str(rule.get("host") or ""), path, exact, _target(entry["backend"], f"{place}.backend", problems))
    if spec.get("defaultBackend"):
        add("", "", False, _target(spec["defaultBackend"], "spec.defaultBackend", problems))
    if problems:
        raise Refused(INVALID, *problems)
    return found
