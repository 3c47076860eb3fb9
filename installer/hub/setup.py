"""``node0 hub install`` and ``uninstall``: the hub's definitions and roles in a cluster, marked as made by node0."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from installer.errors import InstallerError
from installer.hub.admission.webhook import CONFIGURATION
from installer.hub.admission.webhook import KEY as WEBHOOKS
from installer.hub.crds.manifests import NAMESPACE as OPERATOR_NAMESPACE
from installer.hub.crds.manifests import definitions, in_cluster_objects, operator_objects
from installer.hub.kube.api import Api, Conflict, NotFound
from installer.hub.kube.kinds import CRD, CUSTOM, NAMESPACE, Json, Kind, key_of, labels_of

log = logging.getLogger("installer.hub")
MANAGED_BY, NODE0 = "app.kubernetes.io/managed-by", "node0-hub"
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
SERVICE = Kind("", "v1", "services", "Service")
_RBAC = ("rbac.authorization.k8s.io", "v1")
KINDS = {
    kind.name: kind
    for kind in (
        CRD,
        NAMESPACE,
        Kind("", "v1", "serviceaccounts", "ServiceAccount"),
        Kind(*_RBAC, "clusterroles", "ClusterRole", namespaced=False),
        Kind(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Kind(*_RBAC, "roles", "Role"),
        Kind(*_RBAC, "rolebindings", "RoleBinding"),
        DEPLOYMENT,
        SERVICE,
    )
}
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
POD = Kind("", "v1", "pods", "Pod")
# Deadline for definitions to be served, or gone (s).
_ESTABLISHED_SECONDS = 60.0
# Deadline for the operator's pod to be gone (s): its grace period, and some.
_ENDED_SECONDS = 90.0


class SetupError(InstallerError):
    """The cluster could not be prepared or cleared."""


@dataclass(frozen=True)
class InCluster:
    """The operator as a Deployment: its image, and the ADDRESS:PORT, of one of the cluster's nodes, that hosts
    reach."""

    image: str
    listen: str

    def objects(self, node: str) -> list[Json]:
        """Return its objects, for the node of that name."""
        return in_cluster_objects(self.image, self.listen, node)

    def node(self, api: Api) -> str:
        """Return the name of the node. Raises KubeError, and SetupError where none has the address."""
        address = str(ip_address(self.listen.rpartition(":")[0].strip("[]")))
        nodes = api.list(NODE)[0]
        seen = {
            str(item["address"]): str(labels_of(node).get("kubernetes.io/hostname") or key_of(node).name)
            for node in nodes
            for item in (node.get("status") or {}).get("addresses") or ()
            if item.get("type") == "InternalIP"
        }
        if address not in seen:
            raise SetupError(f"--listen {self.listen}: no node has this address; theirs are {', '.join(sorted(seen))}")
        return seen[address]


def manifests(more: Iterable[Json] = ()) -> list[tuple[Kind, Json]]:
    """Return the objects of an installation: namespace and definitions first; ``more``: the operator's own."""
    found = [*operator_objects(), *definitions(), *more]
    order = list(KINDS)
    return sorted(((KINDS[item["kind"]], item) for item in found), key=lambda pair: order.index(pair[0].name))


def is_ours(obj: Json) -> bool:
    """Return whether an installation has made the object."""
    return labels_of(obj).get(MANAGED_BY) == NODE0


def install(api: Api, in_cluster: InCluster | None = None) -> int:
    """Create missing objects and update those of an earlier install; ``in_cluster``: the operator as well.

    Raises KubeError, SetupError.
    """
    for kind, obj in manifests(in_cluster.objects(in_cluster.node(api)) if in_cluster else ()):
        metadata = obj["metadata"]
        wanted = obj | {"metadata": metadata | {"labels": (metadata.get("labels") or {}) | {MANAGED_BY: NODE0}}}
        try:
            api.create(kind, wanted)
            log.info("%s %s: made", kind.name, key_of(obj))
        except Conflict:
            _update(api, kind, wanted)
    _wait_established(api)
    log.info("the cluster is ready for node0 hub run" if in_cluster is None else "the operator runs in the cluster")
    return 0


def _update(api: Api, kind: Kind, wanted: Json) -> None:
    key = key_of(wanted)
    old = api.get(kind, key)
    if old is None:
        raise SetupError(f"{kind.name} {key} was removed meanwhile: try again")
    if not is_ours(old):
        log.warning("%s %s: is there already and not of node0, left as it is", kind.name, key)
        return
    # Members that the cluster has added, such as a service account's tokens, stay.
    metadata: dict[str, Any] = old["metadata"] | {"labels": {**labels_of(old), **labels_of(wanted)}}
    if kind is SERVICE:  # its addresses, too
        wanted = wanted | {"spec": {**old["spec"], **wanted["spec"]}}
    new = api.update(kind, {**old, **wanted, "metadata": metadata})
    changed = new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]
    log.info("%s %s: %s", kind.name, key, "brought up to date" if changed else "unchanged")


