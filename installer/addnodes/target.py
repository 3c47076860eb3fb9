"""The cluster that hosts are added to, as its API describes it (reference/add-nodes.md §2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from installer.addnodes.nodesconfig import Member
from installer.common.formats import YamlError
from installer.common.formats.yamltext import compose
from installer.config import defaults
from installer.config.decode import decode
from installer.config.state import OWN, State
from installer.config.types.install import InstallConfig, Proxy
from installer.config.values import check
from installer.errors import ConfigError
from installer.hub.kube.api import Api, KubeError
from installer.hub.kube.kinds import BARE_METAL_HOST, CONFIG_MAP, SECRET, Json, Key, Kind
from installer.ignition import rules
from installer.rendezvous.resources.requests.values import certificates, ignition_url

CLUSTER_VERSION = Kind("config.openshift.io", "v1", "clusterversions", "ClusterVersion", namespaced=False)
PROXY = Kind("config.openshift.io", "v1", "proxies", "Proxy", namespaced=False)
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
_MACHINE_CONFIG = ("machineconfiguration.openshift.io", "v1")
POOL = Kind(*_MACHINE_CONFIG, "machineconfigpools", "MachineConfigPool", namespaced=False)
MACHINE_CONFIG = Kind(*_MACHINE_CONFIG, "machineconfigs", "MachineConfig", namespaced=False)
PULL_SECRET = Key("openshift-config", "pull-secret")
TRUST_BUNDLE = Key("openshift-config", "user-ca-bundle")
INSTALL_CONFIG = Key("kube-system", "cluster-config-v1")
USER_DATA = Key("openshift-machine-api", "worker-user-data-managed")
#: Of the machine-config server of a cluster that does not say where it is: plain HTTP.
PLAIN_PORT = 22624


@dataclass(frozen=True, kw_only=True)
class Target:
    """A running cluster. `install`: its install-config as it is now, with pull secret, trust bundle and proxy; `url`
    and `ca` (PEM, empty for plain HTTP): where its workers get their Ignition config; `ntp_sources`: what that gives
    them."""

    cluster_id: str
    release_image: str
    version: str
    install: InstallConfig = field(repr=False)
    url: str
    ca: str
    members: Mapping[str, Member]
    ntp_sources: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """``<cluster>.<base domain>``."""
        return f"{self.install.metadata.name}.{self.install.base_domain.rstrip('.')}"


@contextmanager
def connected(kubeconfig: Path) -> Iterator[Api]:
    """Provide the API of a kubeconfig. Raises ConfigError, in one line, for what the API does not do."""
    api = Api.connect(kubeconfig, agent="node0-add-nodes")
    try:
        yield api
    except KubeError as error:
        raise ConfigError(f"kubeconfig {kubeconfig}: {error}") from error
    finally:
        api.close()


def read(api: Api, kubeconfig: Path) -> Target:
    """Read all that adding hosts takes. Raises ConfigError with everything that the cluster lacks, KubeError."""
    try:
        return _read(api, kubeconfig)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        # Without its repr, which has what could not be decoded.
        reason = f"{type(error).__name__}: {error}"
        text = f"kubeconfig {kubeconfig}: an object of its cluster is not as OpenShift makes it: {reason}"
        raise ConfigError(text) from error


def _read(api: Api, kubeconfig: Path) -> Target:
    missing: list[str] = []

    def wanted(kind: Kind, key: Key) -> Json:
        found = api.get(kind, key)
        if found is None:
            missing.append(f"no {kind.name} {key}")
        return found or {}

    version = wanted(CLUSTER_VERSION, Key("", "version"))
    secret, config_map = wanted(SECRET, PULL_SECRET), wanted(CONFIG_MAP, INSTALL_CONFIG)
    history: list[Json] = (version.get("status") or {}).get("history") or [{}]
    entry = history[0]
    if version and not (entry.get("image") and entry.get("version")):
        missing.append("no release in the status of ClusterVersion version")
    pull_secret = _decoded(secret, ".dockerconfigjson")
    if secret and not pull_secret:
        missing.append(f"no .dockerconfigjson in Secret {PULL_SECRET}")
    if missing:
        raise ConfigError(f"kubeconfig {kubeconfig}: to this cluster no hosts can be added: {'; '.join(missing)}")
    proxy = api.get(PROXY, Key("", "cluster")) or {}
    bundle = (api.get(CONFIG_MAP, TRUST_BUNDLE) or {}).get("data") or {}
    install = replace(
        _install_config((config_map.get("data") or {}).get("install-config") or ""),
        pull_secret=pull_secret,
        additional_trust_bundle=str(bundle.get("ca-bundle.crt") or ""),
        # Its status has the cluster's own networks among those that are reached without it.
        proxy=_proxy({**(proxy.get("spec") or {}), **(proxy.get("status") or {})}),
    )
    api_name = f"api.{install.metadata.name}.{install.base_domain.rstrip('.')}"
    url, ca = _server(api.get(SECRET, USER_DATA), f"http://{api_name}:{PLAIN_PORT}/config/worker")
    return Target(
        cluster_id=str(version["spec"]["clusterID"]),
        release_image=str(entry["image"]),
        version=str(entry["version"]),
        install=install,
        url=url,
        ca=ca,
        members=_members(api, install),
        ntp_sources=_time_sources(api),
    )


def _decoded(secret: Json, name: str) -> str:
    return base64.b64decode((secret.get("data") or {}).get(name) or "").decode()


def _proxy(spec: Json) -> Proxy | None:
    names = ("httpProxy", "httpsProxy", "noProxy")
    http, https, without = (str(spec.get(name) or "") for name in names)
    return Proxy(http_proxy=http, https_proxy=https, no_proxy=without) if http or https else None


def _install_config(text: str) -> InstallConfig:
    """Decode the cluster's own install-config, whose installer may have known more fields. Raises ConfigError."""
    source = f"ConfigMap {INSTALL_CONFIG}"
    try:
        node = compose(text)
    except YamlError as error:
        raise ConfigError(f"{source}: {error}") from error
    if node is None:
        raise ConfigError(f"{source} has no install-config")
    config, problems = decode(node, InstallConfig, None)
    if wrong := [str(problem) for problem in problems if not problem.unknown]:
        raise ConfigError(f"{source}: {'; '.join(wrong)}")
    config, errors = defaults.upconvert(config)
    if errors:
        raise ConfigError(f"{source}: {'; '.join(map(str, errors))}")
    return defaults.apply(config)


