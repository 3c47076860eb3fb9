"""Asset directories as `create image` leaves them, for what waits on them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from installer.common.certificates import authority


def pem(content: bytes) -> str:
    """Return a certificate's text around any bytes."""
    body = base64.encodebytes(content).decode().strip()
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"


GOOD = {
    "rendezvousIP": "192.168.111.80", "serviceCACert": authority("x").certificate,
    "watcherToken": "t", "clusterName": "ostest",
    "baseDomain": "test.example", "platform": "none",
    "expectedHosts": {"names": ["master-0", ""], "controlPlane": 1, "arbiters": 0, "workers": 1},
}  # fmt: skip


def asset_dir(path: Path, part: dict[str, Any]) -> Path:
    """Return an asset directory whose state says ``part`` of node0."""
    (path / "auth").mkdir()
    (path / "auth" / "kubeconfig").write_text("{}")
    (path / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
    return path
