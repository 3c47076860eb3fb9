"""The two services, each a process of its own on a free port of this machine, with the same settings and tokens."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from ci.bench.oracle.programs import HOME_VARIABLE
from ci.bench.oracle.service.payload import write_installer
from installer.testing.service.rendezvous_kit import Keys, free_port, make_keys
from installer.testing.service.words_kit import COMMAND, HEADERS, Scheme
from lab.waiting import wait_until

BASE = "/api/assisted-install/v2"
ROOT = Path(__file__).parents[4]
BRAKED = 429
VERSION = "4.20.1"
RELEASE = f"registry.bench.node0.example/ocp/release@sha256:{'1' * 64}"
AGENT_IMAGE = f"registry.bench.node0.example/ocp/agent@sha256:{'2' * 64}"
_PART = "registry.bench.node0.example/ocp/{}@sha256:" + "3" * 64
_POSTGRES = "/usr/lib/postgresql/15/bin"
_HINT = """{home}/bin/assisted-service: no such program. This comparison, and nothing else, needs one, and Debian's
postgresql-15; ORACLE_HOME names another directory."""
# OpenShift's own (configure-assisted-hw-requirements.sh of its agent-based installer).
_MASTER = {"cpu_cores": 4, "ram_mib": 16384, "disk_size_gb": 100, "installation_disk_speed_threshold_ms": 10}
_WORKER = {"cpu_cores": 2, "ram_mib": 8192, "disk_size_gb": 100, "installation_disk_speed_threshold_ms": 10}
_LINK, _FAR = {"network_latency_threshold_ms": 100, "packet_loss_percentage": 0}, {"network_latency_threshold_ms": 1000}
REQUIREMENTS = [
    {
        "version": "default",
        "master": {**_MASTER, **_LINK},
        "arbiter": {**_WORKER, **_FAR, "disk_size_gb": 50, "packet_loss_percentage": 0},
        "worker": {**_WORKER, **_FAR, "packet_loss_percentage": 10},
        "sno": {**_MASTER, "cpu_cores": 8},
        "edge-worker": {**_WORKER, **_FAR, "disk_size_gb": 15, "packet_loss_percentage": 10},
    }
]
# What the service asks of a release's registry.
_OC = f"""#!/bin/sh
case "$*" in
  *"release info"*) echo {_PART.format("part")} ;;
  *) echo "not known: $*" >&2; exit 1 ;;
esac
"""


@dataclass(frozen=True)
class Answer:
    """What a service answered: the status code, and the body's JSON (its text where it is not JSON)."""

    code: int
    body: Any = None


