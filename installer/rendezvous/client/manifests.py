"""Reading /etc/assisted: the ZTP manifests, extra manifests and host configs (installer.md §2.1, §4.2)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from installer.assisted.enums import Role
from installer.assisted.errors import ManifestError
from installer.common.formats import YamlError, jsontext
from installer.common.formats.yamltext import load_all
from installer.common.inputs import read_input

OVERRIDES = "agent-install.openshift.io/install-config-overrides"
ROLES = (Role.MASTER, Role.ARBITER, Role.WORKER)
FENCING = "fencing-credentials.yaml"


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the YAML documents of a file. Raises ManifestError."""
    try:
        return _documents(str(path), read_input(path))
    except OSError as error:
        raise ManifestError(str(path), f"cannot be read: {error.strerror or error}") from None


def _documents(name: str, data: bytes) -> list[dict[str, Any]]:
    try:
        parsed = load_all(data)
    except YamlError as error:
        raise ManifestError(name, f"is not YAML: {error}") from None
    if not all(isinstance(item, dict) for item in parsed):
        raise ManifestError(name, "must hold objects")
    return [_without_nulls(item) for item in parsed]


def _without_nulls(value: Any) -> Any:
    """Return it as Go decodes it: a field that is null is absent, an entry of a list that is null an empty one."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [{} if inner is None else _without_nulls(inner) for inner in value]
    return value


@dataclass(frozen=True)
class Manifests:
    """The manifests by kind; NMStateConfigs may be many."""

    cluster_install: Mapping[str, Any] = field(repr=False)
    cluster_deployment: Mapping[str, Any]
    image_set: Mapping[str, Any]
    infra_env: Mapping[str, Any] = field(repr=False)
    _: KW_ONLY
    pull_secret: str = field(repr=False)
    nmstate: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)


def load(directory: Path, *, with_cluster: bool = True) -> Manifests:
    """Read all manifests of a directory; without a cluster's, where a person registers it. Raises ManifestError when
    one that is needed is missing or wrong."""
    objects = (item for path in sorted(directory.glob("*.y*ml")) for item in documents(path))
    return _of_kinds(str(directory), objects, with_cluster=with_cluster)


def parse(files: Mapping[str, bytes]) -> Manifests:
    """Read manifests from their contents by file name, as `load` reads a directory's. Raises ManifestError."""
    texts = {name: data for name, data in files.items() if name.endswith((".yaml", ".yml"))}
    return _of_kinds("cluster-manifests", (item for name, data in texts.items() for item in _documents(name, data)))


def _of_kinds(directory: str, objects: Iterable[dict[str, Any]], *, with_cluster: bool = True) -> Manifests:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for document in objects:
        by_kind.setdefault(str(document.get("kind")), []).append(document)

    def single(kind: str) -> dict[str, Any]:
        of_kind = by_kind.get(kind, [])
        if len(of_kind) != 1:
            raise ManifestError(directory, f"must hold exactly one {kind}, found {len(of_kind)}")
        return of_kind[0]

    secret = single("Secret")
    data = (secret.get("stringData") or {}).get(".dockerconfigjson", "")
    if not data:
        raise ManifestError(directory, 'pull secret: stringData[".dockerconfigjson"]: Required value')
    try:
        compact = json.dumps(jsontext.loads(data), separators=(",", ":"))
    except ValueError:
        raise ManifestError(directory, "pull secret is not JSON") from None
    return Manifests(
        cluster_install=single("AgentClusterInstall") if with_cluster else {},
        cluster_deployment=single("ClusterDeployment") if with_cluster else {},
        image_set=(by_kind.get("ClusterImageSet") or [{}])[0],
        infra_env=single("InfraEnv"),
        pull_secret=compact,
        nmstate=tuple(by_kind.get("NMStateConfig", [])),
    )


def _proxy(spec: Mapping[str, Any]) -> dict[str, str]:
    proxy = spec.get("proxy") or {}
    names = {"httpProxy": "http_proxy", "httpsProxy": "https_proxy", "noProxy": "no_proxy"}
    return {names[key]: str(value) for key, value in proxy.items() if key in names and value}


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _architecture(manifests: Manifests) -> str:
    return str((manifests.infra_env.get("spec") or {}).get("cpuArchitecture") or "x86_64")


# A type of load balancer as the custom resource has it, and as the API does (assisted-service,
# internal/controller/controllers/clusterdeployments_controller.go).
_BALANCERS = {"UserManaged": "user-managed", "ClusterManaged": "cluster-managed"}


