"""InfraEnv and NMStateConfig: the service's parameters and the status, from objects and answers (hub.md §5)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from installer.hub.conditions import NO_SECOND, Condition, set_conditions, timestamp
from installer.hub.kube.kinds import Json, Key, key_of, labels_of, uid_of

FINALIZER = "infraenv.agent-install.openshift.io/ai-deprovision"
LABEL = "infraenvs.agent-install.openshift.io"
IMAGE_CREATED = "ImageCreated"
AVAILABLE, ERROR, MISSING = "InfraEnvAvailable", "ImageCreationError", "MissingClusterDeployment"
PULL_SECRET_KEY = ".dockerconfigjson"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class SelectorError(ValueError):
    """A label selector that is invalid."""


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a label selector chooses these labels; an empty one chooses none. Raises SelectorError."""
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    if not wanted and not expressions:
        return False
    return bool(wanted.items() <= labels.items()) and all(_matches(expression, labels) for expression in expressions)


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator not in _OPERATORS or (operator in ("In", "NotIn")) != bool(values):
        raise SelectorError(
            f"matchExpressions of {expression.get('key')}: operator {operator!r} with {len(values)} values is invalid"
        )
    value = labels.get(expression.get("key", ""))
    if operator == "In":
        return bool(value in values)
    if operator == "NotIn":
        return bool(value not in values)
    return bool((value is not None) == (operator == "Exists"))


@dataclass(frozen=True)
class Inputs:
    """All that an image is made of; ``pull_secret``: the Secret's content, empty if it is missing or has no such key.

    ``deployment``: the ClusterDeployment of clusterRef, and ``cluster`` what the service has registered for it.
    """

    infra_env: Json
    nmstate_configs: Sequence[Json] = ()
    pull_secret: str = field(default="", repr=False)
    secret_problem: str = ""
    deployment: Json | None = None
    cluster: Json | None = None

    @property
    def spec(self) -> Json:
        """The InfraEnv's spec."""
        return self.infra_env.get("spec") or {}


def cluster_key(infra_env: Json) -> Key | None:
    """Return the ClusterDeployment that an InfraEnv belongs to, None for late binding."""
    reference = (infra_env.get("spec") or {}).get("clusterRef")
    if not reference:
        return None
    return Key(reference.get("namespace") or key_of(infra_env).namespace, reference.get("name", ""))


def chosen(infra_env: Json, nmstate_configs: Sequence[Json]) -> list[Json]:
    """Return the NMStateConfigs, of the InfraEnv's own namespace, that it selects, by name. Raises SelectorError."""
    selector = (infra_env.get("spec") or {}).get("nmStateConfigLabelSelector") or {}
    namespace = key_of(infra_env).namespace
    found = [
        item for item in nmstate_configs if key_of(item).namespace == namespace and selects(selector, labels_of(item))
    ]
    return sorted(found, key=key_of)


def missing_cluster(inputs: Inputs) -> str:
    """Return the reason why the InfraEnv has to wait for its cluster; empty if it need not."""
    key = cluster_key(inputs.infra_env)
    if key is None:
        return ""
    if inputs.deployment is None:
        return f"ClusterDeployment {key}, which spec.clusterRef names, does not exist"
    if inputs.cluster is not None:
        return ""
    reference = (inputs.deployment.get("spec") or {}).get("clusterInstallRef")
    if not reference:
        return f"ClusterDeployment {key} has no clusterInstallRef: it needs an AgentClusterInstall"
    install = Key(key.namespace, reference.get("name", ""))
    return (
        f"the cluster of ClusterDeployment {key} is not registered: see the conditions of AgentClusterInstall {install}"
    )


def problems(inputs: Inputs) -> list[str]:
    """Return the objects' own errors, a sentence each that names object and field."""
    spec, found = inputs.spec, []
    if inputs.secret_problem:
        found.append(inputs.secret_problem)
    installed = bool(((inputs.deployment or {}).get("spec") or {}).get("installed"))
    if spec.get("clusterRef") and spec.get("osImageVersion") and not installed:
        found.append("spec.osImageVersion: not together with spec.clusterRef before that cluster is installed")
    if spec.get("additionalNTPSources") and spec.get("ntpSources"):
        found.append("spec.ntpSources: not together with spec.additionalNTPSources")
    if spec.get("mirrorRegistryRef"):
        found.append("spec.mirrorRegistryRef: mirrors are set for the whole service, not for an InfraEnv")
    if spec.get("ipxeScriptType") == "BootOrderControl":
        found.append("spec.ipxeScriptType: BootOrderControl is not offered, DiscoveryImageAlways is")
    owners: dict[str, list[str]] = defaultdict(list)
    for config in inputs.nmstate_configs:
        name = key_of(config).name
        for mac in {str(item.get("macAddress", "")).lower() for item in _interfaces(config)}:
            owners[mac].append(name)
        if not _interfaces(config):
            found.append(f"NMStateConfig {name}: spec.interfaces has none")
    found += [
        f"MAC address {mac} is in several NMStateConfigs: {', '.join(names)}"
        for mac, names in sorted(owners.items())
        if len(names) > 1
    ]
    return found


