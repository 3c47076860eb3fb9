"""Bodies of requests that the specification does not have: those of a hub's operations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from installer.rendezvous.resources.requests.clusters import Body, Uuid


class ReleaseParams(Body, frozen=True, kw_only=True):
    """A release image that a hub names, and the pull secret to read it with."""

    image: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    pull_secret: str


class ImportParams(Body, frozen=True, kw_only=True):
    """import-cluster-params; a hub need not know the cluster's own id."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", max_length=54)]
    api_vip_dnsname: str
    openshift_cluster_id: Uuid | None = None
    openshift_version: str | None = None


class Joined(Body, frozen=True, kw_only=True):
    """The stage of a host that was added, as it is seen at its Node."""

    current_stage: Literal["Joined", "Done"]
