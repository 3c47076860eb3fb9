"""`unconfigured-agent.ign`: what a live host needs before it knows its cluster (reference/installer.md §2.2, §4.3).

Made from cluster-manifests/{infraenv,pull-secret}.yaml, optionally cluster-image-set.yaml and nmstateconfig.yaml,
and mirror/. The cluster's own files come on a config image, which udev knows by its label. Unlike upstream's, the host
starts its agent only then: what it needs to trust the rendezvous service is on that image.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from installer.common.formats.yamltext import go_dump, load
from installer.config.state import MANIFESTS, MIRROR, State, blaming_state
from installer.config.types.install import InstallConfig
from installer.create.stages.hosts import host_files
from installer.create.stages.read import read_manifests
from installer.create.stages.render import proxy_environment
from installer.create.stages.resolve import ResolvedRelease, expected_release, resolve_release
from installer.errors import AssetError, ConfigError
from installer.ignition.config import File, Unit, User, render
from installer.ignition.live import (
    IMAGE_VARIABLES,
    NETWORK_UNIT,
    UNITS,
    WORKFLOW_UNITS,
    HostFiles,
    LiveInputs,
    live_files,
)
from installer.ignition.livesystem import SYSTEM_UNITS
from installer.image.config_image import belongs
from installer.manifests import files as paths
from installer.manifests import mirror, read, ztp
from installer.manifests.cluster import INFRA_ENV_STATUS, cluster_image_set
from installer.manifests.read import ClusterManifests
from installer.manifests.types import ClusterDeployment, ClusterInstall, ImageSet

log = logging.getLogger(__name__)

FILE = "unconfigured-agent.ign"
TARGET = "Agent Installer Unconfigured Ignition"
# Which units a loaded config image starts.
UNIT_LIST = "/etc/assisted/config-image-units"
_ASSETS = {**paths.ASSETS, paths.INFRA_ENV: "InfraEnv Config File"}  # upstream's name for this asset in this command
_NEEDED = (
    (paths.INFRA_ENV, _ASSETS[paths.INFRA_ENV], f"configuration file not found: {paths.INFRA_ENV}"),
    (paths.PULL_SECRET, _ASSETS[paths.PULL_SECRET], f"missing configuration or manifest file: {paths.PULL_SECRET}"),
)
_USED = (*(name for name, _, _ in _NEEDED), paths.IMAGE_SET, paths.NMSTATE)
#: An address that no host has (RFC 5737): the rendezvous IP is not known yet.
NOWHERE = "192.0.2.1"
# A config image is always that of a cluster to be installed.
_LOADED_UNITS = (*UNITS, *WORKFLOW_UNITS["install"])


def _files(directory: Path, state: State) -> tuple[dict[str, bytes], dict[str, dict[str, bytes]]]:
    """Return the manifests and mirror/ that are used, by path, and what of them is on disk, by asset."""
    used: dict[str, bytes] = {}
    consumed: dict[str, dict[str, bytes]] = {}
    for asset, names in ((MANIFESTS, _USED), (MIRROR, paths.MIRROR)):
        on_disk = read_manifests(directory, TARGET, names, _ASSETS)
        in_state = {name: data for name, data in state.files(asset).items() if name in names}
        used |= in_state | on_disk
        if on_disk and asset == MANIFESTS:  # mirror/ stays: it is no asset of this command
            consumed[asset] = on_disk
    missing = [f'failed to generate asset "{label}": {text}' for n, label, text in _NEEDED if n not in used]
    if missing:
        raise AssetError(f'failed to fetch {TARGET}: failed to fetch dependency of "{TARGET}"', ConfigError(missing[0]))
    return used, consumed


def _read(files: dict[str, bytes]) -> tuple[ClusterManifests, InstallConfig]:
    try:
        infra_env = read.read_infra_env(files)
        secret = read.read_pull_secret(files)
        if paths.IMAGE_SET in files:
            read.read_image_set(files, expected_release())
        nmstate = read.read_nmstate(files)  # whatever their labels: no service selects them here
        manifests = ClusterManifests(
            install=ClusterInstall(),
            deployment=ClusterDeployment(),
            image_set=ImageSet(),
            infra_env=infra_env,
            pull_secret=secret,
            nmstate=nmstate,
            files=files,
        )
        sources, bundle = mirror.read_mirror(files)
        return manifests, ztp.install_config(manifests, sources, bundle)
    except ConfigError as error:
        asset = _ASSETS.get(str(error.file), "Agent Manifests")
        raise AssetError(f'failed to fetch {TARGET}: failed to load asset "{asset}"', error) from error


@dataclass(frozen=True)
class Blank:
    """The inputs of a live system that knows no cluster: manifests and mirror/, and their meaning.

    `consumed`: files on disk that are removed once the state has them, by asset.
    """

    files: dict[str, bytes] = field(repr=False)
    manifests: ClusterManifests
    install: InstallConfig
    hosts: Sequence[HostFiles]
    consumed: dict[str, dict[str, bytes]] = field(repr=False)


def blank(directory: Path, state: State) -> Blank:
    """Read and check the inputs. Raises AssetError, StateError."""
    files, consumed = _files(directory, state)
    with blaming_state(state.path, kept=not consumed):
        manifests, install = _read(files)
    for name in consumed.get(MANIFESTS, {}):
        log.info("Consuming %s from target directory", _ASSETS[name])
    hosts = host_files(ztp.with_networks((), manifests), TARGET, required=0)
    return Blank(files, manifests, install, hosts, consumed)


def inputs_of(inputs: Blank, release: ResolvedRelease) -> LiveInputs:
    """Return the live system's inputs without any key or token, and at no rendezvous IP."""
    install, registries = inputs.install, inputs.files.get(paths.REGISTRIES, b"")
    return LiveInputs(
        rendezvous_ip=NOWHERE,  # these are in files that only the config image brings
        release_image=release.image,
        release_version=release.version,
        images=release.components,
        public_key_pem="",
        agent_token="",
        user_token="",
        watcher_token="",
        tls_files={},
        pull_secret=install.pull_secret,
        hosts=inputs.hosts,
        registries_conf=registries.decode(),
        ca_bundle=install.additional_trust_bundle,
        ntp_sources=inputs.manifests.infra_env.spec.additional_ntp_sources,
        proxy=proxy_environment(install),
    )


