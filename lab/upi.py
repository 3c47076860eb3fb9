"""A cluster whose machines the user boots (UPI): the lab is the user, who does what docs/upi.md tells.

Ignition configs lie on the lab's HTTP server; machines boot the release's live ISO, or by PXE its kernel, and arguments
have them install themselves. When the bootstrap is complete its machine leaves the load balancer and the lab; workers
boot then, and their requests for certificates are approved by hand.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from lab.deploy import CREATE_SECONDS, WAIT_SECONDS, Deployment, adapt_install_config, read_install, succeeded, write
from lab.derive import INSTALL
from lab.errors import LabError
from lab.inputs.changes import differences
from lab.inputs.configs import through_proxy
from lab.subject.installer import default_installer
from lab.topology import NodeSpec, Topology
from lab.waiting import wait_until

LIVE = "live.iso"
_PXE = {name: f"images/pxeboot/{name}" for name in ("vmlinuz", "initrd.img", "rootfs.img")}
# An argument of the ISO alone: where it has its root file system.
_OF_ISO = "coreos.liveiso="
_TOOL_SECONDS = 300
_WORKER_SECONDS = 1800.0
_KUBECTL_SECONDS = 60


def static_arguments(topology: Topology, node: NodeSpec) -> Iterator[str]:
    """Yield the kernel's arguments for a machine's network where no DHCP configures it (dracut.cmdline(7))."""
    if topology.addressing == "dhcp":
        return
    network = next(network for network in topology.machine_networks if network.holds(node.ip))
    nic = next(nic.name for link in topology.links(node) for nic in link.nics if nic.mac == node.mac)
    mask = IPv4Interface(network.ipv4).netmask
    yield f"ip={node.ip}::{network.gateway_of(4)}:{mask}:{node.name}:{nic}:none"
    yield from (f"nameserver={text}" for text in network.dns_servers)


def install_arguments(topology: Topology, node: NodeSpec, ignition: str) -> list[str]:
    """Return the kernel's arguments by which a machine installs itself with the Ignition config at a URL."""
    return [
        f"coreos.inst.install_dev={node.root_device}",
        f"coreos.inst.ignition_url={ignition}",
        *static_arguments(topology, node),
    ]


