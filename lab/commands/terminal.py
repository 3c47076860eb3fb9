"""Terminal output: a lab's machines, and an interactive serial line until Ctrl-]."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import termios
import tty
from pathlib import Path

from lab.host.records import Record

_LEAVE = b"\x1d"


def converse(path: Path, recent: bytes = b"") -> int:
    """Connect the terminal to the serial line at `path`, after showing `recent`.

    Returns 0 when the user left, 1 when the line was closed.
    """
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(path))
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(keyboard) if os.isatty(keyboard) else None
    os.write(screen, recent)
    try:
        if before is not None:
            tty.setraw(keyboard)
        with line, selectors.SelectSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            selector.register(keyboard, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is line:
                        data = line.recv(4096)
                        if not data:
                            return 1
                        os.write(screen, data)
                    else:
                        typed = os.read(keyboard, 1024)
                        if not typed or _LEAVE in typed:
                            return 0
                        line.sendall(typed)
    finally:
        if before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def describe(record: Record) -> None:
    """Print a line for each machine of a lab."""
    for node in record.topology.nodes:
        sizes = "+".join(str(disk.size_gib) for disk in node.all_disks)
        size = f"{node.vcpu} vCPU {node.memory_mib} MiB {sizes} GiB {node.firmware}"
        print(f"  {node.name:<10} {node.ip:<16} {node.mac}  {size}  {record.machines.get(node.name, '')}")
