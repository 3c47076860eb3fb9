"""Reading cluster-manifests/: strict decoding, and every rule of reference/installer.md §2.1."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from installer.common.formats import YamlError, jsontext
from installer.common.formats.yamltext import compose_all
from installer.config.decode import decode
from installer.config.fielderror import FieldError, aggregate, forbidden, invalid, raise_if_any, required, unsupported
from installer.config.types.uses import Use, note, unused
from installer.config.values import check
from installer.errors import AssetError, ConfigError
from installer.manifests import networks
from installer.manifests.files import ASSETS, DEPLOYMENT, DIRECTORY, IMAGE_SET, INFRA_ENV, INSTALL, NMSTATE, PULL_SECRET
from installer.manifests.overrides import NATIVE_NETWORK_TYPES
from installer.manifests.types import ClusterDeployment, ClusterInstall, ImageSet, InfraEnv, Manifest, NMState, Secret
from installer.manifests.uses import USES

log = logging.getLogger(__name__)

SECRET_KEY = ".dockerconfigjson"
PLATFORM_TYPES = ("BareMetal", "VSphere", "Nutanix", "None", "External")
_LOWER = {name.lower(): name for name in PLATFORM_TYPES}
RPM_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_ARCHITECTURES = ("x86_64", "aarch64", "ppc64le", "s390x", "")
_ENABLE_ON = ("none", "all", "masters", "workers")
_MODES = ("tpmv2", "tang")

M = TypeVar("M", bound=Manifest)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ClusterManifests:
    """The objects, and the files that they were read from."""

    install: ClusterInstall
    deployment: ClusterDeployment
    image_set: ImageSet
    infra_env: InfraEnv
    pull_secret: str = field(repr=False)
    nmstate: tuple[NMState, ...]
    files: Mapping[str, bytes] = field(repr=False)


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files[name].decode()
    except KeyError as error:
        raise ConfigError("missing configuration or manifest file", file=name) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"failed to unmarshal {name}: not UTF-8 text at byte {error.start}", file=name) from error


def _documents(files: Mapping[str, bytes], name: str, cls: type[M], wrap: str) -> list[M]:
    try:
        nodes = list(compose_all(_text(files, name)))
    except YamlError as error:
        raise ConfigError(f"{wrap} {name}: {error}", file=name) from error
    documents = []
    for node in nodes:
        value, problems = decode(node, cls, lambda change: log.warning("%s: %s", name, change))
        if problems:
            raise ConfigError(f"{wrap} {name}: {aggregate([str(item) for item in problems])}", file=name)
        documents.append(value)
    return documents


def _one(files: Mapping[str, bytes], name: str, cls: type[M], kind: str) -> M:
    documents = _documents(files, name, cls, "failed to unmarshal")
    if not documents:
        raise ConfigError("missing configuration or manifest file", file=name)
    if len(documents) > 1:
        raise ConfigError(f"failed to unmarshal {name}: only one document is expected", file=name)
    if documents[0].kind != kind:
        seen = json.dumps(documents[0].kind)
        raise ConfigError(f'failed to unmarshal {name}: kind must be "{kind}", is {seen}', file=name)
    return documents[0]


def _network_type(config: ClusterInstall) -> Iterator[FieldError]:
    networking, needs = config.spec.networking, config.spec.provision_requirements
    if networking.network_type not in NATIVE_NETWORK_TYPES:
        return  # other plugins have rules of their own
    yield from networks.errors(networking, needs.control_plane_agents + needs.worker_agents)


def _platform(config: ClusterInstall) -> Iterator[FieldError]:
    platform = config.spec.platform_type
    if platform and platform not in PLATFORM_TYPES:
        yield unsupported("spec.platformType", platform, PLATFORM_TYPES)
    if platform in ("None", "External") and config.spec.networking.user_managed_networking is False:
        yield forbidden(
            "spec.networking.userManagedNetworking", f"{platform} platform requires user-managed networking"
        )


def _disk_encryption(config: ClusterInstall) -> Iterator[FieldError]:
    encryption = config.spec.disk_encryption
    if encryption is None:
        return
    for name, value, allowed in (("enableOn", encryption.enable_on, _ENABLE_ON), ("mode", encryption.mode, _MODES)):
        if value not in allowed:
            yield unsupported(f"spec.diskEncryption.{name}", value, allowed)


def read_install(files: Mapping[str, bytes]) -> ClusterInstall:
    """AgentClusterInstall, its platform in the right spelling, its networking completed. Raises ConfigError."""
    config = _one(files, INSTALL, ClusterInstall, "AgentClusterInstall")
    spec = config.spec
    platform = _LOWER.get(spec.platform_type, spec.platform_type)
    networking = replace(spec.networking, network_type=spec.networking.network_type or "OVNKubernetes")
    if not platform and spec.provision_requirements.control_plane_agents == 1:
        # A single node's platform is None, whatever its networking says (installer.md §2.1).
        networking = replace(networking, user_managed_networking=True)
    elif networking.user_managed_networking is None:
        networking = replace(networking, user_managed_networking=platform in ("None", "External"))
    config = replace(config, spec=replace(spec, platform_type=platform, networking=networking))
    raise_if_any("invalid NetworkType configured", list(_network_type(config)), INSTALL)
    raise_if_any("invalid PlatformType configured", list(_platform(config)), INSTALL)
    raise_if_any("invalid DiskEncryption configured", list(_disk_encryption(config)), INSTALL)
    return config


def read_image_set(files: Mapping[str, bytes], release_image: str) -> ImageSet:
    """ClusterImageSet: its release image must be the installer's own. Raises ConfigError."""
    config = _one(files, IMAGE_SET, ImageSet, "ClusterImageSet")
    if config.spec.release_image != release_image:
        problem = invalid("spec.releaseImage", config.spec.release_image, f"value must be equal to {release_image}")
        raise_if_any("invalid ClusterImageSet configuration", [problem], IMAGE_SET)
    return config


