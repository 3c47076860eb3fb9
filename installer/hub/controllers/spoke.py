"""Installed clusters as a hub sees them by their admin kubeconfigs: Nodes, and the requests for their certificates."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from installer.common.formats import YamlError
from installer.common.formats.yamltext import load
from installer.errors import InstallerError
from installer.hub.controllers.cluster import secret_names
from installer.hub.controllers.inputs import Inputs
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import SECRET, Json, Key, Kind, key_of, labels_of
from installer.hub.kube.manager import Hub

NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
CSR = Kind("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)
_CLIENT, _SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
_NODES = "system:nodes"
_BOOTSTRAPPERS = frozenset(
    {"system:serviceaccount:openshift-machine-config-operator:node-bootstrapper", "system:node-bootstrapper"}
)


class SpokeError(InstallerError):
    """A cluster that cannot be reached by the kubeconfig that there is."""


class Spoke:
    """One installed cluster. All raise KubeError."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def node(self, name: str) -> Json | None:
        """Return a Node, None if there is none."""
        return self._api.get(NODE, Key("", name))

    def delete_node(self, name: str) -> None:
        """Delete a Node; none is done."""
        self._api.delete(NODE, Key("", name))

    def label(self, node: Json, labels: Mapping[str, str]) -> None:
        """Have a Node carry these labels."""
        if not labels.items() <= labels_of(node).items():
            self._api.patch(NODE, key_of(node), {"metadata": {"labels": dict(labels)}})

    def approve(self, name: str, node: Json | None) -> list[str]:
        """Approve the certificates that the kubelet of this host asks for, and no others; the requests' names."""
        approved = []
        for item in self._api.list(CSR)[0]:
            if not _is_decided(item) and _is_of(item, name, node):
                condition = {"type": "Approved", "status": "True", "reason": "HostApproved"}
                condition["message"] = f"the hub's Agent of host {name} is approved"
                self._api.update_status(CSR, {**item, "status": {"conditions": [condition]}}, "approval")
                approved.append(key_of(item).name)
        return approved

    def close(self) -> None:
        """Drop the connections."""
        self._api.close()


def _is_decided(request: Json) -> bool:
    conditions = (request.get("status") or {}).get("conditions") or ()
    return any(item.get("type") in ("Approved", "Denied") for item in conditions)


def _is_of(request: Json, name: str, node: Json | None) -> bool:
    """Return whether a host's kubelet asks: for its first certificate, or as the Node that it is for that Node's names.

    Whoever may bootstrap could ask in any name: a client's certificate is for a host that is no Node yet.
    """
    spec = request["spec"]
    try:
        wanted = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    except (ValueError, KeyError):
        return False
    user = f"system:node:{name}"
    names = [attribute.value for attribute in wanted.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [attribute.value for attribute in wanted.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if names != [user] or groups != [_NODES]:
        return False
    if spec.get("signerName") == _CLIENT:
        return node is None and spec.get("username") in _BOOTSTRAPPERS
    if spec.get("signerName") != _SERVING or spec.get("username") != user or node is None:
        return False
    addresses = {str(item.get("address")) for item in (node.get("status") or {}).get("addresses") or ()} | {name}
    try:
        found = wanted.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    asked = [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]
    return bool(asked) and set(asked) <= addresses


class Spokes:
    """Clients of the clusters that a hub has installed or imported, each made anew with its Secret."""

    def __init__(self, hub: Hub) -> None:
        self._inputs = Inputs(hub)
        self._lock = threading.Lock()
        self._known: dict[Key, tuple[str, Spoke]] = {}

    def of(self, deployment: Json) -> Spoke:
        """Return the client of a ClusterDeployment's cluster. Raises SpecError, SpokeError."""
        key = Key(key_of(deployment).namespace, secret_names(deployment)[0])
        version = self._inputs.version(SECRET, key)
        with self._lock:
            known = self._known.get(key)
            if known is not None and version and known[0] == version:
                return known[1]
            text = self._inputs.secret(key, "kubeconfig", f"ClusterDeployment {key_of(deployment)}")
            spoke = Spoke(_api(key, text))
            if known is not None:
                known[1].close()
            self._known[key] = version, spoke
            return spoke


def _api(key: Key, text: str) -> Api:
    from kubernetes import client, config

    configuration = client.Configuration()
    try:
        loaded: Any = load(text.encode())
        config.load_kube_config_from_dict(loaded, client_configuration=configuration)
    except (config.ConfigException, YamlError, ValueError, KeyError, TypeError, AttributeError):
        # What they say may quote the file.
        raise SpokeError(f"Secret {key}: its kubeconfig cannot be used") from None
    return Api(configuration)
