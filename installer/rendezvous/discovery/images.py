"""Discovery images: a live system that runs nothing but the agent, for one infra-env (reference/installer.md §5.1)."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from installer.assisted.errors import BadRequest, NotFound, PrepareError
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.errors import ConfigError, EmbedTooBig, InstallerError, NotIso9660
from installer.ignition.early import network_archive
from installer.image.artifacts import LiveChanges, write_iso, write_pxe
from installer.image.iso.embed import operated, set_kargs_patches
from installer.image.iso.minimal import minimal_kargs
from installer.rendezvous.catalogue import Contents
from installer.rendezvous.discovery import liveconfig, payload
from installer.rendezvous.discovery.refusals import Refusals
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv

ISOS = {"full.iso": False, "minimal.iso": True}
BOOT_FILES = ("vmlinuz", "initrd.img", "rootfs.img")


def kernel_arguments(infra_env: InfraEnv, before: str) -> str:
    """Return an image's arguments ``before`` with the infra-env's edits. Raises BadRequest for edits that do not
    apply."""
    try:
        return operated(before, msgspec.to_builtins(infra_env.kernel_arguments))
    except ConfigError as error:
        raise BadRequest(f"kernel_arguments: {error}") from None


def _room_of(error: EmbedTooBig, subject: str) -> BadRequest:
    return BadRequest(f"{subject}: {error.size} bytes are more than the {error.limit} that the image has for them")


def _fail(step: str, error: InstallerError | OSError) -> NoReturn:
    """Raise BadRequest for a base ISO that is gone or damaged, and PrepareError for the rest, such as a full disk."""
    failed = PrepareError(step, str(error))
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
        raise failed from error
    raise BadRequest(str(failed)) from failed


class DiscoveryImages:
    """Makes each image once for each state of its infra-env. Thread-safe.

    ``settings``: by infra-env, the service's own for none. ``adopt`` gets what the service's own release says.
    """

    def __init__(
        self,
        settings: Callable[[InfraEnv | None], Settings],
        agent_token: str,
        rootfs_url: Callable[[InfraEnv], str],
        adopt: Callable[[Contents], None],
    ) -> None:
        self._settings, self._token, self._rootfs_url, self._adopt = settings, agent_token, rootfs_url, adopt
        self._lock, self._learning = threading.Lock(), threading.Lock()
        self._reading = Refusals()

    def payload_of(self, infra_env: InfraEnv) -> payload.Payload:
        """Return the release for an infra-env's images, fetched if it is not known yet. Raises BadRequest."""
        settings = self._settings(infra_env)
        try:
            release = payload.cached(settings, infra_env.cpu_architecture) or payload.fetch(settings, infra_env)
        except PrepareError as error:
            # Not the service's fault, but that of the registry, the pull secret or the name of the release.
            raise error if isinstance(error.__cause__, OSError) else BadRequest(str(error)) from error
        if settings.release_image == self._settings(None).release_image:
            self._adopt(release)
        return release

    def check(self, infra_env: InfraEnv) -> None:
        """Raise BadRequest for NICs without a mapping, and kernel arguments that the image has no room for.

        The image's room is known once its base is there. Raises PrepareError.
        """
        liveconfig.check_mapped(infra_env)
        if not infra_env.kernel_arguments:
            return
        try:
            release = payload.cached(self._settings(infra_env), infra_env.cpu_architecture)
            if release is None:
                return
            with release.iso.open("rb") as file:
                iso = Iso(file, release.iso, NotIso9660)
                area = kargs_area(iso)
                if area is None:
                    raise BadRequest("kernel_arguments: the image has no place for any")
                before = current_kargs(iso, area)
                if infra_env.type == "minimal-iso":
                    before = minimal_kargs(before, self._rootfs_url(infra_env))
                set_kargs_patches(iso, area, kernel_arguments(infra_env, before))
        except BadRequest:
            raise
        except EmbedTooBig as error:
            raise _room_of(error, "kernel_arguments") from None
        except PrepareError as error:
            raise BadRequest(str(error)) from error
        except (InstallerError, OSError) as error:
            _fail("base ISO", error)

    def learn(self, pull_secret: str) -> None:
        """Read the release with this pull secret where its version is not known yet. Raises BadRequest."""
        # Not the images' lock: a registration must not wait for a download.
        with self._learning:
            settings = self._settings(None)
            if settings.openshift_version or not settings.release_image:
                return
            try:
                self._adopt(payload.learn(settings, pull_secret))
            except PrepareError as error:
                raise BadRequest(f"openshift_version cannot be judged: {error}") from error

    def read(self, settings: Settings, pull_secret: str) -> None:
        """Read a release that a hub has named, and note what it says. Raises BadRequest, at once while an earlier
        refusal of the same holds."""
        with self._reading.turn(settings.release_image, pull_secret) as note:
            try:
                payload.learn(settings, pull_secret)
            except PrepareError as error:
                note(str(error))
                raise BadRequest(str(error)) from error

    def ignition(self, infra_env: InfraEnv) -> bytes:
        """Return the Ignition config. Raises PrepareError, BadRequest."""
        with self._lock:
            return self._ignition(infra_env, self.payload_of(infra_env))

    def _ignition(self, infra_env: InfraEnv, release: payload.Payload) -> bytes:
        return liveconfig.ignition(
            infra_env, self._settings(infra_env), self._token, release.images["AGENT_DOCKER_IMAGE"]
        )

    def minimal_initrd(self, infra_env: InfraEnv) -> bytes:
        """Return a minimal image's addition to its initrd: static networks, empty without any. Raises PrepareError."""
        return network_archive(liveconfig.network(infra_env))

    def network_tar(self, infra_env: InfraEnv) -> bytes:
        """Return the files of the hosts' static networks, as upstream packs them; empty without any. Raises
        PrepareError."""
        files, buffer = liveconfig.network(infra_env), io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for file in files:
                member = tarfile.TarInfo(file.path)
                member.mode, member.size = file.mode, len(file.content)
                archive.addfile(member, io.BytesIO(file.content))
        return buffer.getvalue() if files else b""

    def file(self, infra_env: InfraEnv, name: str) -> Path:
        """full.iso, minimal.iso, vmlinuz, initrd.img or rootfs.img. Raises NotFound, PrepareError, BadRequest."""
        if name not in ISOS and name not in BOOT_FILES:
            raise NotFound(f"{name!r} is not one of {', '.join((*ISOS, *BOOT_FILES))}")
        with self._lock:
            release = self.payload_of(infra_env)
            config = self._ignition(infra_env, release)
            place = self._settings(None).work_dir / "images" / infra_env.id
            try:
                folder = place / self._key(infra_env, release, config)
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._make(infra_env, name, folder, release=release, config=config)
            except BadRequest:
                raise
            except EmbedTooBig as error:
                raise _room_of(error, f"image {name} of infra-env {infra_env.name}") from error
            except (InstallerError, OSError) as error:
                _fail(f"image {name} of infra-env {infra_env.name}", error)
            self._forget(place, folder)
            return folder / name

    @staticmethod
    def _key(infra_env: InfraEnv, release: payload.Payload, config: bytes) -> str:
        """Return a digest of everything that an infra-env's images are made of. Raises OSError."""
        base = release.iso.stat()
        # A minimal image has a URL in it that is signed with the infra-env's key.
        parts = (str(release.iso), base.st_size, base.st_mtime_ns, infra_env.kernel_arguments, infra_env.image_key)
        digest = hashlib.sha256(config)
        digest.update(repr(parts).encode())
        return digest.hexdigest()[:16]

    def _make(self, infra_env: InfraEnv, name: str, folder: Path, *, release: payload.Payload, config: bytes) -> None:
        target = folder / name
        if target.is_file():
            return
        edit = partial(kernel_arguments, infra_env) if infra_env.kernel_arguments else ()
        if name in ISOS:
            url = self._rootfs_url(infra_env) if ISOS[name] else ""
            work = folder / f".{name}.{os.getpid()}"
            work.mkdir(exist_ok=True)
            networks = self.minimal_initrd(infra_env) if ISOS[name] else b""
            write_iso(release.iso, work / name, LiveChanges(config, edit, networks), rootfs_url=url)
            (work / name).replace(target)
            return
        work = folder / f".boot.{os.getpid()}"
        work.mkdir(exist_ok=True)
        text = write_pxe(release.iso, work, infra_env.cpu_architecture, LiveChanges(config, edit))
        (folder / "arguments").write_text(text)
        for part in BOOT_FILES:
            (work / f"agent.{infra_env.cpu_architecture}-{part}").replace(folder / part)

    def _forget(self, place: Path, keep: Path) -> None:
        """Remove images of older states of the infra-env; a download that is under way keeps its open file."""
        import shutil

        for other in place.iterdir():
            if other != keep:
                shutil.rmtree(other, ignore_errors=True)
        for left in keep.glob(".*"):
            shutil.rmtree(left, ignore_errors=True)

    def ipxe(self, infra_env: InfraEnv, urls: Mapping[str, Any]) -> bytes:
        """Return an iPXE script that boots from these URLs. Raises PrepareError."""
        arguments = (self.file(infra_env, "vmlinuz").parent / "arguments").read_text()
        lines = (
            "#!ipxe",
            f"initrd --name initrd {urls['initrd.img']}",
            f"kernel {urls['vmlinuz']} initrd=initrd coreos.live.rootfs_url={urls['rootfs.img']} {arguments}",
            "boot",
        )
        return ("\n".join(lines) + "\n").encode()
