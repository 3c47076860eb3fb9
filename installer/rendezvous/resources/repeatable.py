"""Registrations with an id that the client has chosen: the same again is the same object, never a second one.

A digest of what was asked for is kept. While it is the same, nothing happens, whatever has become of the object since;
another body is an update by the object's own rules, and a conflict where it differs in what only a registration sets.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec

from installer.assisted.errors import BadRequest, Conflict
from installer.rendezvous import architectures
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, infra_envs, releases
from installer.rendezvous.resources.infra_envs import Check
from installer.rendezvous.resources.requests.clusters import Body, ClusterParams, ClusterUpdate
from installer.rendezvous.resources.requests.hosts import InfraEnvParams, InfraEnvUpdate
from installer.rendezvous.store.model import Cluster, InfraEnv

B = TypeVar("B", bound=Body)


def _digest(body: Body) -> str:
    return hashlib.sha256(msgspec.json.encode(body.sent_fields(), order="deterministic")).hexdigest()


def _update(body: Body, kind: type[B], item: Cluster | InfraEnv) -> B:
    """Return the part of a registration that can be updated. Raises Conflict where the rest differs from the object."""
    sent, names = body.sent_fields(), set(kind.__struct_fields__)
    fixed = [name for name in sent.keys() - names if sent[name] and _plain(sent[name]) != _plain(getattr(item, name))]
    if fixed:
        names_of = ", ".join(sorted(fixed))
        raise Conflict(f"{type(item).__name__} {item.id}: {names_of} can be chosen only when it is registered")
    return msgspec.convert({name: value for name, value in sent.items() if name in names}, kind)


def _plain(value: object) -> object:
    return architectures.NAMES.get(str(value), value)


def cluster(engine: Engine, cluster_id: str, body: ClusterParams) -> Cluster:
    """Register a cluster with this id, or update it to what is asked for now. Raises BadRequest, Conflict."""
    digest = _digest(body)
    existing = engine.store.find_cluster(cluster_id)
    if existing is None:
        version, image = body.openshift_version or "", body.ocp_release_image or ""
        if not releases.chosen(engine.catalogue, version, body.cpu_architecture or "", image).release_image:
            wanted = f"ocp_release_image {image}" if image else f"openshift_version {version}"
            raise BadRequest(f"{wanted}: this service does not know this release; name it by PUT /releases first")
        return clusters.register(engine, body, identity=cluster_id, request=digest)
    if existing.request == digest:
        return existing
    changes = _update(body, ClusterUpdate, existing)
    return clusters.update(engine, cluster_id, changes, request=digest)


def infra_env(engine: Engine, infra_env_id: str, body: InfraEnvParams, check: Check) -> InfraEnv:
    """Register an infra-env with this id, or update it to what is asked for now. Raises BadRequest, Conflict."""
    digest = _digest(body)
    existing = engine.store.find_infra_env(infra_env_id)
    if existing is None:
        return infra_envs.register(engine, body, check, identity=infra_env_id, request=digest)
    if existing.request == digest:
        return existing
    changes = _update(body, InfraEnvUpdate, existing)
    return infra_envs.update(engine, infra_env_id, changes, check, request=digest)
