"""Kernel arguments of MachineConfigs: added up, checked, and brought into the boot loader on the node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.release.cluster import templates
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.openshift_install import command
from lab.testing.ignition import read_data_url

INSTALLED = 'set node0_root="PARTUUID=1"\nset node0_boot="PARTUUID=2"\nset node0_kargs="quiet console=ttyS0"\n'


def config(name: str, arguments: Any, role: str = "master") -> dict[str, Any]:
    config_object = machineconfig.machine_config(name, role, ignition.config())
    config_object["spec"]["kernelArguments"] = arguments
    return config_object


def rendered(pool: str, configs: list[dict[str, Any]]) -> dict[str, Any]:
    return machineconfig.rendered(pool, machineconfig.selected(machineconfig.machine_config_pool(pool), configs), "")


def test_those_of_a_pool_add_up_in_the_order_of_names() -> None:
    configs = [config("99-b", ["c=3 d=4"]), config("98-a", ["a=1", "b=2"]), config("99-w", ["w=9"], "worker")]
    merged = rendered("master", configs)
    assert merged["spec"]["kernelArguments"] == ["a=1", "b=2", "c=3", "d=4"]
    assert merged["metadata"]["name"] != rendered("master", configs[:1])["metadata"]["name"]
    assert "kernelArguments" not in rendered("arbiter", configs)["spec"]
    [served] = [
        read_data_url(f["contents"]["source"], None)
        for f in machineconfig.served("master", merged, "kubeconfig", "ca")["storage"]["files"]
        if f["path"] == machineconfig.ENCAPSULATED
    ]
    config_served = json.loads(served)
    assert config_served["metadata"]["name"] == merged["metadata"]["name"]
    assert config_served["spec"] == {"config": ignition.config(), "kernelArguments": ["a=1", "b=2", "c=3", "d=4"]}


def test_fips_of_one_is_the_pools_and_reaches_the_node_with_its_arguments() -> None:
    on = machineconfig.machine_config("99-master-fips", "master", ignition.config(), fips=True)
    configs = [on, config("99-a", ["a=1"]), config("99-w", ["w=9"], "worker")]
    merged = rendered("master", configs)
    assert merged["spec"]["fips"] is True
    assert merged["metadata"]["name"] != rendered("master", configs[1:])["metadata"]["name"]
    assert "fips" not in rendered("worker", configs)["spec"]
    answer = json.loads(
        next(
            read_data_url(f["contents"]["source"], None)
            for f in machineconfig.served("master", merged, "kubeconfig", "ca")["storage"]["files"]
            if f["path"] == machineconfig.ENCAPSULATED
        )
    )
    assert answer["spec"] == {"config": ignition.config(), "kernelArguments": ["a=1"], "fips": True}


@pytest.mark.parametrize("fips", [True, False])
def test_fips_of_the_install_config_is_a_machine_config_of_each_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fips: bool
) -> None:
    document = {"metadata": {"name": "c"}, "baseDomain": "d.example", "platform": {"none": {}}, "fips": fips}
    (tmp_path / "install-config.yaml").write_text(json.dumps(document))
    monkeypatch.setenv(command.RELEASE_ENV, "release.example/n/r@sha256:" + "0" * 64)
    assert command.main(["create", "manifests", "--dir", str(tmp_path)]) == 0
    manifests = {path.name: yaml.safe_load(path.read_text()) for path in (tmp_path / "openshift").glob("*-fips.yaml")}
    roles = ("master", "worker") if fips else ()
    assert set(manifests) == {f"99_openshift-machineconfig_99-{role}-fips.yaml" for role in roles}
    for role in roles:
        manifest = manifests[f"99_openshift-machineconfig_99-{role}-fips.yaml"]
        assert rendered(role, [manifest])["spec"]["fips"] is True


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ("a=1", r"MachineConfig 99-x: spec\.kernelArguments: must be a list of strings"),
        (["a=1", 2], r"spec\.kernelArguments: must be a list of strings"),
        (["a=1", 'b="2 3"'], r"spec\.kernelArguments\[1\]: .*quotes"),
        (["a=$b"], r"spec\.kernelArguments\[0\]: .*'\$'"),
        (["a\nb"], r"spec\.kernelArguments\[0\]"),
    ],
)
def test_what_no_boot_loader_could_pass_on_is_told(arguments: Any, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        rendered("master", [config("99-x", arguments)])


# In namespaces of its own: a disk's boot partition, the kernel's command line, and a systemctl that only says so.
PLACE = """
set -e
mount --bind "$1/cmdline" /proc/cmdline
mount --bind "$1/etc" /etc
root=$1
shift
PATH="$root/bin:$PATH" bash "$root/script.sh" "$@"
"""


def run(
    root: Path, cmdline: str, arguments: list[str], *, fips: bool = False
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Return the script's run, and the boot loader's configuration afterwards."""
    (root / "cmdline").write_text(cmdline + "\n")
    (root / "etc").mkdir(exist_ok=True)
    served_config = machineconfig.machine_config("rendered-master-1", "master", ignition.config(), arguments, fips=fips)
    (root / "etc" / Path(machineconfig.ENCAPSULATED).name).write_text(json.dumps(served_config))
    (root / "script.sh").write_text(templates.text(machineconfig.FIRSTBOOT_SCRIPT))
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin/systemctl").write_text('#!/bin/sh\necho "systemctl $*"\n')
    (root / "bin/systemctl").chmod(0o755)
    completed = subprocess.run(
        ["unshare", "-m", "bash", "-c", PLACE, "place", str(root)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    shown = subprocess.run(
        ["debugfs", "-R", "cat grub/installed.cfg", str(root / "boot.img")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return completed, shown.stdout


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    files = tmp_path / "files/grub"
    files.mkdir(parents=True)
    (files / "installed.cfg").write_text(INSTALLED)
    image = tmp_path / "boot.img"
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-d", str(tmp_path / "files"), str(image), "8M"], check=True, timeout=60
    )
    return tmp_path


def test_a_node_reboots_into_what_it_lacks_and_only_once(disk: Path) -> None:
    line = f"root=x boot={disk}/boot.img quiet hugepages=2"
    completed, text = run(disk, line, ["hugepages=2", "iommu=pt", "isolcpus=1-*"])
    assert completed.returncode == 0, completed.stderr
    assert text == INSTALLED.replace("console=ttyS0", "console=ttyS0 iommu=pt isolcpus=1-*")
    assert "systemctl --no-block reboot" in completed.stdout
    left = sorted(path.name for path in (disk / "etc").iterdir())
    assert left == [Path(machineconfig.ENCAPSULATED).name + ".bak"]


def test_fips_is_a_kernel_argument(disk: Path) -> None:
    completed, text = run(disk, f"root=x boot={disk}/boot.img quiet", ["iommu=pt"], fips=True)
    assert completed.returncode == 0, completed.stderr
    assert text == INSTALLED.replace("console=ttyS0", "console=ttyS0 fips=1 iommu=pt")
    assert "systemctl --no-block reboot" in completed.stdout


@pytest.mark.parametrize("arguments", [[], ["quiet"]])
def test_a_node_that_has_them_all_goes_on(disk: Path, arguments: list[str]) -> None:
    completed, text = run(disk, f"boot={disk}/boot.img quiet", arguments)
    assert completed.returncode == 0, completed.stderr
    assert text == INSTALLED
    assert "systemctl" not in completed.stdout


def test_a_disk_that_was_written_by_somebody_else_is_left_as_it_is(disk: Path) -> None:
    rewritten = disk / "files/grub/installed.cfg"
    rewritten.write_text("menuentry x\n")
    subprocess.run(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(disk / "files"), str(disk / "boot.img"), "8M"],
        check=True, timeout=60,
    )  # fmt: skip
    completed, text = run(disk, f"boot={disk}/boot.img", ["a=1"])
    assert completed.returncode != 0
    assert "names no kernel arguments" in completed.stderr
    assert text == "menuentry x\n"
    assert (disk / "etc" / Path(machineconfig.ENCAPSULATED).name).exists()
