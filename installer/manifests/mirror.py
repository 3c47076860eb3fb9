"""mirror/: which registries images are pulled from instead, and which certificates to trust (reference §2.1)."""

from __future__ import annotations

from collections.abc import Mapping

from installer.common.redact import without_login
from installer.config.types.install import DigestSource as Mirrors
from installer.config.types.install import InstallConfig
from installer.config.values import check
from installer.errors import ConfigError
from installer.manifests.files import CA_BUNDLE, MIRROR, REGISTRIES
from installer.release import DigestSource, registries, registries_conf
from installer.release.access import NEVER_CONTACT


def mirror_files(config: InstallConfig) -> dict[str, bytes]:
    """mirror/ as an install-config gives it; the bundle is empty where there is none."""
    sources = [DigestSource(e.source, e.mirrors, e.policy == NEVER_CONTACT) for e in config.sources]
    return {
        REGISTRIES: registries_conf(sources).encode(),
        CA_BUNDLE: check.certificates_only(config.additional_trust_bundle).encode(),
    }


def read_registries(text: str) -> tuple[Mirrors, ...]:
    """Return the mirrors in a registries.conf; ConfigError if it is not one."""
    sources = []
    try:
        for index, entry in enumerate(registries.registries(text)):
            if not (entry.location or entry.prefix.startswith("*.")):
                raise ValueError(f"registry {index} has no location")
            if not all(entry.mirrors):
                raise ValueError(f"a mirror of {without_login(entry.source)} has no location")
            never = entry.blocked or entry.rewrites
            sources.append(Mirrors(entry.source, entry.places, NEVER_CONTACT if never else ""))
    except ValueError as error:
        raise ConfigError(f"failed to load {REGISTRIES} file: {error}", file=REGISTRIES) from error
    return tuple(sources)


def read_mirror(files: Mapping[str, bytes]) -> tuple[tuple[Mirrors, ...], str]:
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
