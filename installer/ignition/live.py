"""The Ignition config of the agent ISO: everything that the live host needs to find its role and start.

Unit, file and variable names are those of reference/installer.md §4.1 and §4.2. Differences, each for a reason: the
service keeps its state in SQLite, so there is no pod and no database unit; it is reached over TLS with a CA of its own;
container images are resolved when the ISO is made, not by every host at boot.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib import resources

from installer.common.hostaddresses import hostname
from installer.common.macs import ExpectedHost, listed
from installer.common.redact.program import program
from installer.ignition.config import File, Unit, User, render
from installer.ignition.livesystem import SYSTEM_UNITS, ntp_files, system_files

SERVICE_PORT = 8090
TLS_DIR = "/opt/agent/tls"

# Payload components, by the environment variable in which scripts find their images.
IMAGE_VARIABLES = {
    "SERVICE_IMAGE": "agent-installer-api-server",
    "AGENT_DOCKER_IMAGE": "agent-installer-node-agent",
    "INSTALLER_IMAGE": "agent-installer-orchestrator",
    "CONTROLLER_IMAGE": "agent-installer-csr-approver",
}
# Optional images that hosts pull before and while they are installed (every OpenShift payload has them).
PULLED_IMAGES = {"MCO_IMAGE": "machine-config-operator", "MUST_GATHER_IMAGE": "must-gather"}

UNITS = (
    "set-hostname.service",
    "node-zero.service",
    "agent.service",
    "assisted-service.service",
    "agent-register-infraenv.service",
    "apply-host-config.service",
    "install-status.service",
)
#: The units of each workflow besides: a cluster is installed, or hosts are added to one, each by a service of its own.
WORKFLOW_UNITS = {
    "install": ("agent-register-cluster.service", "start-cluster-installation.service"),
    "addnodes": ("agent-import-cluster.service", "agent-add-node.service", "agent-auth-token-status.service"),
}
#: The rendezvous IP of hosts that are added.
EACH_ITS_OWN = "127.0.0.1"
NETWORK_UNIT = "pre-network-manager-config.service"
#: The hosts that the configuration lists, in its order, for the page and for a console (common/macs.py).
EXPECTED_HOSTS = "/etc/assisted/expected-hosts"
#: sshd shows what install-status.sh complains of as its banner, which wait-for reads (installer/observe/outside.py).
SSHD_BANNER = "Banner /run/agent-installer/banner\n"
NETWORK_SCRIPT = "pre-network-manager-config.sh"
# Units that are enabled only where the initrd brings agent-tui.
CONSOLE_UNITS = ("agent-interactive-console.service", "agent-interactive-console-serial@.service")


@dataclass(frozen=True)
class HostFiles:
    """One host of the inputs: what is written for it under /etc/assisted.

    `network` is the content of its network directory (reference §4.2), empty for DHCP; `root_device_hints` is YAML.
    `required`: whether the installation waits for it; a host that only an NMStateConfig names may stay away.
    """

    hostname: str = ""
    _: KW_ONLY
    role: str = ""
    macs: tuple[str, ...] = ()
    root_device_hints: str = ""
    network: Mapping[str, str] = field(default_factory=dict, repr=False)
    fencing_credentials: str = field(default="", repr=False)
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The cluster that hosts are added to: `url` and `ca` (PEM) are its machine-config server's, for the pool
    `worker`; the tokens expire at `expiry` (RFC 3339)."""

    cluster_id: str
    name: str
    api: str
    url: str
    ca: str
    expiry: str


@dataclass(frozen=True, kw_only=True)
class LiveInputs:
    """All that goes into the live host's config; secrets among it are kept out of reprs."""

    rendezvous_ip: str
    release_image: str
    release_version: str
    images: Mapping[str, str]  # component tag -> pullspec by digest
    public_key_pem: str
    agent_token: str = field(repr=False)
    user_token: str = field(repr=False)
    watcher_token: str = field(repr=False)
    tls_files: Mapping[str, bytes] = field(repr=False)  # name under /opt/agent/tls -> content
    pull_secret: str = field(repr=False)
    password_hash: str = field(default="", repr=False)
    ssh_keys: tuple[str, ...] = ()
    manifests: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    extra_manifests: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    hosts: Sequence[HostFiles] = ()
    fencing_credentials: str = field(default="", repr=False)
    registries_conf: str = ""
    ca_bundle: str = ""
    ntp_sources: tuple[str, ...] = ()
    proxy: Mapping[str, str] = field(default_factory=dict, repr=False)  # HTTP_PROXY, HTTPS_PROXY, NO_PROXY
    masters: int = 1
    arbiters: int = 0
    workers: int = 0
    image_type: str = "full-iso"
    console: bool = False  # whether the initrd brings agent-tui
    cluster_name: str = ""  # with its domain, as the console shows it
    joined: Joined | None = None  # where hosts are added to a cluster

    @property
    def workflow(self) -> str:
        """Return the name of what the image is for, as scripts on the host know it."""
        return "addnodes" if self.joined else "install"