@dataclass
class Api:
    """One of the services, as its clients see it. Each thread keeps a connection."""

    name: str
    port: int
    keys: Keys
    _: KW_ONLY
    _local: threading.local = field(default_factory=threading.local)
    _opened: list[http.client.HTTPConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._headers = {scheme: {HEADERS[scheme]: self.keys.token(scheme.value)} for scheme in Scheme}

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        scheme: Scheme | None = Scheme.USER,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; ``body``: bytes as they are, anything else as JSON; no scheme: no token."""
        sent = {**(self._headers[scheme] if scheme else {}), **(headers or {})}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        for attempt in (0, 1):
            connection = self._connection(anew=attempt == 1)
            try:
                while True:
                    target = path if path.startswith("/api") else BASE + path
                    connection.request(method, target, body=data, headers=sent)
                    answer = connection.getresponse()
                    body = answer.read()
                    if answer.status != BRAKED:
                        return Answer(answer.status, _decoded(body))
                    # node0's service slows callers without a valid token down, and says for how long.
                    time.sleep(float(answer.headers["Retry-After"]))
            except (http.client.HTTPException, OSError):
                # The service may have closed a kept connection; an error on a new one counts as its answer.
                if attempt:
                    self._local.connection = None
                    return Answer(0)
        raise AssertionError("unreachable")

    def _connection(self, *, anew: bool) -> http.client.HTTPConnection:
        connection = getattr(self._local, "connection", None)
        if connection is None or anew:
            if connection is not None:
                connection.close()
            connection = self._local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self._opened.append(connection)
        return connection

    def close(self) -> None:
        """End all connections."""
        for connection in self._opened:
            connection.close()

    def is_ready(self) -> bool:
        """Whether it answers."""
        return self.ask("GET", "/clusters").code == 200


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode(errors="replace")


def service_home() -> Path:
    """$ORACLE_HOME, else ~/.cache/oracle. Raises SystemExit, saying what belongs there, where there is none."""
    home = Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".cache/oracle")
    if not os.access(home / "bin/assisted-service", os.X_OK):
        raise SystemExit(_HINT.format(home=home))
    return home


def settings(keys: Keys, port: int, directory: Path) -> dict[str, str]:
    """The environment that both get, as the agent-based installer's assisted-service.env has it."""
    return {
        "PATH": f"{directory}/bin:{os.environ['PATH']}",
        "HOME": str(directory),
        "AUTH_TYPE": "agent-installer-local",
        "EC_PUBLIC_KEY_PEM": keys.public_base64,
        "SERVICE_BASE_URL": f"http://127.0.0.1:{port}",
        "WORK_DIR": str(directory / "data"),
        "HW_VALIDATOR_REQUIREMENTS": json.dumps(REQUIREMENTS),
        "INSTALL_INVOKER": "agent-installer",
        "AGENT_DOCKER_IMAGE": AGENT_IMAGE,
        "INSTALLER_IMAGE": _PART.format("installer"),
        "CONTROLLER_IMAGE": _PART.format("controller"),
        "RELEASE_IMAGES": json.dumps(
            [
                {
                    "openshift_version": VERSION.rsplit(".", 1)[0],
                    "version": VERSION,
                    "url": RELEASE,
                    "cpu_architecture": "x86_64",
                    "cpu_architectures": ["x86_64"],
                    "default": True,
                    "support_level": "production",
                }
            ]
        ),
        "OS_IMAGES": json.dumps(
            [{"openshift_version": VERSION.rsplit(".", 1)[0], "cpu_architecture": "x86_64", "url": "", "version": "1"}]
        ),
    }


@contextmanager
def _process(argv: list[str], env: Mapping[str, str], directory: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(argv, env=dict(env), cwd=directory, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answering(api: Api, process: subprocess.Popen[bytes], directory: Path) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"{api.name} ended: {(directory / f'{api.name}.log').read_text()[-2000:]}")
    return api.is_ready()


@contextmanager
def theirs(home: Path, keys: Keys, directory: Path, **changes: str) -> Iterator[Api]:
    """The real assisted-service and its database."""
    directory.mkdir()
    (directory / "bin").mkdir()
    (directory / "data").mkdir()
    oc = directory / "bin/oc"
    oc.write_text(_OC)
    oc.chmod(0o755)
    port = free_port()
    with _database(directory) as database, _arbiter_ignition(directory / "data"), ExitStack() as stack:
        env = {
            **settings(keys, port, directory),
            **database,
            "DEPLOY_TARGET": "onprem",
            "STORAGE": "filesystem",
            "DUMMY_IGNITION": "true",
            "ENABLE_IMAGE_SERVICE": "false",
            "IPV6_SUPPORT": "true",
            "DISK_ENCRYPTION_SUPPORT": "true",
            "TNA_CLUSTERS_SUPPORT": "true",
            "TNF_CLUSTERS_SUPPORT": "true",
            "ENABLE_SINGLE_NODE_DNSMASQ": "true",
            "NTP_DEFAULT_SERVER": "",
            "PUBLIC_CONTAINER_REGISTRIES": RELEASE.split("/")[0],
            "LOG_LEVEL": "info",
            "HOST_MONITOR_INTERVAL": "2s",
            "CLUSTER_MONITOR_INTERVAL": "2s",
            # Longer than the comparison takes.
            "HOST_MAX_DISCONNECTION_TIME": "3h",
            **changes,
        }
        argv = [str(home / "bin/assisted-service"), "-port", str(port)]
        process = stack.enter_context(_process(argv, env, directory, "theirs"))
        api = stack.enter_context(closing(Api("theirs", port, keys)))
        wait_until(lambda: _answering(api, process, directory), 120, "the real service's first answer")
        yield api


@contextmanager
def _arbiter_ignition(data: Path) -> Iterator[None]:
    """Give what the real service's own stand-in for the payload's installer forgets: Ignition for arbiters.

    It makes the other files in a folder with a random name and sends them right afterwards; a client that comes too
    late finds the cluster ready again (installing.py).
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.001):
            for folder in data.glob("install-config-generate/*.*/"):
                # It goes when all is sent.
                with suppress(OSError):
                    (folder / "arbiter.ign").touch()

    thread = threading.Thread(target=run, name="arbiter.ign")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _database(directory: Path) -> Iterator[dict[str, str]]:
    # It will not run as root, and its user has to reach its files.
    port = free_port()
    place = Path(tempfile.mkdtemp(prefix="oracle-db-"))
    shutil.chown(place, "postgres")
    as_user = ["runuser", "-u", "postgres", "--"]
    try:
        make = [*as_user, f"{_POSTGRES}/initdb", "-D", str(place / "db"), "-A", "trust", "-U", "admin", "--no-sync"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=place)
        options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(place), "-c", "fsync=off", "-c", "max_connections=120"]
        argv = [*as_user, f"{_POSTGRES}/postgres", "-D", str(place / "db"), *options]
        with _process(argv, os.environ, directory, "database"):
            ready = [f"{_POSTGRES}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, 60, "the database's first answer")
            create = ["createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "admin", "installer"]
            subprocess.run(create, check=True)
            yield {
                "DB_HOST": "127.0.0.1",
                "DB_PORT": str(port),
                "DB_NAME": "installer",
                "DB_USER": "admin",
                "DB_PASS": "admin",
            }
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def ours(keys: Keys, directory: Path, **changes: str) -> Iterator[Api]:
    """The rendezvous service of this checkout."""
    directory.mkdir()
    port = free_port()
    env = {
        **settings(keys, port, directory),
        "PYTHONPATH": str(ROOT),
        "LISTEN_HOST": "127.0.0.1",
        "LISTEN_PORT": str(port),
        "MONITOR_INTERVAL": "1s",
        "HOST_DISCONNECTION_TIMEOUT": "3h",
        **changes,
    }
    with _process([*COMMAND], env, directory, "ours") as process:
        api = Api("ours", port, keys)
        with closing(api):
            wait_until(lambda: _answering(api, process, directory), 60, "node0's service's first answer")
            yield api


@contextmanager
def both(directory: Path) -> Iterator[tuple[Api, Api]]:
    """The real service and node0's, side by side."""
    keys = make_keys()
    program = write_installer(directory / "openshift-install")
    with (
        theirs(service_home(), keys, directory / "theirs") as left,
        ours(keys, directory / "ours", INSTALLER_BINARY=str(program)) as right,
    ):
        yield left, right
