"""The part of install-config.yaml that the lab's cluster needs (reference/installer.md §1.1)."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from installer.common.formats import YamlError, yamltext
from lab.release.cluster.errors import ConfigError

#: OpenShift's defaults for fields that may be left out.
MACHINE_NETWORK = "10.0.0.0/16"
CLUSTER_NETWORK = ("10.128.0.0/14", 23)
SERVICE_NETWORK = "172.30.0.0/16"


@dataclass(frozen=True)
class Mirror:
    """One entry of imageDigestSources: a repository (or a prefix of some) and where it is mirrored."""

    source: str
    mirrors: tuple[str, ...]
    contact_source: bool = False


@dataclass(frozen=True)
class FencingCredential:
    """By which Redfish service a control plane node is fenced; without secrets in the copy that the cluster holds."""

    host_name: str
    address: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    verify: bool = True


@dataclass(frozen=True)
class InstallConfig:
    """An install-config; ``text`` is the whole file, for the ConfigMap cluster-config-v1."""

    name: str
    base_domain: str
    control_plane_replicas: int
    arbiter_replicas: int
    compute_replicas: int
    platform: str
    api_vips: tuple[str, ...]
    ingress_vips: tuple[str, ...]
    own_load_balancer: bool
    machine_networks: tuple[str, ...]
    cluster_networks: tuple[tuple[str, int], ...]
    service_networks: tuple[str, ...]
    pull_secret: str = field(repr=False)
    trust_bundle: str
    mirrors: tuple[Mirror, ...]
    ssh_key: str
    installation_disk: str
    proxy: Mapping[str, str] = field(repr=False)
    fips: bool
    text: str = field(repr=False)
    fencing: tuple[FencingCredential, ...] = ()

    @property
    def domain(self) -> str:
        """``<cluster>.<base domain>``."""
        return f"{self.name}.{self.base_domain}"

    @property
    def families(self) -> tuple[int, ...]:
        """The versions of IP that services have, the first one's first: 4, 6, or both."""
        return tuple(dict.fromkeys(ipaddress.ip_network(text).version for text in self.service_networks))

    @property
    def dual_stack(self) -> bool:
        """Return whether nodes, pods and services have addresses of IPv4 and of IPv6."""
        return len(self.families) > 1

    @property
    def any_address(self) -> str:
        """Return the address on which servers listen: `::`, which takes IPv4 as well, as soon as there is IPv6."""
        return "::" if 6 in self.families else "0.0.0.0"

    @property
    def pod_networks(self) -> tuple[tuple[str, int], ...]:
        """The first cluster network of each family, as (CIDR, length of a node's part): of them pods get addresses."""
        by_family: dict[int, tuple[str, int]] = {}
        for cidr, prefix in self.cluster_networks:
            by_family.setdefault(ipaddress.ip_network(cidr).version, (cidr, prefix))
        return tuple(by_family[version] for version in self.families if version in by_family)

    @property
    def no_proxy(self) -> str:
        """List the destinations without the proxy: those asked for, and the cluster's own names and networks, which
        OpenShift's network operator adds."""
        own = ("127.0.0.1", "localhost", ".svc", ".cluster.local", f"api-int.{self.domain}")
        networks = (*self.machine_networks, *self.service_networks, *(cidr for cidr, _ in self.cluster_networks))
        asked = [item for item in self.proxy.get("noProxy", "").split(",") if item]
        return "*" if asked == ["*"] else ",".join(dict.fromkeys([*asked, *own, *networks]))

    @property
    def nodes(self) -> int:
        """Count the nodes that the cluster is to have."""
        return self.etcd_members + self.compute_replicas

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools of machines, each with MachineConfigs of its own: `arbiter` only where there is one."""
        return ("master", *(["arbiter"] if self.arbiter_replicas else []), "worker")

    @property
    def holds_vips(self) -> bool:
        """Return whether the nodes hold the virtual IPs: there are some, and no user's load balancer has them."""
        return bool(self.api_vips) and not self.own_load_balancer

    @property
    def etcd_members(self) -> int:
        """Count the nodes that run a member of etcd: the control plane's, and arbiters."""
        return self.control_plane_replicas + self.arbiter_replicas

    @property
    def fenced(self) -> bool:
        """Two control plane nodes that fence each other: nobody else votes when one of them is lost."""
        return self.control_plane_replicas == 2 and not self.arbiter_replicas

    @property
    def enough_members(self) -> int:
        """Count the voting members of etcd before the bootstrap host may go: itself and two more, or one where there
        are to be two (reference/cluster.md §2.5, delayed HA) or is to be one."""
        return min(self.etcd_members + (0 if self.fenced else 1), 3)

    @property
    def first_api_servers(self) -> int:
        """Count the other nodes with an API server before the bootstrap host may go: beside an arbiter there is one."""
        return max(min(2, self.control_plane_replicas - 1), 1)

    @property
    def single_node(self) -> bool:
        """One control plane node and nothing else."""
        return self.control_plane_replicas == 1 and self.compute_replicas == 0

    @property
    def in_place(self) -> bool:
        """A single node that bootstraps itself: `bootstrapInPlace` names its disk. Without that, a bootstrap machine
        does it."""
        return self.single_node and bool(self.installation_disk)

    @property
    def node_grace_seconds(self) -> int:
        """Seconds of silence after which a node is lost: Kubernetes' 40, or more where no other node could take over
        and an emulated CPU's stall would cost the Services their endpoints."""
        return 120 if self.single_node else 40

    @property
    def schedulable_masters(self) -> bool:
        """Return whether control plane nodes are workers too (OpenShift: when there are no workers)."""
        return self.compute_replicas == 0

    @property
    def api_host(self) -> str:
        """Return the host of the machine-config server: the first API VIP on bare metal, else api-int by name."""
        vip = self.api_vips[0] if self.platform == "baremetal" and self.api_vips else f"api-int.{self.domain}"
        return f"[{vip}]" if ":" in vip else vip

    @property
    def service_ip(self) -> str:
        """The first address of the service network: that of the service `kubernetes`."""
        return str(ipaddress.ip_network(self.service_networks[0])[1])

    @property
    def dns_ip(self) -> str:
        """The tenth address of the service network, the cluster's DNS by convention."""
        return str(ipaddress.ip_network(self.service_networks[0])[10])

    def redacted(self) -> str:
        """Return the whole file without secrets, as OpenShift stores it in the cluster; the machines' passwords go as
        well."""
        document = yamltext.load(self.text)
        document["pullSecret"] = ""
        _blank(document.get("platform"))
        _blank(document.get("controlPlane"))
        for key in ("sshKey",):
            document.setdefault(key, "")
        return yaml.safe_dump(document, sort_keys=True)


