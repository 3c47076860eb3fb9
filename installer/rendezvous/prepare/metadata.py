"""What openshift-install says of a cluster that it has made the files of."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

log = logging.getLogger("assisted-service")


class _Metadata(msgspec.Struct, frozen=True, rename={"cluster_id": "clusterID"}):
    """metadata.json."""

    cluster_id: str = ""


def cluster_id(files: Mapping[str, bytes]) -> str:
    """The cluster's id (a UUID), empty where metadata.json says none."""
    try:
        return msgspec.json.decode(files.get("metadata.json", b"{}"), type=_Metadata).cluster_id
    except msgspec.DecodeError as error:
        log.warning("metadata.json: %s", error)
        return ""
