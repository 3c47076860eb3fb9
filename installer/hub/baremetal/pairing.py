"""BareMetalHosts paired with the Agents of their machines: changes of each that follow from the other and the InfraEnv.

Pure functions of objects as the API has them; changes are JSON merge patches (hub.md §2, §8, classic flow).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from installer.config.values.check import canonical_mac
from installer.hub.baremetal.states import State
from installer.hub.baremetal.status import (
    DETACHED,
    DISABLED,
    HARDWARE,
    INFRA_ENV,
    INSPECT,
    PAUSED,
    STATUS,
    host_of,
    image_url,
    method_of,
    spec_of,
)
from installer.hub.conditions import condition
from installer.hub.kube.kinds import Json, Key, annotations_of, is_deleted, key_of, labels_of
from installer.hub.tables import infraenv, preprovisioning
from installer.rendezvous.validations import hints

AGENT_BMH = "agent-install.openshift.io/bmh"
BACKUP = "cluster.open-cluster-management.io/backup"
METAL3_FINALIZER = "baremetalhost.metal3.io"
FINALIZER = "bmac.agent-install.openshift.io/deprovision"
_BMAC = "bmac.agent-install.openshift.io"
NODE_LABEL, AGENT_LABEL = f"{_BMAC}.node-label.", f"{_BMAC}.agent-label."
CLUSTER_REFERENCE = f"{_BMAC}/cluster-reference"
REMOVE_ON_DELETE, KEEP_MANAGED = (
    f"{_BMAC}/remove-agent-and-node-on-delete",
    f"{_BMAC}/allow-provisioned-host-management",
)
# The Agent of the live system that a host runs.
LIVE = f"{_BMAC}/agent"
BY_US = "assisted-service-controller"
COPIED = {
    f"{_BMAC}/role": "role",
    f"{_BMAC}/hostname": "hostname",
    f"{_BMAC}/machine-config-pool": "machineConfigPool",
    f"{_BMAC}/installer-args": "installerArgs",
    f"{_BMAC}/ignition-config-overrides": "ignitionConfigOverrides",
    f"{_BMAC}/fencing-credentials-secret-name": "fencingCredentialsSecretRef",
}
# From the reboot on the host runs what was installed, and its power is the cluster's.
_HANDED_OVER = frozenset({"Rebooting", "Joined", "Done"})
_INSTALLING = frozenset(
    {"preparing-for-installation", "preparing-successful", "installing", "installing-in-progress",
     "installing-pending-user-action"}
)  # fmt: skip

_ENDED = frozenset({"installed", "error", "added-to-existing-cluster"})


def mac_of(bmh: Json) -> str:
    """Return the MAC address that identifies a machine, as the kernel writes it."""
    return canonical_mac(str(spec_of(bmh).get("bootMACAddress") or ""))


def macs_of(agent: Json) -> set[str]:
    """Return the MAC addresses of an Agent's NICs, in lower case."""
    interfaces = ((agent.get("status") or {}).get("inventory") or {}).get("interfaces") or ()
    return {str(interface.get("macAddress") or "").lower() for interface in interfaces} - {""}


def agent_for(bmh: Json, agents: Iterable[Json]) -> Json | None:
    """Return the newest Agent of the namespace that has the host's MAC address."""
    namespace, mac = key_of(bmh).namespace, mac_of(bmh)
    fit = [agent for agent in agents if mac and key_of(agent).namespace == namespace and mac in macs_of(agent)]
    return max(fit, key=lambda agent: str(agent["metadata"].get("creationTimestamp", "")), default=None)


def same_mac(bmh: Json, hosts: Iterable[Json]) -> str:
    """Return the problem of a MAC address that several hosts of a namespace share; empty if it is unique."""
    own, mac = key_of(bmh), mac_of(bmh)
    others = sorted(
        key_of(host).name for host in hosts
        if mac and mac_of(host) == mac and key_of(host) != own and key_of(host).namespace == own.namespace
        and not is_deleted(host)
    )  # fmt: skip
    names = ", ".join(others)
    return f"spec.bootMACAddress {mac} is also that of BareMetalHost {names}: one MAC is one machine" if others else ""