def _blank(part: Any) -> None:
    """Empty the passwords in there, and whatever else only those who log in need."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _blank(value)
    if isinstance(part, dict) and "password" in part:
        part |= {key: "" for key in ("password", "username") if key in part}


class _Reader:
    """Typed access to a YAML mapping, with errors that name the field."""

    def __init__(self, source: str, data: object) -> None:
        if not isinstance(data, dict):
            raise ConfigError(source, "", "must be a YAML mapping")
        self.source = source
        self.data: dict[str, Any] = data

    def get(self, path: str, kind: type, default: Any = None) -> Any:
        here: Any = self.data
        for part in path.split("."):
            here = here.get(part) if isinstance(here, dict) else None
        if here is None:
            if default is None:
                raise ConfigError(self.source, path, "is required")
            return default
        if not isinstance(here, kind) or (kind is int and isinstance(here, bool)):
            raise ConfigError(self.source, path, f"must be a {kind.__name__}")
        return here

    def strings(self, path: str) -> tuple[str, ...]:
        values = self.get(path, list, [])
        if not all(isinstance(value, str) for value in values):
            raise ConfigError(self.source, path, "must be a list of strings")
        return tuple(values)

    def networks(self, path: str, field: str) -> tuple[str, ...]:
        networks = []
        for index, entry in enumerate(self.get(path, list, [])):
            text = entry.get(field) if field and isinstance(entry, dict) else entry
            try:
                networks.append(str(ipaddress.ip_network(str(text))))
            except ValueError as error:
                raise ConfigError(self.source, f"{path}[{index}]", str(error)) from error
        return tuple(networks)


def _mirrors(reader: _Reader) -> tuple[Mirror, ...]:
    mirrors = []
    for path in ("imageDigestSources", "imageContentSources"):
        for index, entry in enumerate(reader.get(path, list, [])):
            item = _Reader(f"{reader.source}: {path}[{index}]", entry)
            policy = item.get("sourcePolicy", str, "AllowContactingSource")
            mirrors.append(Mirror(item.get("source", str), item.strings("mirrors"), policy != "NeverContactSource"))
    return tuple(mirrors)


def _fencing(reader: _Reader) -> tuple[FencingCredential, ...]:
    credentials = []
    for index, entry in enumerate(reader.get("controlPlane.fencing.credentials", list, [])):
        item = _Reader(f"{reader.source}: controlPlane.fencing.credentials[{index}]", entry)
        verification = item.get("certificateVerification", str, "Enabled")
        credentials.append(
            FencingCredential(
                host_name=item.get("hostName", str),
                address=item.get("address", str),
                username=item.get("username", str, ""),
                password=item.get("password", str, ""),
                verify=verification != "Disabled",
            )
        )
    return tuple(credentials)


def parse(text: str, source: str = "install-config.yaml") -> InstallConfig:
    """Read an install-config. Raises ConfigError, naming the field."""
    try:
        reader = _Reader(source, yamltext.load(text))
    except YamlError as error:
        raise ConfigError(source, "", f"not YAML ({error})") from error
    platforms = list(reader.get("platform", dict, {"none": {}}))
    platform = str(platforms[0]) if platforms else "none"
    compute = reader.get("compute", list, [])
    # empty in the redacted copy that the cluster holds
    pull_secret = reader.get("pullSecret", str, "") or '{"auths":{}}'
    try:
        json.loads(pull_secret)["auths"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(source, "pullSecret", "must be JSON with a key 'auths'") from error
    cluster_networks = tuple(
        (network, int(entry.get("hostPrefix", CLUSTER_NETWORK[1])))
        for network, entry in zip(
            reader.networks("networking.clusterNetwork", "cidr"),
            reader.get("networking.clusterNetwork", list, []),
            strict=True,
        )
    )
    vips = {}
    for kind in ("api", "ingress"):
        single = reader.get(f"platform.{platform}.{kind}VIP", str, "")
        vips[kind] = reader.strings(f"platform.{platform}.{kind}VIPs") or ((single,) if single else ())
    return InstallConfig(
        name=reader.get("metadata.name", str),
        base_domain=reader.get("baseDomain", str),
        control_plane_replicas=reader.get("controlPlane.replicas", int, 3),
        arbiter_replicas=reader.get("arbiter.replicas", int, 0),
        compute_replicas=sum(_Reader(f"{source}: compute", pool).get("replicas", int, 0) for pool in compute),
        platform=platform,
        api_vips=vips["api"],
        ingress_vips=vips["ingress"],
        own_load_balancer=reader.get(f"platform.{platform}.loadBalancer.type", str, "") == "UserManaged",
        machine_networks=reader.networks("networking.machineNetwork", "cidr") or (MACHINE_NETWORK,),
        cluster_networks=cluster_networks or (CLUSTER_NETWORK,),
        service_networks=reader.networks("networking.serviceNetwork", "") or (SERVICE_NETWORK,),
        pull_secret=pull_secret,
        trust_bundle=reader.get("additionalTrustBundle", str, ""),
        mirrors=_mirrors(reader),
        ssh_key=reader.get("sshKey", str, ""),
        installation_disk=reader.get("bootstrapInPlace.installationDisk", str, ""),
        proxy={k: str(v) for k, v in reader.get("proxy", dict, {}).items()},
        fips=reader.get("fips", bool, False),
        text=text,
        fencing=_fencing(reader),
    )
