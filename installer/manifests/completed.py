"""A user's own manifests as they are passed on: with the defaults and spellings that reading gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from installer.common.formats import jsontext
from installer.common.formats.yamltext import go_dump, load
from installer.manifests.files import INFRA_ENV, INSTALL, NMSTATE, PULL_SECRET
from installer.manifests.read import SECRET_KEY, ClusterManifests

_PATHS: dict[str, dict[tuple[str, ...], Callable[[ClusterManifests], object]]] = {
    INSTALL: {
        ("spec", "platformType"): lambda of: of.install.spec.platform_type,
        ("spec", "networking", "networkType"): lambda of: of.install.spec.networking.network_type,
        ("spec", "networking", "userManagedNetworking"): lambda of: of.install.spec.networking.user_managed_networking,
    },
    INFRA_ENV: {("spec", "cpuArchitecture"): lambda of: of.infra_env.spec.cpu_architecture},
    PULL_SECRET: {("stringData", SECRET_KEY): lambda of: _indented(of.pull_secret)},
}


def completed(manifests: ClusterManifests) -> dict[str, bytes]:
    """Return the files that were read, by their path; those that need no change as they are, comments and all."""
    files = dict(manifests.files)
    for name, paths in _PATHS.items():
        document = load(files[name])
        changes = [_set(document, path, value(manifests)) for path, value in paths.items()]
        if any(changes):
            files[name] = go_dump(document).encode()
    if not manifests.nmstate:
        files.pop(NMSTATE, None)  # it may be there and be empty
    return files


def _indented(secret: str) -> str:
    return jsontext.go_dump(jsontext.loads(secret), indent=2, sort=True)


def _set(document: dict[str, Any], path: tuple[str, ...], value: object) -> bool:
    """Set the field at the path; returns whether that has changed the document."""
    *parents, name_of_field = path
    mapping = document
    for name in parents:
        key = _spelled(mapping, name)
        inner = mapping.get(key) or {}
        mapping[key] = inner
        mapping = inner
    key = _spelled(mapping, name_of_field)
    if mapping.get(key, "") == value:
        return False
    mapping[key] = value
    return True


def _spelled(mapping: dict[str, Any], name: str) -> str:
    """Return the key as the mapping has it: case counts for nothing."""
    return next((key for key in mapping if str(key).lower() == name.lower()), name)
