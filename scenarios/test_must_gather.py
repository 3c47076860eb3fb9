"""A must-gather of an installed cluster, by its API alone."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.subject.installer import default_installer
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation

pytestmark = pytest.mark.weekly

ANY = params(lambda row: row.thorough)


def secrets(installation: Installation) -> Iterator[str]:
    """Yield what is secret in the cluster's Secrets, as it is and in base64: certificates are not."""
    for secret in installation.kubectl_json("get", "secrets", "--all-namespaces")["items"]:
        for key, encoded in (secret.get("data") or {}).items():
            text = base64.b64decode(encoded).decode(errors="replace").strip()
            if key != "namespace" and len(text) >= 6 and not text.startswith("-----BEGIN CERTIFICATE"):
                yield encoded
                yield text


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_must_gather_has_each_part_and_no_secret(installation: Installation, tmp_path: Path) -> None:
    target = tmp_path / "gathered"
    argv = ["gather", "--kubeconfig", str(installation.deployment.kubeconfig), "--dest-dir", str(target)]
    done = installation.lab.run([*default_installer(), *argv], timeout=600, name="must-gather")
    assert done.returncode == 0, done.stderr
    texts = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    for spec in installation.topology.masters:
        logs = f"namespaces/openshift-etcd/pods/etcd-{spec.name}/etcd/etcd/logs/current.log"
        for name in (logs, f"cluster-scoped-resources/core/nodes/{spec.name}.yaml", f"nodes/{spec.name}/configz"):
            assert texts.get(name), f"{name} is not there"
    assert "cluster-scoped-resources/config.openshift.io/clusterversions/version.yaml" in texts
    everything = "\n".join(texts.values())
    assert [secret[:4] for secret in secrets(installation) if secret in everything] == []
