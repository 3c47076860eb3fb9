"""The node's machine OS, by its own `rpm-ostree`: the deployment that runs, the next one's, and the way to it
(docs/machine-os.md, "Deployments").

The program runs as a unit of the node's systemd: it mounts, and pulls an image as the node's user root.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lab.release.cluster.kube.client import Object
from lab.release.cluster.machineconfigs import changes
from lab.release.cluster.machineconfigs.host import DriftError, Host, HostError

#: The image by which the release names the OS that the node was installed with: the installed disk names none.
INSTALLED = "/etc/machine-config-daemon/installed-os.json"
FETCH_SECONDS = 1200.0
_UNIT = ("systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--setenv=HOME=/root")
_PROXY = "--property=EnvironmentFile=-/etc/mco/proxy.env"
#: How `Host.run` begins to say that such a unit failed.
_FAILED = f"{' '.join(_UNIT[:3])}: "
_UNVERIFIED = "ostree-unverified-registry:"


@dataclass(frozen=True)
class Deployment:
    """A deployment: the image that it was made of, its version, and why it was given up, if it was."""

    image: str
    version: str
    booted: bool
    staged: bool
    failed: str


class Deployments:
    """The deployments of a node. Functions raise HostError."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def _rpm_ostree(self, *words: str) -> str:
        try:
            return self._host.run(*_UNIT, _PROXY, "rpm-ostree", *words, seconds=FETCH_SECONDS)
        except HostError as error:
            raise HostError(f"rpm-ostree {words[0]}: {str(error).removeprefix(_FAILED)}") from error

    def all(self) -> list[Deployment]:
        """Return what is on the disk."""
        installed = self._host.load(INSTALLED) or {"image": ""}
        rows = json.loads(self._rpm_ostree("status", "--json"))["deployments"]
        return [
            Deployment(
                row["container-image-reference"].removeprefix(_UNVERIFIED) or installed["image"],
                **{name: row[name] for name in ("version", "booted", "staged", "failed")},
            )
            for row in rows
        ]

    def booted(self) -> Deployment:
        """Return the deployment that runs."""
        return next(deployment for deployment in self.all() if deployment.booted)

    def adopt(self, image: str, version: str) -> bool:
        """Note the image that the installed OS is of, if it is of that version; return whether the image of the OS that
        runs is known."""
        booted = self.booted()
        if not booted.image and version and booted.version == version:
            self._host.save(INSTALLED, {"image": image})
            return True
        return bool(booted.image)

    def stage(self, config: Object) -> None:
        """Fetch the OS that a config wants, unless it runs or has been fetched."""
        wanted = changes.os_image(config)
        if wanted and not any(d.image == wanted and (d.booted or d.staged) for d in self.all()):
            self._rpm_ostree("rebase", "--experimental", "--lock-finalization", _UNVERIFIED + wanted)

    def reboot(self, config: Object) -> None:
        """Reboot, into the OS that a config wants."""
        wanted = changes.os_image(config)
        if wanted and any(d.image == wanted and d.staged for d in self.all()):
            self._rpm_ostree("finalize-deployment", "--allow-missing-checksum")
        else:
            self._host.run("systemctl", "--no-block", "reboot")

    def check(self, config: Object, *, unknown: bool = False) -> None:
        """Raise DriftError where another OS runs than a config wants, with the reason why that one was given up;
        ``unknown`` allows for an installed OS whose image nobody has noted yet."""
        wanted = changes.os_image(config)
        if not wanted:
            return
        deployments = self.all()
        booted = next(d for d in deployments if d.booted)
        if booted.image != wanted and not (unknown and not booted.image):
            why = next((f"; rolled back: {d.failed}" for d in deployments if d.image == wanted and d.failed), "")
            raise DriftError(f'expected target osImageURL "{wanted}", have "{booted.image}" ({booted.version}){why}')

    def waits(self, config: Object) -> bool:
        """Return whether the OS that a config wants has been fetched, and not been booted yet."""
        return any(d.image == changes.os_image(config) and d.staged for d in self.all())
