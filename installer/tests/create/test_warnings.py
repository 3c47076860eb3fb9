"""What `create` says of inputs that are valid: nothing of what is used, and a line for each thing that is not."""

import logging

import pytest

from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create.inputs_kit import AGENT, SNO, text

TARGET = "Agent Installer ISO"


@pytest.fixture
def warnings(tmp_path, caplog, monkeypatch):
    """What is warned of with these inputs, beside what SNO and its agent-config give."""
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)

    def get(install=SNO, agent=AGENT):
        (tmp_path / "install-config.yaml").write_text(text(install))
        (tmp_path / "agent-config.yaml").write_text(text(agent))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "installer"):
            check(read(tmp_path, TARGET), TARGET)
        return caplog.messages

    return get


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("quay.io/openshift-release-dev/ocp-release", 0),
        ("quay.io/openshift-release-dev", 0),
        ("quay.io", 0),
        ("quay.io/openshift-release-dev/ocp", 1),
    ],
)
def test_mirrors_of_a_namespace_have_the_release(warnings, monkeypatch, source, count):
    monkeypatch.setenv(RELEASE_OVERRIDE, f"quay.io/openshift-release-dev/ocp-release@sha256:{'0' * 64}")
    mirrors = [{"source": source, "mirrors": ["registry.example/mirror"]}]
    seen = warnings(SNO | {"imageDigestSources": mirrors})
    assert sum("should have at least one source field" in message for message in seen) == count


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("agent-config.yml", "agent-config.yml is ignored: it would be read as agent-config.yaml"),
        ("cluster-manifests/infraenv.yml", "it would be read as cluster-manifests/infraenv.yaml"),
        ("cluster-manifests/99-kernel.yaml", "manifests for the cluster are read from openshift/"),
        ("manifests/99-kernel.yaml", "manifests for the cluster are read from openshift/"),
        ("mirror/ca.pem", "only mirror/registries.conf and mirror/ca-bundle.crt are read"),
        ("values.yml", None),
        ("manifests/README", None),
        ("cluster-manifests/.swp", None),
        ("openshift/99-kernel.yaml", None),
    ],
)
def test_files_in_the_wrong_place_are_told(warnings, tmp_path, name, message):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("kind: MachineConfig\n")
    seen = [one for one in warnings() if one.startswith(f"{name} is ignored: ")]
    assert len(seen) == (message is not None)
    assert message is None or message in seen[0]
