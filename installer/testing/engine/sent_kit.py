"""Callers' requests as JSON objects: decoded as the API does, then done."""

from __future__ import annotations

from typing import Any

from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, hostchanges, infra_envs, manifests, replies
from installer.rendezvous.resources.requests import clusters as requests
from installer.rendezvous.resources.requests import hosts as hostrequests
from installer.rendezvous.resources.requests.params import decoded
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, Manifest

Json = dict[str, Any]


def register_cluster(engine: Engine, body: Json) -> Cluster:
    """Register a cluster with the body of a request."""
    return clusters.register(engine, decoded(body, requests.ClusterParams))


def update_cluster(engine: Engine, cluster_id: str, body: Json) -> Cluster:
    """Change a cluster by the body of a request."""
    return clusters.update(engine, cluster_id, decoded(body, requests.ClusterUpdate))


def ignore(engine: Engine, cluster_id: str, body: Json) -> Cluster:
    """Ignore validations by the body of a request."""
    return clusters.ignore(engine, cluster_id, decoded(body, requests.IgnoredValidations))


def put_manifest(engine: Engine, cluster_id: str, body: Json) -> Manifest:
    """Put a manifest by the body of a request."""
    return manifests.put(engine, cluster_id, decoded(body, requests.ManifestParams))


def register_infra_env(engine: Engine, body: Json) -> InfraEnv:
    """Register an infra-env with the body of a request."""
    return infra_envs.register(engine, decoded(body, hostrequests.InfraEnvParams))


def update_infra_env(engine: Engine, infra_env_id: str, body: Json) -> InfraEnv:
    """Change an infra-env by the body of a request."""
    return infra_envs.update(engine, infra_env_id, decoded(body, hostrequests.InfraEnvUpdate))


def update_host(engine: Engine, infra_env_id: str, host_id: str, body: Json) -> Host:
    """Change a host by the body of a request."""
    return hostchanges.update(engine, infra_env_id, host_id, decoded(body, hostrequests.HostUpdate))


def receive(engine: Engine, infra_env_id: str, host_id: str, body: Json) -> None:
    """Take a step's answer."""
    replies.receive(engine, infra_env_id, host_id, decoded(body, hostrequests.StepReply))
