"""mirror/: where images are pulled from in place of where they are named, and whom to trust (reference §2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from installer.config import check
from installer.config.types import ImageSource, InstallConfig
from installer.errors import ConfigError
from installer.manifests.files import CA_BUNDLE, MIRROR, REGISTRIES
from installer.release import DigestSource, registries_conf
from installer.release.access import NEVER_CONTACT


def mirror_files(config: InstallConfig) -> dict[str, bytes]:
    """mirror/ as an install-config gives it; the bundle is empty where there is none."""
    sources = [DigestSource(e.source, e.mirrors, e.source_policy == NEVER_CONTACT) for e in config.sources]
    return {
        REGISTRIES: registries_conf(sources).encode(),
        CA_BUNDLE: config.additional_trust_bundle.encode(),
    }


def _location(table: Any, what: str) -> str:
    location = table.get("location", "") if isinstance(table, dict) else ""
    if not isinstance(location, str) or not location:
        raise ConfigError(f"failed to load {REGISTRIES} file: {what} has no location", file=REGISTRIES)
    return location


def read_registries(text: str) -> tuple[ImageSource, ...]:
    """The mirrors in a registries.conf; ConfigError if it is not one."""
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"failed to load {REGISTRIES} file: {error}", file=REGISTRIES) from error
    entries = data.get("registry", [])
    if not isinstance(entries, list):
        raise ConfigError(f"failed to load {REGISTRIES} file: registry is not a list of tables", file=REGISTRIES)
    found = []
    for index, entry in enumerate(entries):
        source = _location(entry, f"registry {index}")
        mirrors = entry.get("mirror", [])
        if not isinstance(mirrors, list):
            raise ConfigError(f"failed to load {REGISTRIES} file: mirror is not a list of tables", file=REGISTRIES)
        names = tuple(_location(mirror, f"a mirror of {source}") for mirror in mirrors)
        found.append(ImageSource(source, names, NEVER_CONTACT if entry.get("blocked") is True else ""))
    return tuple(found)


def read_mirror(files: Mapping[str, bytes]) -> tuple[tuple[ImageSource, ...], str]:
    """(mirrors, trust bundle) of mirror/, both empty where there is no such file. Raises ConfigError."""
    texts = {}
    for name in MIRROR:
        try:
            texts[name] = files.get(name, b"").decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"failed to load {name} file: not UTF-8 text at byte {error.start}", file=name) from error
    bundle = texts[CA_BUNDLE]
    if bundle.strip():
        wrong = check.pem_certificates(bundle)
        if wrong is not None:
            raise ConfigError(f"failed to load {CA_BUNDLE} file: {wrong}", file=CA_BUNDLE)
    return read_registries(texts[REGISTRIES]), bundle if bundle.strip() else ""
