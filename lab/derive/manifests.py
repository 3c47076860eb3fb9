"""cluster-manifests/ as users of ZTP write them, read as the two files that would say the same.

What each manifest has is in reference/installer.md §2.1. What a lab cannot have is reported by manifest and field.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lab.derive.build import build
from lab.derive.cluster import AGENT, INSTALL, read
from lab.derive.fields import Field, Interface, Problems, Subnet
from lab.errors import ConfigsError, TopologyError
from lab.topology import Firmware, Topology

FOLDER = "cluster-manifests"
CLUSTER_INSTALL = f"{FOLDER}/agent-cluster-install.yaml"
CLUSTER_DEPLOYMENT = f"{FOLDER}/cluster-deployment.yaml"
INFRA_ENV = f"{FOLDER}/infraenv.yaml"
NMSTATE = f"{FOLDER}/nmstateconfig.yaml"
_HOST = re.compile(r"\bhosts\[\d+\][\w.\[\]]*")
_ARCHITECTURES = {"": "amd64", "x86_64": "amd64"}
#: The manifest and path of each field of install-config.yaml; of several entries that a field lies in, the longest.
_PLACES = {
    "": (CLUSTER_INSTALL, "spec"),
    "metadata.name": (CLUSTER_DEPLOYMENT, "spec.clusterName"),
    "baseDomain": (CLUSTER_DEPLOYMENT, "spec.baseDomain"),
    "platform": (CLUSTER_INSTALL, "spec.platformType"),
    "platform.baremetal.apiVIPs": (CLUSTER_INSTALL, "spec.apiVIPs"),
    "platform.baremetal.apiVIP": (CLUSTER_INSTALL, "spec.apiVIP"),
    "platform.baremetal.ingressVIPs": (CLUSTER_INSTALL, "spec.ingressVIPs"),
    "platform.baremetal.ingressVIP": (CLUSTER_INSTALL, "spec.ingressVIP"),
    "controlPlane": (CLUSTER_INSTALL, "spec.provisionRequirements"),
    "controlPlane.replicas": (CLUSTER_INSTALL, "spec.provisionRequirements.controlPlaneAgents"),
    "controlPlane.architecture": (INFRA_ENV, "spec.cpuArchitecture"),
    "arbiter.replicas": (CLUSTER_INSTALL, "spec.provisionRequirements.arbiterAgents"),
    "compute": (CLUSTER_INSTALL, "spec.provisionRequirements.workerAgents"),
    "compute[0].replicas": (CLUSTER_INSTALL, "spec.provisionRequirements.workerAgents"),
    "networking": (CLUSTER_INSTALL, "spec.networking"),
    "proxy": (CLUSTER_INSTALL, "spec.proxy"),
}


@dataclass(frozen=True)
class Manifests:
    """The decoded manifests; `nmstate` has a document for each host with a network of its own."""

    cluster_install: Mapping[str, Any] = field(repr=False)
    cluster_deployment: Mapping[str, Any]
    infra_env: Mapping[str, Any] = field(default_factory=dict, repr=False)
    nmstate: Sequence[Any] = field(default=(), repr=False)


@dataclass(frozen=True)
class _Place:
    source: str
    path: str


class _Configs:
    """The install-config.yaml and agent-config.yaml that say what manifests say, and where in these each field is."""

    def __init__(self, manifests: Manifests, agent: Mapping[str, Any]) -> None:
        self.places = {(INSTALL, path): _Place(*place) for path, place in _PLACES.items()}
        self.problems = problems = Problems()
        installed = Field(value=manifests.cluster_install, source=CLUSTER_INSTALL, path="", problems=problems)
        deployed = Field(value=manifests.cluster_deployment, source=CLUSTER_DEPLOYMENT, path="", problems=problems)
        environment = Field(value=manifests.infra_env, source=INFRA_ENV, path="", problems=problems)
        configs = Field(value=list(manifests.nmstate), source=NMSTATE, path="", problems=problems).items()
        self.agent = self._agent(Field(value=agent, source=AGENT, path="", problems=problems), environment, configs)
        self.install = self._install(installed, deployed, environment)
        self.tpm, self.tang = _keys(installed.get("spec", "diskEncryption"))

    def _agent(self, agent: Field, environment: Field, configs: Sequence[Field]) -> dict[str, Any]:
        """Hosts of agent-config.yaml, if there is one, each with its NMStateConfig, and those that only have one."""
        hosts = [dict(one.map()) for one in agent.get("hosts").items()]
        if not hosts:
            self._place("hosts", "documents")
        documents: dict[int, Field] = {}
        for config in configs:
            spec = config.get("spec")
            cards = _macs(spec)
            index = next((i for i, host in enumerate(hosts) if _macs_of(host) & cards), len(hosts))
            if index == len(hosts):
                hosts.append({"interfaces": spec.get("interfaces").value})
                self._place(f"hosts[{index}]", config.path)
                self._place(f"hosts[{index}].interfaces", f"{config.path}.spec.interfaces")
            if index in documents:
                rule = f"a MAC address of {documents[index].path} too; each host has one document"
                spec.get("interfaces").wrong(rule)
            documents[index] = config
            if not hosts[index].get("networkConfig"):
                hosts[index]["networkConfig"] = spec.get("config").value
                self._place(f"hosts[{index}].networkConfig", f"{config.path}.spec.config")
        rendezvous = agent.get("rendezvousIP").text() or next(
            (str(one.ip) for host in hosts for one in _static(host.get("networkConfig"))), ""
        )
        sources = [*environment.get("spec", "additionalNTPSources").texts()]
        return {
            **agent.map(),
            "hosts": hosts,
            "rendezvousIP": rendezvous,
            "additionalNTPSources": list(dict.fromkeys([*agent.get("additionalNTPSources").texts(), *sources])),
        }

    def _place(self, path: str, where: str) -> None:
        self.places[AGENT, path] = _Place(NMSTATE, where)

    def _install(self, installed: Field, deployed: Field, environment: Field) -> dict[str, Any]:
        spec = installed.get("spec")
        needed = spec.get("provisionRequirements")
        workers = needed.get("workerAgents").value or 0
        masters = needed.get("controlPlaneAgents").value or 0
        architecture = environment.get("spec", "cpuArchitecture").text()
        name = deployed.get("spec", "clusterName").text() or installed.get("metadata", "name").text()
        proxy = spec.get("proxy").value or environment.get("spec", "proxy").value
        platform = self._platform(spec)
        return {
            "metadata": {"name": name},
            "baseDomain": deployed.get("spec", "baseDomain").value,
            "controlPlane": {"replicas": masters, "architecture": _ARCHITECTURES.get(architecture, architecture)},
            "arbiter": {"replicas": needed.get("arbiterAgents").value or 0},
            "compute": [{"replicas": workers}],
            "networking": {"machineNetwork": self._networks(spec)},
            "platform": {platform: _baremetal(spec) if platform == "baremetal" else {}},
            **({"proxy": proxy} if proxy else {}),
        }

    def _platform(self, spec: Field) -> str:
        """spec.platformType; where there is none, what the service makes of it: a balancer of the user's means none."""
        platform = spec.get("platformType").text()
        if platform:
            return platform.lower()
        alone = spec.get("provisionRequirements", "controlPlaneAgents").value == 1
        return "none" if spec.get("networking", "userManagedNetworking").flag() or alone else "baremetal"

    def _networks(self, spec: Field) -> list[Any]:
        """spec.networking.machineNetwork; without one, networks that the hosts' addresses are in, as the service
        finds them: those with the API's address where that is known, else the first host's."""
        if entries := spec.get("networking", "machineNetwork").items():
            return [entry.value for entry in entries]
        static = [one for host in self.agent["hosts"] for one in _static(host.get("networkConfig"))]
        virtual = [text for name in ("apiVIPs", "apiVIP") for text in _texts(spec.get(name).value)]
        holds = [one.network for one in static if any(_holds(one, text) for text in virtual)]
        chosen = holds or [one.network for one in static[:1]]
        # The shortest prefix, where hosts have several in one network.
        widest = (one for one in chosen if not any(_within(one, other) for other in chosen))
        return [{"cidr": str(network)} for network in dict.fromkeys(widest)]

    def in_manifests(self, source: str, line: str) -> tuple[str, str]:
        """A problem of the two files as one of the manifests."""
        path, colon, rule = line.partition(": ")
        place = self._of(source, path) if colon else None
        if place is None:
            return (CLUSTER_INSTALL if source == INSTALL else source), line
        # It may name another host, whose manifest is the same file.
        rule = _HOST.sub(lambda match: (self._of(AGENT, match[0]) or _Place(AGENT, match[0])).path, rule)
        return place.source, f"{place.path}: {rule.replace(INSTALL, CLUSTER_INSTALL)}"

    def _of(self, source: str, path: str) -> _Place | None:
        """Where the manifests have a field of the two files."""
        if source not in (INSTALL, AGENT):
            return None
        fits = [field for file, field in self.places if file == source and _below(path, field)]
        if not fits:
            return None
        field = max(fits, key=len)
        place = self.places[source, field]
        return _Place(place.source, f"{place.path}{path[len(field) :] if field else f'.{path}'}")