def _interfaces(config: Json) -> list[Json]:
    return (config.get("spec") or {}).get("interfaces") or []


def parameters(inputs: Inputs) -> Json:
    """Return infra-env-create-params; all are sent, so that removing a field of the spec resets it."""
    spec = inputs.spec
    proxy = spec.get("proxy") or {}
    params: Json = {
        "name": key_of(inputs.infra_env).name,
        "pull_secret": inputs.pull_secret,
        "ssh_authorized_key": spec.get("sshAuthorizedKey", ""),
        "additional_ntp_sources": ",".join(spec.get("additionalNTPSources") or ()),
        "ntp_sources": ",".join(spec.get("ntpSources") or ()),
        "proxy": {
            "http_proxy": proxy.get("httpProxy", ""),
            "https_proxy": proxy.get("httpsProxy", ""),
            "no_proxy": proxy.get("noProxy", ""),
        },
        "ignition_config_override": spec.get("ignitionConfigOverride", ""),
        "additional_trust_bundle": spec.get("additionalTrustBundle", ""),
        "kernel_arguments": [
            {"operation": item.get("operation"), "value": item.get("value")}
            for item in spec.get("kernelArguments") or ()
        ],
        "static_network_config": [_static(config) for config in inputs.nmstate_configs],
        "cpu_architecture": spec.get("cpuArchitecture") or "x86_64",
    }
    if spec.get("imageType"):
        params["image_type"] = spec["imageType"]
    if spec.get("networkDiscoveryDelaySeconds"):
        params["network_discovery_delay_seconds"] = spec["networkDiscoveryDelaySeconds"]
    if spec.get("osImageVersion"):
        params["openshift_version"] = spec["osImageVersion"]
    if inputs.cluster is not None:
        params["cluster_id"] = inputs.cluster["id"]
        if inputs.cluster.get("openshift_version"):
            params.setdefault("openshift_version", inputs.cluster["openshift_version"])
    return params


def _static(config: Json) -> Json:
    nics = [
        {"mac_address": item.get("macAddress", ""), "logical_nic_name": item.get("name", "")}
        for item in _interfaces(config)
    ]
    # JSON is YAML.
    return {"network_yaml": json.dumps((config.get("spec") or {}).get("config") or {}), "mac_interface_map": nics}


def with_names(reason: str, configs: Sequence[Json]) -> str:
    """Replace the numbers of NMStateConfigs in the service's sentence by their names."""
    names = [key_of(config).name for config in configs]
    return re.sub(r"static_network_config\[(\d+)\]", lambda at: f"NMStateConfig {names[int(at[1])]}", reason)


@dataclass(frozen=True)
class Image:
    """An image that the service offers: URLs; ``artifacts`` as HubClient.boot_artifacts, ``base``: the service's."""

    url: str
    artifacts: Mapping[str, str]
    base: str


def available() -> Condition:
    """Return the condition of an InfraEnv whose image can be booted."""
    return Condition(IMAGE_CREATED, "True", AVAILABLE, "the discovery image is available")


def failed(reason: str) -> Condition:
    """Return the condition of an InfraEnv whose image cannot be made; ``reason``: one sentence or several."""
    return Condition(IMAGE_CREATED, "False", ERROR, f"the discovery image cannot be made: {reason}")


def waiting(reason: str) -> Condition:
    """Return the condition of an InfraEnv that waits for its cluster."""
    return Condition(IMAGE_CREATED, "Unknown", MISSING, reason)


def status(inputs: Inputs, condition: Condition, image: Image | None, now: datetime) -> Json:
    """Return the whole status. Without an image its URLs are gone; ``createdTime`` is that of the URL."""
    infra_env = inputs.infra_env
    old: Json = infra_env.get("status") or {}
    artifacts = image.artifacts if image else {}
    identity = uid_of(infra_env)
    debug = {"eventsURL": f"{image.base}/events?infra_env_id={identity}" if image else ""}
    if image and inputs.nmstate_configs:
        files = f"{image.base}/infra-envs/{identity}/downloads/files"
        debug["staticNetworkDownloadURL"] = f"{files}?file_name=static-network-config"
    result: Json = {
        "agentLabelSelector": {"matchLabels": {LABEL: key_of(infra_env).name}},
        "bootArtifacts": {
            "initrd": artifacts.get("initrd", ""),
            "rootfs": artifacts.get("rootfs", ""),
            "kernel": artifacts.get("kernel", ""),
            "ipxeScript": artifacts.get("ipxe_script", ""),
            "discoveryIgnitionURL": artifacts.get("discovery_ignition", ""),
        },
        "conditions": set_conditions(old.get("conditions") or [], [condition], now, second=NO_SECOND),
        "debugInfo": debug,
    }
    if image:
        result["isoDownloadURL"] = image.url
        is_new = image.url != old.get("isoDownloadURL") or not old.get("createdTime")
        result["createdTime"] = timestamp(now) if is_new else old["createdTime"]
    return result
