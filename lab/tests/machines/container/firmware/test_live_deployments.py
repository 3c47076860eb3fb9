"""A second deployment of the machine OS on an installed disk: booted, counted, left when it does not prove itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lab.machines.container import holder
from lab.tests.machines.container.firmware import kit

pytestmark = pytest.mark.lab

#: The first boot copies a whole system, 450 MiB.
REBOOT_SECONDS = 480.0
#: An image in place of a registry's: this system with another version, its kernel and its initramfs.
_PODMAN = """#!/bin/bash
set -e
case $2 in
    mount) echo /var/image ;;
esac
"""
_STAGE = """#!/bin/bash
set -ex
# The reboot that it asks for would end it before what comes last.
trap '' TERM
mkdir -p /var/image /run/b
cp -al /usr /var/image/usr
cd /var/image/usr
sed 's/^OSTREE_VERSION=.*/OSTREE_VERSION=two/' /usr/lib/os-release > new
mv new lib/os-release
mount "$(sed 's/.* boot=\\([^ ]*\\).*/\\1/' /proc/cmdline)" /run/b
modules=$(echo lib/modules/*)
cp /run/b/vmlinuz "$modules/vmlinuz"
cp /run/b/initrd.img "$modules/initramfs.img"
umount /run/b
echo mine > /etc/own
export PATH=/usr/local/bin:$PATH
rpm-ostree rebase --experimental --lock-finalization ostree-unverified-registry:r/n@sha256:1
rpm-ostree status
touch /var/staged
@BEFORE@
rpm-ostree finalize-deployment --allow-missing-checksum
@AFTER@
"""
_SAY = """#!/bin/bash
. /etc/os-release
[ -x /usr/local/bin/podman ] || exit 1
echo "runs: $OSTREE_VERSION, own: $(cat /etc/own)." > /dev/console
rpm-ostree status --json | jq -r '.deployments[].failed' > /dev/console
"""
#: A health check that the new deployment does not pass.
_UNWELL = """mkdir -p /etc/greenboot/check/required.d
cd /etc/greenboot/check/required.d
echo '. /etc/os-release; [ "$OSTREE_VERSION" != two ] || { echo it is two; exit 1; }' > 10-own.sh
"""


def file(path: str, text: str) -> dict[str, Any]:
    return {"path": path, "mode": 0o755, "contents": {"source": f"data:,{quote(text)}"}}


def unit(name: str, command: str, condition: str) -> dict[str, Any]:
    lines = (
        f"[Unit]\nConditionPathExists={condition}\nAfter=ignition-firstboot-complete.service\n[Service]\nType=oneshot\n"
    )
    lines += f"StandardOutput=journal+console\nStandardError=journal+console\nExecStart={command}\n"
    return {"name": name, "enabled": True, "contents": f"{lines}[Install]\nWantedBy=multi-user.target\n"}


def staging(*, before: str = "", after: str = "") -> dict[str, Any]:
    """Describe a system that stages another deployment in its first boot, and reboots into it."""
    script = _STAGE.replace("@BEFORE@", before).replace("@AFTER@", after)
    files = [file("/usr/local/bin/podman", _PODMAN), file("/opt/stage", script), file("/opt/say", _SAY)]
    units = [unit("stage.service", "/opt/stage", "!/var/staged"), unit("say.service", "/opt/say", "/var/staged")]
    shown = "[Service]\nStandardOutput=journal+console\n"
    judge = {"name": "greenboot-healthcheck.service", "dropins": [{"name": "shown.conf", "contents": shown}]}
    return {"ignition": {"version": "3.3.0"}, "storage": {"files": files}, "systemd": {"units": [*units, judge]}}


class Node:
    """A machine that stages another deployment in its first boot, and reboots into it."""

    def __init__(self, folder: Path, *, before: str = "", after: str = "") -> None:
        config = staging(before=before, after=after)
        self._spec = kit.spec(folder, disks=kit.disks(vda=kit.installed(folder, config, module="rpm_ostree")))
        self._folder = folder
        assert "rpm-ostree finalize-deployment" in self.reboots()

    def reboots(self) -> str:
        """Switch it on; return its console once it has rebooted by itself."""
        with kit.powered(self._folder / "m", self._spec) as machine:
            assert machine.process.wait(REBOOT_SECONDS) == holder.REBOOTED, machine.text
            return machine.text

    def stays(self, *words: str) -> str:
        """Switch it on; return its console once it has said all this."""
        with kit.powered(self._folder / "m", self._spec) as machine:
            for text in words:
                machine.wait_for(text, REBOOT_SECONDS)
            return machine.text


def test_another_deployment_is_booted_with_the_nodes_own_etc_and_stays(tmp_path: Path) -> None:
    node = Node(tmp_path)
    text = node.stays("runs: two, own: mine.", "Boot Status is GREEN")
    assert " ostree=/ostree/deploy/node0/deploy/" in text
    assert "BOOT_IMAGE=/ostree/node0-" in text
    for _ in range(4):
        node.stays("runs: two, own: mine.")


def test_one_that_does_not_pass_its_checks_is_booted_three_times_and_then_left(tmp_path: Path) -> None:
    node = Node(tmp_path, before=_UNWELL)
    for _ in range(3):
        # The last words of a node that reboots do not always reach its console.
        assert "runs: two, own: mine." in node.reboots()
    text = node.stays("FALLBACK BOOT DETECTED!", "runs: ")
    assert "runs: two" not in text
    assert "BOOT_IMAGE=/vmlinuz" in text
    assert "3 boots in vain: 10-own.sh: it is two" in node.stays("3 boots in vain")


def test_one_whose_initramfs_stops_is_left_too(tmp_path: Path) -> None:
    node = Node(tmp_path, after="rm -rf /ostree/deploy/node0/deploy/*/etc")
    for _ in range(3):
        assert "this disk has no such deployment" in node.reboots()
    node.stays("FALLBACK BOOT DETECTED! it did not come up", "runs: ")
