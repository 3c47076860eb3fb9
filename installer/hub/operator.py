"""The operator as a process: its own or another's service, the controllers, the lease, the end by a signal."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from installer.assisted.auth import Scheme
from installer.assisted.endpoint import endpoint
from installer.common.inputs import read_text
from installer.errors import ConfigError
from installer.files import write_whole
from installer.hub.admission.webhook import Authorities, Place, Registrar
from installer.hub.admission.webhook import served as webhook_served
from installer.hub.controllers.agent import AgentController
from installer.hub.controllers.bmh import BareMetalHostController, redfish_machine
from installer.hub.controllers.classification import ClassificationController
from installer.hub.controllers.cluster import ClusterController
from installer.hub.controllers.deployment import DeploymentController
from installer.hub.controllers.hostparts import DataImageController, FirmwareSettingsController
from installer.hub.controllers.infraenv import InfraEnvController
from installer.hub.controllers.joining import JoiningController
from installer.hub.controllers.preprovisioning import PreprovisioningImageController
from installer.hub.controllers.serviceconfig import Converged, HypershiftController, ServiceConfigController
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import CONFIG_MAP, CUSTOM, SECRET, Key
from installer.hub.kube.lease import Leader
from installer.hub.kube.manager import Controller, Hub, Manager
from installer.hub.metrics import served
from installer.hub.service import HubClient

log = logging.getLogger("node0-hub")
NAMESPACE = "node0-hub"
KINDS = (*CUSTOM, CONFIG_MAP, SECRET)
CONTROLLERS: tuple[Callable[[Hub], Controller], ...] = (
    BareMetalHostController,
    PreprovisioningImageController,
    DataImageController,
    FirmwareSettingsController,
    InfraEnvController,
    DeploymentController,
    ClusterController,
    AgentController,
    JoiningController,
    ClassificationController,
    HypershiftController,
)
# Of the service's process (s): until it has made its certificates and tokens, until it has ended.
_START_SECONDS, _END_SECONDS = 120.0, 30.0
# Between two starts of a service that has ended (s).
_FIRST_WAIT, _LAST_WAIT = 1.0, 60.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ServiceAccess:
    """A running service: its CA is one of the system's where ``ca_file`` is None."""

    url: str
    token_file: Path
    ca_file: Path | None
    #: Its folder of mirrors, where that is the operator's to write.
    mirror: Path | None = None

    def client(self) -> HubClient:
        """Return a client of it. Raises ConfigError, ClientError."""
        try:
            token = read_text(self.token_file).strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"--token {self.token_file}: cannot be read: {error}") from None
        return HubClient(endpoint(self.url, ca_file=self.ca_file), Scheme.USER, token)


class OwnService:
    """A service in a folder, as ``node0 service`` runs it, started again when it ends by itself."""

    def __init__(self, directory: Path, listen: str) -> None:
        self.access = ServiceAccess(
            f"https://{listen}/", directory / "auth/user-token", directory / "tls/ca.crt", directory / "mirror"
        )
        self._command = [sys.executable, "-m", "installer", "service", "--dir", str(directory), "--listen", listen]
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends the service with the thread that started it, so that thread stays.
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)

    def __enter__(self) -> ServiceAccess:
        """Start it, and wait for the files that a client needs. Raises ConfigError."""
        self._thread.start()
        try:
            self._wait_for_files()
        except BaseException:
            self.__exit__()
            raise
        return self.access

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            self._thread.join(_END_SECONDS)

    def _wait_for_files(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        files = [path for path in (self.access.token_file, self.access.ca_file) if path]
        while not all(path.is_file() for path in files):
            if not self._thread.is_alive():
                raise ConfigError("the service did not start: see its message above")
            if time.monotonic() > deadline:
                raise ConfigError(f"the service has made no {self.access.token_file} in {_START_SECONDS:.0f} s")
            self._stop.wait(0.1)

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._stop.is_set():
            began = time.monotonic()
            self._process = subprocess.Popen(self._command, preexec_fn=_die_with_parent)
            code = self._process.wait()
            if self._stop.is_set():
                return
            lasted = time.monotonic() - began
            if lasted < _LAST_WAIT and not self.access.token_file.is_file():
                return  # it never ran
            wait = _FIRST_WAIT if lasted > _LAST_WAIT else min(wait * 2, _LAST_WAIT)
            log.error("the service has ended with %d; it is started again in %.0f s", code, wait)
            self._stop.wait(wait * random.uniform(0.8, 1.2))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)


def identity(directory: Path) -> str:
    """Return the operator's name for the lease: the same for each start with this folder."""
    path = directory / "operator-id"
    try:
        return read_text(path).strip()
    except FileNotFoundError:
        name = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        write_whole(path, name.encode() + b"\n", 0o644)
        return name


def run(
    directory: Path,
    kubeconfig: Path | None,
    service: contextlib.AbstractContextManager[ServiceAccess],
    *,
    metrics: tuple[str, int] | None = None,
    webhook: tuple[str, int] | None = None,
    bmc_ca: Path | None = None,
) -> int:
    """Run until SIGTERM or SIGINT; ``metrics`` and ``webhook``: address and port to serve them at; ``bmc_ca``: the
    authorities of BMCs' certificates, in place of the system's.

    Raises InstallerError for what cannot be used.
    """
    machines = partial(redfish_machine, authorities=str(bmc_ca or ""))
    namespace = os.environ.get("POD_NAMESPACE", NAMESPACE)
    lease_api = Api.connect(kubeconfig)  # a kubeconfig that is none is refused before anything is started
    name = identity(directory)
    stop = threading.Event()
    with service as access, _stopped_by_signals(stop):
        leader = Leader(lease_api, Key(namespace, "node0-hub"), name)
        api = Api.connect(kubeconfig, may_write=leader.is_leading, requests=lease_api.requests)
        manager = Manager(api, access.client(), KINDS, leader)
        log.info("operator %s, API %s, service %s", name, api, access.url)
        with contextlib.ExitStack() as serving:
            if metrics:
                serving.enter_context(served(manager, leader.is_leading, metrics))
            if webhook:
                # Within a cluster there is a Service; anywhere else the API server is given the address.
                place = Place(*webhook, service_namespace="" if kubeconfig else namespace)
                serving.enter_context(_webhooks(place, lease_api, leader, stop))
            settings = ServiceConfigController(manager.hub, access.mirror, namespace)
            converged = Converged(manager.hub, namespace)
            hosts = partial(BareMetalHostController, machines=machines, is_converged=converged)
            made = (hosts if make is BareMetalHostController else make for make in CONTROLLERS)
            manager.run([settings, *(make(manager.hub) for make in made)], stop)
    log.info("ended")
    return 0


@contextlib.contextmanager
def _webhooks(place: Place, api: Api, leader: Leader, stop: threading.Event) -> Iterator[None]:
    """Serve the webhooks, and have the API server call them while this operator leads, for the length of the block."""
    authorities = Authorities(place.names)
    registrar = Registrar(api, place, authorities, leader.is_leading)
    with webhook_served(place, authorities):
        thread = threading.Thread(target=registrar.run, args=(stop,), name="webhooks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_END_SECONDS)
            registrar.end()


@contextlib.contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Have the signals that end a command set the event instead: what is under way is brought to its end."""

    def on_signal(number: int, _frame: object) -> None:
        log.info("%s: ending", signal.Signals(number).name)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
