"""`node0 service` in its own process, over a release in a real registry, with the public client's APIs towards it."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import assisted_service_client as public
import pytest

from installer.assisted.auth import HEADERS, Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.common.ports import free_port
from installer.hub.service import HubClient
from installer.ignition.live import IMAGE_VARIABLES
from installer.release.access import registries_conf
from installer.testing.create.image_kit import COMPONENTS
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import MISSING, Registry, registry
from installer.testing.engine.fleet_kit import Machine
from installer.testing.service.rendezvous_kit import SMALL, bare_environment, wait_for

AGENT = IMAGE_VARIABLES["AGENT_DOCKER_IMAGE"]
APIS = ("InstallerApi", "EventsApi", "ManifestsApi", "OperatorsApi", "VersionsApi", "ManagedDomainsApi")
INSTALLER = """#!/usr/bin/env python3
import json, pathlib, sys
work = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
assert (work / "install-config.yaml").is_file()
if sys.argv[2] == "manifests":
    (work / "manifests").mkdir(); (work / "openshift").mkdir()
else:
    empty = json.dumps({"ignition": {"version": "3.2.0"}})
    for name in ("bootstrap-in-place-for-live-iso.ign", "bootstrap.ign", "master.ign", "metadata.json"):
        (work / name).write_text(empty)
    merge = [{"source": "https://api-int.lab.example:22623/config/worker"}]
    tls = {"certificateAuthorities": [{"source": "data:text/plain;charset=utf-8;base64,Y2E="}]}
    worker = {"version": "3.2.0", "config": {"merge": merge}, "security": {"tls": tls}}
    (work / "worker.ign").write_text(json.dumps({"ignition": worker}))
    (work / "metadata.json").write_text('{"clusterID": "9b5a1b3e-0000-4000-8000-00000000000a"}')
    (work / "auth").mkdir()
    (work / "auth/kubeconfig").write_text("clusters: []")
    (work / "auth/kubeadmin-password").write_text("aaaaa-bbbbb-ccccc-ddddd")
"""


NEEDED = [*MISSING, *(["xorriso"] if shutil.which("xorriso") is None else [])]
MARKS = [
    pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}"),
    # The generated client is what it is.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
#: A host's static network.
STATIC = {
    "network_yaml": "interfaces:\n- name: eth0\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n"
    "    dhcp: false\n    address:\n    - ip: 192.168.111.80\n      prefix-length: 24\n",
    "mac_interface_map": [{"mac_address": "52:54:00:00:01:00", "logical_nic_name": "eth0"}],
}


class Standalone:
    """One folder of a service; ``start`` again goes on from it."""

    def __init__(self, directory: Path, release: str, server: Registry, **env: str) -> None:
        self.dir, self.server, self.pull_secret = directory, server, server.pull_secret
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.env = {
            **bare_environment(),
            "XDG_CACHE_HOME": str(directory.parent / "cache"),
            **({"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": release} if release else {}),
            "HW_VALIDATOR_REQUIREMENTS": SMALL,
            "MONITOR_INTERVAL": "500ms",
            **env,
        }
        self.releases: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def ca(self) -> Path:
        """The certificate of its CA."""
        return self.dir / "tls/ca.crt"

    def token(self, party: str) -> str:
        """Return the token that it wrote for `party`."""
        return (self.dir / f"auth/{party}-token").read_text().strip()

    def start(self) -> float:
        """Seconds until it was ready."""
        begin = time.monotonic()
        command = [sys.executable, "-m", "installer", "service", "--dir", str(self.dir)]
        with (self.dir.parent / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--listen", f"127.0.0.1:{self.port}"], env=self.env, cwd=self.dir, stderr=log
            )
        wait_for("the service to be ready", self._ready, 300)
        return time.monotonic() - begin

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.dir.parent / "service.log").read_text()[-2000:]
        try:
            with self.fetch("/ready") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def fetch(self, path: str, **headers: str) -> Any:
        """Return a GET with the folder's CA and nothing else."""
        url = path if path.startswith("https:") else self.url + path
        context = ssl.create_default_context(cafile=str(self.ca))
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context, timeout=60)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def api(self, party: str) -> Any:
        """Every operation of the public client, unmodified, with one of the tokens; which ones worked is noted."""
        config = public.Configuration()
        config.host = f"{self.url}/api/assisted-install"
        config.ssl_ca_cert = str(self.ca)
        header = HEADERS[Scheme(f"{party}Auth")]
        config.api_key[header] = self.token(party)
        client = public.ApiClient(configuration=config)
        client.set_default_header(header, self.token(party))
        return Recorded([getattr(public, name)(api_client=client) for name in APIS])

    def hub(self) -> HubClient:
        """Return a hub's client."""
        return HubClient(endpoint(self.url, ca_file=self.ca), Scheme.USER, self.token("user"))

    def agent(self) -> AssistedClient:
        """Return a client of agents."""
        return AssistedClient(endpoint(self.url, ca_file=self.ca), Scheme.AGENT, self.token("agent"))


