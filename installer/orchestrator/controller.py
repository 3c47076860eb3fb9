"""The bootstrap host's message for the cluster's controller: where the service is (cluster.md §8.1, §8.2).

The controller lives on when this host has rebooted, and reports to a service that lives on as well.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from installer.files import write_whole
from installer.hostsys.system import HostSystem

NAMESPACE = "assisted-installer"
CONFIG_MAP = "assisted-installer-controller-config"
SECRET = "assisted-installer-controller-secret"
MANIFESTS = "/opt/openshift/manifests"


@dataclass(frozen=True, kw_only=True)
class Controller:
    """The service's URL, its CA (PEM, empty for the system's), an agent's token, and the cluster to report for.

    ``attempt``: that to which the reports belong, empty when the service names none.
    """

    url: str
    ca_pem: str
    insecure: bool
    token: str = field(repr=False)
    cluster_id: str
    control_plane_count: int
    attempt: str = ""

    def manifests(self) -> dict[str, bytes]:
        """Return a ConfigMap and a Secret, under the names that assisted-installer gives them; JSON is YAML too."""
        config = {
            "inventory-url": self.url,
            "ca-cert": self.ca_pem,
            "skip-cert-verification": str(self.insecure).lower(),
            "cluster-id": self.cluster_id,
            "control-plane-count": str(self.control_plane_count),
            **({"installation-attempt": self.attempt} if self.attempt else {}),
        }
        token = base64.b64encode(self.token.encode()).decode()
        return {
            "assisted-installer-controller-cm.yaml": _object("ConfigMap", CONFIG_MAP, data=config),
            "assisted-installer-controller-secret.yaml": _object(
                "Secret", SECRET, type="Opaque", data={"pull-secret-token": token}
            ),
        }

    def write(self, host: HostSystem) -> None:
        """Put them among the manifests that bootkube applies."""
        folder = host.path(MANIFESTS)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.manifests().items():
            write_whole(folder / name, content)


def _object(kind: str, name: str, **fields: Any) -> bytes:
    meta = {"name": name, "namespace": NAMESPACE}
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": meta, **fields}, indent=1).encode()