def service_url(rendezvous_ip: str) -> str:
    """Return the rendezvous service's URL: https://IP:8090/, an IPv6 address in brackets."""
    address = ipaddress.ip_address(rendezvous_ip)
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"https://{host}:{SERVICE_PORT}/"


def env_file(variables: Mapping[str, str]) -> str:
    """KEY=value lines that podman's --env-file and a shell both read: values must be one plain shell word."""
    for name, value in variables.items():
        if set(value) & set(" \t\n'\"$`\\#;&|<>()~"):
            raise ValueError(f"value of {name} cannot be written to an environment file")
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def _environment(inputs: LiveInputs) -> list[File]:
    url = service_url(inputs.rendezvous_ip)
    rendezvous = {
        "NODE_ZERO_IP": str(ipaddress.ip_address(inputs.rendezvous_ip)),
        "SERVICE_BASE_URL": url,
        "PULL_SECRET_TOKEN": inputs.agent_token,
        "USER_AUTH_TOKEN": inputs.user_token,
        "WORKFLOW_TYPE": inputs.workflow,
    }
    service = {
        "AUTH_TYPE": "agent-installer-local",
        "EC_PUBLIC_KEY_PEM": base64.b64encode(inputs.public_key_pem.encode()).decode(),
        "WATCHER_AUTH_TOKEN": inputs.watcher_token,
        "HTTPS_CERT_FILE": f"{TLS_DIR}/service.crt",
        "HTTPS_KEY_FILE": f"{TLS_DIR}/service.key",
        "SERVICE_CA_CERT_PATH": f"{TLS_DIR}/ca.crt",
        "LISTEN_PORT": str(SERVICE_PORT),
        "EXPECTED_HOSTS_FILE": EXPECTED_HOSTS,
        "DEPLOY_TARGET": "onprem",
        "STORAGE": "filesystem",
        "INSTALL_INVOKER": "agent-installer",
        "EPHEMERAL_INSTALLER_CLUSTER_TLS_CERTS_OVERRIDE_DIR": TLS_DIR,
        # A host directory is mounted here; the image's own /data holds the payload's requirements.
        "WORK_DIR": "/data/work",
        "IMAGE_TYPE_ISO": inputs.image_type,
        "OPENSHIFT_INSTALL_RELEASE_IMAGE": inputs.release_image,
        "OPENSHIFT_VERSION": inputs.release_version,
    }
    images = {name: inputs.images[tag] for name, tag in IMAGE_VARIABLES.items()}
    images |= {name: inputs.images[tag] for name, tag in PULLED_IMAGES.items() if tag in inputs.images}
    start_cluster = {
        "REQUIRED_MASTER_NODES": str(inputs.masters),
        "REQUIRED_ARBITER_NODES": str(inputs.arbiters),
        "REQUIRED_WORKER_NODES": str(inputs.workers),
    }
    share = "/usr/local/share/assisted-service"
    return [
        File.text("/etc/assisted/rendezvous-host.env", env_file(rendezvous), 0o600),
        File.text(f"{share}/assisted-service.env", env_file(service), 0o600),
        File.text(f"{share}/agent-images.env", env_file(images)),
        File.text("/etc/assisted/agent-installer.env", env_file({"RELEASE_IMAGE": inputs.release_image}), 0o600),
        File.text("/usr/local/share/start-cluster/start-cluster.env", env_file(start_cluster), 0o600),
    ]


