"""A firmware for tests: the machine OS under an overlay, with an address and somebody who may log in, as a host has."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.daemons import services
from lab.layout import Layout
from lab.machines.container.spec import Boot, Early, Fence, MachineSpec
from lab.supervisor.plan import Service
from lab.testing.containers import plain
from lab.testing.containers.kit import tree

KEY, ADDRESSES = "NODE0_TEST_KEY", "NODE0_TEST_ADDRESSES"
_USER = 1000
_NETWORK = "[Match]\nName={nic}\n[Network]\nAddress={address}/24\n"
# What stands in for a host's programs: by its unit, or by its name.
_UNIT = "[Service]\nExecStart=/usr/local/bin/{name} infinity\nRestart=always\nRestartSec=0\n"
PROGRAMS = ("kubelet", "etcd")


def boot(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence) -> Boot:
    """Boot as `plain` does, with the preparations of `Stage`."""
    booted = plain.boot(spec, devices=devices, root=root, console=console, fence=fence)
    early = Early(stage=f"{__name__}:{Stage.__name__}", images=())
    return msgspec.structs.replace(booted, early=early)


class Stage(plain.Stage):
    """As `plain`, with sshd for user core at the NICs' addresses that the environment names, and PROGRAMS that
    sleep."""

    def prepare(self, root: Path) -> None:
        """Prepare as `plain.Stage` does, and the host's parts."""
        super().prepare(root)
        etc, home = root / "etc", root / "home/core/.ssh"
        for name, line in (
            ("passwd", f"core:x:{_USER}:{_USER}::/home/core:/bin/bash\n"),
            ("group", f"core:x:{_USER}:\n"),
            ("shadow", "core:*:19000:0:99999:7:::\n"),
        ):
            with (etc / name).open("a") as file:
                file.write(line)
        (etc / "sudoers.d/core").write_text("core ALL=(ALL) NOPASSWD: ALL\n")
        (etc / "sudoers.d/core").chmod(0o440)
        home.mkdir(parents=True, mode=0o700)
        (home / "authorized_keys").write_text(os.environ[KEY])
        for path in (home.parent, home, home / "authorized_keys"):
            os.chown(path, _USER, _USER)
        (etc / "systemd/network").mkdir(exist_ok=True)
        for nic, address in json.loads(os.environ[ADDRESSES]).items():
            (etc / f"systemd/network/10-{nic}.network").write_text(_NETWORK.format(nic=nic, address=address))
        wants = etc / "systemd/system/multi-user.target.wants"
        (wants / "NetworkManager.service").unlink()
        (wants / "systemd-networkd.service").symlink_to("/lib/systemd/system/systemd-networkd.service")
        for name in PROGRAMS:
            program = root / "usr/local/bin" / name
            program.write_bytes((root / "usr/bin/sleep").read_bytes())
            program.chmod(0o755)
            (etc / f"systemd/system/{name}.service").write_text(_UNIT.format(name=name))
            (wants / f"{name}.service").symlink_to(f"/etc/systemd/system/{name}.service")


def machined(layout: Layout, lab_id: str) -> Service:
    """Replace `services.machined` by a daemon of machines that boot so, whatever is in their drives."""
    [node] = layout.topology.nodes
    environment = {
        plain.TREE: str(tree()),
        KEY: layout.ssh_key.with_suffix(".pub").read_text(),
        ADDRESSES: json.dumps({nic.name: nic.addresses[0] for nic in node.all_nics}),
    }
    service = _MACHINED(layout, lab_id)
    return msgspec.structs.replace(service, argv=(*service.argv, f"{__name__}:boot"), env=service.env | environment)


_MACHINED = services.machined
