"""The state that openshift-install leaves, translated into ours: `wait-for` and `gather` work on its directories too.

Its keys are its assets' types (openshift/installer, pkg/asset/store/store.go): `*gencrypto.AuthConfig` has the tokens,
`*image.Ignition` the rendezvous host's address, the manifests the rest. Its service speaks plain HTTP.
"""

from __future__ import annotations

from typing import Any

AUTH, IGNITION, HOSTS = "*gencrypto.AuthConfig", "*image.Ignition", "*agentconfig.AgentHosts"
DEPLOYMENT, INSTALL = "*manifests.ClusterDeployment", "*manifests.AgentClusterInstall"


def _at(document: Any, *keys: str) -> Any:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _hosts(document: dict[str, Any]) -> dict[str, list[Any]]:
    hosts = _at(document, HOSTS, "Hosts")
    described = [host for host in hosts if isinstance(host, dict)] if isinstance(hosts, list) else []
    macs = []
    for host in described:
        interfaces = host.get("interfaces")
        macs.append([_at(nic, "macAddress") for nic in interfaces] if isinstance(interfaces, list) else [])
    return {"names": [host.get("hostname") or "" for host in described], "macAddresses": macs}


def translated(document: dict[str, Any]) -> dict[str, Any] | None:
    """Translate that state into node0's own of `create image`; None when it made no image."""
    if not isinstance(_at(document, AUTH), dict) or not isinstance(_at(document, IGNITION), dict):
        return None
    wanted = _at(document, INSTALL, "Config", "spec", "provisionRequirements") or {}
    return {
        "rendezvousIP": _at(document, IGNITION, "RendezvousIP"),
        "watcherToken": _at(document, AUTH, "WatcherAuthToken"),
        "clusterName": _at(document, DEPLOYMENT, "Config", "spec", "clusterName"),
        "baseDomain": _at(document, DEPLOYMENT, "Config", "spec", "baseDomain") or "",
        "platform": str(_at(document, INSTALL, "Config", "spec", "platformType") or "").lower(),
        "expectedHosts": {
            "controlPlane": _at(wanted, "controlPlaneAgents"),
            "arbiters": _at(wanted, "arbiterAgents"),
            "workers": _at(wanted, "workerAgents"),
            **_hosts(document),
        },
    }
