"""The choice of an Ignition version for a client of the machine-config server (reference/cluster.md §3.2)."""

from __future__ import annotations

import re

from lab.release.cluster.ignition.document import VERSION

SUBTYPE = "application/vnd.coreos.ignition+json"
NEWEST_MINOR = 5
_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)$")


def _parts(value: str) -> tuple[str, dict[str, str]]:
    kind, *parameters = (part.strip() for part in value.split(";"))
    pairs = dict(p.split("=", 1) for p in parameters if "=" in p)
    return kind.lower(), {key.strip().lower(): val.strip().strip('"') for key, val in pairs.items()}


def _quality(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0


def version_for(accept: str) -> str | None:
    """Return the spec version to serve for an Accept header; None when it asks for one that cannot be served (400).

    The real server answers a client without the header (a plain curl) in version 2.2.0, for hosts of a time before
    ours. There is no such host here, so it gets what the configs are written in.
    """
    values = [_parts(value) for value in accept.split(",") if value.strip()]
    values.sort(key=lambda value: -_quality(value[1]))
    for kind, parameters in values:
        match = _VERSION.fullmatch(parameters.get("version", ""))
        if kind == SUBTYPE and match:
            major, minor = int(match.group(1)), int(match.group(2))
            return f"3.{min(minor, NEWEST_MINOR)}.0" if major == 3 else None
    return VERSION