def host_config_files(inputs: LiveInputs) -> list[File]:
    """Return the files in which a live system, whichever host it is, finds its own network, hostname, role and disk
    hints."""
    expected = (ExpectedHost(h.hostname, tuple(mac.lower() for mac in h.macs)) for h in inputs.hosts if h.required)
    files = [File.text(EXPECTED_HOSTS, listed(expected))]
    names = [host.hostname for host in inputs.hosts]
    for index, host in enumerate(host for host in inputs.hosts if host.required):
        macs = [mac.lower() for mac in host.macs]
        folder = host.hostname or f"host-{index}"
        # A name that is another host's too, or no folder's, is told by config/contradictions.py.
        if names.count(folder) > bool(host.hostname) or hostname(folder.lower()):
            folder = f"host-{index}-{'-'.join(macs[:1]).replace(':', '-')}"
        base = f"/etc/assisted/hostconfig/{folder}"
        files.append(File.text(f"{base}/mac_addresses", "".join(f"{mac}\n" for mac in macs)))
        if host.root_device_hints:
            files.append(File.text(f"{base}/root-device-hints.yaml", host.root_device_hints))
        if host.role:
            files.append(File.text(f"{base}/role", host.role))
        if host.fencing_credentials:
            files.append(File.text(f"{base}/fencing-credentials.yaml", host.fencing_credentials, 0o600))
        if host.hostname and macs:
            files.append(File.text(f"/etc/assisted/hostnames/{macs[0]}", host.hostname, 0o600))
    # N of hostN counts only hosts with a network document.
    for index, host in enumerate(host for host in inputs.hosts if host.network):
        for name, text in host.network.items():
            files.append(File.text(f"/etc/assisted/network/host{index}/{name}", text, 0o600))
    if inputs.fencing_credentials:
        path = "/etc/assisted/hostconfig/fencing-credentials.yaml"
        files.append(File.text(path, inputs.fencing_credentials, 0o600))
    return files


def _joined_files(cluster: Joined) -> list[File]:
    """Return the files by which the service of an added host knows the cluster, named as upstream's."""
    variables = {
        "CLUSTER_ID": cluster.cluster_id,
        "CLUSTER_NAME": cluster.name,
        "CLUSTER_API_VIP_DNS_NAME": cluster.api,
        "AUTH_TOKEN_EXPIRY": cluster.expiry,
    }
    endpoint = {"url": cluster.url, "ca_certificate": base64.b64encode(cluster.ca.encode()).decode()}
    return [
        File.text("/etc/assisted/add-nodes.env", env_file(variables)),
        File.text("/etc/assisted/clusterconfig/worker-ignition-endpoint.json", json.dumps(endpoint)),
    ]


def _mirror_and_trust(inputs: LiveInputs) -> list[File]:
    files = [File.text("/root/.docker/config.json", inputs.pull_secret, 0o600)]
    # podman as root looks here first; with the same file here, every tool on the host uses the same pull secret.
    files.append(File.text("/etc/containers/auth.json", inputs.pull_secret, 0o600))
    if inputs.registries_conf:
        files.append(File.text("/etc/containers/registries.conf", inputs.registries_conf))
    if inputs.ca_bundle:
        files.append(File.text("/etc/pki/ca-trust/source/anchors/domain.crt", inputs.ca_bundle, 0o600))
    return files


def live_files(inputs: LiveInputs) -> list[File]:
    """Every file of the live host."""
    data = resources.files("installer.ignition") / "data"
    files = [
        File(f"/usr/local/bin/{script.name}", script.read_bytes(), 0o755 if script.name == NETWORK_SCRIPT else 0o555)
        for script in (data / "bin").iterdir()
    ]
    files.append(File("/usr/local/bin/agent-redact", program(), 0o555))
    files.append(File.text("/etc/ssh/sshd_config.d/10-install-status.conf", SSHD_BANNER))
    files += _environment(inputs)
    files += host_config_files(inputs)
    files += _mirror_and_trust(inputs)
    files += [*ntp_files(inputs.ntp_sources), *system_files(inputs.cluster_name, inputs.proxy)]
    files += _joined_files(inputs.joined) if inputs.joined else []
    files += [File(f"{TLS_DIR}/{name}", content, 0o600) for name, content in inputs.tls_files.items()]
    files += [File(f"/etc/assisted/manifests/{n}", content, 0o600) for n, content in inputs.manifests.items()]
    files += [File(f"/etc/assisted/extra-manifests/{n}", c, 0o600) for n, c in inputs.extra_manifests.items()]
    return files


def live_config(inputs: LiveInputs) -> bytes:
    """Return the agent ISO's Ignition config as JSON."""
    data = resources.files("installer.ignition") / "data/systemd"
    names = [*SYSTEM_UNITS, *UNITS, *WORKFLOW_UNITS[inputs.workflow], *(CONSOLE_UNITS if inputs.console else ())]
    static = any(host.network for host in inputs.hosts)
    units = [Unit(NETWORK_UNIT, (data / NETWORK_UNIT).read_text(), enabled=static)]
    units += (Unit(name, (data / name).read_text()) for name in names)
    users = [User("core", inputs.ssh_keys, inputs.password_hash)]
    return render(live_files(inputs), units, users)
