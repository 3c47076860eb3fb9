"""The service as a process that can be killed: its own code from the store to HTTP, on the loop of a replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from installer.assisted.auth import Authenticator
from installer.rendezvous import settings as service_settings
from installer.rendezvous.api import serving
from installer.rendezvous.api.app import build
from installer.rendezvous.api.context import Service
from installer.rendezvous.clock import SteadyClock
from installer.rendezvous.prepare.installer import Job
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.store.database import Store
from installer.rendezvous.validations import requirements as hwreqs
from installer.testing.service.rendezvous_kit import SMALL, Keys

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

RELEASE = [{"url": "release.example/r@sha256:" + "0" * 64, "version": "4.18.0"}]
EMPTY: dict[str, Any] = {"ignition": {"version": "3.2.0"}}


def made(job: Job) -> dict[str, bytes]:
    """Return files as the payload's installer makes them, as far as hosts read them."""
    names = ["bootstrap.ign", "master.ign", "worker.ign", *(host.ignition_file for host in job.hosts)]
    return {
        **{name: json.dumps(EMPTY).encode() for name in names},
        "metadata.json": b'{"clusterID": "9b5a1b3e-0000-4000-8000-00000000000a"}',
        "kubeconfig": b"clusters: []",
        "kubeadmin-password": b"aaaaa-bbbbb-ccccc-ddddd",
    }


class Process:
    """One service over a folder; ``start`` again goes on from what is in it."""

    def __init__(
        self,
        folder: Path,
        keys: Keys,
        *,
        generate: Callable[[Job], dict[str, bytes]],
        observed: Callable[[web.Request, Handler], Awaitable[web.StreamResponse]],
        **env: str,
    ) -> None:
        self._generate = generate
        self.settings = service_settings.load(
            {
                "SERVICE_BASE_URL": "http://192.0.2.1:8090/",
                "EC_PUBLIC_KEY_PEM": keys.public_base64,
                "WORK_DIR": str(folder),
                "HW_VALIDATOR_REQUIREMENTS": SMALL,
                "REGISTRIES_CONF": str(folder / "registries.conf"),
                "INSTALLER_IMAGE": "r.example/installer@sha256:1",
                "AGENT_DOCKER_IMAGE": "agent",
                "RELEASE_IMAGES": json.dumps(RELEASE),
                "INSTALL_INVOKER": "assisted-installer",
                **env,
            }
        )
        self.store: Store | None = None
        self.service: Service | None = None
        self._runner: web.AppRunner | None = None
        self._observed = observed

    async def start(self) -> Callable[[], asyncio.Protocol]:
        """Start it. Returns what makes its end of a connection. Raises StoreError."""
        serving.prepare()
        store = self.store = Store(self.settings.db_path)
        engine = Engine(store, self.settings, hwreqs.load(self.settings), SteadyClock())
        auth = Authenticator(self.settings.auth_type, self.settings.public_key_pem)
        service = self.service = Service(engine, self.settings, auth, self._generate)
        app = build(service)
        observed = self._observed

        @web.middleware
        async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await observed(request, handler)

        app.middlewares.append(observe)
        runner = self._runner = web.AppRunner(app, access_log=None, auto_decompress=False)
        await runner.setup()
        assert runner.server is not None
        return runner.server

    async def end(self) -> None:
        """Clean up what a killed process has left: nothing of it reaches the store any more."""
        if self.store is not None:
            self.store.db.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self.store = self.service = self._runner = None
