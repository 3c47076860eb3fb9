"""Inputs that resources name: Secrets and ConfigMaps, read again when their resourceVersion is another."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from installer.assisted.errors import ClientError
from installer.common.formats import jsontext
from installer.common.redact import redact
from installer.hub.kube.kinds import CONFIG_MAP, SECRET, Json, Key, Kind
from installer.hub.kube.manager import Hub
from installer.hub.tables.clusterspec import SpecError
from installer.hub.tables.facts import SyncProblem

PULL_SECRET_KEY = ".dockerconfigjson"


class Inputs:
    """Data of Secrets and ConfigMaps as one controller needs them; what was read stays in memory and goes nowhere."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[tuple[Kind, Key], tuple[str, Mapping[str, str]]] = {}

    def version(self, kind: Kind, key: Key) -> str:
        """Return the resourceVersion of an object; empty if there is none."""
        found = self._hub.caches[kind].get(key)
        return str(found["metadata"]["resourceVersion"]) if found else ""

    def secret(self, key: Key, entry: str, field: str) -> str:
        """Return one entry of a Secret. Raises SpecError, which names it and the field that names it."""
        text = self.data(SECRET, key, field).get(entry)
        if not text:
            raise SpecError(f"Secret {key}, which {field} names, has no entry {entry}")
        return text

    def pull_secret(self, namespace: str, reference: Mapping[str, Any] | None, field: str) -> str:
        """Return a pull secret, JSON. Raises SpecError."""
        name = str((reference or {}).get("name") or "")
        if not name:
            raise SpecError(f"{field} is missing: it is to name the Secret with the pull secret")
        text = self.secret(Key(namespace, name), PULL_SECRET_KEY, field)
        try:
            found = jsontext.parsed(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("auths"), dict):
            raise SpecError(f"Secret {namespace}/{name}: {PULL_SECRET_KEY} must be a JSON object with auths")
        return text

    def data(self, kind: Kind, key: Key, field: str) -> Mapping[str, str]:
        """Return all entries of a Secret or ConfigMap. Raises SpecError, which names it and the field that names it."""
        version = self.version(kind, key)
        known = self._known.get((kind, key))
        if known is None or not version or known[0] != version:
            found = self._hub.api.get(kind, key)
            if found is None:
                self._known.pop((kind, key), None)
                raise SpecError(f"{kind.name} {key}, which {field} names, does not exist")
            known = str(found["metadata"]["resourceVersion"]), _texts(kind, found)
            self._known[kind, key] = known
        return known[1]


def _texts(kind: Kind, obj: Json) -> dict[str, str]:
    if kind is CONFIG_MAP:
        binary = {
            name: base64.b64decode(value).decode("latin-1") for name, value in (obj.get("binaryData") or {}).items()
        }
        return {**binary, **(obj.get("data") or {})}
    data = {}
    for name, value in (obj.get("data") or {}).items():
        try:
            data[name] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            data[name] = ""
    return data


@contextmanager
def naming(subject: str) -> Iterator[None]:
    """Have the service's refusal within the block begin with the name of what it refuses."""
    try:
        yield
    except ClientError as error:
        if error.is_passing:
            raise
        raise ClientError(error.what, error.status, f"{subject}: {error.reason}") from None


def problem_of(error: ClientError, secrets: Iterable[str] = ()) -> SyncProblem:
    """Return what the service refused or could not do, without these secrets and what looks like one."""
    known = []
    for text in secrets:
        known.append(text)
        try:
            auths = jsontext.parsed(text).get("auths") or {}
        except (ValueError, AttributeError):
            continue
        known += [str(entry["auth"]) for entry in auths.values() if isinstance(entry, dict) and entry.get("auth")]
    is_input = error.status is not None and not error.is_passing and 400 <= error.status < 500
    return SyncProblem(redact(error.reason, known), is_input)
