"""Blank machines: an image that names nothing, answers on the consoles, and the rest through the service's API."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from installer.common.secretfiles import write_private
from lab.deploy import CREATE_SECONDS, Deployment
from lab.errors import InstallFailedError
from lab.layout import bracketed
from lab.machines.node import Node
from lab.waiting import wait_until
from scenarios.testing import wizard
from scenarios.testing.cluster import Installation, output_of
from scenarios.testing.page import SERVICE_PORT, watching
from scenarios.testing.service import Service, cluster_params
from scenarios.testing.terminal import Terminal

BOOT_SECONDS = 900.0
NETWORK_SECONDS = 180.0
SERVICE_SECONDS = 900.0
DISCOVER_SECONDS = 1200.0
READY_SECONDS = 900.0
COMPLETE_SECONDS = 3600.0
THIS = "This is the rendezvous host"
_USED = ("infraenv.yaml", "pull-secret.yaml")


def create_image(deployment: Deployment) -> Path:
    """Make the blank image in a directory of its own, which has nothing of the cluster; returns that directory."""
    folder = deployment.lab.layout.root / "blank"
    for name in ("manifests", "image/cluster-manifests"):
        (folder / name).mkdir(mode=0o700, parents=True)
    for config in ("install-config.yaml", "agent-config.yaml"):
        shutil.copyfile(deployment.directory / config, folder / "manifests" / config)
    deployment.create("cluster-manifests", folder / "manifests")
    image = folder / "image"
    for name in _USED:
        shutil.copyfile(folder / "manifests/cluster-manifests" / name, image / "cluster-manifests" / name)
    shutil.copytree(folder / "manifests/mirror", image / "mirror")
    with deployment.lab.phase("create unconfigured-image"):
        result = deployment.agent("create", "unconfigured-image", timeout=CREATE_SECONDS, directory=image)
    if result.returncode:
        raise InstallFailedError("agent create unconfigured-image", result.returncode, output_of(result)[-2000:])
    return image


def iso_in(folder: Path) -> Path:
    """Return the blank image."""
    [image] = folder.glob("unconfigured.*.iso")
    return image


def asked(node: Node) -> Terminal:
    """Wait until a machine asks on its console; returns its terminal."""
    terminal = Terminal(node.console)
    terminal.until("Rendezvous IP", f"<{THIS}>", seconds=BOOT_SECONDS)
    return terminal


def set_static(terminal: Terminal, deployment: Deployment, node: Node) -> None:
    """Type a machine's network, where the lab has no DHCP server."""
    topology = deployment.topology
    terminal.choose("Edit the network")
    terminal.until("<Apply>", seconds=NETWORK_SECONDS)
    terminal.switch("IPv4 ", "static")
    prefix = topology.machine_network.rpartition("/")[2]
    terminal.fill("IPv4 address", f"{node.spec.ip}/{prefix}")
    terminal.fill("IPv4 gateway", topology.gateway)
    terminal.switch("IPv6 ", "off")
    terminal.fill("DNS servers", topology.gateway)
    terminal.choose("Apply")
    reached(terminal)


def reached(terminal: Terminal) -> None:
    """Wait until DNS, gateway and registry are reached."""
    terminal.until("[ok] DNS", "[ok] Gateway", "[ok] Registry", seconds=NETWORK_SECONDS)


def cut_off_and_take_back(terminal: Terminal) -> None:
    """Give a machine an address of a network that is not there, see that nothing is reached, and take it back."""
    terminal.choose("Edit the network")
    terminal.until("<Apply>", seconds=NETWORK_SECONDS)
    terminal.switch("IPv4 ", "static")
    terminal.fill("IPv4 address", "10.77.0.2/24")
    terminal.choose("Apply")
    terminal.until("[!!] Gateway: there is no default gateway", "[!!] Registry", seconds=NETWORK_SECONDS)
    terminal.choose("Take the network edit back")
    reached(terminal)


def misled(terminal: Terminal, deployment: Deployment) -> None:
    """Give a machine the rendezvous IP of one that is there and is none, and one that is not there."""
    topology = deployment.topology
    for address, said in (
        (topology.gateway, f"nothing listens on port {SERVICE_PORT}"),
        (topology.nodes[-1].ip.rpartition(".")[0] + ".250", "It does not answer a ping either."),
    ):
        terminal.fill("Rendezvous IP", address)
        terminal.choose("Use this rendezvous IP")
        terminal.until(f"Tried https://{address}:{SERVICE_PORT}/ from", said, seconds=NETWORK_SECONDS)
        terminal.choose("Back")
        terminal.until("<Use this rendezvous IP>", seconds=NETWORK_SECONDS)


