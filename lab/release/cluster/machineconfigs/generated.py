"""MachineConfigs that KubeletConfigs and ContainerRuntimeConfigs stand for (reference/machine-configs.md §5).

Each changes one file of the pools that it selects; of several that select a pool the youngest wins. What is not in the
tables below is refused by name: a kubelet that does not start with its configuration would be a node lost.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from installer.common.formats import yamltext
from lab.release.cluster.ignition import document, machineconfig
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import put

#: Fields of KubeletConfiguration by the type of their value; of kubelet 1.20, and such as a running node can change.
_NUMBERS = (
    "containerLogMaxFiles",
    "eventBurst",
    "eventRecordQPS",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "maxOpenFiles",
    "maxPods",
    "nodeLeaseDurationSeconds",
    "podPidsLimit",
    "podsPerCore",
    "registryBurst",
    "registryPullQPS",
)
_DURATIONS = (
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "imageMinimumGCAge",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "streamingConnectionIdleTimeout",
    "syncFrequency",
)
_TEXTS = {
    "containerLogMaxSize": r"\d+(Ki|Mi|Gi)?",
    "cpuManagerPolicy": r"none|static",
    "reservedSystemCPUs": r"[0-9,-]*",
    "topologyManagerPolicy": r"none|best-effort|restricted|single-numa-node",
    **dict.fromkeys(_DURATIONS, r"(\d+(h|m|s|ms))+"),
}
_BOOLEANS = ("protectKernelDefaults", "serializeImagePulls")
_MAPPINGS = (
    "evictionHard",
    "evictionMinimumReclaim",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "systemReserved",
    "kubeReserved",
)
_LISTS = ("allowedUnsafeSysctls",)
#: Those that OpenShift refuses, too.
_NEVER = ["cgroupDriver", "clusterDNS", "clusterDomain", "featureGates", "failSwapOn", "memorySwap", "staticPodPath"]
#: In the names of these MachineConfigs, and of no others.
MARK = "-generated-"
_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")


def _kubelet_field(name: str, value: object) -> str:
    """Return what is wrong with a field of KubeletConfiguration."""
    if name in _NEVER:
        return "is not allowed to be set"
    if name in _NUMBERS:
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= -1
        return "" if whole else f"{value!r}: must be a whole number"
    if name in _TEXTS:
        return "" if re.fullmatch(_TEXTS[name], str(value)) else f"{value!r}: must match {_TEXTS[name]}"
    if name in _BOOLEANS:
        return "" if isinstance(value, bool) else f"{value!r}: must be true or false"
    if name in _MAPPINGS:
        texts = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
        return "" if texts else f"{value!r}: must be texts by name"
    if name in _LISTS:
        texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
        return "" if texts else f"{value!r}: must be a list of texts"
    return "is not supported by this cluster"


def _kubelet_problems(spec: Object) -> list[str]:
    wrong = [
        f"spec.{name}: is not supported by this cluster"
        for name in ("autoSizingReserved", "logLevel", "tlsSecurityProfile")
        if name in spec
    ]
    fields = {k: v for k, v in (spec.get("kubeletConfig") or {}).items() if k not in ("apiVersion", "kind")}
    found = {name: _kubelet_field(name, value) for name, value in fields.items()}
    return wrong + [f"spec.kubeletConfig.{name}: {rule}" for name, rule in found.items() if rule]


def _kubelet_text(text: str, spec: Object) -> str:
    own = {k: v for k, v in (spec.get("kubeletConfig") or {}).items() if k not in ("apiVersion", "kind")}
    merged = {**yamltext.load(text), **own}
    return yaml.safe_dump(merged, sort_keys=True)


def _runtime_problems(spec: Object) -> list[str]:
    own = spec.get("containerRuntimeConfig") or {}
    field = "spec.containerRuntimeConfig"
    wrong = [
        f"{field}.{name}: is not supported by containerd" for name in own if name not in ("logLevel", "defaultRuntime")
    ]
    if own.get("logLevel", "info") not in _LEVELS:
        wrong.append(f"{field}.logLevel: {own['logLevel']!r}: must be one of {', '.join(_LEVELS)}")
    if own.get("defaultRuntime", "crun") != "crun":
        wrong.append(f"{field}.defaultRuntime: {own['defaultRuntime']!r}: this machine OS has crun alone")
    return wrong


def _runtime_text(text: str, spec: Object) -> str:
    level = (spec.get("containerRuntimeConfig") or {}).get("logLevel")
    return f'{text}\n[debug]\n  level = "{level}"\n' if level else text


@dataclass(frozen=True)
class Kind:
    """A kind, the file that it changes, what is wrong with a spec, and the file's text by it."""

    name: str
    suffix: str
    path: str
    problems: Callable[[Object], list[str]]
    text: Callable[[str, Object], str]


