r"""A machine whose init is a script: its firmware, its early boot, and a look at what they made.

    unshare --mount --net --pid --fork --mount-proc \
        python -m lab.tests.machines.container.firmware.only DIRECTORY SCRIPT FOLDER

Standard output is how it ended. The script (root directory as $1) says what it sees on the console, behind a line that
is SEEN. With a FOLDER that is not "-", 192.168.7.1 at the other end of the machine's card serves it on port 8080.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from lab.machines.container import firmware, holder
from lab.machines.container.kernel import cgroups
from lab.machines.container.monitor import Monitor
from lab.machines.container.spec import Boot, Fence, MachineSpec, NotBootable

ADDRESS = "192.168.7.1"
NETWORK = "lab"
SEEN = "@seen@"
DNSMASQ = "dnsmasq.conf"


def serve(folder: str) -> None:
    commands = [
        f"ip link add {NETWORK} type bridge",
        f"ip address add {ADDRESS}/24 dev {NETWORK}",
        f"ip link set {NETWORK} up",
    ]
    for command in commands:
        subprocess.run(command.split(), check=True, timeout=30)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    server = http.server.ThreadingHTTPServer((ADDRESS, 8080), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = Path(folder) / DNSMASQ
    if config.exists():
        # It ends with this PID namespace.
        subprocess.run(["dnsmasq", f"--conf-file={config}"], check=True, timeout=30)


def main(directory: str, script: str, folder: str) -> int:
    subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], check=True, timeout=30)

    def looking(spec: MachineSpec, *, devices: Mapping[str, Path], root: Path, console: BinaryIO, fence: Fence) -> Boot:
        boot = firmware.boot(spec, devices=devices, root=root, console=console, fence=fence)
        sys.stdout.write(f"init: {' '.join(boot.init)}\n")
        look = ["/bin/sh", "-c", f"echo {SEEN}; {script}\nexit 0", "sh", "/"]
        return msgspec.structs.replace(boot, init=look)

    # By no process number: each has the same ones in its namespace, and the control groups are the host's.
    group = f"test-{uuid.uuid4().hex[:8]}/1"
    status = os.open("/dev/null", os.O_WRONLY)
    monitor = Monitor(Path(directory), group, looking, status)
    if folder != "-":
        serve(folder)
    try:
        monitor.start()
        if monitor.serve() == holder.STOPPED:
            last_line = Path(monitor.spec.console_log).read_text().strip().splitlines()[-1]
            sys.stdout.write(f"BootStopped: {last_line}\n")
    except NotBootable as error:
        sys.stdout.write(f"{type(error).__name__}: {error.reason}\n")
    finally:
        sys.stdout.flush()
        with contextlib.suppress(OSError):
            cgroups.Group(monitor.hierarchies, group).remove()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
