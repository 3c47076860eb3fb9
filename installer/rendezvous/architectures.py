"""Architectures that a service can install, as noted of its release when that was read (payload.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from installer.assisted.errors import BadRequest
from installer.rendezvous.settings import Settings

GOARCH = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# The API's names of architectures; images use aarch64, which is also called arm64.
NAMES = {name: name for name in ("x86_64", "aarch64", "ppc64le", "s390x")} | {"arm64": "aarch64"}


def notes_file(settings: Settings) -> Path:
    """Return the file in which a standalone service notes its release."""
    return settings.work_dir / settings.release_notes


def notes(settings: Settings) -> dict[str, Any]:
    """Return the present release's notes: version, architecture (GOARCH or multi), images, isos by architecture."""
    try:
        data = json.loads(notes_file(settings).read_text())
        isos = data if data["release"] == settings.release_image and isinstance(data["isos"], dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {key: isos[key] for key in ("version", "architecture", "images", "isos") if key in isos}


def check(release: str, built_for: str, architecture: str) -> None:
    """Raise BadRequest unless a release for ``built_for`` (GOARCH, multi, or empty: not known) runs there."""
    if built_for not in ("", "multi", GOARCH.get(architecture, architecture)):
        raise BadRequest(f"cpu_architecture {architecture}: release {release} is for {built_for} only")


def _named(settings: Settings) -> tuple[str, ...]:
    read = str(notes(settings).get("architecture", ""))
    return (read,) if read else settings.release_architectures


def offered(settings: Settings) -> list[str]:
    """Return the API's names of the architectures that the release is known to be for; x86_64 where it says nothing."""
    names = {name: NAMES.get(name, name) for name in NAMES} | {"amd64": "x86_64"}
    found = [names[name] for name in _named(settings) if name in names]
    return list(dict.fromkeys(NAMES.values())) if "multi" in _named(settings) else found or ["x86_64"]


def check_offered(settings: Settings, architecture: str) -> None:
    """Raise BadRequest unless the release offers this architecture; nothing is refused while it was not read."""
    names = {GOARCH.get(name, name) for name in _named(settings)}
    if names and "multi" not in names and GOARCH.get(architecture, architecture) not in names and len(names) < 2:
        raise BadRequest(f"Requested CPU architecture {architecture} is not available")


def check_known(settings: Settings, architecture: str) -> None:
    """Raise BadRequest unless the release has images of this architecture; nothing is refused while it was not read."""
    check(settings.release_image, str(notes(settings).get("architecture", "")), architecture)
