"""load-config-iso.sh and its unit files: run under a prefix, with mount and systemctl replaced."""

import os
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from installer.common import cpio

DATA = Path(str(resources.files("installer.ignition") / "data"))
OWN = DATA / "unconfigured"
SCRIPTS = sorted((*OWN.glob("*.sh"), *(DATA / "interactive").glob("*.sh")))
# Writes two profiles; fails as often as there are files `fail*`.
PROFILES = """#!/bin/sh
echo network >>"$CALLS"
for file in "$PATH_PREFIX"/fail*; do [ ! -e "$file" ] || { rm "$file"; exit 1; }; done
profiles="$PATH_PREFIX/etc/NetworkManager/system-connections"
mkdir -p "$profiles"
printf '[connection]\\nid=bond0\\n[ipv4]\\nid=no\\n' >"$profiles/bond0.nmconnection"
printf '[connection]\\nid=my card\\n' >"$profiles/enp1s0.nmconnection"
"""
RELEASE = "spec:\n  releaseImage: r.example/x@sha256:1\n"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_syntax(script):
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "-x", "-S", "warning", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.fixture
def host(tmp_path):
    """Provide a live host under a prefix; `mount` copies the file that stands for the device's content."""
    root = tmp_path / "root"
    for name in ("usr/local/bin", "etc/assisted/manifests", "run", "etc/issue.d"):
        (root / name).mkdir(parents=True)
    shutil.copy(DATA / "bin/common.sh", root / "usr/local/bin")
    (root / "usr/local/bin/pre-network-manager-config.sh").write_text(PROFILES)
    (root / "usr/local/bin/pre-network-manager-config.sh").chmod(0o755)
    (root / "etc/assisted/manifests/cluster-image-set.yaml").write_text(RELEASE)
    (root / "etc/assisted/config-image-units").write_text("node-zero.service\nagent.service\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "mount": 'cp "$3" "$4/config.gz"',
        "umount": ":",
        "systemctl": 'echo "systemctl $*" >>"$CALLS"',
        "nmcli": 'echo "nmcli $*" >>"$CALLS"; exit 4',
        "usermod": 'echo "usermod $3" >>"$CALLS"',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    return root, tools, tmp_path / "calls"


def load(host, files):
    root, tools, calls = host
    device = root.parent / "device"
    members = [(f"/{name}", 0o100600, data) for name, data in files.items()]  # absolute, as a config image has them
    device.write_bytes(cpio.compress(b"".join(cpio.pieces(members))))
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PATH_PREFIX": str(root), "CALLS": str(calls)}
    return subprocess.run(
        ["bash", OWN / "load-config-iso.sh", device], env=environment, capture_output=True, text=True, timeout=30
    )


FILES = {
    "etc/assisted/manifests/cluster-image-set.yaml": RELEASE.encode(),
    "etc/assisted/network/host0/mac_interface.ini": b"52:54:00:00:00:01=eth0\n",
    "opt/agent/tls/kubeadmin-password.hash": b"hash",
    "etc/assisted/rendezvous-host.env": b"NODE_ZERO_IP=192.168.111.80\n",
}
needs_cpio = pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")


@needs_cpio
def test_a_config_image_starts_the_installation(host):
    root, _tools, calls = host
    # As the host has them: what only root may enter, and what everybody must be able to.
    modes = {root: 0o755, root / "etc/assisted": 0o750, root / "etc": 0o755}
    for folder, mode in modes.items():
        folder.chmod(mode)
    done = load(host, FILES)
    assert done.returncode == 0, done.stderr
    assert {folder: folder.stat().st_mode & 0o777 for folder in modes} == modes
    for name, data in FILES.items():
        assert (root / name).read_bytes() == data
        assert (root / name).stat().st_mode & 0o777 == 0o600
    assert calls.read_text().splitlines() == [
        "usermod core",
        "network",
        "systemctl restart NetworkManager",
        "nmcli --wait 60 connection up id bond0",  # it fails, and the next is tried all the same
        "nmcli --wait 60 connection up id my card",
        "systemctl daemon-reexec",
        "systemctl enable --now --no-block node-zero.service agent.service",
    ]
    assert (root / "etc/assisted/extra-manifests").is_dir()
    # A second one changes nothing.
    calls.unlink()
    again = load(host, {**FILES, "etc/assisted/rendezvous-host.env": b"other"})
    assert again.returncode == 0
    assert "is ignored" in again.stdout
    assert (root / "etc/assisted/rendezvous-host.env").read_bytes() == FILES["etc/assisted/rendezvous-host.env"]
    assert not calls.exists()


@needs_cpio
def test_a_start_that_failed_half_way_is_repeated(host):
    """Systemd starts it again: a first try that had put files in place once made the second do nothing."""
    root, _tools, calls = host
    (root / "fail").touch()
    assert load(host, FILES).returncode == 1
    assert "systemctl enable" not in calls.read_text()
    assert load(host, FILES).returncode == 0
    assert calls.read_text().splitlines()[-1] == "systemctl enable --now --no-block node-zero.service agent.service"


def test_two_processes_do_not_write_profiles_at_once():
    unit = (OWN / "load-config-iso@.service").read_text()
    assert "After=pre-network-manager-config.service\n" in unit


@needs_cpio
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"etc/assisted/manifests/cluster-image-set.yaml": b"spec:\n  releaseImage: other\n"}, "does not match"),
        ({"etc/assisted/manifests/cluster-image-set.yaml": None}, "does not match"),
        ({"etc/assisted/rendezvous-host.env": None}, "has no rendezvous-host.env"),
    ],
)
def test_a_wrong_config_image_changes_nothing(host, change, says):
    root, _tools, calls = host
    files = {name: data for name, data in {**FILES, **change}.items() if data is not None}
    done = load(host, files)
    assert done.returncode == 1
    assert says in (root / "etc/issue.d/95_load_config_image.issue").read_text()
    assert not (root / "opt").exists()
    assert not calls.exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_understood(tmp_path):
    for unit in OWN.glob("*.service"):
        name = unit.name.replace("@", "@dev-sr0")
        (tmp_path / name).write_text(unit.read_text().replace("/usr/local/bin/", "/bin/true #"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())], capture_output=True, text=True
    )
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line and "Unknown" in line] == []


def test_udev_names_the_unit_so_that_its_instance_is_the_drives_path():
    """An instance is a path without its first slash, others as dashes (systemd.unit, %f); udev makes dashes of slashes
    by itself, of the first one too, and systemd 252 does not start such a unit."""
    rule = (OWN / "80-agent-config-image.rules").read_text()
    wanted = re.search(r'SYSTEMD_WANTS}\+="load-config-iso@(.*)\.service"', rule)
    assert wanted is not None
    assert "/" + wanted[1].replace("%k", "sr0").replace("-", "/") == "/dev/sr0"