def read_infra_env(files: Mapping[str, bytes]) -> InfraEnv:
    """InfraEnv, its architecture by uname's name. Raises ConfigError."""
    config = _one(files, INFRA_ENV, InfraEnv, "InfraEnv")
    architecture = RPM_ARCHITECTURES.get(config.spec.cpu_architecture, config.spec.cpu_architecture)
    if architecture not in _ARCHITECTURES:
        raise ConfigError(f"Config.Spec.CpuArchitecture {architecture} is not supported", file=INFRA_ENV)
    return replace(config, spec=replace(config.spec, cpu_architecture=architecture))


def read_pull_secret(files: Mapping[str, bytes]) -> str:
    """Return the pull secret's JSON. Raises ConfigError, which never shows it."""
    config = _one(files, PULL_SECRET, Secret, "Secret")
    data = config.string_data or {}
    path = "stringData"
    problem: FieldError | None = None
    if not data and config.data:
        problem = required(path, "the pull secret is read from stringData, as plain text; data is not read")
    elif not data:
        problem = required(path, "the pull secret is empty")
    elif SECRET_KEY not in data:
        problem = required(path, f"the pull secret key '{SECRET_KEY}' is not defined")
    elif not data[SECRET_KEY]:
        problem = required(path, "the pull secret does not contain any data")
    else:
        wrong = check.pull_secret(data[SECRET_KEY])
        if wrong is not None:
            problem = invalid(path, check.redacted_pull_secret(data[SECRET_KEY]), wrong)
    raise_if_any("invalid PullSecret configuration", [problem] if problem else [], PULL_SECRET)
    return json.dumps(jsontext.loads(data[SECRET_KEY]), separators=(",", ":"))


def read_nmstate(files: Mapping[str, bytes]) -> tuple[NMState, ...]:
    """Return the NMStateConfigs, none where there is no such file. Raises ConfigError."""
    if NMSTATE not in files:
        return ()
    configs = _documents(files, NMSTATE, NMState, "could not decode YAML for")
    wrong = [config.kind for config in configs if config.kind != "NMStateConfig"]
    if wrong:
        value = json.dumps(wrong[0])
        raise ConfigError(f'could not decode YAML for {NMSTATE}: kind must be "NMStateConfig", is {value}')
    missing = [c.metadata.name for c in configs if not c.metadata.labels]
    problems = [required("labels", f"{name} does not have any label set") for name in missing]
    raise_if_any("invalid NMStateConfig configuration", problems, NMSTATE)
    return tuple(configs)


