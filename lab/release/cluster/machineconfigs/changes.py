"""The way of a node from one rendered MachineConfig to another, as pure functions: the difference, the part of it that
no running node can do, and the actions that follow (reference/machine-configs.md §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from lab.release.cluster.ignition import containerd, machineconfig
from lab.release.cluster.kube.client import Object

Entries = dict[str, dict[str, Any]]

#: An administrator makes this file to have the daemon go on despite drift.
FORCE_FILE = "/run/machine-config-daemon-force"
#: The daemon's own: what it is about to do, and the files that configs have replaced.
PENDING, ORIGINALS = "/etc/machine-config-daemon/pending.json", "/etc/machine-config-daemon/orig"
REBOOT, TRUST = "reboot", "update-ca-trust"
#: Files, and folders, that are read anew whenever they are needed: nothing has to be done when they change.
_READ_ANEW = (
    "/etc/containers/policy.json",
    "/etc/containers/registries.conf",
    "/etc/kubernetes/kubelet-ca.crt",
    "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
    "/root/.docker/config.json",
    "/var/lib/kubelet/config.json",
)
_READ_ANEW_BELOW = ("/etc/containerd/certs.d", "/etc/containers/registries.d")
#: CAs that programs know only once the bundle is made anew and containerd has started again.
_ANCHORS = (containerd.TRUST_ANCHOR, "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt")


def _section(config: Object, section: str, part: str) -> list[dict[str, Any]]:
    return ((config["spec"].get("config") or {}).get(section) or {}).get(part) or []


def files(config: Object) -> Entries:
    """Return a config's files by path."""
    return {entry["path"]: entry for entry in _section(config, "storage", "files")}


def units(config: Object) -> Entries:
    """Return a config's units by name."""
    return {entry["name"]: entry for entry in _section(config, "systemd", "units")}


def users(config: Object) -> Entries:
    """Return a config's users by name."""
    return {entry["name"]: entry for entry in _section(config, "passwd", "users")}


def os_image(config: Object) -> str:
    """Return the image of the machine OS that a rendered config asks for."""
    return str(config["spec"].get("osImageURL") or "")


def _differs(read: Callable[[Object], Entries], old: Object, new: Object) -> set[str]:
    before, after = read(old), read(new)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@dataclass(frozen=True)
class Change:
    """The difference of two configs, by paths and names, and what follows from it."""

    files: frozenset[str]
    units: frozenset[str]
    users: frozenset[str]
    kernel_arguments: bool
    os_image: bool

    @property
    def actions(self) -> tuple[str, ...]:
        """The way into force: a reboot, unless every file of the change is known to need less."""
        if self.units or self.kernel_arguments or self.os_image:
            return (REBOOT,)
        actions: set[str] = set()
        for path in self.files:
            if path in _ANCHORS:
                actions.add(TRUST)
            elif path not in _READ_ANEW and not any(
                PurePosixPath(path).is_relative_to(folder) for folder in _READ_ANEW_BELOW
            ):
                return (REBOOT,)
        return tuple(actions)


def change(old: Object, new: Object) -> Change:
    """Return the difference of two rendered configs."""
    return Change(
        frozenset(_differs(files, old, new)),
        frozenset(_differs(units, old, new)),
        frozenset(_differs(users, old, new)),
        machineconfig.kernel_arguments(old) != machineconfig.kernel_arguments(new),
        os_image(old) != os_image(new),
    )


def irreconcilable(old: Object, new: Object) -> list[str]:
    """Return what of a change no running node can do, a text each; the field's own words."""
    fixed = ("disks", "filesystems", "raid", "luks", "directories", "links")
    changed = [part for part in fixed if _section(old, "storage", part) != _section(new, "storage", part)]
    wrong = [f"ignition {part} section contains changes" for part in changed]
    if _section(old, "passwd", "groups") != _section(new, "passwd", "groups"):
        wrong.append("ignition passwd groups section contains changes")
    if _differs(users, old, new):
        for name, user in users(new).items():
            if name != "core":
                wrong.append(f"ignition passwd user section contains unsupported changes: non-core user {name}")
            elif more := sorted(user.keys() - {"name", "sshAuthorizedKeys", "passwordHash"}):
                wrong.append(f"ignition passwd user core: only SSH keys and password hash, not {', '.join(more)}")
    wrong += [f"ignition file {path} includes append" for path, entry in files(new).items() if entry.get("append")]
    wrong += [
        f"cannot create {path} via Ignition"
        for path in files(new)
        if path in (FORCE_FILE, PENDING) or PurePosixPath(path).is_relative_to(ORIGINALS)
    ]
    if bool(old["spec"].get("fips")) != bool(new["spec"].get("fips")):
        wrong.append("detected change to FIPS flag; refusing to modify FIPS on a running cluster")
    return wrong
