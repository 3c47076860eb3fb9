"""The bootstrap host's Ignition config (reference/cluster.md §2, §3.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from installer.common.certificates import Pair
from lab.release.cluster import templates
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition.document import Config, file, unit
from lab.release.cluster.ignition.machineconfig import node_ip_script, registry_files
from lab.release.cluster.installconfig import InstallConfig

ASSETS = "/opt/openshift"


@dataclass(frozen=True)
class Inputs:
    """Inputs of the config; ``manifests`` and ``openshift`` are file name to text."""

    config: InstallConfig
    pairs: Mapping[str, Pair]
    kubeconfigs: Mapping[str, str] = field(repr=False)
    release_image: str
    infra_id: str
    cluster_id: str
    manifests: Mapping[str, str] = field(repr=False)
    openshift: Mapping[str, str]
    in_place: bool


def read_tree(directory: Path) -> dict[str, str]:
    """Return the manifest files of a directory by name; none when it does not exist."""
    if not directory.is_dir():
        return {}
    endings = (".yaml", ".yml", ".json")
    return {path.name: path.read_text() for path in sorted(directory.iterdir()) if path.suffix in endings}


def render(inputs: Inputs) -> Config:
    """Return the whole config: /opt/openshift, scripts, registries, units."""
    scripts = {
        "bootkube.sh": templates.fill("bootkube.sh", release_image=inputs.release_image),
        "bootstrap-service-record.sh": templates.text("bootstrap-service-record.sh"),
        "installer-gather.sh": templates.text("installer-gather.sh"),
        "api-call.sh": templates.text("api-call.sh"),
        "pause.sh": templates.text("pause.sh"),
    }
    if not inputs.in_place:
        scripts["approve-csr.sh"] = templates.fill("approve-csr.sh", release_image=inputs.release_image)
        scripts["report-progress.sh"] = templates.fill(
            "report-progress.sh", domain=inputs.config.domain, servers=str(inputs.config.first_api_servers)
        )
    files = [file(f"/usr/local/bin/{name}", text, 0o555) for name, text in scripts.items()]
    files += [node_ip_script(inputs.config), *registry_files(inputs.config)]
    for folder, contents in (("manifests", inputs.manifests), ("openshift", inputs.openshift)):
        files += [file(f"{ASSETS}/{folder}/{name}", text, 0o600) for name, text in contents.items()]
    for name, text in inputs.kubeconfigs.items():
        if name != "kubeconfig":
            # the bootstrap host's own `kubeconfig` speaks to api-int (§7.1)
            target = "kubeconfig" if name == "kubeconfig-internal" else name
            files.append(file(f"{ASSETS}/auth/{target}", text, 0o600))
    for name, pair in inputs.pairs.items():
        files.append(file(f"{ASSETS}/tls/{name}.crt", pair.certificate, 0o600))
        files.append(file(f"{ASSETS}/tls/{name}.key", pair.key, 0o600))
    cluster = {
        "releaseImage": inputs.release_image,
        "infraID": inputs.infra_id,
        "clusterID": inputs.cluster_id,
        "bootstrapInPlace": inputs.in_place,
    }
    files.append(file(f"{ASSETS}/cluster.json", json.dumps(cluster), 0o600))
    files.append(file(f"{ASSETS}/install-config.yaml", inputs.config.text, 0o600))
    if inputs.in_place:
        files.append(file(f"{ASSETS}/bootstrap-in-place", ""))
    units = [
        # pulled in by whoever runs the bootstrap, never by itself
        unit("bootkube.service", templates.text("bootkube.service"), enabled=False),
        unit("progress.service", templates.text("progress.service"), enabled=True),
        unit("approve-csr.service", templates.text("approve-csr.service"), enabled=True),
    ]
    return ignition.config(files, units, ssh_key=inputs.config.ssh_key)
