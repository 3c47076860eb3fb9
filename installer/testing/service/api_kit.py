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
from installer.rendezvous.api.context import Bucket, Generate, Service
from installer.rendezvous.api.handlers.routes import NOT_OFFERED, ROUTES
from installer.testing.engine.fleet_kit import Fleet, discovered
from installer.testing.engine.world_kit import World
from installer.testing.service.rendezvous_kit import make_keys

KEYS = make_keys()
TOKENS = {scheme: KEYS.token(scheme.value) for scheme in Scheme}
EVERY = (*((m, p, s) for m, p, s, _ in ROUTES), *((m, p, frozenset({Scheme.USER})) for m, p, _ in NOT_OFFERED))
UUID = "6d3f6d5a-0000-4000-8000-000000000000"
Use = Callable[[TestClient[Any, Any], Fleet], Awaitable[None]]


def service_of(world: World, generate: Generate = lambda job: {}) -> Service:
    """Return a service over this world that takes `KEYS`' tokens."""
    auth = Authenticator("agent-installer-local", KEYS.public_base64)
    return Service(world.engine, world.engine.settings, auth, generate)


def secured(directory: Path, count: int = 3, /, **env: str) -> Fleet:
    """Hosts that have answered everything, on a service that wants tokens."""
    return discovered(directory, count, AUTH_TYPE="agent-installer-local", EC_PUBLIC_KEY_PEM=KEYS.public_base64, **env)


def serve(directory: Path, use: Use, **env: str) -> None:
    """Serve the application in this process over a cluster of three hosts."""
    fleet = secured(directory, **env)

    async def run() -> None:
        server = TestServer(build(service_of(fleet.world)))
        await server.start_server(auto_decompress=False)  # as api/serving.py has it
        async with TestClient(server) as client:
            await use(client, fleet)

    try:
        asyncio.run(run())
    finally:
        fleet.world.store.close()


@contextmanager
def no_brakes() -> Iterator[None]:
    """Everybody may ask as often as they like."""
    with mock.patch.object(Bucket, "take", return_value=None):
        yield


def filled(path: str, fleet: Fleet | None = None) -> str:
    """Return a route's path with the ids of a fleet, or of nothing that there is."""
    values = {
        "cluster_id": fleet.cluster_id if fleet else UUID,
        "infra_env_id": fleet.infra_env_id if fleet else UUID,
        "host_id": fleet.machines[0].id if fleet else UUID,
    }
    return BASE + re.sub(r"\{([a-z_]+)\}", lambda match: values.get(match[1], "x"), path)


#: What a body of JSON that is not sent as such by the client says of itself.
JSON = {"Content-Type": "application/json"}


def header(scheme: Scheme, **claims: Any) -> dict[str, str]:
    """Return the header that authenticates by this scheme: always the same token, as clients have it, but for other
    claims."""
    return {HEADERS[scheme]: KEYS.token(scheme.value, **claims) if claims else TOKENS[scheme]}
