"""Whatever the two files hold: outputs, or one documented error with nothing written; never a traceback or a secret."""

import io
import json
import os
import re
import shutil
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from installer.cli import main
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG
from installer.testing.create.inputs_kit import AGENT, COMPACT, EXTERNAL, FENCED, NUTANIX, SNO, VSPHERE, changed, text
from installer.testing.create.registry_kit import MISSING

pytestmark = pytest.mark.skipif(
    bool(MISSING) or shutil.which("xorriso") is None, reason=f"not installed: {', '.join(MISSING) or 'xorriso'}"
)

SECRET = "s3cr3t-0123456789"
FILES = ("install-config.yaml", "agent-config.yaml")
OUTPUTS = {"agent.x86_64.iso", "auth", "rendezvousIP", ".openshift_install_state.json"}
BMC = {"address": f"redfish://u:{SECRET}@h/x", "username": "u", "password": SECRET}
# Bases with a secret wherever there is a place for one.
BASES = [
    (SNO, AGENT),
    (changed(COMPACT, "platform.baremetal.hosts", [{"name": "a", "bootMACAddress": "52:54:00:00:00:01", "bmc": BMC}]),
     None),
    (changed(VSPHERE, "platform.vsphere.vcenters.0.password", SECRET), AGENT),
    (changed(NUTANIX, "platform.nutanix.prismCentral.password", SECRET), AGENT),
    (changed(FENCED, "controlPlane.fencing.credentials.0.password", SECRET), AGENT),
    (EXTERNAL, {**AGENT, "bootArtifactsBaseURL": "http://h.example/x"}),
]  # fmt: skip
SCALARS = st.sampled_from(
    ["", "null", "{}", "[]", "true", "0", "-1", "1e400", "0x", "~", "::/0", "1.2.3.4", "a: b", "'", "&a *a",
     "!!binary x", "\t", "\x00", "é" * 300, "|", "- x", "{", "2024-01-01", "<<", "999999999999999999999"]
)  # fmt: skip


@st.composite
def mutations(draw):
    """Draw mutations of one of the files: a list of (how, where in thousandths, with what)."""
    kind = st.tuples(
        st.sampled_from(["drop", "twice", "value", "insert", "cut", "indent", "key"]), st.integers(0, 999), SCALARS
    )
    return draw(st.sampled_from(FILES)), draw(st.lists(kind, max_size=3))


def mutated(source, steps):
    lines = source.split("\n")
    for how, where, value in steps:
        at = where * len(lines) // 1000
        if how == "drop":
            del lines[at]
        elif how == "twice":
            lines.insert(at, lines[at])
        elif how == "value":
            lines[at] = f"{lines[at].partition(':')[0]}: {value}"
        elif how == "insert":
            lines.insert(at, value)
        elif how == "indent":
            lines[at] = "  " + lines[at]
        elif how == "key":
            lines[at] = re.sub(r"\w(?=\w*:)", "x", lines[at], count=1)
        else:
            lines = lines[: at + 1]
        lines = lines or [""]
    return "\n".join(lines)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".openshift_install.log"
    }


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.integers(0, len(BASES) - 1), mutations())
def test_outputs_or_a_documented_error(directory, lab, index, mutation):
    server = lab[0]
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    install, agent = BASES[index]
    source = {"source": server.sources[0].source, "mirrors": [server.repository]}
    secret = json.loads(server.pull_secret) | {"x": SECRET}
    install = {
        **install,
        "pullSecret": json.dumps(secret),
        "imageDigestSources": [source],
        "additionalTrustBundle": server.ca_pem,
        "proxy": {"httpProxy": f"http://u:{SECRET}@p.example:1"},
    }
    given_files = {FILES[0]: text(install), FILES[1]: text(agent) if agent else ""}
    name, steps = mutation
    given_files[name] = mutated(given_files[name], steps)
    for file, content in given_files.items():
        if content or file == name:
            (directory / file).write_text(content)
    before = snapshot(directory)
    err = io.StringIO()
    with redirect_stderr(err):
        code = main(["agent", "create", "image", "--dir", str(directory)])
    stderr = err.getvalue()
    log = (directory / ".openshift_install.log").read_text()
    assert SECRET not in stderr
    assert SECRET not in log
    assert "Traceback" not in stderr
    if code == 0:
        assert {path.name for path in directory.iterdir()} >= OUTPUTS
        return
    assert code in (EXIT_FATAL, EXIT_INSTALL_CONFIG)
    last = stderr.splitlines()[-1]
    assert last.startswith("level=error msg=" if code == EXIT_INSTALL_CONFIG else "level=fatal msg=")
    assert len([line for line in stderr.splitlines() if "level=fatal" in line or "level=error" in line]) == 1
    assert snapshot(directory) == before


def test_a_copy_that_was_begun_for_wrong_inputs_goes(directory):
    """The copy of the base ISO begins before the inputs are read: it goes when they turn out to be wrong."""
    assert main(["agent", "create", "image", "--dir", str(directory)]) == 0
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (directory / "install-config.yaml").write_text("x: 1")
    before = set(os.listdir(directory))
    assert main(["agent", "create", "image", "--dir", str(directory)]) == EXIT_INSTALL_CONFIG
    assert set(os.listdir(directory)) - before == {".openshift_install.log"}
