"""Kinds of objects that the hub reads or writes, keys of objects, and objects that threads may share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

Json = dict[str, Any]


class Key(NamedTuple):
    """An object of a kind; ``namespace`` is empty for those of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True)
class Kind:
    """A resource of the API. ``metadata_only``: caches hold no more than its objects' metadata (Secrets)."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL's path of one object, or of all in a namespace, or of all."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def new(self, key: Key, **members: Any) -> Json:
        """Return an object of this kind with that name."""
        metadata = {"name": key.name} | ({"namespace": key.namespace} if self.namespaced else {})
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": metadata, **members}


_AGENT_INSTALL = ("agent-install.openshift.io", "v1beta1")
_METAL3 = ("metal3.io", "v1alpha1")
AGENT = Kind(*_AGENT_INSTALL, "agents", "Agent")
AGENT_CLASSIFICATION = Kind(*_AGENT_INSTALL, "agentclassifications", "AgentClassification")
AGENT_SERVICE_CONFIG = Kind(*_AGENT_INSTALL, "agentserviceconfigs", "AgentServiceConfig", namespaced=False)
HYPERSHIFT_AGENT_SERVICE_CONFIG = Kind(*_AGENT_INSTALL, "hypershiftagentserviceconfigs", "HypershiftAgentServiceConfig")
INFRA_ENV = Kind(*_AGENT_INSTALL, "infraenvs", "InfraEnv")
NMSTATE_CONFIG = Kind(*_AGENT_INSTALL, "nmstateconfigs", "NMStateConfig")
AGENT_CLUSTER_INSTALL = Kind("extensions.hive.openshift.io", "v1beta1", "agentclusterinstalls", "AgentClusterInstall")
CLUSTER_DEPLOYMENT = Kind("hive.openshift.io", "v1", "clusterdeployments", "ClusterDeployment")
CLUSTER_IMAGE_SET = Kind("hive.openshift.io", "v1", "clusterimagesets", "ClusterImageSet", namespaced=False)
BARE_METAL_HOST = Kind(*_METAL3, "baremetalhosts", "BareMetalHost")
DATA_IMAGE = Kind(*_METAL3, "dataimages", "DataImage")
HARDWARE_DATA = Kind(*_METAL3, "hardwaredata", "HardwareData")
HOST_FIRMWARE_SETTINGS = Kind(*_METAL3, "hostfirmwaresettings", "HostFirmwareSettings")
PREPROVISIONING_IMAGE = Kind(*_METAL3, "preprovisioningimages", "PreprovisioningImage")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap", metadata_only=True)
EVENT = Kind("", "v1", "events", "Event")
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
SECRET = Kind("", "v1", "secrets", "Secret", metadata_only=True)
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
CRD = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)

#: Custom resources of the hub.
CUSTOM = (
    *(AGENT, AGENT_CLASSIFICATION, AGENT_CLUSTER_INSTALL, AGENT_SERVICE_CONFIG, BARE_METAL_HOST, CLUSTER_DEPLOYMENT),
    *(CLUSTER_IMAGE_SET, DATA_IMAGE, HARDWARE_DATA, HOST_FIRMWARE_SETTINGS, INFRA_ENV, NMSTATE_CONFIG),
    *(PREPROVISIONING_IMAGE, HYPERSHIFT_AGENT_SERVICE_CONFIG),
)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return an object's key."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return an object's uid; empty before it is created."""
    return str(obj["metadata"].get("uid", ""))


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's annotations."""
    return obj["metadata"].get("annotations") or {}


def is_deleted(obj: Mapping[str, Any]) -> bool:
    """Return whether it is to be deleted, and stays for its finalizers only."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def owner_reference(kind: Kind, owner: Mapping[str, Any]) -> Json:
    """Return the reference that has the garbage collector delete an object with its owner."""
    return {"apiVersion": kind.api_version, "kind": kind.name, "name": key_of(owner).name, "uid": uid_of(owner)}


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError("an object of a cache is shared by threads: change a copy of it (copy.deepcopy)")


class _FrozenDict(dict[str, Any]):
    def __deepcopy__(self, memo: Any) -> Json:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}


class _FrozenList(list[Any]):
    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]


for _name in ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update", "__ior__"):
    setattr(_FrozenDict, _name, _refuse)
for _name in (
    *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
    *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"),
):
    setattr(_FrozenList, _name, _refuse)


def frozen(value: Any) -> Any:
    """Return a copy of JSON that raises TypeError where it is changed; copy.deepcopy makes a changeable one of it."""
    if isinstance(value, dict):
        return _FrozenDict((key, frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return _FrozenList(frozen(item) for item in value)
    return value
