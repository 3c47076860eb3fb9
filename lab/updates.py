"""Updates for a lab's cluster: an update service's graph (Cincinnati's form), on the lab's server of files, and the
releases' signatures.

The lab's registry serves what has been built on this machine, so another release needs no copying.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lab.errors import LabError
from lab.layout import Layout
from lab.release.build import Release, built_release
from lab.release.cluster.version_operator.updates import precedence
from lab.release.signing import signature_config_map
from lab.release.stage.store import Store, default_cache

FILE = "upgrades.json"


def graph(releases: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the graph of releases (version, pullspec), from each to all that are newer."""
    numbered = list(enumerate(releases))
    edges = [[a, b] for a, (old, _) in numbered for b, (new, _) in numbered if precedence(new) > precedence(old)]
    return {"nodes": [{"version": version, "payload": image} for version, image in releases], "edges": edges}


def built(pullspec: str) -> Release:
    """Return a release that was built on this machine. Raises LabError when it is none, or has been pruned."""
    release = built_release(pullspec.rpartition("@")[2])
    if release is None:
        raise LabError(f"{pullspec}: is no release that was built on this machine: python -m lab.release build")
    return release


def publish(layout: Layout, releases: Sequence[tuple[str, str]]) -> str:
    """Write the graph where the lab's cluster can ask for it; the URL for spec.upstream."""
    temporary = layout.www / f".{FILE}.new"
    temporary.write_text(json.dumps(graph(releases), indent=1) + "\n")
    temporary.replace(layout.www / FILE)
    return f"{layout.http_url}/{FILE}"


def signatures(pullspecs: Sequence[str]) -> str:
    """Return the ConfigMaps, as YAML, by which a cluster of this machine lets these releases in."""
    return "---\n".join(signature_config_map(Store(default_cache()), pullspec) for pullspec in pullspecs)
