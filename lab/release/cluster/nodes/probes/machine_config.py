"""The probe of the machine-config server and the pools."""

from __future__ import annotations

from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube.conditions import Finding, is_status
from lab.release.cluster.nodes.probes.view import View, get


def machine_config(view: View) -> Finding:
    """Check that the machine-config server answers over TLS, and every pool is updated."""
    status, body = get("https://localhost:22623/healthz", view.files / "root-ca.crt")
    if status != 200:
        return Finding(False, f"GET https://localhost:22623/healthz: {status or 'no answer'} {body[:120]}", "NoServer")
    if not view.masters:
        return Finding(False, "No control plane node says with which MachineConfig it booted", "NoNodes")
    pools = view.kube.list(machineconfig.API, "MachineConfigPool")
    stale = [
        p["metadata"]["name"] for p in pools if not is_status(p.get("status", {}).get("conditions") or [], "Updated")
    ]
    if stale or not pools:
        return Finding(
            False, f"MachineConfigPools not updated: {', '.join(sorted(stale)) or 'none exist'}", "PoolsUpdating"
        )
    return Finding(True, "GET :22623/healthz is ok and all MachineConfigPools are updated")
