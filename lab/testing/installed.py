"""Machines that boot from disks on which the machine OS was installed before."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from lab.machines.node import Node


def telling(command: str) -> dict[str, Any]:
    """Return a unit of an Ignition config that writes on the console what a shell's command says of the booted system,
    in one line with `failed: ` in it and a full stop at its end."""
    contents = (
        "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\n"
        f"ExecStart=/bin/sh -c '{{ {command}; }} > /dev/console'\n[Install]\nWantedBy=multi-user.target\n"
    )
    return {"name": "says.service", "enabled": True, "contents": contents}


def copy(disk: Path, to: Path) -> None:
    """Copy a disk's image, by reference where that can be."""
    subprocess.run(["cp", "--reflink=auto", "--sparse=always", disk, to], check=True, timeout=300)


def boot(machine: Node, until: str, seconds: float) -> str:
    """Switch it on, and wait for this pattern: what its console said of this boot. Raises ConsoleTimeout."""
    machine.console.mark()
    before = len(machine.console.text())
    machine.power.on()
    machine.console.wait_for(until, seconds)
    return machine.console.text()[before:]


def boot_twice(machine: Node, expected: str, seconds: float) -> None:
    """Boot twice, first with Ignition, then without: its unit (`telling`) has to write `said` each time, and nobody has
    to help."""
    for ignition_ran in (True, False):
        # To the line's end: an emulated console brings it in parts.
        text = boot(machine, r"failed: [^\n]*\.\s|BOOT STOPPED end of report", seconds)
        assert expected in text, text[-4000:]
        assert ("Ignition (files)" in text) is ignition_ran
        machine.power.off()