@dataclass(frozen=True)
class UserProvisioned(Deployment):
    """A deployment with a bootstrap machine."""

    def prepare(self, source: Path, *, adapt: bool, as_is: bool = False, skip: Collection[Path] = ()) -> list[str]:
        """As Deployment.prepare, of install-config.yaml alone."""
        super().prepare(source, adapt=False, skip=skip)
        if not adapt:
            return []
        before = read_install(source)
        after = through_proxy(adapt_install_config(before, self.lab.access), self.topology)
        write(self.directory / INSTALL, after)
        return list(differences(INSTALL, before, after))

    def create_image(self) -> Path:
        """Make the Ignition configs, and what each machine boots; returns the live ISO. Raises InstallFailedError,
        LabError."""
        with self.lab.phase("create image"):
            made = self.node0("create", "ignition-configs", timeout=CREATE_SECONDS)
            succeeded("create ignition-configs", made)
            live = self.directory / LIVE
            succeeded("iso fetch", self.node0("iso", "fetch", str(live), timeout=CREATE_SECONDS))
            urls = {
                role: self.lab.layout.offer(self.directory / f"{role}.ign")
                for role in dict.fromkeys(node.role for node in self.topology.nodes)
            }
            by_pxe = self.topology.boot == "pxe"
            if by_pxe:
                self._offer_kernel(live)
            for node in self.topology.nodes:
                arguments = install_arguments(self.topology, node, urls[node.role])
                if by_pxe:
                    self._write_script(node, live, arguments)
                else:
                    appended = [f"--append={word}" for word in arguments]
                    self._iso("kargs", *appended, "--output", str(self._image(node)), str(live))
            return live

    def _image(self, node: NodeSpec) -> Path:
        return self.directory / f"{node.name}.iso"

    def _iso(self, *words: str) -> str:
        """Run `node0 iso WORDS`; return what it printed. Raises LabError."""
        completed = self.lab.run([*default_installer(), "iso", *words], timeout=_TOOL_SECONDS, name=f"iso-{words[0]}")
        if completed.returncode:
            raise LabError(f"node0 iso {words[0]}: {completed.stderr.strip()}")
        return completed.stdout

    def _offer_kernel(self, live: Path) -> None:
        for name, path in _PXE.items():
            self._iso("extract", str(live), path, "--output", str(self.directory / name))
            self.lab.layout.offer(self.directory / name)

    def _write_script(self, node: NodeSpec, live: Path, arguments: list[str]) -> None:
        url = self.lab.layout.boot_url
        own = [word for word in self._iso("kargs", str(live)).split() if not word.startswith(_OF_ISO)]
        words = ["initrd=initrd", f"coreos.live.rootfs_url={url}/rootfs.img", *own, *arguments]
        script = self.directory / f"{node.name}.ipxe"
        lines = ("#!ipxe", f"initrd --name initrd {url}/initrd.img", f"kernel {url}/vmlinuz {' '.join(words)}", "boot")
        script.write_text("\n".join(lines) + "\n")
        self.lab.layout.offer(script)

    def boot(self, *names: str, image: Path | None = None) -> None:
        """Boot these machines (default: all but workers, which come when the control plane runs)."""
        if image is not None:
            raise LabError("machines with a bootstrap machine boot an image for each role, not one for all")
        chosen = names or [node.name for node in self.topology.nodes if node.role != "worker"]
        nodes = [self.lab.nodes[name] for name in chosen]
        with self.lab.phase("insert media"):
            for node in nodes:
                if self.topology.boot != "pxe":
                    node.media.insert(self._image(node.spec))
        with self.lab.phase("power on"):
            for node in nodes:
                node.start()

    def wait(self, timeout: float = WAIT_SECONDS) -> None:
        """Do the rest: wait for the bootstrap, remove its machine, boot workers, wait for the cluster. Raises
        InstallFailedError, LabError."""
        succeeded("wait-for bootstrap-complete", self.wait_for("bootstrap-complete", timeout))
        bootstrap = self.topology.bootstrap
        if bootstrap is not None:
            with self.lab.phase("remove the bootstrap machine"):
                self.lab.dismiss(bootstrap.name)
        if workers := [node.name for node in self.topology.workers]:
            self.boot(*workers)
            with self.lab.phase("approve the workers"):
                self.approve(workers)
        succeeded("wait-for install-complete", self.wait_for("install-complete", timeout))

    def waiting(self, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run `wait-for WORDS`; any exit code is a result."""
        return self.node0("wait-for", *words, timeout=timeout)

    def kubectl(self, *words: str) -> str:
        """Run kubectl as the cluster's administrator; return what it printed. Raises LabError."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *words]
        completed = self.lab.run(command, timeout=_KUBECTL_SECONDS, name="kubectl")
        if completed.returncode:
            raise LabError(f"kubectl {words[0]}: {completed.stderr.strip()}")
        return completed.stdout

    def approve(self, names: Collection[str], seconds: float = _WORKER_SECONDS) -> None:
        """Approve the requests of these nodes' kubelets for client certificates, until all nodes are there.

        Raises WaitTimeout.
        """
        seen = "no request"

        def joined() -> bool:
            nonlocal seen
            try:
                for name, node in self.pending():
                    seen = f"request {name} of {node}"
                    if node in names:
                        self.kubectl("certificate", "approve", name)
                nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
            except LabError as error:
                seen = str(error)
                return False
            return {item["metadata"]["name"] for item in nodes} >= set(names)

        wait_until(joined, seconds, f"nodes {', '.join(names)}", lambda: seen, poll=5.0)

    def pending(self) -> Iterator[tuple[str, str]]:
        """Yield name and node of each request for a certificate that nobody has decided on. Raises LabError."""
        for item in json.loads(self.kubectl("get", "csr", "-o", "json"))["items"]:
            if not (item.get("status") or {}).get("conditions"):
                yield item["metadata"]["name"], node_of(item)


def node_of(request: dict[str, object]) -> str:
    """Return the node whose kubelet made a CertificateSigningRequest: of its first one the request itself tells."""
    spec = request["spec"]
    assert isinstance(spec, dict)
    subject = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value).removeprefix("system:node:") if names else ""
