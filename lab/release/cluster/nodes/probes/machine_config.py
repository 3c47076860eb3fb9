"""The probe of the machine-config servers and the pools."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding, find, is_status
from lab.release.cluster.nodes.probes.view import View, address, asked, condition, localhost_at

PORT = 22623


def _wrong(view: View, node: Object, pool: str) -> str:
    """Return what the machine-config server of a node does not do; nothing when it serves the pool."""
    try:
        with localhost_at(address(node).strip("[]"), PORT, view.files / "root-ca.crt") as connection:
            return asked(connection, "HEAD", f"/config/{pool}")
    except (OSError, HTTPException) as error:
        return f"no answer at :{PORT}: {type(error).__name__}: {error}"


def machine_config(view: View) -> Finding:
    """Check that each machine-config server serves a pool over TLS, and that every pool is updated.

    /healthz would be answered without a config. Each server is asked for one pool, another the next minute.
    """
    if not view.masters:
        return Finding(False, "No control plane node says with which MachineConfig it booted", "NoNodes")
    pools = view.kube.list(machineconfig.API, "MachineConfigPool")
    if not pools:
        return Finding(False, "There is no MachineConfigPool", "NoPools")
    # For a pool that cannot be rendered, which it says itself, there is nothing to serve.
    rendered = [pool for pool in pools if pool["spec"].get("configuration")]
    names = sorted(str(pool["metadata"]["name"]) for pool in rendered or pools)
    turns = [names[(view.now.minute + i) % len(names)] for i in range(len(view.masters))]
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda asked_for: _wrong(view, *asked_for), zip(view.masters, turns, strict=True)))
    wrong = {str(node["metadata"]["name"]): text for node, text in zip(view.masters, answers, strict=True)}
    if bad := {name: text for name, text in wrong.items() if text}:
        text = "; ".join(f"{name}: {seen}" for name, seen in sorted(bad.items()))
        return Finding(False, f"Machine-config servers: {text}", "NoServer", condition(view, view.masters, bad))
    conditions = {str(p["metadata"]["name"]): (p.get("status") or {}).get("conditions") or [] for p in pools}
    degraded = {name: find(own, "Degraded") or {} for name, own in conditions.items() if is_status(own, "Degraded")}
    if degraded:
        text = "; ".join(f"{name}: {own.get('message', '')}" for name, own in sorted(degraded.items()))
        return Finding(False, f"MachineConfigPools are degraded: {text}", "RequiredPoolsFailed", "Degraded")
    # Not by the condition Updated, which a node lacks that is cordoned or away.
    counts = {str(p["metadata"]["name"]): p.get("status") or {} for p in pools}
    stale = sorted(n for n, own in counts.items() if own.get("updatedMachineCount") != own.get("machineCount", 0))
    if stale:
        return Finding(False, f"MachineConfigPools not updated: {', '.join(stale)}", "PoolsUpdating", "Progressing")
    return Finding(
        True, f"Each server serves its pools (HEAD :{PORT}/config/POOL), and all nodes have their pool's MachineConfig"
    )
