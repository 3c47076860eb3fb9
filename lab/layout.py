"""The layout of a lab: its files, host names and ports, in the one place that writers and readers share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lab.topology import Network, NodeSpec, Topology

# The name of the first network's bridge, with which the others' names begin.
BRIDGE = "lab0"
_BRIDGES = "lab"
POOL = "lab"
REGISTRY_PORT = 5000
BMC_PORT = 8000
HTTP_PORT = 8080
PROXY_PORT = 3128
TANG_PORT = 7500
HTTPS_PORT = 8443
# IANA's of iSCSI targets, which firmware asks without being told a port.
ISCSI_PORT = 3260
# One for each machine whose BMC is a vendor's, in the order of the topology.
_BMC_PORTS = 8100
_IPMI_PORTS = 6230
# What the NFS export of boot media is called.
_EXPORT = "/boot-media"
# Where machines fetch what they boot, below what the HTTP server serves, and what they ask for there by name.
_BOOT = "boot"
IPXE_SCRIPT = "agent.x86_64.ipxe"
HTTP_IMAGE = "agent.x86_64.iso"


def bracketed(address: str) -> str:
    """Return an address as it stands in a URL (RFC 3986 §3.2.2)."""
    return f"[{address}]" if ":" in address else address


def _http_url(topology: Topology) -> str:
    return f"http://{bracketed(topology.gateway)}:{HTTP_PORT}"


def boot_url(topology: Topology) -> str:
    """Layout.boot_url of a lab of that topology."""
    return f"{_http_url(topology)}/{_BOOT}"


def proxy_url(topology: Topology) -> str:
    """Return the HTTP proxy of a lab that has one."""
    return f"http://{bracketed(topology.gateway)}:{PROXY_PORT}"


class _Below:
    """An attribute of Layout: a path below its root."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, layout: Layout | None, owner: type[Layout]) -> Path:
        if layout is None:
            raise AttributeError(f"{owner.__name__} has paths only as an instance")
        return layout.root / self._path


