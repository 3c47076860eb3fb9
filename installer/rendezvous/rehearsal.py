"""Rehearsal of the registration: what the rendezvous service would refuse, judged before there is an image."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
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
_INSTALL, _DEPLOYMENT, _INFRA_ENV, _NMSTATE = (
    f"{name}.yaml" for name in ("agent-cluster-install", "cluster-deployment", "infraenv", "nmstateconfig")
)
#: The fields of the API by the manifest that has them, their paths there, and their paths in install-config.yaml.
_FIELDS = {
    "base_dns_domain": (_DEPLOYMENT, "spec.baseDomain", "baseDomain"),
    "name": (_DEPLOYMENT, "spec.clusterName", "metadata.name"),
    "ssh_public_key": (_INSTALL, "spec.sshPublicKey", "sshKey"),
    "ssh_authorized_key": (_INFRA_ENV, "spec.sshAuthorizedKey", "sshKey"),
    "network_type": (_INSTALL, "spec.networking.networkType", "networking.networkType"),
    "additional_ntp_sources": (_INFRA_ENV, "spec.additionalNTPSources", "additionalNTPSources"),
    "additional_trust_bundle": (_INFRA_ENV, "spec.additionalTrustBundle", "additionalTrustBundle"),
    **{
        f"{prefix}{kind}_proxy": (file, f"spec.proxy.{kind}Proxy", f"proxy.{kind}Proxy")
        for prefix, file in (("", _INSTALL), ("proxy.", _INFRA_ENV))
        for kind in ("http", "https", "no")
    },
    **{
        f"{kind}_networks": (_INSTALL, f"spec.networking.{kind}Network", f"networking.{kind}Network")
        for kind in ("machine", "service", "cluster")
    },
}
_FIELD = re.compile(rf"({'|'.join(map(re.escape, _FIELDS))})(?![\w.])")


def refusals(
    files: Mapping[str, bytes],
    extra: Mapping[str, bytes],
    *,
    release_image: str,
    version: str,
    generated: Collection[str] = (),
) -> list[tuple[str, str]]:
    """Return the files that the service would refuse at the registration, each with its reason.

    `files` are cluster-manifests/ by file name, `extra` the documents of openshift/. For those that are `generated`
    the configs are named, which they were made of.
    """
    try:
        parsed = manifests.parse(files)
    except RendezvousError as error:
        return [("cluster-manifests", str(error))]
    settings = Settings(release_image=release_image, openshift_version=version)
    found: dict[tuple[str, str], None] = {}

    def attempt(name: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except RendezvousError as error:
            found.update(dict.fromkeys(_written(name, str(error), generated)))
            return None

    def new_cluster() -> Cluster:
        body = manifests.cluster_params(parsed, release_image, version)
        return clusters.new(settings, decoded(body, ClusterParams))

    cluster = attempt(_INSTALL, new_cluster)
    attempt(f"{_INSTALL}: {manifests.OVERRIDES}", lambda: clusters.checked_overrides(manifests.overrides(parsed)))

    def new_infra_env() -> InfraEnv:
        body = manifests.infra_env_params(parsed, cluster.id if cluster else str(uuid.uuid4()), "full-iso", version)
        return infra_envs.new(settings, decoded(body, InfraEnvParams), cluster, str(uuid.uuid4()))

    attempt(_INFRA_ENV, new_infra_env)
    for name, content in extra.items():
        attempt(f"openshift/{name}", functools.partial(extra_manifests.check_new, name, content))
    return [*found]


def _written(name: str, reason: str, generated: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each problem of a reason with the user's file, and fields by the names that they have there."""
    if "static_network_config" in reason:  # sent with the infra-env
        name = _NMSTATE
    for text in re.split(rf"; (?={_FIELD.pattern})", reason.removeprefix("body: "))[:: _FIELD.groups + 1]:
        match = _FIELD.match(text)
        file, path, config_path = _FIELDS[match[1]] if match else (name, "", "")
        manifest = file.partition(":")[0]
        config = "agent-config.yaml" if manifest == _NMSTATE or "NTP" in path else "install-config.yaml"
        if not file.startswith("openshift/"):
            file = config if manifest in generated else f"cluster-manifests/{file}"
        yield file, f"{config_path if manifest in generated else path}{text[match.end() :]}" if match else text
