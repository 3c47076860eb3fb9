"""A control plane node installed by hand after the cluster, as documentation has it: the release's live image, started
with a small Ignition config, writes the machine OS with the pool's pointer to the cluster's machine-config server."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from installer.common.secretfiles import write_private
from lab.boots import live_image
from lab.subject.installer import default_installer
from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

JOIN_SECONDS = 600
KEYFILES = "/etc/NetworkManager/system-connections"
_INSTALL = """[Unit]
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
ExecStart=/bin/sh -ec '{write}; systemctl --no-block reboot'
[Install]
WantedBy=multi-user.target
"""
_WRITE = (
    "disk=$(lsblk --noheadings --nodeps --paths --output NAME,TYPE | while read name kind; do "
    '[ "$kind" != disk ] || echo $name; done | head -1); '
    "coreos-installer install --copy-network --ignition-file /root/pool.ign $disk"
)


def _file(path: str, content: str, mode: int = 0o600) -> dict[str, Any]:
    source = "data:;base64," + base64.b64encode(content.encode()).decode()
    return {"path": path, "mode": mode, "overwrite": True, "contents": {"source": source}}


def network_of(installation: Installation, name: str) -> dict[str, str]:
    """Return a node's keyfiles, by path, as long as it runs."""
    host = installation.lab.nodes[name].ssh()
    paths = host.check_output(f"sudo find {KEYFILES} -type f").split()
    return {path: host.check_output(f"sudo cat {path}") + "\n" for path in paths}


def pointer(installation: Installation, pool: str) -> dict[str, Any]:
    """Return the pool's Ignition config, which sends a machine to the cluster's own machine-config server."""
    ca = installation.kubectl_json("-n", "kube-system", "get", "configmap", "root-ca")["data"]["ca.crt"]
    domain = f"{installation.topology.cluster_name}.{installation.topology.base_domain}"
    url = f"https://api-int.{domain}:22623/config/{pool}"
    source = "data:;base64," + base64.b64encode(ca.encode()).decode()
    tls = {"certificateAuthorities": [{"source": source}]}
    return {"ignition": {"version": "3.2.0", "config": {"merge": [{"source": url}]}, "security": {"tls": tls}}}


def image(installation: Installation, name: str, pool: str, network: dict[str, str]) -> Path:
    """Make the ISO that installs the machine OS for a pool under a host's name, with its keyfiles."""
    config = pointer(installation, pool)
    config["storage"] = {"files": [_file("/etc/hostname", f"{name}\n", 0o644)]}
    unit = {"name": "install-by-hand.service", "enabled": True, "contents": _INSTALL.format(write=_WRITE)}
    live = {
        "ignition": {"version": "3.2.0"},
        "storage": {
            "files": [
                _file("/root/pool.ign", json.dumps(config)),
                *(_file(path, text) for path, text in network.items()),
            ]
        },
        "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [installation.lab.access.ssh_key]}]},
        "systemd": {"units": [unit]},
    }
    folder = installation.lab.layout.root
    ignition, result = folder / f"{name}.ign", folder / f"{name}.iso"
    write_private(ignition, json.dumps(live))
    result.unlink(missing_ok=True)
    source = live_image(installation.deployment.directory)
    words = ["iso", "embed", "--force", "--ignition", str(ignition), "--output", str(result), str(source)]
    done = installation.lab.run([*default_installer(), *words], timeout=300, name="iso-embed")
    assert done.returncode == 0, done.stderr
    return result


def empty_disks(installation: Installation, name: str) -> None:
    """Empty the disks of a machine that is off, as new ones are."""
    spec = installation.lab.nodes[name].spec
    for index, disk in enumerate(spec.all_disks):
        path = installation.lab.layout.disk(spec, index)
        for size in (0, disk.size_gib << 30):
            os.truncate(path, size)


def approve(installation: Installation) -> None:
    """Approve what kubelets ask for, as an administrator does."""
    names = [
        request["metadata"]["name"]
        for request in installation.kubectl_json("get", "certificatesigningrequests")["items"]
        if not request["status"].get("conditions")
    ]
    if names:
        installation.kubectl("certificate", "approve", *names)


def join(installation: Installation, name: str, pool: str, network: dict[str, str]) -> None:
    """Install a machine that is off, and let it in. Returns when its node is Ready."""
    node = installation.lab.nodes[name]
    node.media.insert(image(installation, name, pool, network))
    node.start()

    def ready() -> bool:
        approve(installation)
        return name in installation.ready_boots()

    wait_until(ready, JOIN_SECONDS, f"{name} to join and be Ready", installation.ready_boots)