def absent_mac(bmh: Json) -> str:
    """Return the problem of a MAC address that none of the host's known NICs has; empty also if no NIC is known."""
    nics = ((bmh.get("status") or {}).get("hardware") or {}).get("nics") or ()
    macs = sorted({str(nic.get("mac") or "").lower() for nic in nics} - {""})
    if not macs or not mac_of(bmh) or mac_of(bmh) in macs:
        return ""
    return f"spec.bootMACAddress {mac_of(bmh)}, by which its Agent is found, is on none of its NICs: {', '.join(macs)}"


def is_unbinding(agent: Json | None) -> bool:
    """Return whether an Agent's host is to boot into discovery again."""
    return bool(agent) and condition(agent or {}, "Bound").get("reason") == "UnbindingPendingUserAction"


def stage(agent: Json | None) -> str:
    """Return the stage of an Agent's installation."""
    return str((((agent or {}).get("status") or {}).get("progress") or {}).get("currentStage") or "")


def is_installing(agent: Json | None) -> bool:
    """Return whether a new image would break off the installation of an Agent's host."""
    if state := _state(agent):
        return state in _INSTALLING
    return bool(stage(agent)) and not is_unbinding(agent)


def _state(agent: Json | None) -> str:
    return str((((agent or {}).get("status") or {}).get("debugInfo") or {}).get("state") or "")


def _is_handed_over(agent: Json | None) -> bool:
    """Return whether an Agent's host runs the installed system; a stage may be left from an earlier installation."""
    return stage(agent) in _HANDED_OVER and _state(agent) in ("", *_INSTALLING, *_ENDED) and not is_unbinding(agent)


def is_converged(bmh: Json, is_allowed: bool) -> bool:
    """Return whether a host boots its PreprovisioningImage; one that has an image of its own keeps it."""
    return bool(labels_of(bmh).get(INFRA_ENV)) and not image_url(bmh) and (is_allowed or bool(method_of(bmh)))


def prepared_url(bmh: Json, image: Json | None, agent: Json | None) -> str:
    """Return the ISO of the PreprovisioningImage that a host is to boot, or runs; empty without one."""
    url, present = preprovisioning.ready_url(image), host_of(bmh).image
    # Another would break off an installation, and while the new image is not ready the old one does.
    return present if present and (not url or is_installing(agent) or _is_handed_over(agent)) else url


def bmh_change(
    bmh: Json,
    infra_env: Json | None,
    agent: Json | None,
    *,
    is_quiet: bool,
    is_lost: bool = False,
    prepared: str | None = None,
) -> Json:
    """Return the change of a BareMetalHost that follows from its InfraEnv and Agent.

    `is_quiet`: the image contains the latest inputs; `is_lost`: the Agent of its live system was deleted, and the
    system does not register again by itself; `prepared`: the URL of its PreprovisioningImage in the converged flow.
    """
    metadata = _finalizers(bmh)
    if not labels_of(bmh).get(INFRA_ENV):
        return {"metadata": metadata} if metadata else {}
    if BACKUP not in labels_of(bmh) and infra_env is not None:
        metadata["labels"] = {BACKUP: "true"}
    annotations: dict[str, str | None] = _handed_over(bmh, agent)
    spec: Json = {}
    if infra_env is not None and DETACHED not in annotations_of(bmh):
        if prepared is None and INSPECT not in annotations_of(bmh) and spec_of(bmh).get("inspectionMode") is None:
            annotations[INSPECT] = DISABLED
        if spec_of(bmh).get("automatedCleaningMode") != DISABLED:
            spec["automatedCleaningMode"] = DISABLED
        spec |= _image(bmh, infra_env, agent, is_quiet) if prepared is None else _method(bmh, agent, prepared)
        if is_lost and host_of(bmh).state is State.PROVISIONED:
            spec |= _without_image(bmh)
            annotations[LIVE] = None
    annotations |= _live(bmh, agent)
    if is_unbinding(agent) and DETACHED in annotations_of(bmh):
        spec |= _without_image(bmh)
    if annotations:
        metadata["annotations"] = annotations
    return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})


def _live(bmh: Json, agent: Json | None) -> dict[str, str | None]:
    has = annotations_of(bmh).get(LIVE)
    if _is_handed_over(agent):
        return {LIVE: None} if has else {}
    if agent is None or is_deleted(agent) or is_unbinding(agent) or has == key_of(agent).name:
        return {}
    if stage(agent) == "Failed":
        # Before its reboot or after it: the annotation says which.
        return {}
    return {LIVE: key_of(agent).name}


