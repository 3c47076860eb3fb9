"""The probe of etcd's members."""

from __future__ import annotations

from lab.release.cluster.kube.conditions import Finding
from lab.release.cluster.nodes.probes.view import View, address, get


def etcd(view: View) -> Finding:
    """Every member answers /health with true."""
    cert = (str(view.files / "etcd-client.crt"), str(view.files / "etcd-client.key"))
    bad = []
    for node in view.etcd_nodes:
        status, body = get(f"https://{address(node)}:2379/health", view.files / "etcd-ca.crt", cert)
        if status != 200 or '"health":"true"' not in body:
            bad.append(f"{node['metadata']['name']}: {body.strip()[:120]}")
    if view.missing_members:
        bad.append(f"{view.missing_members} control plane nodes have not joined")
    bad += [f"{name}: pacemaker does not run etcd yet" for name in view.without_pacemaker]
    if bad or not view.masters:
        text = "; ".join(bad) or "no control plane node yet"
        return Finding(False, f"EtcdMembersAvailable: /health of a member is not true: {text}", "EtcdMembersUnhealthy")
    return Finding(True, f"EtcdMembersAvailable: {len(view.etcd_nodes)} members are available (GET :2379/health)")