def _wait_established(api: Api) -> None:
    deadline = time.monotonic() + _ESTABLISHED_SECONDS
    for kind in CUSTOM:
        while True:
            try:
                api.list(kind)
                break
            except NotFound:
                if time.monotonic() > deadline:
                    name = f"{kind.plural}.{kind.group}"
                    raise SetupError(
                        f"{name} is not served after {_ESTABLISHED_SECONDS:.0f} s: see kubectl describe crd {name}"
                    ) from None
                time.sleep(0.5)


def uninstall(api: Api, *, with_resources: bool) -> int:
    """Remove all that install made. Refuses while there are custom resources, unless ``with_resources``.

    Raises KubeError, SetupError.
    """
    ours = [(kind, obj) for kind, obj in _installed(api) if is_ours(obj)]
    definitions = {key_of(obj).name for kind, obj in ours if kind is CRD}
    custom = [kind for kind in CUSTOM if f"{kind.plural}.{kind.group}" in definitions]
    left = [(kind, obj) for kind in custom for obj in _list(api, kind)]
    if left and not with_resources:
        advice = "delete them while the operator runs, or see --with-resources"
        raise SetupError(f"there are custom resources, nothing was removed: {_shown(left)} ({advice})")
    # An operator in the cluster would take up again what is removed.
    for kind, obj in ours:
        if kind is DEPLOYMENT:
            api.delete(kind, key_of(obj))
    _wait_ended(api)
    # Of an operator that was killed it is still there, and would refuse what follows.
    if (asking := api.get(CONFIGURATION, WEBHOOKS)) is not None and is_ours(asking):
        api.delete(CONFIGURATION, WEBHOOKS)
    unfinished = [(kind, obj) for kind, obj in left if obj["metadata"].get("finalizers")]
    for kind, obj in left:
        # The operator that would answer to their finalizers goes as well.
        if obj["metadata"].get("finalizers"):
            api.patch(kind, key_of(obj), {"metadata": {"finalizers": None}})
        api.delete(kind, key_of(obj))
        log.info("%s %s: removed", kind.name, key_of(obj))
    for kind, obj in reversed(ours):
        api.delete(kind, key_of(obj))
        log.info("%s %s: removed", kind.name, key_of(obj))
    _wait_gone(api, [(kind, obj) for kind, obj in ours if kind is CRD])
    if unfinished:
        log.warning(
            "not ended by the operator: %s. Their clusters, infra-envs and hosts are still in its service, machines "
            "run as they did. Remove DIR/service of an operator that has ended; where it used --service, delete them "
            "through that API",
            _shown(unfinished),
        )
    return 0


def _wait_ended(api: Api) -> None:
    """Wait until no pod of the operator is left. Raises SetupError."""
    deadline = time.monotonic() + _ENDED_SECONDS
    while pods := api.list(POD, OPERATOR_NAMESPACE, "app=node0-hub")[0]:
        if time.monotonic() > deadline:
            names = ", ".join(str(key_of(pod)) for pod in pods)
            raise SetupError(
                f"the operator still runs after {_ENDED_SECONDS:.0f} s, try again once it has ended: {names}"
            )
        time.sleep(0.5)


def _shown(objects: list[tuple[Kind, Json]]) -> str:
    names = ", ".join(f"{kind.name} {key_of(obj)}" for kind, obj in objects[:10])
    return names + (f" and {len(objects) - 10} more" if len(objects) > 10 else "")


def _wait_gone(api: Api, objects: list[tuple[Kind, Json]]) -> None:
    """Wait until definitions are gone: a new installation cannot replace a definition that is being deleted."""
    deadline = time.monotonic() + _ESTABLISHED_SECONDS
    while left := [key_of(obj).name for kind, obj in objects if api.get(kind, key_of(obj)) is not None]:
        if time.monotonic() > deadline:
            raise SetupError(f"still there after {_ESTABLISHED_SECONDS:.0f} s: {', '.join(left)}")
        time.sleep(0.5)


def _installed(api: Api) -> list[tuple[Kind, Json]]:
    own = in_cluster_objects("", "", "")
    found = ((kind, api.get(kind, key_of(obj))) for kind, obj in manifests(own))
    return [(kind, obj) for kind, obj in found if obj is not None]


def _list(api: Api, kind: Kind) -> list[Json]:
    try:
        return api.list(kind)[0]
    except NotFound:
        return []
