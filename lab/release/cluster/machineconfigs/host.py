"""A node's own files, units and users, as its MachineConfig wants them: written, compared, put back.

`root` is the node's file system. What a config's files replace is kept below `ORIGINALS` and comes back with the config
that no longer has them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from installer.common.secretfiles import write_private
from lab.release.cluster import templates
from lab.release.cluster.errors import ClusterError
from lab.release.cluster.ignition import document, machineconfig
from lab.release.cluster.kube.client import Object
from lab.release.cluster.machineconfigs import changes
from lab.release.cluster.machineconfigs.changes import Change

log = logging.getLogger(__name__)

PENDING, ORIGINALS = changes.PENDING, changes.ORIGINALS
SYSTEMD = "/etc/systemd/system"
PROGRAM_SECONDS = 120.0
#: Read now: later this process has the node's files before it.
_KERNEL_ARGUMENTS = templates.text(machineconfig.FIRSTBOOT_SCRIPT)


class HostError(ClusterError):
    """Something on the node cannot be done, or is not as the config wants it."""


class DriftError(HostError):
    """A file or a unit on the node is not as the config that it runs has it."""


def content(entry: dict[str, Any]) -> bytes:
    """Return the content of a file of a rendered config."""
    contents = entry.get("contents") or {}
    return document.read(contents.get("source") or "data:,", contents.get("compression"))


def wanted_files(config: Object) -> dict[str, tuple[bytes, int]]:
    """Return all that a config has as files, units and drop-ins among them: content and mode by path."""
    wanted = {path: (content(entry), entry.get("mode", 0o644)) for path, entry in changes.files(config).items()}
    for name, unit in changes.units(config).items():
        if unit.get("contents") and not unit.get("mask"):
            wanted[f"{SYSTEMD}/{name}"] = (unit["contents"].encode(), 0o644)
        for dropin in unit.get("dropins") or []:
            if dropin.get("contents"):
                wanted[f"{SYSTEMD}/{name}.d/{dropin['name']}"] = (dropin["contents"].encode(), 0o644)
    return wanted


def masked(config: Object) -> set[str]:
    """Return the paths of the units that a config masks."""
    return {f"{SYSTEMD}/{name}" for name, unit in changes.units(config).items() if unit.get("mask")}


class Host:
    """A node's file system and its systemd."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def at(self, path: str) -> Path:
        """Return a path of the node as this process sees it."""
        return self._root / path.lstrip("/")

    def run(self, *argv: str, text: str = "", may_fail: bool = False, seconds: float = PROGRAM_SECONDS) -> str:
        """Return what a program of the node prints. Raises HostError, also where it fails and may not."""
        try:
            done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=seconds, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise HostError(f"{argv[0]}: {error}") from error
        if done.returncode and not may_fail:
            raise HostError(f"{' '.join(argv[:3])}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def boot_id(self) -> str:
        """Return the id of the node's boot."""
        return self.at("/proc/sys/kernel/random/boot_id").read_text().strip()

    def load(self, path: str) -> Any:
        """Return a JSON file of the daemon's own, or None."""
        try:
            return json.loads(self.at(path).read_text())
        except FileNotFoundError:
            return None

    def save(self, path: str, value: object) -> None:
        """Write a JSON file of the daemon's own."""
        self._put(path, json.dumps(value).encode(), 0o600)

    def forget(self, path: str) -> None:
        """Remove a file, if it is there."""
        self.at(path).unlink(missing_ok=True)

    def _put(self, path: str, raw: bytes, mode: int, owner: tuple[int, int] = (0, 0)) -> None:
        place = self.at(path)
        temporary = place.with_name(f".{place.name}.mcd")
        write_private(temporary, raw)
        try:
            os.chown(temporary, *owner)
            temporary.chmod(mode)
            temporary.rename(place)
        except OSError:
            temporary.unlink()
            raise

    def _keep(self, path: str) -> None:
        """Keep what a config's file is about to replace for the first time."""
        place, kept = self.at(path), self.at(ORIGINALS + path)
        if (place.is_file() or place.is_symlink()) and not os.path.lexists(kept):
            kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _copy(place, kept)

    def _remove(self, path: str) -> None:
        place, kept = self.at(path), self.at(ORIGINALS + path)
        # Where a directory is, or a file in the place of a folder above, the config's own file could not be written.
        with contextlib.suppress(IsADirectoryError, NotADirectoryError):
            place.unlink(missing_ok=True)
        if os.path.lexists(kept):
            _copy(kept, place)
            kept.unlink()
        log.info("removed %s", path)

    def apply(self, old: Object, new: Object, what: Change, *, begun: bool = False) -> None:
        """Bring the node's files, units, keys and boot loader from one config to another; ``begun`` where that may have
        been done in part. Raises HostError, OSError."""
        before, after = wanted_files(old), wanted_files(new)
        # While the files are there that say what it is enabled for.
        gone = [name for name, unit in changes.units(old).items() if unit.get("contents")]
        for name in sorted(set(gone) - changes.units(new).keys()):
            self.run("systemctl", "disable", "--", name)
        entries = changes.files(new)
        for path in sorted(after):
            if path not in before and not (begun and self._has(path, *after[path])):
                self._keep(path)
            owner = self._owner(entries[path]) if path in entries else (0, 0)
            if before.get(path) != after[path] or not self._has(path, *after[path]) or path in what.files:
                self._put(path, *after[path], owner)
        for path in sorted(before.keys() - after.keys()):
            self._remove(path)
        self._units(old, new, what)
        if "core" in what.users:
            self._core(changes.users(new).get("core", {}))
        if what.kernel_arguments:
            earlier, later = (" ".join(machineconfig.kernel_arguments(config)) for config in (old, new))
            # Mounts are made among the node's own.
            inside = ("nsenter", "--target", "1", "--mount", "--", "bash", "-s", "--")
            self.run(*inside, f"{earlier} {later}", later, text=_KERNEL_ARGUMENTS)

    def _units(self, old: Object, new: Object, what: Change) -> None:
        for path in masked(old) - masked(new):
            self._remove(path)
        for path in masked(new) - masked(old):
            self._keep(path)
            self.at(path).unlink(missing_ok=True)
            self.at(path).symlink_to("/dev/null")
        if not what.units:
            return
        self.run("systemctl", "daemon-reload")
        earlier, later = changes.units(old), changes.units(new)
        for name in sorted(what.units):
            enabled = later.get(name, {}).get("enabled")
            own = bool(later.get(name, {}).get("contents"))
            if enabled is not None:
                # A unit that the OS lacks, and that only has drop-ins, cannot be enabled.
                self.run("systemctl", "enable" if enabled else "disable", "--", name, may_fail=not own)
            elif not own and earlier.get(name, {}).get("enabled") is not None and not earlier[name].get("contents"):
                self.run("systemctl", "preset", "--", name, may_fail=True)

    def _core(self, user: dict[str, Any]) -> None:
        """Write the keys and the password hash of the user core."""
        _, _, uid, gid, _, home, *_ = self._account("/etc/passwd", "core")
        owner = (int(uid), int(gid))
        keys = "".join(f"{key}\n" for key in user.get("sshAuthorizedKeys") or [])
        folder = f"{home}/.ssh"
        fragment = self.at(f"{folder}/authorized_keys.d/ignition")
        path = f"{folder}/authorized_keys.d/ignition" if fragment.parent.is_dir() else f"{folder}/authorized_keys"
        if not self.at(folder).exists():
            self.at(folder).mkdir(mode=0o700)
            os.chown(self.at(folder), *owner)
        self._put(path, keys.encode(), 0o600, owner)
        self.run("chpasswd", "--encrypted", text=f"core:{user.get('passwordHash') or '*'}\n")

    def _account(self, database: str, name: str) -> list[str]:
        """Return a line of /etc/passwd or /etc/group. Raises HostError for a name that the node does not know."""
        for line in self.at(database).read_text().splitlines():
            if line.startswith(f"{name}:"):
                return line.split(":")
        raise HostError(f"{name!r} is not in {database}")

    def _owner(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Return the numbers of a file's user and group. Raises HostError."""
        numbers = []
        for field, database in (("user", "/etc/passwd"), ("group", "/etc/group")):
            owner = entry.get(field) or {}
            by_name = self._account(database, owner["name"])[2] if owner.get("name") else 0
            numbers.append(int(owner["id"] if owner.get("id") is not None else by_name))
        return numbers[0], numbers[1]

    def _has(self, path: str, raw: bytes, mode: int) -> bool:
        try:
            status = self.at(path).lstat()
            return stat.S_IMODE(status.st_mode) == mode and self.at(path).read_bytes() == raw
        except OSError:
            return False

    def check(self, config: Object) -> None:
        """Raise DriftError for the first file, unit or drop-in that is not as a config has it."""
        for path, (raw, mode) in wanted_files(config).items():
            try:
                real = stat.S_IMODE(self.at(path).lstat().st_mode)
                same = self.at(path).read_bytes() == raw
            except OSError as error:
                raise DriftError(f'could not stat file "{path}": {error.strerror}') from error
            if real != mode:
                raise DriftError(f'mode mismatch for file: "{path}"; expected: {mode:#o}; received: {real:#o}')
            if not same:
                raise DriftError(f'content mismatch for file "{path}"')
        for path in masked(config):
            if not self.at(path).is_symlink() or os.readlink(self.at(path)) != "/dev/null":
                raise DriftError(f'invalid unit masked setting. path: "{path}"; expected: /dev/null')
        self._check_enabled(config)

    def _check_enabled(self, config: Object) -> None:
        bad = {True: ("disabled", "masked", "masked-runtime", "not-found"), False: ("enabled", "enabled-runtime")}
        for name, unit in changes.units(config).items():
            enabled = unit.get("enabled")
            if not unit.get("contents") or unit.get("mask") or enabled is None:
                continue
            state = self.run("systemctl", "is-enabled", "--", name, may_fail=True).strip() or "not-found"
            if state in bad[enabled]:
                text = str(enabled).lower()
                raise DriftError(f'unit "{name}" expected enabled={text}, but systemd reports "{state}"')

    def traces(self, paths: Iterable[str]) -> tuple[object, ...]:
        """Return what changes when one of the files does, or a unit is enabled or disabled; it costs a stat each."""
        links = [
            f"{SYSTEMD}/{p.name}" for ending in ("wants", "requires") for p in self.at(SYSTEMD).glob(f"*.{ending}")
        ]
        return tuple(_trace(self.at(path)) for path in [*paths, SYSTEMD, *sorted(links)])


def _copy(source: Path, target: Path) -> None:
    """Copy a file, or a link itself, with its owner."""
    shutil.copy2(source, target, follow_symlinks=False)
    status = source.lstat()
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not source.is_symlink():
        target.chmod(stat.S_IMODE(status.st_mode))  # a change of owner clears the set-id bits


def _trace(place: Path) -> object:
    try:
        status = place.lstat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_ino, status.st_mode, status.st_size