class Recorded:
    """Passes calls on; ``done`` has the names of those that were answered with what the specification promises."""

    done: set[str]

    def __init__(self, apis: list[Any]) -> None:
        self._apis = apis
        self.done = set()

    def __getattr__(self, name: str) -> Any:
        owner = next(api for api in self._apis if hasattr(api, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = getattr(owner, name)(*args, **kwargs)
            self.done.add(name)
            return answer

        return call


@contextmanager
def standalone(folder: Path, *, versions: Sequence[str] = ()) -> Iterator[Standalone]:
    """Provide a service over a lab-like release: base ISO by xorriso, components that are only names.

    ``versions``: of a service that has no release of its own, those that ``releases`` has the images of.
    """
    iso = build(folder, "2023-07.x86_64")
    digest = hashlib.sha256(iso.read_bytes()).hexdigest().encode()
    with registry(folder / "registry") as server:
        files = {"coreos/coreos-x86_64.iso": iso.read_bytes(), "coreos/coreos-x86_64.iso.sha256": digest}
        images = {name: server.push([{name: b"x"}], name) for name in COMPONENTS}
        images["installer"] = server.push([{"usr/bin/openshift-install": INSTALLER.encode()}], "installer")
        images["machine-os-images"] = server.push([files], "mos", "zstd")
        releases = {}
        for version in versions:
            agent = {AGENT: server.push([{"version": version.encode()}], f"agent-{version}")}
            releases[version] = server.push_release(images | agent, version, f"release-{version}")
        release = "" if versions else server.push_release(images)
        directory = folder / "service"
        (directory / "mirror").mkdir(parents=True)
        (directory / "mirror/registries.conf").write_text(registries_conf(server.sources))
        (directory / "mirror/ca-bundle.crt").write_text(server.ca_pem)
        (directory / "mirror/pull-secret.json").write_text(server.pull_secret)
        service = Standalone(directory, release, server)
        service.releases = releases
        service.start()
        try:
            yield service
        finally:
            service.stop()


def answer_steps(agent: Any, infra_env_id: str, machine: Machine) -> list[str]:
    """One poll of a machine by the public client, each step answered at once; the types of the steps."""
    kinds = []
    instructions = agent.v2_get_next_steps(infra_env_id, machine.id, timestamp=int(time.time()))
    for step in instructions.instructions or []:
        kinds.append(step.step_type)
        output = machine.answer(step.step_type, step.args)
        if output is not None:
            body = {"step_type": step.step_type, "step_id": step.step_id, "exit_code": 0, "output": json.dumps(output)}
            agent.v2_post_step_reply(infra_env_id, machine.id, reply=body)
    return kinds


def file_of(config: dict[str, Any], path: str) -> str:
    """Return a file of an Ignition config, as text."""
    source = next(item["contents"]["source"] for item in config["storage"]["files"] if item["path"] == path)
    return base64.b64decode(source.partition("base64,")[2]).decode()