def _labels(labels: Mapping[str, str] | None) -> str:
    return "map[" + " ".join(f"{name}:{value}" for name, value in sorted((labels or {}).items())) + "]"


def check_labels(infra_env: InfraEnv, nmstate: tuple[NMState, ...]) -> None:
    """All NMStateConfigs must be those that the InfraEnv selects. Raises ConfigError."""
    wanted = infra_env.spec.nm_state_config_label_selector.match_labels
    problems = [
        required(
            "spec.nmStateConfigLabelSelector.matchLabels",
            f"infraEnv and {config.metadata.name} NMState Config labels do not match. Expected: {_labels(wanted)} "
            f"Found: {_labels(config.metadata.labels)}",
        )
        for config in nmstate
        if wanted != (config.metadata.labels or {})
    ]
    raise_if_any('failed to generate asset "Agent Manifests": invalid agent configuration', problems, NMSTATE)


def _read_deployment(files: Mapping[str, bytes]) -> ClusterDeployment:
    return _one(files, DEPLOYMENT, ClusterDeployment, "ClusterDeployment")


def judge(name: str, files: Mapping[str, bytes], release_image: str) -> None:
    """Raise ConfigError for the manifest `name` among the files if it cannot be taken."""
    if name == IMAGE_SET:
        read_image_set(files, release_image)
    elif name in _READERS:
        _READERS[name](files)


_READERS: dict[str, Callable[[Mapping[str, bytes]], object]] = {
    INSTALL: read_install,
    DEPLOYMENT: _read_deployment,
    INFRA_ENV: read_infra_env,
    NMSTATE: read_nmstate,
    PULL_SECRET: read_pull_secret,
}


def read_manifests(
    files: Mapping[str, bytes], release_image: str, target: str, *, whole: bool = True
) -> ClusterManifests:
    """All of cluster-manifests/; `files` by their path below the asset directory. Raises AssetError.

    Every file is judged, so that all that is wrong is said at once. `whole`: whether all must be there but the
    ClusterImageSet, which only says which release is installed, and the NMStateConfigs.
    """
    optional = (IMAGE_SET, NMSTATE) if whole else tuple(ASSETS)
    errors: list[tuple[str, ConfigError]] = []

    def attempt(name: str, call: Callable[[], T], default: T) -> T:
        if name in optional and name not in files:
            return default
        try:
            return call()
        except ConfigError as error:
            errors.append((name, error))
            return default

    secret = attempt(PULL_SECRET, lambda: read_pull_secret(files), "")
    install = attempt(INSTALL, lambda: read_install(files), ClusterInstall())
    deployment = attempt(DEPLOYMENT, lambda: _read_deployment(files), ClusterDeployment())
    image_set = attempt(IMAGE_SET, lambda: read_image_set(files, release_image), ImageSet())
    infra_env = attempt(INFRA_ENV, lambda: read_infra_env(files), InfraEnv())
    none: tuple[NMState, ...] = ()
    nmstate = attempt(NMSTATE, lambda: read_nmstate(files), none)
    if not errors:
        attempt("", lambda: check_labels(infra_env, nmstate), None)
    if errors:
        texts = [f'failed to load asset "{ASSETS[name]}": {error}' if name else str(error) for name, error in errors]
        raise AssetError(f"failed to fetch {target}", ConfigError(aggregate(texts), file=DIRECTORY))
    for name, spec in ((INSTALL, install.spec), (DEPLOYMENT, deployment.spec), (INFRA_ENV, infra_env.spec)):
        for line in unused(spec, Use.IGNORED, "spec", USES):
            log.warning("%s: %s", name, line)
    spec = install.spec
    for field_name, vip, vips in (
        ("apiVIP", spec.api_vip, spec.api_vips),
        ("ingressVIP", spec.ingress_vip, spec.ingress_vips),
    ):
        for line in note(f"spec.{field_name}", vip) if vips and vip not in vips else ():
            log.warning("%s: %s", INSTALL, line)
    return ClusterManifests(
        install=install,
        deployment=deployment,
        image_set=image_set,
        infra_env=infra_env,
        pull_secret=secret,
        nmstate=nmstate,
        files=files,
    )