KINDS = (
    Kind("KubeletConfig", "kubelet", "/etc/kubernetes/kubelet.conf", _kubelet_problems, _kubelet_text),
    Kind("ContainerRuntimeConfig", "containerruntime", "/etc/containerd/config.toml", _runtime_problems, _runtime_text),
)


def problems(obj: Object) -> list[str]:
    """Return what is wrong with a KubeletConfig or ContainerRuntimeConfig, all at once."""
    kind = next(kind for kind in KINDS if kind.name == obj["kind"])
    return kind.problems(obj.get("spec") or {})


def generated(pool: Object, configs: Iterable[Object], objects: Sequence[Object]) -> list[Object]:
    """Return the MachineConfigs of a pool that stand for `objects`; none for one with a problem.

    Raises ConfigError, ValueError or TypeError where the pool's own MachineConfigs are malformed.
    """
    name = str(pool["metadata"]["name"])
    plain = [config for config in machineconfig.selected(pool, configs) if MARK not in config["metadata"]["name"]]
    made = []
    for kind in KINDS:
        mine = [obj for obj in objects if obj["kind"] == kind.name and _selects(obj, pool) and not problems(obj)]
        if not mine:
            continue
        machineconfig.check(plain)
        bases = [e for c in plain for e in _files(c) if e["path"] == kind.path]
        if not bases:
            continue
        contents = bases[-1].get("contents") or {}
        base = document.read(contents.get("source") or "data:,", contents.get("compression")).decode()
        youngest_last = sorted(mine, key=lambda o: (o["metadata"].get("creationTimestamp", ""), o["metadata"]["name"]))
        for number, obj in enumerate(youngest_last):
            config = document.config(
                [document.file(kind.path, kind.text(base, obj.get("spec") or {}), bases[-1].get("mode", 0o644))]
            )
            ending = f"-{number}" if number else ""
            made.append(machineconfig.machine_config(f"99-{name}{MARK}{kind.suffix}{ending}", name, config))
    return made


def _files(config: Object) -> list[dict[str, Any]]:
    return ((config["spec"].get("config") or {}).get("storage") or {}).get("files") or []


def _selects(obj: Object, pool: Object) -> bool:
    labels = pool["metadata"].get("labels") or {}
    return machineconfig.matches((obj.get("spec") or {}).get("machineConfigPoolSelector"), labels)


def status(obj: Object, pools: Iterable[Object], now: dt.datetime) -> Object:
    """Return the object's next status: condition Success, or Failure with all that is wrong."""
    wrong = problems(obj)
    if not any(_selects(obj, pool) for pool in pools):
        wrong.append("spec.machineConfigPoolSelector: selects no MachineConfigPool")
    old = obj.get("status") or {}
    kept = [c for c in old.get("conditions") or [] if c["type"] == ("Failure" if wrong else "Success")]
    message = f"Error: {'; '.join(wrong)}" if wrong else "Success"
    conditions = put(kept, "Failure" if wrong else "Success", "False" if wrong else "True", now, message=message)
    return {**old, "observedGeneration": obj["metadata"].get("generation", 0), "conditions": conditions}