def lead(terminal: Terminal, node: Node) -> None:
    """Say that this machine is the rendezvous host, and wait for the page's address."""
    terminal.choose(THIS)
    terminal.until("Which of its addresses", seconds=NETWORK_SECONDS)
    terminal.choose(node.spec.ip)
    url = f"https://{bracketed(node.spec.ip)}:{SERVICE_PORT}/"
    terminal.until("is the rendezvous host.", f"Open in a browser: {url}", "auth/user-token", seconds=SERVICE_SECONDS)


def follow(terminal: Terminal, address: str) -> None:
    """Give a machine the rendezvous IP, whose service is there."""
    terminal.fill("Rendezvous IP", address)
    terminal.choose("Use this rendezvous IP")
    terminal.until("waits for the rendezvous host at", "Its service answers", seconds=NETWORK_SECONDS)


@dataclass(kw_only=True)
class Interactive(Installation):
    """A cluster that was installed from a blank image; the service is gone with the rendezvous host's reboot."""

    cluster_id: str

    @property
    def ca_bundle(self) -> str:
        """The CAs of the kubeconfig, which is from before there was an ingress, and the ingress's."""
        published = self.kubectl_json("-n", "openshift-config-managed", "get", "configmap", "default-ingress-cert")
        return f"{super().ca_bundle}\n{published['data']['ca-bundle.crt']}"


def service_on(deployment: Deployment, folder: Path, address: str) -> Service:
    """Return the rendezvous host's service, as whoever made the image reaches it."""
    return Service(deployment, folder, f"https://{bracketed(address)}:{SERVICE_PORT}")


def discover(service: Service) -> None:
    """Wait until all machines have registered, in no cluster, and sent their inventories."""
    lab = service.deployment.lab
    with lab.phase("discover"):
        wait_until(lambda: len(_inventories(service)) == len(lab.nodes), DISCOVER_SECONDS, "all hosts' inventories")


def restart_with_a_form_open(service: Service, node: Node) -> None:
    """Restart the rendezvous host while a person fills in a form, and choose it again: the page goes on with it."""
    address = node.spec.ip
    with watching(service.deployment.lab, address, service.ca_pem) as page:
        wizard.sign_in(page, (service.directory / "auth/user-token").read_text().strip())
        page.push("Create a cluster", "link")
        page.fill("Cluster name", "kept")
        node.power.cycle()
        page.until("document.getElementById('connection').textContent !== 'Live'", NETWORK_SECONDS)
        terminal = asked(node)
        reached(terminal)
        lead(terminal, node)
        page.until(wizard.LIVE, NETWORK_SECONDS)
        assert page.js("document.querySelector('form[aria-label=\"Create a cluster\"] input').value") == "kept"


def install_by_browser(service: Service, address: str) -> Interactive:
    """Do on the rendezvous host's page, in a browser, what a person does there."""
    deployment = service.deployment
    lab, topology = deployment.lab, deployment.topology
    [infra_env] = service.call("list_infra_envs")
    hosts = _matched(service)
    names = {host["id"]: host["requested_hostname"] for host in _hosts(service)}
    networks = {"Machine networks": topology.machine_network}
    if topology.platform == "baremetal":
        vips = {"API addresses": "api", "Ingress addresses": "ingress"}
        networks |= {label: ",".join(topology.vips(kind)) for label, kind in vips.items()}
    with watching(lab, address, service.ca_pem) as page:
        wizard.sign_in(page, (service.directory / "auth/user-token").read_text().strip())
        values = {
            "Cluster name": topology.cluster_name,
            "Base domain": topology.base_domain,
            "Control plane nodes": str(len(topology.masters)),
            "Pull secret": lab.access.pull_secret,
            "SSH public key": lab.access.ssh_key,
            "Hosts come from": infra_env["id"],
        }
        cluster_id = wizard.create_cluster(page, values)
        for host_id, (node, disk) in hosts.items():
            # Another step in between closes the form of the host before.
            wizard.save_at(page, "Networking", networks)
            wizard.go_to(page, "Hosts")
            page.push(f"Change {names[host_id]}", "summary")
            # It can be saved once the host has been bound.
            wizard.save(page, {"Host name": node.name, "Installation disk": disk}, READY_SECONDS)
        with lab.phase("checks"):
            wizard.wait_for_hosts(page, len(hosts), READY_SECONDS)
        with lab.phase("install"):
            wizard.install(page, READY_SECONDS)
            assert page.complaints == [], page.complaints
            return _finished(service, cluster_id)


