"""Available updates, from an update service (Cincinnati) that ClusterVersion's spec.upstream names."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from lab.release.cluster.version_operator.updates import precedence

SECONDS = 20.0
#: What an update service may say: more is none of it.
MAX_BYTES = 8 << 20


@dataclass(frozen=True)
class Retrieved:
    """An update service's answer: RetrievedUpdates' status, reason and message, and updates, newest first."""

    status: str
    reason: str = ""
    message: str = ""
    updates: tuple[Mapping[str, str], ...] = ()


NO_UPSTREAM = Retrieved("False", "NoUpstream", "No upstream server has been set to retrieve updates.")


def _failed(reason: str, text: str) -> Retrieved:
    return Retrieved("False", reason, f"Unable to retrieve available updates: {text}")


def following(graph: Any, version: str, channel: str) -> Retrieved:
    """Return the updates to which edges lead from a version in a graph's JSON."""
    try:
        nodes = [(str(node["version"]), str(node["payload"])) for node in graph["nodes"]]
        edges = [(int(origin), int(target)) for origin, target in graph["edges"]]
        index = next((number for number, (name, _) in enumerate(nodes) if name == version), None)
        if index is None:
            text = f'currently reconciling cluster version {version} not found in the "{channel}" channel'
            return _failed("VersionNotFound", text)
        if any(end < 0 for edge in edges for end in edge):
            raise IndexError("an edge has a negative end")
        found = list(dict.fromkeys(nodes[target] for origin, target in edges if origin == index != target))
        found.sort(key=lambda node: precedence(node[0]), reverse=True)
    except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
        return _failed("ResponseInvalid", f"{type(error).__name__}: {error}")
    return Retrieved("True", updates=tuple({"version": name, "image": image} for name, image in found))


def retrieve(spec: Mapping[str, Any], version: str) -> Retrieved:
    """Ask the update service for what follows a version in the spec's channel."""
    upstream, channel = str(spec.get("upstream") or ""), str(spec.get("channel") or "")
    if not upstream:
        return NO_UPSTREAM
    try:
        parts = urlsplit(upstream)
        usable = parts.scheme in ("http", "https") and bool(parts.netloc)
    except ValueError:
        usable = False
    if not usable:
        return Retrieved("False", "InvalidURI", f"failed to parse upstream URL: {upstream!r} is no http or https URL")
    if not channel:
        return Retrieved("False", "NoChannel", "The update channel has not been configured.")
    asked = {"arch": "amd64", "channel": channel, "id": str(spec.get("clusterID", "")), "version": version}
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(
                upstream, params=asked, headers={"Accept": "application/json"}, timeout=SECONDS, stream=True
            )
            if answer.status_code != 200:
                return _failed("ResponseFailed", f"unexpected HTTP status: {answer.status_code} {answer.reason}")
            body, deadline = b"", time.monotonic() + SECONDS
            while len(body) < MAX_BYTES and (part := answer.raw.read1(MAX_BYTES - len(body), decode_content=True)):
                body += part
                if time.monotonic() > deadline:
                    return _failed("RemoteFailed", f"no end of the answer within {SECONDS:.0f} s")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:  # ValueError: a redirect's URL
            return _failed("RemoteFailed", str(error))
    try:
        graph = json.loads(body)
    except (ValueError, RecursionError) as error:
        return _failed("ResponseInvalid", str(error))
    return following(graph, version, channel)