def cluster_params(manifests: Manifests, release_image: str, version: str) -> dict[str, Any]:
    """cluster-create-params from the manifests."""
    spec = manifests.cluster_install.get("spec") or {}
    deployment = manifests.cluster_deployment.get("spec") or {}
    networking = spec.get("networking") or {}
    provision = spec.get("provisionRequirements") or {}
    image_set = str((spec.get("imageSetRef") or {}).get("name", ""))
    masters = int(provision.get("controlPlaneAgents") or 3)
    unmanaged = masters == 1 or networking.get("userManagedNetworking")
    platform = str(spec.get("platformType") or ("None" if unmanaged else "BareMetal")).lower()
    body: dict[str, Any] = {
        "name": deployment.get("clusterName") or _name(manifests.cluster_install),
        "base_dns_domain": deployment.get("baseDomain", ""),
        "openshift_version": version or image_set.removeprefix("openshift-") or "unknown",
        "ocp_release_image": release_image or (manifests.image_set.get("spec") or {}).get("releaseImage", ""),
        "pull_secret": manifests.pull_secret,
        "ssh_public_key": spec.get("sshPublicKey", ""),
        "control_plane_count": masters,
        "cpu_architecture": _architecture(manifests),
        "platform": {"type": platform},
        "network_type": networking.get("networkType") or "OVNKubernetes",
        "user_managed_networking": networking.get("userManagedNetworking", platform in ("none", "external")),
        "machine_networks": [{"cidr": item.get("cidr", "")} for item in networking.get("machineNetwork") or []],
        "cluster_networks": [
            {"cidr": item.get("cidr", ""), "host_prefix": item.get("hostPrefix", 0)}
            for item in networking.get("clusterNetwork") or []
        ],
        "service_networks": [{"cidr": cidr or ""} for cidr in networking.get("serviceNetwork") or []],
        **_proxy(spec),
    }
    for key in ("cluster_networks", "service_networks"):
        if not body[key]:
            del body[key]
    for kind in ("api", "ingress"):
        many = spec.get(f"{kind}VIPs") or ([spec[f"{kind}VIP"]] if spec.get(f"{kind}VIP") else [])
        body[f"{kind}_vips"] = [{"ip": ip or ""} for ip in many]
    external = spec.get("external")
    if external:
        # An empty name is against the specification.
        names = {"platform_name": "platformName", "cloud_controller_manager": "cloudControllerManager"}
        body["platform"]["external"] = {key: external[name] for key, name in names.items() if external.get(name)}
    encryption = spec.get("diskEncryption")
    if encryption:
        body["disk_encryption"] = {
            "enable_on": encryption.get("enableOn", "none"),
            "mode": encryption.get("mode", "tpmv2"),
            "tang_servers": encryption.get("tangServers", ""),
        }
    if spec.get("loadBalancer"):
        kind = str(spec["loadBalancer"].get("type", ""))
        body["load_balancer"] = {"type": _BALANCERS.get(kind, kind)}
    return body


def overrides(manifests: Manifests) -> str:
    """Return the install-config overrides of the AgentClusterInstall's annotation, or empty."""
    return str(((manifests.cluster_install.get("metadata") or {}).get("annotations") or {}).get(OVERRIDES, ""))


def infra_env_params(manifests: Manifests, cluster_id: str, image_type: str, version: str) -> dict[str, Any]:
    """infra-env-create-params; without a `cluster_id` its hosts are bound later. Raises ManifestError when an
    NMStateConfig's labels do not match."""
    spec = manifests.infra_env.get("spec") or {}
    wanted = (spec.get("nmStateConfigLabelSelector") or spec.get("nmstateConfigLabelSelector") or {}).get(
        "matchLabels"
    ) or {}
    static = []
    for item in manifests.nmstate:
        metadata = item.get("metadata") or {}
        labels = metadata.get("labels") or {}
        if not wanted or any(labels.get(key) != value for key, value in wanted.items()):
            raise ManifestError(
                f"NMStateConfig {metadata.get('name')}",
                f"labels {json.dumps(labels)} do not match the InfraEnv's selector {json.dumps(wanted)}",
            )
        config = item.get("spec") or {}
        static.append(
            {
                "network_yaml": yaml.safe_dump(config.get("config") or {}, sort_keys=False),
                "mac_interface_map": [
                    {"mac_address": nic.get("macAddress", ""), "logical_nic_name": nic.get("name", "")}
                    for nic in config.get("interfaces") or []
                ],
            }
        )
    body: dict[str, Any] = {
        "name": _name(manifests.infra_env),
        **({"cluster_id": cluster_id} if cluster_id else {}),
        "openshift_version": version,
        "pull_secret": manifests.pull_secret,
        "ssh_authorized_key": spec.get("sshAuthorizedKey", ""),
        "image_type": image_type,
        "cpu_architecture": _architecture(manifests),
        "additional_ntp_sources": ",".join(str(source) for source in spec.get("additionalNTPSources") or [] if source),
        "additional_trust_bundle": spec.get("additionalTrustBundle") or "",
    }
    if static:
        body["static_network_config"] = static
    if _proxy(spec):
        body["proxy"] = _proxy(spec)
    return body