def install_by_api(service: Service) -> Interactive:
    """Do what a person does on the page: register a cluster, bind the hosts, install, and take the kubeconfig."""
    deployment = service.deployment
    lab, topology = deployment.lab, deployment.topology
    cluster = service.call("v2_register_cluster", cluster_params(deployment))
    [infra_env] = service.call("list_infra_envs")
    for host_id, (node, disk) in _matched(service).items():
        service.call("bind_host", infra_env["id"], host_id, {"cluster_id": cluster.id})
        chosen = {
            "host_name": node.name,
            "host_role": node.spec.role,
            "disks_selected_config": [{"id": disk, "role": "install"}],
        }
        # Refused until the host has been bound.
        update = partial(service.call, "v2_update_host", infra_env["id"], host_id, chosen)
        wait_until(update, READY_SECONDS, f"{node.name} to be bound")
    if topology.platform == "none":
        service.call("v2_update_cluster", cluster.id, {"machine_networks": [{"cidr": topology.machine_network}]})

    def status() -> Any:
        return service.call("v2_get_cluster", cluster.id)

    with lab.phase("checks"):
        wait_until(
            lambda: status().status == "ready",
            READY_SECONDS,
            "the cluster to be ready to be installed",
            lambda: f"{status().status}: {status().status_info}; {[h['status_info'] for h in _hosts(service)]}",
        )
    with lab.phase("install"):
        service.call("v2_install_cluster", cluster.id)
        return _finished(service, cluster.id)


def _finished(service: Service, cluster_id: str) -> Interactive:
    """Take the kubeconfig, which the service has only until its host restarts, and wait for the cluster."""
    deployment = service.deployment
    target = deployment.directory / "auth"
    target.mkdir(mode=0o700, exist_ok=True)
    wait_until(lambda: _kubeconfig(service, cluster_id, target / "kubeconfig"), READY_SECONDS, "kubeconfig-noingress")
    subject = Interactive(deployment=deployment, cluster_id=cluster_id)
    wait_until(
        lambda: _complete(subject), COMPLETE_SECONDS, "the cluster to be complete", lambda: _said(service), poll=3
    )
    return subject


def _matched(service: Service) -> dict[str, tuple[Node, str]]:
    """Return the lab's machine that each host is, and the id of the disk to install to, by the host's id."""
    found = {}
    for host_id, inventory in _inventories(service).items():
        macs = [nic["mac_address"] for nic in inventory["interfaces"]]
        [node] = [node for node in service.deployment.lab.nodes.values() if node.spec.mac in macs]
        [disk] = [disk["id"] for disk in inventory["disks"] if disk["path"] == node.spec.root_device]
        found[host_id] = (node, disk)
    return found


def _hosts(service: Service) -> list[dict[str, Any]]:
    [infra_env] = service.call("list_infra_envs")
    hosts: list[dict[str, Any]] = service.call("v2_list_hosts", infra_env["id"])
    return hosts


def _inventories(service: Service) -> dict[str, dict[str, Any]]:
    """Return the inventories that have been reported, with disks, by their hosts' ids."""
    found = {host["id"]: json.loads(host["inventory"]) for host in _hosts(service) if host.get("inventory")}
    return {key: inventory for key, inventory in found.items() if inventory["disks"]}


def _kubeconfig(service: Service, cluster_id: str, path: Path) -> bool:
    raw = service.call("v2_download_cluster_credentials", cluster_id, "kubeconfig-noingress", _preload_content=False)
    write_private(path, raw.data)
    return True


def _said(service: Service) -> str:
    try:
        hosts = _hosts(service)
    except OSError as error:
        return f"the service: {error}"
    return "; ".join(f"{host['requested_hostname']}: {host['status_info']}" for host in hosts)


def _complete(installation: Interactive) -> bool:
    version = installation.kubectl_json("get", "clusterversion", "version")
    conditions = {item["type"]: item["status"] for item in version["status"]["conditions"]}
    done = conditions.get("Available") == "True" and conditions.get("Progressing") == "False"
    return done and installation.nodes_ready() and installation.unavailable_operators() == []
