"""An installed cluster as a hub looks into it when hosts are added: their certificates' requests and their Nodes.

A kubelet asks for a certificate as the bootstrapper of machine configs, and then for one to serve with, as its own
Node. A request is approved if the Node that it names is a host that is being added, and it asks for nothing else.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from installer.assisted.enums import Stage
from installer.common.formats import yamltext
from installer.common.secretfiles import MemoryFile
from installer.errors import ConfigError
from installer.hub.kube.api import Api
from installer.hub.kube.kinds import Json, Key, Kind, key_of, labels_of

CSR = Kind("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False)
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
_CLIENT, _SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
_COMMON = {"digital signature", "key encipherment"}
_USAGES = {_CLIENT: _COMMON | {"client auth"}, _SERVING: _COMMON | {"server auth"}}
_USER = "system:node:{}"
CLUSTER_KEYS = frozenset({"server", "certificate-authority-data"})
USER_KEYS = frozenset({"token", "client-certificate-data", "client-key-data"})


@dataclass(frozen=True)
class Joining:
    """A host that is to become a Node: its name, and its addresses without prefix lengths."""

    name: str
    addresses: frozenset[str]


@contextmanager
def reached(kubeconfig: str) -> Iterator[Api]:
    """Provide the API of a kubeconfig's current context. Raises ConfigError, which quotes nothing of it.

    Certificates, keys and tokens in it count, and nothing else: it is a user's, and may name files of this machine, and
    programs to run on it.
    """
    from kubernetes import client

    cluster, user = _current(kubeconfig)
    with ExitStack() as files:

        def file(name: str) -> str | None:
            content = _decoded(user, name)
            return files.enter_context(MemoryFile(name, content)).path if content else None

        configuration = client.Configuration(
            host=str(cluster.get("server") or ""),
            ca_cert_data=_decoded(cluster, "certificate-authority-data").decode("ascii", "replace") or None,
            cert_file=file("client-certificate-data"),
            key_file=file("client-key-data"),
        )
        if user.get("token"):
            configuration.api_key["authorization"] = f"Bearer {user['token']}"
        api = Api(configuration)
        try:
            yield api
        finally:
            api.close()


def _current(kubeconfig: str) -> tuple[Json, Json]:
    """Return cluster and user of the current context. Raises ConfigError."""
    try:
        config = yamltext.load(kubeconfig)
        wanted = config["current-context"]
        [context] = [item["context"] for item in config["contexts"] if item["name"] == wanted]
        [cluster] = [item["cluster"] for item in config["clusters"] if item["name"] == context["cluster"]]
        [user] = [item["user"] for item in config["users"] if item["name"] == context["user"]]
        unknown = [f"cluster.{name}" for name in cluster.keys() - CLUSTER_KEYS]
        unknown += [f"user.{name}" for name in user.keys() - USER_KEYS]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ConfigError("the cluster's kubeconfig has no current context with a cluster and a user") from None
    if unknown:
        raise ConfigError(f"the cluster's kubeconfig has {', '.join(sorted(unknown))}, which a hub does not follow")
    return cluster, user


def _decoded(item: Json, name: str) -> bytes:
    try:
        return base64.b64decode(str(item.get(name) or ""), validate=True)
    except ValueError:
        raise ConfigError(f"the cluster's kubeconfig: {name} is not base64") from None


def follow(api: Api, host: Joining, labels: Mapping[str, str], now: datetime) -> Stage | None:
    """Approve what the host asks for; return how far its Node is: Joined, Done when it is ready and has its labels.

    Raises KubeError.
    """
    for request in api.list(CSR)[0]:
        if is_open(request) and is_of(request, host):
            api.approve(CSR, approved(request, now))
    node = api.get(NODE, Key("", host.name))
    if node is None:
        return None
    stage = stage_of(node)
    if stage is Stage.DONE and not labels.items() <= labels_of(node).items():
        api.patch(NODE, key_of(node), {"metadata": {"labels": dict(labels)}})
    return stage


def stage_of(node: Json) -> Stage:
    """Return the stage of a host whose Node this is."""
    conditions = (node.get("status") or {}).get("conditions") or []
    is_ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return Stage.DONE if is_ready else Stage.JOINED


def is_open(request: Json) -> bool:
    """Return whether nobody has decided on a request."""
    return not (request.get("status") or {}).get("conditions")


def approved(
    request: Json, now: datetime, why: str = "The Node is a host that node0's hub adds to this cluster."
) -> Json:
    """Return a request as it is approved."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "HostIsAdded",
        "message": why,
        "lastUpdateTime": stamp,
    }
    return {**request, "status": {**(request.get("status") or {}), "conditions": [condition]}}


def is_of(request: Json, host: Joining) -> bool:
    """Return whether a request is the host's kubelet's, for what a kubelet needs and nothing else."""
    spec = request.get("spec") or {}
    signer, user = str(spec.get("signerName")), _USER.format(host.name)
    usages = set(spec.get("usages") or [])
    if signer not in _USAGES or not usages <= _USAGES[signer] or not usages - _COMMON:
        return False
    if spec.get("username") != (BOOTSTRAPPER if signer == _CLIENT else user):
        return False
    return _names(str(spec.get("request") or ""), user, host, is_serving=signer == _SERVING)


def _names(encoded: str, user: str, host: Joining, *, is_serving: bool) -> bool:
    """Return whether a certificate's request names this Node alone."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        request = x509.load_pem_x509_csr(base64.b64decode(encoded))
        names = {oid: _texts(request.subject.get_attributes_for_oid(oid)) for oid in
                 (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)}  # fmt: skip
        alternatives = [item for item in request.extensions if isinstance(item.value, x509.SubjectAlternativeName)]
    except (ValueError, binascii.Error, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return False
    if names != {NameOID.COMMON_NAME: [user], NameOID.ORGANIZATION_NAME: ["system:nodes"]}:
        return False
    if not is_serving or not alternatives:
        return not is_serving and not alternatives
    value = alternatives[0].value
    assert isinstance(value, x509.SubjectAlternativeName)
    dns, addresses = value.get_values_for_type(x509.DNSName), map(str, value.get_values_for_type(x509.IPAddress))
    return len(value) == len([*dns, *value.get_values_for_type(x509.IPAddress)]) and (
        set(dns) <= {host.name} and host.addresses >= set(addresses)
    )


def _texts(attributes: Iterable[Any]) -> list[str]:
    return [str(item.value) for item in attributes]
