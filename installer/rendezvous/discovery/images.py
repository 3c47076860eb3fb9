"""Discovery images: a live system that runs nothing but the agent, for one infra-env (reference/installer.md §5.1)."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from installer.assisted.errors import BadRequest, NotFound, PrepareError
from installer.errors import ConfigError, InstallerError
from installer.ignition.config import File, Unit, User, render
from installer.ignition.early import network_archive
from installer.ignition.live import NETWORK_UNIT, env_file
from installer.ignition.livesystem import CLIENT_ID, ntp_files, proxy_file
from installer.image.artifacts import LiveChanges, write_iso, write_pxe
from installer.image.iso import kargs
from installer.network import host_network_files
from installer.rendezvous.discovery import payload
from installer.rendezvous.prepare.hostignition import overridden, parse
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv

TLS_CA = "/opt/agent/tls/ca.crt"
ISOS = {"full.iso": False, "minimal.iso": True}
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
BOOT_FILES = ("vmlinuz", "initrd.img", "rootfs.img")


def _network(infra_env: InfraEnv) -> list[File]:
    """Keyfiles of every host with a static network. Raises PrepareError."""
    from installer.network.document import load

    files = []
    for index, item in enumerate(infra_env.static_network_config):
        nics = [{"name": nic.logical_nic_name, "macAddress": nic.mac_address} for nic in item.mac_interface_map]
        try:
            keyfiles = host_network_files(nics, load(item.network_yaml) or {})
        except InstallerError as error:
            raise PrepareError(f"static_network_config[{index}]", str(error)) from None
        files += [
            File.text(f"/etc/assisted/network/host{index}/{name}", text, 0o600) for name, text in keyfiles.items()
        ]
    return files


def ignition(infra_env: InfraEnv, settings: Settings, agent_token: str, agent_image: str) -> bytes:
    """The Ignition config of an infra-env's hosts, the user's overrides merged in. Raises PrepareError."""
    live, own = resources.files("installer.ignition") / "data", resources.files("installer.rendezvous") / "data"
    if settings.ca_file is None:
        raise PrepareError("discovery image", "the service's CA is not known")
    environment = {
        "SERVICE_BASE_URL": settings.base_url,
        "INFRA_ENV_ID": infra_env.id,
        "AGENT_DOCKER_IMAGE": agent_image,
        "PULL_SECRET_TOKEN": agent_token,
    }
    network = _network(infra_env)
    scripts = [live / "bin/common.sh", own / "start-discovery-agent.sh"]
    scripts += [live / "bin/pre-network-manager-config.sh"] if network else []
    files = [File(f"/usr/local/bin/{script.name}", script.read_bytes(), 0o555) for script in scripts]
    files += [
        File.text("/etc/assisted/discovery.env", env_file(environment), 0o600),
        File(TLS_CA, settings.ca_file.read_bytes(), 0o600),
        File.text("/root/.docker/config.json", infra_env.pull_secret, 0o600),
        File.text("/etc/containers/auth.json", infra_env.pull_secret, 0o600),
        proxy_file({key.upper(): str(value) for key, value in infra_env.proxy.items() if key in PROXIES and value}),
        CLIENT_ID,
        # Additional ones are the agent's to add (steps/instructions.py).
        *ntp_files(infra_env.ntp_sources.split(",") if infra_env.ntp_sources else ()),
        *network,
    ]
    if settings.registries_conf.is_file():
        files.append(File("/etc/containers/registries.conf", settings.registries_conf.read_bytes()))
    bundle = infra_env.additional_trust_bundle
    if not bundle and settings.mirror_ca_file.is_file():
        bundle = settings.mirror_ca_file.read_text()
    if bundle:
        files.append(File.text("/etc/pki/ca-trust/source/anchors/domain.crt", bundle))
    units = [Unit("agent.service", (own / "agent.service").read_text())]
    if network:
        units.append(Unit(NETWORK_UNIT, (live / "systemd" / NETWORK_UNIT).read_text()))
    keys = tuple(line.strip() for line in infra_env.ssh_authorized_key.splitlines() if line.strip())
    config = render(files, units, [User("core", keys)])
    if not infra_env.ignition_config_override:
        return config
    override = parse(infra_env.ignition_config_override, "ignition_config_override")
    return json.dumps(overridden(parse(config, "discovery image"), override), separators=(",", ":")).encode()


def kernel_arguments(infra_env: InfraEnv, before: str) -> str:
    """An image's arguments ``before`` with the infra-env's edits. Raises BadRequest for edits that do not apply."""
    try:
        return kargs.edited(before, msgspec.to_builtins(infra_env.kernel_arguments))
    except ConfigError as error:
        raise BadRequest(f"kernel_arguments: {error}") from None


class DiscoveryImages:
    """Makes each image once for each state of its infra-env. Thread-safe; ``adopt`` is called with new settings."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        agent_token: str,
        rootfs_url: Callable[[InfraEnv], str],
        adopt: Callable[[payload.Payload], None],
    ) -> None:
        self._settings, self._token, self._rootfs_url, self._adopt = settings, agent_token, rootfs_url, adopt
        self._lock = threading.Lock()

    def payload_of(self, infra_env: InfraEnv) -> payload.Payload:
        """What an infra-env's images are made from, fetched where it is not known yet."""
        settings = self._settings()
        release = payload.cached(settings, infra_env.cpu_architecture) or payload.fetch(settings, infra_env)
        self._adopt(release)
        return release

    def ignition(self, infra_env: InfraEnv) -> bytes:
        """The Ignition config. Raises PrepareError, BadRequest."""
        with self._lock:
            return self._ignition(infra_env, self.payload_of(infra_env))

    def _ignition(self, infra_env: InfraEnv, release: payload.Payload) -> bytes:
        return ignition(infra_env, self._settings(), self._token, release.images["AGENT_DOCKER_IMAGE"])

    def minimal_initrd(self, infra_env: InfraEnv) -> bytes:
        """What a minimal image adds to its initrd: static networks, empty without any. Raises PrepareError."""
        return network_archive(_network(infra_env))

    def network_tar(self, infra_env: InfraEnv) -> bytes:
        """The files of the hosts' static networks, as upstream packs them; empty without any. Raises PrepareError."""
        files, buffer = _network(infra_env), io.BytesIO()
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
            place = self._settings().work_dir / "images" / infra_env.id
            try:
                folder = place / self._key(infra_env, release, config)
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._make(infra_env, name, folder, release=release, config=config)
            except BadRequest:
                raise
            except (InstallerError, OSError) as error:
                raise PrepareError(f"image {name} of infra-env {infra_env.name}", str(error)) from error
            self._forget(place, folder)
            return folder / name

    @staticmethod
    def _key(infra_env: InfraEnv, release: payload.Payload, config: bytes) -> str:
        """What an infra-env's images are made of. Raises OSError."""
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
        """An iPXE script that boots from these URLs. Raises PrepareError."""
        arguments = (self.file(infra_env, "vmlinuz").parent / "arguments").read_text()
        lines = (
            "#!ipxe",
            f"initrd --name initrd {urls['initrd.img']}",
            f"kernel {urls['vmlinuz']} initrd=initrd coreos.live.rootfs_url={urls['rootfs.img']} {arguments}",
            "boot",
        )
        return ("\n".join(lines) + "\n").encode()