def _finalizers(bmh: Json) -> Json:
    """Return the metadata that adds Metal3's finalizer and, for a host of an InfraEnv, the pairing's own."""
    has = list(bmh["metadata"].get("finalizers") or ())
    ours = {METAL3_FINALIZER: PAUSED not in annotations_of(bmh), FINALIZER: bool(labels_of(bmh).get(INFRA_ENV))}
    finalizers = [name for name in has if name != FINALIZER or ours[name]]
    finalizers += [name for name, keep in ours.items() if keep and name not in has]
    return {} if finalizers == has else {"finalizers": finalizers}


def farewell(bmh: Json) -> Json:
    """Return the change that releases a deleted host from its pairing."""
    annotations, finalizers = annotations_of(bmh), list(bmh["metadata"].get("finalizers") or ())
    gone = {name for name in (PAUSED,) if annotations.get(name) == BY_US}
    if REMOVE_ON_DELETE in annotations:
        # The host is to be switched off and its image taken out.
        gone |= {DETACHED} & annotations.keys()
    metadata: Json = {"annotations": dict.fromkeys(gone)} if gone else {}
    if FINALIZER in finalizers:
        metadata["finalizers"] = [name for name in finalizers if name != FINALIZER]
    return {"metadata": metadata} if metadata else {}


def _handed_over(bmh: Json, agent: Json | None) -> dict[str, str | None]:
    """Return the annotations that hand control of the power to the installed cluster, or take it back."""
    annotations = annotations_of(bmh)
    ours = {name for name in (DETACHED, PAUSED) if annotations.get(name) == BY_US}
    if is_unbinding(agent) and DETACHED in annotations:
        return dict.fromkeys({DETACHED, PAUSED, HARDWARE} & annotations.keys())
    if PAUSED in ours and host_of(bmh).state is State.NONE:
        # Moved here from another hub: its status is in an annotation.
        return {PAUSED: None}
    if KEEP_MANAGED in annotations and REMOVE_ON_DELETE not in annotations:
        return dict.fromkeys(ours)
    if not _is_handed_over(agent):
        return {}
    if DETACHED not in annotations:
        return {DETACHED: BY_US}
    status = bmh.get("status") or {}
    if status.get("operationalStatus") == "detached" and PAUSED not in annotations:
        return {STATUS: json.dumps(status, sort_keys=True), PAUSED: BY_US}
    return {}


def _image(bmh: Json, infra_env: Json, agent: Json | None, is_quiet: bool) -> Json:
    """Return the change of the image: the old image is removed before a new one is set."""
    url, has = iso_url(infra_env), image_url(bmh)
    if has and _awaits_reboot(bmh, agent):
        return {"image": None}
    if not url or has == url or not is_quiet or is_installing(agent):
        return {}
    if host_of(bmh).state is State.AVAILABLE:
        return {"image": {"url": url, "format": "live-iso"}, "online": True}
    return {"image": None} if has else {}


def _method(bmh: Json, agent: Json | None, prepared: str) -> Json:
    """Return the change of the deploy method, which is set once there is something to boot."""
    if method_of(bmh):
        return {"customDeploy": None} if _awaits_reboot(bmh, agent) else {}
    if not prepared or is_installing(agent) or host_of(bmh).state is not State.AVAILABLE:
        return {}
    return {"customDeploy": {"method": preprovisioning.METHOD}, "online": True}


def _without_image(bmh: Json) -> Json:
    return {"customDeploy" if method_of(bmh) else "image": None}


def _awaits_reboot(bmh: Json, agent: Json | None) -> bool:
    """Return whether a host has yet to reboot so that its Agent can leave its cluster."""
    started = (((bmh.get("status") or {}).get("operationHistory") or {}).get("provision") or {}).get("start") or ""
    since = str(condition(agent or {}, "Bound").get("lastTransitionTime") or "")
    return is_unbinding(agent) and host_of(bmh).state is State.PROVISIONED and started < since


def iso_url(infra_env: Json) -> str:
    """Return the URL of an InfraEnv's image; empty until its condition ImageCreated is True."""
    made = condition(infra_env, "ImageCreated").get("status") == "True"
    return str((infra_env.get("status") or {}).get("isoDownloadURL") or "") if made else ""


