"""The rendezvous service, asked as a watcher with what the asset directory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Endpoint, Timeouts, address, endpoint
from installer.assisted.errors import ClientError
from installer.observe.state import Inputs


@dataclass(frozen=True)
class Reach:
    """Access to service and cluster, and their deadlines, in seconds."""

    rest_port: int = 8090
    connect_timeout: float = 3.0
    read_timeout: float = 10.0


def service_endpoint(inputs: Inputs, reach: Reach) -> Endpoint:
    """Return the service's address; it speaks TLS where the asset directory has a CA."""
    scheme = "https" if inputs.ca_pem else "http"
    return endpoint(f"{scheme}://{address(inputs.rendezvous_ip)}:{reach.rest_port}", ca_pem=inputs.ca_pem)


def watcher(inputs: Inputs, reach: Reach) -> AssistedClient:
    """Return a client that trusts the asset directory's CA alone."""
    timeouts = Timeouts(connect=reach.connect_timeout, silence=reach.read_timeout)
    return AssistedClient(service_endpoint(inputs, reach), Scheme.WATCHER, inputs.token, timeouts=timeouts)


def hosts(service: AssistedClient, infra_env_id: str) -> list[dict[str, Any]]:
    """Return the infra-env's hosts; where the service does not let a watcher ask for these, the hosts of all clusters.

    OpenShift's own service does not: its watchers see infra-envs, clusters and events alone. Raises ClientError.
    """
    try:
        return service.hosts(infra_env_id)
    except ClientError as error:
        if error.status not in (401, 403):
            raise
    whole = [service.cluster(str(cluster.get("id"))) for cluster in service.clusters()]
    return [host for cluster in whole for host in cluster.get("hosts") or []]