def _below(path: str, field: str) -> bool:
    return not field or path == field or path.startswith((f"{field}.", f"{field}["))


def _keys(wanted: Field) -> tuple[bool, bool]:
    """Whether the machines' TPMs open encrypted disks, and whether a Tang server does."""
    on, mode = wanted.get("enableOn").text(), wanted.get("mode").text()
    encrypted = on not in ("", "none")
    return encrypted and mode == "tpmv2", encrypted and mode == "tang"


def _baremetal(spec: Field) -> dict[str, Any]:
    names = ("apiVIP", "apiVIPs", "ingressVIP", "ingressVIPs", "loadBalancer")
    return {name: value for name in names if (value := spec.get(name).value) is not None}


def _macs(spec: Field) -> set[str]:
    return {mac for one in spec.get("interfaces").items() if (mac := one.get("macAddress").mac())}


def _macs_of(host: Mapping[str, Any]) -> set[str]:
    """The MAC addresses of a host of agent-config.yaml; wrong ones are reported when the file is read."""
    entry = Field(value=host, source=AGENT, path="", problems=Problems())
    return _macs(entry)


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []


def _static(document: Any) -> Iterable[Interface]:
    """The addresses that an NMState document gives to interfaces, in its order; wrong ones are reported elsewhere."""
    interfaces = Field(
        value=document if isinstance(document, Mapping) else {}, source="", path="", problems=Problems()
    ).get("interfaces")
    for one in interfaces.items():
        for family in ("ipv4", "ipv6"):
            for address in one.get(family, "address").items():
                try:
                    yield ipaddress.ip_interface(f"{address.get('ip').text()}/{address.get('prefix-length').text()}")
                except ValueError:
                    continue


def _within(one: Subnet, other: Subnet) -> bool:
    return one.version == other.version and one.prefixlen > other.prefixlen and one.overlaps(other)


def _holds(interface: Interface, text: str) -> bool:
    try:
        return ipaddress.ip_address(text) in interface.network
    except ValueError:
        return False


def derive_from_manifests(
    manifests: Manifests,
    agent: Mapping[str, Any],
    *,
    firmware: Firmware = "uefi",
    memory_mib: int | None = None,
    vcpu: int | None = None,
) -> Topology:
    """The lab for a cluster of manifests; `agent` is agent-config.yaml, which may be empty.

    Raises ConfigsError or TopologyError, which name manifest and field.
    """
    configs = _Configs(manifests, agent)
    try:
        cluster = replace(read(configs.install, configs.agent), tpm=configs.tpm, tang=configs.tang)
        configs.problems.raise_if_any()
        return build(cluster, firmware=firmware, memory_mib=memory_mib, vcpu=vcpu)
    except ConfigsError as error:
        told = (configs.in_manifests(*problem) for problem in error.problems)
        raise ConfigsError(list(dict.fromkeys([*configs.problems.lines, *told]))) from error
    except TopologyError as error:
        raise TopologyError(FOLDER, error.lines) from error
