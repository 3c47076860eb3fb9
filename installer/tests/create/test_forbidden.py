"""A command that may not do what it has to, or finds something else than a file: one line, and nothing has changed."""

import ctypes
import os
import struct

import pytest

# What the command imports when it is needed: here once, so that no run that is forked has to.
import installer.create.image  # noqa: F401
from installer.cli import main
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG
from installer.testing.create.directory_kit import LOG, snapshot
from installer.testing.create.image_kit import NEEDED
from installer.testing.create.inputs_kit import AGENT, SNO, changed, text
from installer.testing.forked_kit import forked

real = pytest.mark.skipif(bool(NEEDED), reason=f"not installed: {', '.join(NEEDED)}")
unprivileged = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which gives rights away")
# <linux/capability.h>, <linux/prctl.h>
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CAPABILITY_VERSION = 0x20080522
PR_CAPBSET_DROP = 24


def heeding_modes(arguments):
    """Return the command without the right to pass over modes, which root has; nor has it what the command starts."""
    libc, dropped = ctypes.CDLL(None), (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)
    for capability in dropped:
        assert libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
    head, sets = struct.pack("Ii", CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    assert libc.capget(head, sets) == 0
    kept = ~sum(1 << capability for capability in dropped)
    # Effective, permitted and inheritable ones, each of 32 bits; then the upper halves.
    lower = (bits & kept for bits in struct.unpack_from("3I", sets))
    struct.pack_into("3I", sets, 0, *lower)
    assert libc.capset(head, sets) == 0
    return main(arguments)


def mode(name, number):
    def change(folder):
        path = folder / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.mkdir() if "." not in path.name else path.write_text("kind: X\n")
        path.chmod(number)

    return change


def as_folder(name):
    def change(folder):
        if (folder / name).exists():
            (folder / name).unlink()
        (folder / name).mkdir(parents=True)

    return change


def link(name, target):
    def change(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return change


FORBIDDEN = {
    "directory": (mode(".", 0o000), "failed to open log file {}/.openshift_install.log: Permission denied"),
    "read-only directory": (mode(".", 0o555), "failed to open log file {}/.openshift_install.log: Permission denied"),
    "directory without listing": (mode(".", 0o333), "{}: cannot be opened: Permission denied"),
    "install-config": (mode("install-config.yaml", 0), "failed to load install-config.yaml file: Permission denied"),
    "agent-config": (mode("agent-config.yaml", 0), "failed to load agent-config.yaml file: Permission denied"),
    "folder for file": (as_folder("agent-config.yaml"), "failed to load agent-config.yaml file: Is a directory"),
    "loop": (link("agent-config.yaml", "agent-config.yaml"), "failed to load agent-config.yaml file: Too many levels"),
    "manifests": (mode("openshift", 0), "failed to load openshift: Permission denied"),
    "manifest": (mode("openshift/a.yaml", 0), "failed to load openshift/a.yaml file: Permission denied"),
    "manifest folder": (as_folder("openshift/a.yaml"), "failed to load openshift/a.yaml file: Is a directory"),
    "manifest link": (link("openshift/a.yaml", "/proc/no"), "failed to load openshift/a.yaml file: it is a link"),
    "file for manifests": (mode("openshift.yaml", 0o644), None),
    "log folder": (as_folder(LOG), "failed to open log file {}/.openshift_install.log: Is a directory"),
    "log": (mode(LOG, 0), "failed to open log file {}/.openshift_install.log: Permission denied"),
    "state": (mode(".openshift_install_state.json", 0), "{}/.openshift_install_state.json: Permission denied"),
    "state folder": (as_folder(".openshift_install_state.json"), "{}/.openshift_install_state.json: Is a directory"),
    "ZTP manifests": (mode("cluster-manifests", 0), "load cluster-manifests/pull-secret.yaml file: Permission"),
    "mirror": (mode("mirror", 0), "failed to load mirror/registries.conf file: Permission denied"),
    "auth": (mode("auth", 0o555), "failed to write {}/auth/kubeconfig: Permission denied"),
    "ISO folder": (as_folder("agent.x86_64.iso"), "cannot write the image: Is a directory"),
}  # fmt: skip


@real
@unprivileged
@pytest.mark.parametrize("name", FORBIDDEN)
def test_paths_without_permission_or_of_the_wrong_kind(directory, name):
    """One line that names the file and the reason, exit code 1 (3 for the install-config), and nothing has changed."""
    change, expected = FORBIDDEN[name]
    change(directory)
    before = snapshot(directory)
    code, stderr = forked(heeding_modes, ["agent", "create", "image", "--dir", str(directory)])
    after = snapshot(directory)
    directory.chmod(0o755)
    assert "Traceback" not in stderr
    if expected is None:
        assert code == 0
        return
    wanted = (EXIT_INSTALL_CONFIG, "error") if name == "install-config" else (EXIT_FATAL, "fatal")
    assert code == wanted[0]
    assert expected.format(directory) in stderr.splitlines()[-1]
    assert stderr.splitlines()[-1].startswith(f"level={wanted[1]} msg=")
    assert after == before


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("file", "is not a directory"), ("file/x", "Not a directory"), ("no", "no such directory"),
        ("loop", "Too many levels of symbolic links"), ("x" * 300, "File name too long"),
        ("x/" * 2500, "File name too long"),
    ],
)  # fmt: skip
def test_a_path_that_is_no_directory(tmp_path, capsys, path, why):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    before = set(os.listdir(tmp_path))
    for command in (["create", "image"], ["wait-for", "install-complete"], ["gather"], ["graph"]):
        assert main(["agent", *command, "--dir", str(tmp_path / path)]) == 1
        assert capsys.readouterr().err == f"level=fatal msg=--dir {tmp_path / path}: {why}\n"
    assert set(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_nested(tmp_path, capsys, nested):
    """The parser's depth is no traceback: state, pull secret, Ignition config."""
    (tmp_path / ".openshift_install_state.json").write_text(nested)
    for command in (["create", "image"], ["wait-for", "install-complete"], ["gather"]):
        assert main(["agent", *command, "--dir", str(tmp_path)]) == 1
        assert "nested too deeply" in capsys.readouterr().err
    (tmp_path / ".openshift_install_state.json").unlink()
    (tmp_path / "install-config.yaml").write_text(text(changed(SNO, "pullSecret", nested)))
    (tmp_path / "agent-config.yaml").write_text(text(AGENT))
    assert main(["agent", "create", "image", "--dir", str(tmp_path)]) == 1
    assert "must be JSON: it is nested too deeply" in capsys.readouterr().err
    (tmp_path / "config.ign").write_text(nested)
    assert main(["iso", "embed", "--ignition", str(tmp_path / "config.ign"), str(tmp_path / "no.iso")]) == 1
    assert "is not an Ignition config" in capsys.readouterr().err


def test_a_wrong_image_override_is_told_first(tmp_path, capsys, monkeypatch):
    """Before a registry is asked: there is none here."""
    (tmp_path / "install-config.yaml").write_text(text(SNO))
    (tmp_path / "agent-config.yaml").write_text(text(AGENT))
    monkeypatch.setenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", str(tmp_path / "no.iso"))
    assert main(["agent", "create", "image", "--dir", str(tmp_path)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("level=fatal msg=failed to fetch Agent Installer ISO: failed to fetch dependency of ")
    assert last.endswith(f"base ISO image: OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE: {tmp_path}/no.iso is not a file")
