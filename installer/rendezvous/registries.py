"""Where images come from: containers-registries.conf(5) version 2 and what its mirrors cover."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

from installer.assisted.errors import PrepareError
from installer.rendezvous.store.model import JsonMap


def digest_sources(registries_conf: Path) -> list[JsonMap]:
    """imageDigestSources: every registry that has mirrors. Raises PrepareError."""
    if not registries_conf.is_file():
        return []
    import tomllib

    try:
        data = tomllib.loads(registries_conf.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PrepareError(str(registries_conf), f"not TOML: {error}") from None
    sources = []
    for registry in data.get("registry", []):
        source = registry.get("location") or registry.get("prefix")
        mirrors = [mirror["location"] for mirror in registry.get("mirror", []) if mirror.get("location")]
        if source and mirrors:
            item: JsonMap = {"source": source, "mirrors": mirrors}
            if registry.get("blocked"):
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
    if any(name == source or name.startswith(source.rstrip("/") + "/") for source in sources):
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