def ignition_endpoint(path: Path) -> dict[str, str]:
    """Return the API's ignition_endpoint of a file that names the worker pool's config: the service adds the pool.

    Raises ManifestError.
    """
    try:
        document = jsontext.loads(read_input(path))
        return {"url": document["url"].removesuffix("/worker"), "ca_certificate": document.get("ca_certificate") or ""}
    except OSError as error:
        raise ManifestError(str(path), f"cannot be read: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ManifestError(str(path), "is not an object with a url") from None


def extra_manifests(directory: Path) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of each extra manifest; empty files are passed over. Raises ManifestError."""
    for path in sorted(directory.glob("*.y*ml")) if directory.is_dir() else []:
        try:
            content = read_input(path)
        except OSError as error:
            raise ManifestError(str(path), f"cannot be read: {error.strerror or error}") from None
        if content.strip():
            yield path.name, content


@dataclass(frozen=True)
class HostConfig:
    """The inputs for one host, which is found by any of its MACs, or by its host name if there is one.

    `fencing`: fencing-credentials-params of the API.
    """

    name: str
    macs: frozenset[str]
    role: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    hostname: str = ""
    fencing: Mapping[str, str] = field(default_factory=dict, repr=False)


def host_configs(directory: Path) -> list[HostConfig]:
    """All host configs. Raises ManifestError."""
    configs = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if not path.is_dir():
            continue
        macs_file, hints_file, role_file = (path / name for name in ("mac_addresses", "root-device-hints.yaml", "role"))
        if not macs_file.is_file():
            raise ManifestError(str(macs_file), "is missing")
        macs = frozenset(line.strip().lower() for line in macs_file.read_text().splitlines() if line.strip())
        hints: dict[str, Any] = {}
        if hints_file.is_file():
            for document in documents(hints_file):
                hints.update(document)
        role = role_file.read_text().strip() if role_file.is_file() else ""
        if role and role not in ROLES:
            raise ManifestError(str(role_file), f"role {role!r} is not one of {', '.join(ROLES)}")
        own = [entry.fencing for entry in fencing(path / FENCING) if entry.macs & macs]
        configs.append(HostConfig(path.name, macs, role, hints, fencing=own[0] if own else {}))
    return configs + fencing(directory / FENCING)


def fencing(path: Path) -> list[HostConfig]:
    """Return the BMC credentials of hosts that fence each other (installer.md §2.1), none without the file.

    Raises ManifestError.
    """
    configs = []
    credentials_of = documents(path) if path.is_file() else []
    entries = [entry for document in credentials_of for entry in document.get("credentials") or []]
    for index, entry in enumerate(entries):
        credentials = {key: str(value) for key, value in entry.items() if value} if isinstance(entry, dict) else {}
        mac, hostname = credentials.get("macaddress", "").lower(), credentials.get("hostname", "")
        for key in ("address", "username", "password"):
            if key not in credentials:
                raise ManifestError(str(path), f"credentials[{index}].{key}: Required value")
        if not (mac or hostname):
            raise ManifestError(str(path), f"credentials[{index}] has neither hostname nor macaddress")
        params = {key: credentials[key] for key in ("address", "username", "password")}
        if "certificateVerification" in credentials:
            params["certificate_verification"] = credentials["certificateVerification"]
        if mac:
            params["mac_address"] = mac
        macs = frozenset([mac] if mac else [])
        configs.append(HostConfig(hostname or mac, macs, hostname="" if mac else hostname, fencing=params))
    return configs
