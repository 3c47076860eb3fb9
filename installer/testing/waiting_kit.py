"""An asset directory for a service that runs, and logs sent to it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import yaml

from installer.common.ports import free_port
from installer.testing.service.rendezvous_kit import Running


def asset_dir(path: Path, service: Running) -> Path:
    """Make what `create image` would have left, for this service; its cluster's API never comes up."""
    (path / "auth").mkdir(parents=True)
    part = {
        "rendezvousIP": "127.0.0.1",
        "serviceCACert": service.ca.read_text(),
        "watcherToken": service.keys.token("watcherAuth"),
        "clusterName": "ostest",
        "baseDomain": "test.node0.example",
        "platform": "none",
        "expectedHosts": {"names": [], "controlPlane": 1, "arbiters": 0, "workers": 0},
    }
    (path / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "admin",
        "users": [{"name": "admin", "user": {"token": "t"}}],
    }
    (path / "auth" / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    return path


def upload_logs(service: Running, cluster_id: str, host_id: str, infra_env_id: str) -> None:
    """Send a host's logs, as its agent does."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("journal.log")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"lines"))
    service.client("agentAuth").upload_host_logs(cluster_id, infra_env_id, host_id, packed)
