"""Stores of signatures: web servers that have those of releases by digest, asked where the cluster's own ConfigMaps
have none that counts (reference/upgrades.md §3)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from lab.release.cluster.errors import Unverified
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator.signatures import verification_data

PREFIX = "store-"
#: What ClusterVersion may name, and the namespace and key of the CAs that it names with that.
MOST, CA_NAMESPACE, CA_KEY = 32, "openshift-config", "ca-bundle.crt"
#: Signatures of a release that are asked for, their size, and seconds that a store has for all of them.
TRIES, MAX_BYTES, SECONDS = 9, 50 << 10, 20.0


@dataclass(frozen=True)
class Store:
    """A store's URL, and the CAs that vouch for it, PEM; the machine's own when there are none."""

    url: str
    ca: str = field(default="", repr=False)


def _checked(url: str, source: str) -> str:
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.netloc)
    except ValueError:
        usable = False
    if not usable:
        raise Unverified(f"{source}: {url!r} must be a valid URL with scheme http:// or https://")
    return url.strip().rstrip("/")


def of_payload(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the URLs of stores that a payload names, by key."""
    return {key: url for key, url in verification_data(manifests).items() if key.startswith(PREFIX)}


def chosen(kube: Kube, spec: Mapping[str, Any], default: Mapping[str, str]) -> list[Store]:
    """Return the stores that ClusterVersion's spec names, which stand in the place of the payload's. Raises Unverified
    for what is none, ApiError."""
    asked = spec.get("signatureStores") or []
    if not asked:
        return [Store(_checked(url, key)) for key, url in sorted(default.items())]
    if len(asked) > MOST:
        raise Unverified(f"spec.signatureStores: has {len(asked)} stores, {MOST} at most")
    found = []
    for number, entry in enumerate(asked):
        place, name = f"spec.signatureStores[{number}]", str((entry.get("ca") or {}).get("name") or "")
        ca = ""
        if name:
            stored = kube.get("v1", "ConfigMap", name, CA_NAMESPACE) or {}
            ca = str((stored.get("data") or {}).get(CA_KEY, ""))
            if not ca:
                raise Unverified(f"{place}.ca: ConfigMap {CA_NAMESPACE}/{name} has no {CA_KEY}")
        found.append(Store(_checked(str(entry.get("url") or ""), f"{place}.url"), ca))
    return found


def _get(session: requests.Session, url: str, deadline: float) -> bytes | None:
    """Return a signature; None where there is none. Raises Unverified."""
    try:
        answer = session.get(url, timeout=SECONDS, stream=True)
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise Unverified(f"{url}: {answer.status_code} {answer.reason}")
        body = b""
        while part := answer.raw.read1(MAX_BYTES, decode_content=True):
            body += part
            if len(body) > MAX_BYTES:
                raise Unverified(f"{url}: is larger than {MAX_BYTES >> 10} KiB")
            if time.monotonic() > deadline:
                raise Unverified(f"{url}: no end within {SECONDS:.0f} s")
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:  # ValueError: a redirect's URL
        raise Unverified(f"{url}: {error}") from error
    return body


def _ask(store: Store, digest: str) -> tuple[list[bytes], str]:
    """Return a store's signatures of a release, and what went wrong."""
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    with requests.Session() as session, tempfile.NamedTemporaryFile("w", suffix=".crt") as file:
        session.trust_env = False
        if store.ca:
            file.write(store.ca)
            file.flush()
            session.verify = file.name
        try:
            for number in range(1, TRIES + 1):
                signature = _get(session, f"{store.url}/{digest.replace(':', '=')}/signature-{number}", deadline)
                if signature is None:
                    break
                found.append(signature)
        except Unverified as error:
            return found, str(error)
    return found, ""


def signatures(stores: Sequence[Store], digest: str) -> tuple[list[bytes], list[str]]:
    """Return the signatures that stores, asked all at once, have of a release, and what went wrong."""
    if not stores or not digest:
        return [], []
    with ThreadPoolExecutor(max_workers=MOST) as pool:
        answers = list(pool.map(lambda store: _ask(store, digest), stores))
    return [signature for found, _ in answers for signature in found], [wrong for _, wrong in answers if wrong]
