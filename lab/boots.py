"""Ways to boot: what the installer makes for each, where the lab puts it, and what a machine needs besides its power.

`iso`, `minimal-iso`, `pxe` and `http-boot` boot one cluster's files. `config-image` boots a live system that knows no
cluster (an appliance's), which a second medium brings. `discovery-iso` is a service's image, not the installer's: who
uses it hands over the image (lab.deploy.Deployment.boot).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from lab.errors import LabError
from lab.lab import Lab
from lab.layout import IPXE_SCRIPT
from lab.machines import disks
from lab.machines.node import Node
from lab.subject.installer import default_installer
from lab.topology import FROM_NETWORK, FROM_STICK, Topology
from lab.waiting import wait_until

#: What `agent create` writes for network boots and minimal images.
ARTIFACTS = "boot-artifacts"
CONFIG_IMAGE = "agentconfig.noarch.iso"
_UNCONFIGURED = "unconfigured-agent.ign"
_LIVE = "unconfigured.iso"
# What an unconfigured live system has of cluster-manifests/ and mirror/ (reference/installer.md §2.2).
_USED = ("infraenv.yaml", "pull-secret.yaml", "cluster-image-set.yaml", "nmstateconfig.yaml")
_EMBED_SECONDS = 300
_LOGIN_SECONDS = 900.0
# The last file that a config image brings.
_LOADED, _LOADED_SECONDS = "/etc/assisted/rendezvous-host.env", 180.0

#: What `agent create` is asked to make.
Target = Literal["image", "pxe-files", "config-image", "unconfigured-ignition", "cluster-manifests"]


class ImageMaker(Protocol):
    """A runner of the installer that makes machines' boot media; lab.deploy.Deployment is it."""

    @property
    def lab(self) -> Lab:
        """The lab."""

    @property
    def topology(self) -> Topology:
        """Its topology."""

    @property
    def directory(self) -> Path:
        """The installer's --dir."""

    def create(self, target: Target, directory: Path | None = None) -> None:
        """Run `agent create TARGET`."""


def make(maker: ImageMaker) -> Path:
    """Run the installer, and put what machines fetch where they fetch it; returns the image, or PXE's script.

    Raises InstallFailedError.
    """
    boot_way = maker.topology.boot
    if boot_way == "config-image":
        image = _unconfigured(maker)
        maker.create("config-image")
        return image
    maker.create("pxe-files" if boot_way == "pxe" else "image")
    offer = maker.lab.layout.offer
    for file in sorted((maker.directory / ARTIFACTS).glob("*")):
        offer(file)
    if boot_way == "pxe":
        return maker.directory / ARTIFACTS / IPXE_SCRIPT
    image = live_image(maker.directory)
    if boot_way == "http-boot":
        offer(image)
    return image


def live_image(directory: Path) -> Path:
    """Return the ISO that `agent create image` wrote."""
    [image] = directory.glob("agent.*.iso")
    return image


def provide(maker: ImageMaker, node: Node) -> None:
    """Give a machine that is off what it boots from, by the topology's way."""
    boot_way = maker.topology.boot
    if boot_way == "config-image":
        node.media.insert(maker.directory / CONFIG_IMAGE)
    if boot_way in FROM_STICK:
        image = _folder(maker) / _LIVE if boot_way == "config-image" else live_image(maker.directory)
        disks.write_stick(maker.lab.layout, node.spec, image)
    elif boot_way not in FROM_NETWORK:
        node.media.insert(live_image(maker.directory))


def after_power_on(maker: ImageMaker, nodes: Iterable[Node]) -> None:
    """Do the rest of a boot, for machines that have been switched on.

    A container machine has no udev: what its rule for a config image would start is started here.
    """
    if maker.topology.boot != "config-image" or maker.topology.machine != "container":
        return
    with maker.lab.phase("load config images"):
        for node in nodes:
            host = node.ssh(_LOGIN_SECONDS)
            # As a rule's SYSTEMD_WANTS does; nobody waits for it, since it has systemd execute itself anew.
            completed = host.run("sudo systemctl start --no-block load-config-iso@dev-sr0.service")
            if completed.rc:
                raise LabError(f"the config image of {node.name}: {completed.stderr.strip()}")
            wait_until(
                partial(_succeeds, host, f"sudo test -e {_LOADED}"), _LOADED_SECONDS, f"{_LOADED} on {node.name}"
            )


def _succeeds(host: Any, command: str) -> bool:
    return bool(host.run(command).rc == 0)


def _folder(maker: ImageMaker) -> Path:
    return maker.lab.layout.root / "unconfigured"


def _unconfigured(maker: ImageMaker) -> Path:
    """Return a live ISO with the Ignition config of no cluster: what the vendor of an appliance ships.

    Its own directory: only what does not belong to the cluster goes into it. Raises InstallFailedError, LabError.
    """
    folder = _folder(maker)
    for name in ("manifests", "base", "appliance"):
        (folder / name).mkdir(mode=0o700, parents=True)
    for name in ("manifests", "base"):
        for config in ("install-config.yaml", "agent-config.yaml"):
            shutil.copyfile(maker.directory / config, folder / name / config)
    maker.create("cluster-manifests", folder / "manifests")
    manifests = folder / "appliance/cluster-manifests"
    manifests.mkdir()
    for name in _USED:
        source = folder / "manifests/cluster-manifests" / name
        if source.exists():
            shutil.copyfile(source, manifests / name)
    if (folder / "manifests/mirror").is_dir():
        shutil.copytree(folder / "manifests/mirror", folder / "appliance/mirror")
    maker.create("unconfigured-ignition", folder / "appliance")
    # The release's own live ISO, out of an image of the same release.
    maker.create("image", folder / "base")
    image = folder / _LIVE
    live_image(folder / "base").rename(image)
    tool = [*default_installer(), "iso"]
    for words in (
        ["reset", str(image)],
        ["embed", "--ignition", str(folder / "appliance" / _UNCONFIGURED), str(image)],
    ):
        completed = maker.lab.run([*tool, *words, "--dir", str(folder)], timeout=_EMBED_SECONDS, name=f"iso-{words[0]}")
        if completed.returncode:
            raise LabError(f"node0 iso {words[0]}: {completed.stderr.strip()}")
    shutil.rmtree(folder / "base")
    return image