def manifest_files(inputs: Blank, release: ResolvedRelease) -> list[File]:
    """Return the manifests that hosts register an infra-env by."""
    files = dict(inputs.files)
    if paths.IMAGE_SET not in files:
        files[paths.IMAGE_SET] = go_dump(cluster_image_set(release.image, release.version)).encode()
    files[paths.INFRA_ENV] = _completed(files[paths.INFRA_ENV], inputs.manifests.infra_env.spec.cpu_architecture)
    names = [paths.INFRA_ENV, paths.IMAGE_SET, paths.PULL_SECRET]
    return [File(f"/etc/assisted/manifests/{Path(name).name}", files[name], 0o600) for name in names]


def users_of(inputs: Blank) -> list[User]:
    """Return the user who may log in; nobody without a key."""
    keys = tuple(line.strip() for line in inputs.install.ssh_key.splitlines() if line.strip())
    return [User("core", keys)] if keys else []


def unconfigured(directory: Path, state: State) -> tuple[bytes, dict[str, dict[str, bytes]]]:
    """Return the Ignition config, and the files that were consumed for it, by asset. Raises AssetError, StateError."""
    inputs = blank(directory, state)
    release = resolve_release(inputs.install, IMAGE_VARIABLES.values(), TARGET)
    kept_folders = (
        *("/root/", "/etc/containers/", "/etc/chrony", "/etc/assisted/network/", "/etc/systemd/", "/etc/Network"),
        "/etc/issue",
    )
    live = live_files(inputs_of(inputs, release))
    files = [file for file in live if not belongs(file.path) or file.path.startswith(kept_folders)]
    files += manifest_files(inputs, release)
    files.append(File.text(UNIT_LIST, "".join(f"{unit}\n" for unit in _LOADED_UNITS)))
    static = bool(inputs.manifests.nmstate)
    return render([*files, *_own_files()], _units(static), users_of(inputs)), inputs.consumed


def _completed(infra_env: bytes, architecture: str) -> bytes:
    """Return an InfraEnv with the empty fields that a Go program writes, its architecture by uname's name."""
    data = load(infra_env)
    spec = {"ipxeScriptType": "", "nmStateConfigLabelSelector": {}, **data.get("spec", {})}
    if architecture:
        spec["cpuArchitecture"] = architecture
    return go_dump({"status": INFRA_ENV_STATUS, **data, "spec": spec}).encode()


def _own_files() -> list[File]:
    data = resources.files("installer.ignition") / "data/unconfigured"
    scripts = ("load-config-iso.sh", "agent-config-image-wait.sh")
    rule = "80-agent-config-image.rules"
    return [
        *(File(f"/usr/local/bin/{name}", (data / name).read_bytes(), 0o555) for name in scripts),
        File(f"/etc/udev/rules.d/{rule}", (data / rule).read_bytes()),
    ]


def _units(static: bool) -> list[Unit]:
    """Return the units that start at boot: the cluster's wait for the config image, static networks do not."""
    data = resources.files("installer.ignition") / "data"
    units = [Unit(name, (data / "systemd" / name).read_text(), enabled=False) for name in _LOADED_UNITS]
    units += (Unit(name, (data / "systemd" / name).read_text()) for name in SYSTEM_UNITS)
    units.append(Unit(NETWORK_UNIT, (data / "systemd" / NETWORK_UNIT).read_text(), enabled=static))
    own = {"agent-check-config-image.service": True, "load-config-iso@.service": False}
    return units + [Unit(name, (data / "unconfigured" / name).read_text(), on) for name, on in own.items()]
