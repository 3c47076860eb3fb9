"""`node0 service` on the lab's own host, outside of every cluster, and the public client for it."""

from __future__ import annotations

import json
import shutil
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from installer.common.secretfiles import write_private
from lab.deploy import Deployment
from lab.inputs.hostnetwork import NIC, nmstate
from lab.layout import bracketed
from lab.subject import Subject
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation
from scenarios.testing.page import SERVICE_PORT

READY_SECONDS = 120
IMAGE_SECONDS = 600
DISCOVER_SECONDS = 1200
CHECKS_SECONDS = 600
INSTALL_SECONDS = 7200
HEADERS = {"user": "Authorization", "agent": "X-Secret-Key", "watcher": "Watcher-Authorization"}
# A cluster that is in none of these is not being installed (any more).
UNDER_WAY = ("preparing-for-installation", "installing", "finalizing")


@dataclass
class Service:
    """The service's directory, and its API through the unmodified public client with the user's token."""

    deployment: Deployment
    directory: Path
    url: str

    @property
    def ca_pem(self) -> str:
        """The certificate of the service's own CA."""
        return (self.directory / "tls/ca.crt").read_text()

    def call(self, operation: str, *args: Any, api: str = "InstallerApi", **kwargs: Any) -> Any:
        """Call an operation of one of the public client's APIs from the lab's network; returns its result."""
        import assisted_service_client as public

        token = (self.directory / "auth/user-token").read_text().strip()
        config = public.Configuration()
        config.host = f"{self.url}/api/assisted-install"
        config.ssl_ca_cert = str(self.directory / "tls/ca.crt")
        client = public.ApiClient(configuration=config)
        client.set_default_header(HEADERS["user"], token)
        method = getattr(getattr(public, api)(api_client=client), operation)
        return self.deployment.lab.inside(method, *args, **kwargs)

    def download(self, url: str, target: Path) -> Path:
        """Download a presigned URL of the service to `target`."""
        context = ssl.create_default_context(cadata=self.ca_pem)

        def fetch() -> None:
            with (
                urllib.request.urlopen(url, context=context, timeout=IMAGE_SECONDS) as answer,
                target.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file, 1 << 20)

        self.deployment.lab.inside(fetch)
        return target


def _limits(release: Subject) -> dict[str, str]:
    """Return the release's own limits for hosts, as the service is given them; nothing where it has none."""
    return {"HW_VALIDATOR_REQUIREMENTS": json.dumps(json.loads(release.hardware))} if release.hardware else {}


def registries_conf(source: str, mirror: str) -> str:
    """containers-registries.conf(5) with one mirror, for pulls by digest only."""
    return (
        f'[[registry]]\nprefix = ""\nlocation = "{source}"\nmirror-by-digest-only = true\n\n'
        f'[[registry.mirror]]\nlocation = "{mirror}"\n'
    )


def write_mirrors(deployment: Deployment, directory: Path) -> None:
    """Write the lab's registry as mirror and its CA into the folder of a service."""
    access, mirror = deployment.lab.access, directory / "mirror"
    mirror.mkdir(parents=True)
    (mirror / "registries.conf").write_text("\n".join(registries_conf(*pair) for pair in access.mirrors))
    (mirror / "ca-bundle.crt").write_text(access.trust_bundle)


