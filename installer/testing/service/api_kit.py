"""The application with its tokens, in this process and over a cluster of three hosts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from aiohttp.test_utils import TestClient, TestServer

from installer.assisted.auth import HEADERS, Authenticator, Scheme
from installer.assisted.endpoint import BASE
from installer.rendezvous.api.app import build
from installer.rendezvous.api.context import Service
from installer.rendezvous.api.handlers.routes import NOT_OFFERED, ROUTES
from installer.rendezvous.api.limits import Bucket
from installer.testing.engine.fleet_kit import Fleet, Machine, Network
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import make_keys

KEYS = make_keys()


EVERY = (*((m, p, s) for m, p, s, _ in ROUTES), *((m, p, frozenset({Scheme.USER})) for m, p, _ in NOT_OFFERED))


UUID = "6d3f6d5a-0000-4000-8000-000000000000"


Use = Callable[[TestClient[Any, Any], Fleet], Awaitable[None]]


def serve(directory: Path, use: Use, **env: str) -> None:
    """The application in this process over a cluster of three hosts."""
    world = World(directory, AUTH_TYPE="agent-installer-local", EC_PUBLIC_KEY_PEM=KEYS.public_base64, **env)
    network = Network()
    fleet = Fleet(world, [Machine(number, network) for number in range(3)])
    fleet.discover()
    service = Service(
        world.engine, world.engine.settings, Authenticator("agent-installer-local", KEYS.public_base64), lambda job: {}
    )

    async def run() -> None:
        server = TestServer(build(service))
        await server.start_server(auto_decompress=False)  # as api/serving.py has it
        async with TestClient(server) as client:
            await use(client, fleet)

    try:
        asyncio.run(run())
    finally:
        world.store.close()


@contextmanager
def no_brakes() -> Iterator[None]:
    """Everybody may ask as often as they like."""
    with mock.patch.object(Bucket, "take", return_value=None):
        yield


def filled(path: str, fleet: Fleet | None = None) -> str:
    """A route's path with the ids of a fleet, or of nothing that there is."""
    values = {
        "cluster_id": fleet.cluster_id if fleet else UUID,
        "infra_env_id": fleet.infra_env_id if fleet else UUID,
        "host_id": fleet.machines[0].id if fleet else UUID,
    }
    return BASE + re.sub(r"\{([a-z_]+)\}", lambda match: values.get(match[1], "x"), path)


#: What a body of JSON that is not sent as such by the client says of itself.
JSON = {"Content-Type": "application/json"}


def header(scheme: Scheme, **claims: Any) -> dict[str, str]:
    """The header that authenticates by this scheme."""
    return {HEADERS[scheme]: KEYS.token(scheme.value, **claims)}