@dataclass(frozen=True)
class Layout:
    """Paths below `root`, and addresses that follow from the topology."""

    root: Path
    topology: Topology

    #: The keys of the lab's Tang server.
    tang = _Below("tang")
    #: What firmware fetches by TFTP.
    tftp = _Below("tftp")
    #: The folder with the services' logs.
    log = _Below("log")
    #: The folder with serial logs and sockets.
    console = _Below("console")
    #: libvirt's storage pool for virtual media.
    pool = _Below("pool")
    #: What the HTTP server serves.
    www = _Below("www")
    #: The lab CA's certificate.
    ca = _Below("ca.crt")
    #: The private key of user core.
    ssh_key = _Below("id_ecdsa")
    #: The file with user names and passwords (0600).
    secrets = _Below("secrets.json")
    #: The hub's certificates and kubeconfigs.
    hub = _Below("hub")
    #: A directory for each container machine.
    machines = _Below("machines")
    #: While it is there, BMCs answer 503 to everything.
    bmc_unready = _Below("bmc/unready")
    #: The socket of the daemon that owns the container machines.
    machined = _Below("machined.sock")
    #: The socket of the daemon that has the devices of disks that can fail.
    failing = _Below("failing.sock")
    #: The socket of the daemon that delays, doubles and spoils packets.
    impair = _Below("impair.sock")
    #: What the second DHCP server, where a fault has one, is to do.
    rogue = _Below("rogue-dhcp.json")
    #: The socket that tells that it is up.
    rogue_socket = _Below("rogue-dhcp.sock")

    @property
    def registry_host(self) -> str:
        """Host name of the registry."""
        return f"registry.{self.topology.base_domain}"

    @property
    def registry(self) -> str:
        """Host and port of the registry."""
        return f"{self.registry_host}:{REGISTRY_PORT}"

    @property
    def bmc_address(self) -> str:
        """The lab's address in the network of the BMCs."""
        network = self.topology.bmc_network
        return next(iter(network.own)) if network.bmc else self.topology.gateway

    @property
    def registry_address(self) -> str:
        """Return the registry's address: where hosts reach it, or, with a proxy, only the lab's own programs."""
        return "127.0.0.1" if self.topology.proxy else self.topology.gateway

    @property
    def proxy_log(self) -> Path:
        """The log of the HTTP proxy."""
        return self.log / "proxy.log"

    def bridge(self, network: Network) -> str:
        """Return the bridge that a network is."""
        return f"{_BRIDGES}{[known.name for known in self.topology.all_networks].index(network.name)}"

    @property
    def bmc_url(self) -> str:
        """The Redfish service."""
        return f"https://{bracketed(self.bmc_address)}:{BMC_PORT}"

    @property
    def http_url(self) -> str:
        """The HTTP server for boot media, without a slash at its end."""
        return _http_url(self.topology)

    @property
    def boot_url(self) -> str:
        """Return the base URL of boots by HTTP: an agent-config's bootArtifactsBaseURL, without a slash at its end."""
        return boot_url(self.topology)

    @property
    def tang_url(self) -> str:
        """The Tang server of a lab that has one."""
        return f"http://{bracketed(self.topology.gateway)}:{TANG_PORT}"

    @property
    def https_url(self) -> str:
        """The files' server by HTTPS, which some BMCs insist on."""
        return f"https://{bracketed(self.topology.gateway)}:{HTTPS_PORT}"

    @property
    def nfs_url(self) -> str:
        """The files as an NFS share, which some BMCs insist on: nobody serves it, the lab's BMCs know what it is."""
        return f"nfs://{bracketed(self.topology.gateway)}{_EXPORT}"

    def bmc_port(self, node: NodeSpec) -> int:
        """Return the port of a machine's own BMC."""
        return BMC_PORT if self.topology.bmc_of(node) == "lab" else _BMC_PORTS + self.topology.nodes.index(node)

    def ipmi_port(self, node: NodeSpec) -> int:
        """Return the UDP port at which a machine's BMC answers IPMI."""
        return _IPMI_PORTS + self.topology.nodes.index(node)

    def bmc_url_of(self, node: NodeSpec) -> str:
        """Return the Redfish service that has the machine."""
        return f"https://{bracketed(self.bmc_address)}:{self.bmc_port(node)}"

    @property
    def libvirt_uri(self) -> str:
        """libvirt's URI from outside of the lab."""
        return f"qemu+unix:///system?socket={self.root / 'libvirt/run/libvirt-sock'}"

    def console_log(self, node: NodeSpec) -> Path:
        """Return the raw bytes of a node's serial line."""
        return self.console / f"{node.name}.log"

    def console_socket(self, node: NodeSpec) -> Path:
        """Return the UNIX socket that is a node's serial line."""
        return self.console / f"{node.name}.sock"

    def disk(self, node: NodeSpec, index: int | None = None) -> Path:
        """Return the raw image of a node's disk: of the one to install on, or of the one with that index."""
        which = node.root_index if index is None else index
        return self.root / "disks" / f"{node.name}-{node.device(which)}.raw"

    def device(self, node: NodeSpec, index: int) -> Path:
        """Return the path that the machine gets as that disk: the image, or the link to a device that can fail."""
        image = self.disk(node, index)
        return self.device_of(image) if node.all_disks[index].can_fail else image

    def device_of(self, image: Path) -> Path:
        """Return the link to the device of a disk that can fail."""
        return image.with_suffix(".device")

    def stick(self, node: NodeSpec) -> Path:
        """Return the raw image of a node's USB stick."""
        return self.root / "disks" / f"{node.name}-stick.raw"

    def fingerprint(self, image: Path) -> Path:
        """Return the fingerprint of a disk's image before its machine first ran (lab.machines.disks.fingerprint)."""
        return self.root / "fingerprints" / image.name

    def nvram(self, node: NodeSpec) -> Path:
        """Return a node's UEFI variables."""
        return self.root / "nvram" / f"{node.name}.fd"

    def publish(self, path: Path, scheme: str = "http") -> str:
        """Link the file below what the HTTP server serves; returns its URL of that scheme (http, https, nfs). Raises
        FileNotFoundError."""
        # One folder per source keeps equal names apart without changing the name.
        folder = self.www / _share(path.absolute())
        _link(path, folder)
        base = {"http": self.http_url, "https": self.https_url, "nfs": self.nfs_url}[scheme]
        return f"{base}/{folder.name}/{quote(path.name)}"

    def offer(self, path: Path) -> str:
        """Put the file where machines fetch what they boot; returns its URL. Raises FileNotFoundError."""
        _link(path, self.www / _BOOT)
        return f"{self.boot_url}/{quote(path.name)}"

    def make(self) -> None:
        """Make all directories of the lab."""
        for name in (
            "log",
            "console",
            "machines",
            "pool",
            "tftp",
            "www",
            "disks",
            "fingerprints",
            "nvram",
            "bmc/tmp",
            "bmc/state",
            "ssh",
            "etc",
        ):
            (self.root / name).mkdir(parents=True)
        for name in ("run", "lib", "log", "etc"):
            (self.root / "libvirt" / name).mkdir(parents=True)


def _share(source: Path) -> str:
    return hashlib.sha256(bytes(source)).hexdigest()[:8]


def is_published(link: Path) -> bool:
    """Return whether a symbolic link is one that `publish` or `offer` has made: its folder's name says so."""
    return link.parent.name in (_BOOT, _share(link.readlink()))


def _link(path: Path, folder: Path) -> None:
    """Link a file into a folder. Raises FileNotFoundError."""
    source = path.absolute()
    if not source.is_file():
        raise FileNotFoundError(f"{source}: no such file to serve")
    folder.mkdir(exist_ok=True)
    link = folder / source.name
    link.unlink(missing_ok=True)
    link.symlink_to(source)