def release_environment(deployment: Deployment) -> dict[str, str]:
    """Return variables with which a service installs the lab's release."""
    return {
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": deployment.release.pullspec,
        **_limits(deployment.release),
        "PAGE_ACCESS": "open",
        # The payload's installer has to run with the Python that has its libraries.
        "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }


@contextmanager
def service_alone(deployment: Deployment) -> Iterator[Service]:
    """Run the service in the lab for the length of the block, with the lab's registry and its low thresholds."""
    lab = deployment.lab
    address = lab.topology.gateway
    listen = f"{bracketed(address)}:{SERVICE_PORT}"
    service = Service(deployment, lab.layout.root / "service", f"https://{listen}")
    write_mirrors(deployment, service.directory)
    argv = [*deployment.installer, "service", "--dir", str(service.directory), "--listen", listen]
    with lab.running(argv, env=release_environment(deployment), name="service") as process:

        def ready() -> bool:
            assert process.poll() is None, f"the service ended with {process.returncode}"
            context = ssl.create_default_context(cadata=service.ca_pem)

            def ask() -> bool:
                with urllib.request.urlopen(f"{service.url}/ready", context=context, timeout=10) as answer:
                    return bool(answer.status == 200)

            return lab.inside(ask)

        with lab.phase("service up"):
            wait_until(ready, READY_SECONDS, f"{service.url} to be ready")
        yield service


@dataclass(kw_only=True)
class Discovered(Installation):
    """A cluster whose hosts were discovered first and configured afterwards; `hosts` are their names by their ids, the
    first machine's first."""

    service: Service
    cluster_id: str
    infra_env_id: str
    hosts: dict[str, str]
    seen: list[str] = field(default_factory=list)

    @property
    def host_name(self) -> str:
        """The name of the first host."""
        return next(iter(self.hosts.values()))

    def cluster(self) -> Any:
        """Return the cluster as the service sees it."""
        return self.service.call("v2_get_cluster", self.cluster_id)

    def events(self) -> list[str]:
        """Return the cluster's events, the oldest first."""
        events = self.service.call("v2_list_events", api="EventsApi", cluster_id=self.cluster_id)
        return [str(event["message"]) for event in events]

    def host(self) -> Any:
        """Return the first host as the service sees it."""
        return self.service.call("v2_get_host", self.infra_env_id, next(iter(self.hosts)))


def cluster_params(deployment: Deployment) -> dict[str, Any]:
    """cluster-create-params, the machine network left open."""
    topology = deployment.topology
    alone = len(topology.nodes) == 1
    body: dict[str, Any] = {
        "name": topology.cluster_name,
        "base_dns_domain": topology.base_domain,
        "openshift_version": deployment.release.version,
        "pull_secret": deployment.lab.access.pull_secret,
        "ssh_public_key": deployment.lab.access.ssh_key,
        "high_availability_mode": "None" if alone else "Full",
        "platform": {"type": topology.platform},
        "user_managed_networking": topology.platform == "none",
    }
    if topology.platform == "baremetal":
        body |= {f"{name}_vips": [{"ip": text} for text in topology.vips(name)] for name in ("api", "ingress")}
    return body


def infra_env_params(deployment: Deployment, cluster_id: str, image_type: str) -> dict[str, Any]:
    """infra-env-create-params; with the network of every node where the topology has static addresses."""
    topology = deployment.topology
    body: dict[str, Any] = {
        "name": topology.cluster_name,
        "cluster_id": cluster_id,
        "image_type": image_type,
        "openshift_version": deployment.release.version,
        "pull_secret": deployment.lab.access.pull_secret,
        "ssh_authorized_key": deployment.lab.access.ssh_key,
        "additional_ntp_sources": topology.gateway,
    }
    if topology.addressing == "static":
        body["static_network_config"] = [
            {
                "network_yaml": yaml.safe_dump(nmstate(topology, node)),
                "mac_interface_map": [{"mac_address": node.mac, "logical_nic_name": NIC}],
            }
            for node in topology.nodes
        ]
    return body


def install_discovered(service: Service, image_type: str, names: Mapping[str, str]) -> Discovered:
    """Install, from the discovery image to a cluster that the service reports as installed; hosts are called by the
    names that their machines have in `names`."""
    deployment = service.deployment
    lab = deployment.lab
    cluster = service.call("v2_register_cluster", cluster_params(deployment))
    infra_env = service.call("register_infra_env", infra_env_params(deployment, cluster.id, image_type))
    with lab.phase("discovery image"):
        iso = service.download(infra_env.download_url, lab.layout.root / "discovery.iso")
    with lab.phase("discover"):
        deployment.boot(image=iso)

        def inventories() -> dict[str, dict[str, Any]]:
            """Return the inventories that have been reported, by their hosts' ids."""
            hosts = service.call("v2_list_hosts", infra_env.id)
            return {host["id"]: json.loads(host["inventory"]) for host in hosts if host.get("inventory")}

        count = len(lab.nodes)
        wait_until(
            lambda: sum(bool(found["disks"]) for found in inventories().values()) == count,
            DISCOVER_SECONDS,
            f"{count} hosts to register and send their inventories",
        )
    by_mac = {nic["mac_address"]: (key, found) for key, found in inventories().items() for nic in found["interfaces"]}
    hosts = {}
    for node in lab.nodes.values():
        host_id, inventory = by_mac[node.spec.mac]
        [disk] = [item for item in inventory["disks"] if item["path"] == node.spec.root_device]
        chosen = {
            "host_name": names[node.name],
            "host_role": node.spec.role,
            "disks_selected_config": [{"id": disk["id"], "role": "install"}],
        }
        service.call("v2_update_host", infra_env.id, host_id, chosen)
        hosts[host_id] = names[node.name]
    if deployment.topology.platform == "none":
        networks = {"machine_networks": [{"cidr": deployment.topology.machine_network}]}
        service.call("v2_update_cluster", cluster.id, networks)
    subject = Discovered(
        deployment=deployment, service=service, cluster_id=cluster.id, infra_env_id=infra_env.id, hosts=hosts
    )
    with lab.phase("checks"):
        wait_until(
            lambda: subject.cluster().status == "ready",
            CHECKS_SECONDS,
            "the cluster to be ready to be installed",
            lambda: f"{subject.cluster().status}: {subject.cluster().status_info}; {subject.host().status_info}",
        )
    with lab.phase("install"):
        service.call("v2_install_cluster", cluster.id)
        wait_until(
            lambda: _noted(subject) not in UNDER_WAY,
            INSTALL_SECONDS,
            "the installation to end",
            lambda: subject.seen,
            poll=3,
        )
    end = subject.cluster()
    assert end.status == "installed", f"{end.status}: {end.status_info}\n" + "\n".join(subject.events()[-8:])
    target = deployment.directory / "auth"
    target.mkdir(mode=0o700, exist_ok=True)
    raw = service.call("v2_download_cluster_credentials", cluster.id, "kubeconfig", _preload_content=False)
    write_private(target / "kubeconfig", raw.data)
    return subject


def _noted(discovered: Discovered) -> str:
    """Return the cluster's status, after the host's stage has been noted."""
    stage = discovered.host().progress.current_stage
    if stage and stage not in discovered.seen:
        discovered.seen.append(stage)
    return str(discovered.cluster().status)
