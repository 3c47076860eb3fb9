"""The service as a process that can be killed: its own code from the store to HTTP, on the loop of a replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

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
from installer.rendezvous.store.logs import free_space
from installer.rendezvous.validations import requirements as hwreqs
from installer.testing.service.rendezvous_kit import SMALL, Keys

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

RELEASE = [{"url": "release.example/r@sha256:" + "0" * 64, "version": "4.18.0"}]
#: The file of each config that says in which attempt it was made.
MARK = "/etc/attempt"


def made(job: Job) -> dict[str, bytes]:
    """Return files as the payload's installer makes them, as far as hosts read them."""
    names = ["bootstrap.ign", "master.ign", "worker.ign", *(host.ignition_file for host in job.hosts)]
    mark = {"path": MARK, "mode": 0o644, "contents": {"source": f"data:,{job.cluster.attempt}"}}
    config = {"ignition": {"version": "3.2.0"}, "storage": {"files": [mark]}}
    return {
        **{name: json.dumps(config).encode() for name in names},
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
        changed: Callable[[], None],
        **env: str,
    ) -> None:
        self._generate, self._changed = generate, changed
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
        ring = store.announce

        def announce() -> None:
            ring()
            self._changed()

        store.announce = announce
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

    def fill(self, is_full: bool) -> None:
        """Let the disk be full, or free again: SQLite and the logs get no more of it than they have."""
        if self.store is not None and self.service is not None:
            (pages,) = self.store.db.execute("PRAGMA page_count").fetchone()
            self.store.db.execute(f"PRAGMA max_page_count={pages if is_full else 1 << 30}")
            self.service.logs.free_bytes = (lambda path: 0) if is_full else free_space

    async def kill(self) -> None:
        """End it as SIGKILL does: nothing of it reaches the store any more."""
        store, runner = self.store, self._runner
        self.store = self.service = self._runner = None
        if store is not None:
            store.db.close()
        if runner is not None:
            await runner.cleanup()
