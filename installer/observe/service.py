"""The rendezvous service, asked as a watcher with what the asset directory holds."""

from __future__ import annotations

from dataclasses import dataclass

from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import Timeouts, address, endpoint
from installer.observe.state import Inputs


@dataclass(frozen=True)
class Reach:
    """Where service and cluster are asked, and how long they may take, in seconds."""

    rest_port: int = 8090
    connect_timeout: float = 3.0
    read_timeout: float = 10.0


def watcher(inputs: Inputs, reach: Reach) -> AssistedClient:
    """A client that trusts the asset directory's CA alone."""
    scheme = "https" if inputs.ca_pem else "http"
    server = endpoint(f"{scheme}://{address(inputs.rendezvous_ip)}:{reach.rest_port}", ca_pem=inputs.ca_pem)
    timeouts = Timeouts(connect=reach.connect_timeout, silence=reach.read_timeout)
    return AssistedClient(server, Scheme.WATCHER, inputs.token, timeouts=timeouts)