def inputs_of(infra_env: Json, configs: Iterable[Json]) -> tuple[object, ...]:
    """Return the inputs of an image that may be applied one by one: an InfraEnv's spec and its NMStateConfigs."""
    try:
        chosen = infraenv.chosen(infra_env, list(configs))
    except infraenv.SelectorError:
        chosen = []
    versions = sorted((key_of(config).name, str(config["metadata"].get("generation"))) for config in chosen)
    return infra_env["metadata"].get("generation"), tuple(versions)


class Freshness:
    """Knows whether an InfraEnv's image is that of its inputs: its URL has changed since they have, or there was time
    to make it."""

    def __init__(self, seconds: float) -> None:
        """`seconds` suffice to make an image."""
        self._seconds = seconds
        self._seen: dict[Key, tuple[object, float, str]] = {}

    def wait(self, key: Key, inputs: object, url: str, now: float) -> float:
        """Return for how long (s) the image may still be that of earlier inputs; `now` is monotonic."""
        seen, since, before = self._seen.get(key, (None, now, url))
        if seen != inputs:
            since, before = now, url
            self._seen[key] = inputs, since, before
        return max(0.0, since + self._seconds - now) if url == before else 0.0


def agent_change(bmh: Json, agent: Json, infra_env: Json | None) -> tuple[Json, str]:
    """Return an Agent's change that follows from its host, and the problem with the rest in one sentence."""
    annotations = annotations_of(bmh)
    wanted: Json = {field: annotations[name] for name, field in COPIED.items() if name in annotations}
    wanted["approved"] = True
    if disk := _disk(bmh, agent):
        wanted["installation_disk_id"] = disk
    labels = {AGENT_BMH: key_of(bmh).name} | _with_prefix(annotations, AGENT_LABEL)
    spec = agent.get("spec") or {}
    reference, problem = _cluster(annotations, spec, infra_env)
    wanted |= reference
    changed = {name: value for name, value in wanted.items() if spec.get(name) != value}
    nodes, has = _with_prefix(annotations, NODE_LABEL), spec.get("nodeLabels") or {}
    if nodes != has:
        changed["nodeLabels"] = dict.fromkeys(has) | nodes
    new = {name: value for name, value in labels.items() if labels_of(agent).get(name) != value}
    change = ({"spec": changed} if changed else {}) | ({"metadata": {"labels": new}} if new else {})
    return change, problem


def _with_prefix(annotations: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in annotations.items() if name.startswith(prefix)}


def _disk(bmh: Json, agent: Json) -> str:
    """Return the disk that the root device hints choose; empty without hints or before the disks are known."""
    wishes = {name: value for name, value in (spec_of(bmh).get("rootDeviceHints") or {}).items() if value is not None}
    disks = ((agent.get("status") or {}).get("inventory") or {}).get("disks") or ()
    return hints.choose([_in_service_form(disk) for disk in disks], wishes) if wishes and disks else ""


def _in_service_form(disk: Json) -> Json:
    other = {
        "by_path": disk.get("byPath"),
        "by_id": disk.get("byID"),
        "size_bytes": disk.get("sizeBytes"),
        "drive_type": str(disk.get("driveType") or "").upper(),
        "installation_eligibility": disk.get("installationEligibility"),
    }
    return {**disk, **other}


def _cluster(annotations: Mapping[str, str], spec: Json, infra_env: Json | None) -> tuple[Json, str]:
    reference = annotations.get(CLUSTER_REFERENCE)
    own = ((infra_env or {}).get("spec") or {}).get("clusterRef") or {}
    if reference is None:
        return {}, ""
    if own:
        if not reference:
            return {}, ""
        name = key_of(infra_env or {}).name
        return {}, f"annotation {CLUSTER_REFERENCE}: InfraEnv {name} has a clusterRef, {own.get('name')}, already"
    if not reference:
        return ({"clusterDeploymentName": None} if spec.get("clusterDeploymentName") else {}), ""
    namespace, slash, name = reference.partition("/")
    if not (namespace and slash and name) or "/" in name:
        return {}, f"annotation {CLUSTER_REFERENCE}: {reference!r} is not NAMESPACE/NAME"
    return {"clusterDeploymentName": {"namespace": namespace, "name": name}}, ""
