"""Rehearsal of the registration: what the rendezvous service would refuse, judged before there is an image."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Mapping
from typing import TypeVar

from installer.assisted.errors import RendezvousError
from installer.rendezvous.client import manifests
from installer.rendezvous.resources import clusters, infra_envs
from installer.rendezvous.resources import manifests as extra_manifests
from installer.rendezvous.resources.requests.clusters import ClusterParams
from installer.rendezvous.resources.requests.hosts import InfraEnvParams
from installer.rendezvous.resources.requests.params import decoded
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, InfraEnv

T = TypeVar("T")
_INSTALL, _INFRA_ENV, _NMSTATE = (
    f"cluster-manifests/{name}.yaml" for name in ("agent-cluster-install", "infraenv", "nmstateconfig")
)


def refusals(
    files: Mapping[str, bytes], extra: Mapping[str, bytes], *, release_image: str, version: str
) -> list[tuple[str, str]]:
    """Return the files that the service would refuse at the registration, each with its reason.

    `files` are cluster-manifests/ by file name, `extra` the documents of openshift/.
    """
    try:
        parsed = manifests.parse(files)
    except RendezvousError as error:
        return [("cluster-manifests", str(error))]
    settings = Settings(release_image=release_image, openshift_version=version)
    found: list[tuple[str, str]] = []

    def attempt(name: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except RendezvousError as error:
            # Networks are sent with the infra-env, and have a file of their own.
            found.append((_NMSTATE if "static_network_config" in str(error) else name, str(error)))
            return None

    def new_cluster() -> Cluster:
        body = manifests.cluster_params(parsed, release_image, version)
        return clusters.new(settings, decoded(body, ClusterParams))

    cluster = attempt(_INSTALL, new_cluster)
    attempt(_INSTALL, lambda: clusters.checked_overrides(manifests.overrides(parsed)))

    def new_infra_env() -> InfraEnv:
        body = manifests.infra_env_params(parsed, cluster.id if cluster else str(uuid.uuid4()), "full-iso", version)
        return infra_envs.new(settings, decoded(body, InfraEnvParams), cluster, str(uuid.uuid4()))

    attempt(_INFRA_ENV, new_infra_env)
    for name, content in extra.items():
        attempt(f"openshift/{name}", functools.partial(extra_manifests.check_new, name, content))
    return found
