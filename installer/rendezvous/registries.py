"""Registries and their mirrors: containers-registries.conf(5) version 2."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

from installer.assisted.errors import PrepareError
from installer.common.formats.tomltext import LARGEST
from installer.common.inputs import read_input
from installer.release.access import DigestSource
from installer.release.registries import registries
from installer.rendezvous.store.model import JsonMap


def digest_sources(registries_conf: Path) -> list[JsonMap]:
    """imageDigestSources: every registry that has mirrors. Raises PrepareError."""
    if not registries_conf.exists():
        return []
    try:
        entries = registries(read_input(registries_conf, LARGEST))
    except OSError as error:
        raise PrepareError(str(registries_conf), f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise PrepareError(str(registries_conf), str(error)) from None
    sources = []
    for entry in entries:
        mirrors = [place for place in entry.places if place]
        if entry.source and mirrors:
            item: JsonMap = {"source": entry.source, "mirrors": mirrors}
            if entry.blocked or entry.rewrites:
                item["sourcePolicy"] = "NeverContactSource"
            sources.append(item)
    return sources


@lru_cache(64)
def release_domain(registries_conf: Path, image: str) -> str:
    """Name of the registry that a release image is pulled from; empty with a mirror, an address, or no image."""
    if not image:
        return ""
    try:
        sources = [str(item["source"]) for item in digest_sources(registries_conf)]
    except PrepareError:
        return ""
    name = image.split("@")[0]
    if any(DigestSource(source.rstrip("/")).covers(name) for source in sources):
        return ""
    host = image.split("/")[0]
    host = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if "." not in host:
        return ""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return host
    return ""