def _server(secret: Json | None, otherwise: str) -> tuple[str, str]:
    """Return URL and CA of the machine-config server out of the Secret that machines are made with. Raises
    ConfigError."""
    if secret is None:
        return otherwise, ""
    try:
        ignition = json.loads(_decoded(secret, "userData"))["ignition"]
        url = str(ignition["config"]["merge"][0]["source"])
        authorities = ((ignition.get("security") or {}).get("tls") or {}).get("certificateAuthorities") or []
        ca = "".join(_content(item) for item in authorities)
        # As the hosts' services, which are told of both, judge them.
        if ignition_url(url) or not url.endswith("/worker") or (ca and certificates(ca)):
            raise ValueError
        return url, ca
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ConfigError(f"Secret {USER_DATA}: its userData is no pointer to a machine-config server") from None


def _time_sources(api: Api) -> tuple[str, ...]:
    """Return the servers and pools in the workers' chrony.conf; none where no MachineConfig has one."""
    pool = api.get(POOL, Key("", "worker")) or {}
    name = ((pool.get("spec") or {}).get("configuration") or {}).get("name")
    rendered = (api.get(MACHINE_CONFIG, Key("", str(name))) if name else None) or {}
    files = ((((rendered.get("spec") or {}).get("config") or {}).get("storage") or {}).get("files")) or []
    texts = [_content(file.get("contents") or {}) for file in files if file.get("path") == "/etc/chrony.conf"]
    words = [line.split() for text in texts for line in text.splitlines()]
    return tuple(line[1] for line in words if len(line) > 1 and line[0] in ("server", "pool"))


def _content(resource: Json) -> str:
    """Return what a resource of an Ignition config holds; nothing of one that is elsewhere. Raises ValueError."""
    return (rules.content(resource) or b"").decode()


def _members(api: Api, install: InstallConfig) -> dict[str, Member]:
    """Return the cluster's nodes by name. MAC addresses are known of machines that the cluster manages, or that its
    install-config lists, as long as they are its nodes."""
    macs: dict[str, set[str]] = {}
    for host in install.platform.baremetal.hosts if install.platform.baremetal else ():
        macs.setdefault(host.name, set()).add(check.canonical_mac(host.boot_mac_address))
    for item in _listed(api, BARE_METAL_HOST):
        consumer = ((item.get("status") or {}).get("hardware") or {}).get("hostname") or item["metadata"]["name"]
        address = str((item.get("spec") or {}).get("bootMACAddress") or "")
        macs.setdefault(str(consumer), set()).add(check.canonical_mac(address))
    nodes = {str(node["metadata"]["name"]): node for node in api.list(NODE)[0]}
    return {name: Member(addresses_of(node), frozenset(macs.get(name, set()) - {""})) for name, node in nodes.items()}


def _listed(api: Api, kind: Kind) -> list[Json]:
    """List the objects of a kind that a cluster need not have."""
    try:
        return api.list(kind)[0]
    except KubeError as error:
        if error.status == 404:
            return []
        raise


def addresses_of(node: Json) -> frozenset[str]:
    """Return a Node's internal addresses."""
    addresses: list[dict[str, Any]] = (node.get("status") or {}).get("addresses") or []
    return frozenset(str(item["address"]) for item in addresses if item.get("type") == "InternalIP")


def check_directory(state: State, target: Target, kubeconfig: Path) -> None:
    """Raise ConfigError where the directory is that of another cluster's installation."""
    own = state.get(OWN)
    if not isinstance(own, dict) or not own.get("clusterName"):
        return
    domain = f"{own['clusterName']}.{own.get('baseDomain', '')}"
    if domain != target.domain:
        raise ConfigError(f"kubeconfig {kubeconfig} is of cluster {target.domain}, and {state.path} of {domain}")
