"""The firmware alone, up to where a machine's init would begin; then a shell looks at what it made.

    unshare --mount --net python -m lab.tests.firmware.only SPEC ROOT SCRIPT FOLDER TARGET=DEVICE...

Standard output is the console; the script (root directory as $1) writes what it sees to standard error. With a FOLDER
that is not "-", the machine has a card eth0, at whose other end 192.168.7.1 serves the folder on port 8080.
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
import time
from pathlib import Path

from lab.machines.container import firmware
from lab.machines.container.spec import MachineSpec, NotBootable

ADDRESS = "192.168.7.1"


def cable() -> subprocess.Popen[bytes]:
    """A network namespace with a card whose other end is ours; it lives as long as the process."""
    own = Path("/proc/self/ns/net").readlink()
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    deadline = time.monotonic() + 30
    while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
        assert time.monotonic() < deadline, "no network namespace within 30 s"
        time.sleep(0.01)
    for command in (
        f"ip link add server type veth peer name eth0 netns {holder.pid}",
        f"ip address add {ADDRESS}/24 dev server",
        "ip link set server up",
    ):
        subprocess.run(command.split(), check=True, timeout=30)
    return holder


def serve(folder: str) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    server = http.server.ThreadingHTTPServer((ADDRESS, 8080), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(spec_directory: str, root: str, script: str, folder: str, *disks: str) -> int:
    devices = {target: Path(path) for target, _, path in (disk.partition("=") for disk in disks)}
    holder = None
    if folder != "-":
        holder = cable()
        serve(folder)
    netns = Path(f"/proc/{holder.pid}/ns/net") if holder else None
    try:
        boot = firmware.boot(
            MachineSpec.load(Path(spec_directory)),
            devices=devices,
            root=Path(root),
            console=sys.stdout.buffer,
            netns=netns,
        )
        sys.stdout.write(f"init: {' '.join(boot.init)}\n")
    except NotBootable as error:
        sys.stdout.write(f"{type(error).__name__}: {error.reason}\n")
    finally:
        sys.stdout.flush()
        enter = ["nsenter", f"--net={netns}"] if netns else []
        subprocess.run([*enter, "sh", "-c", script, "sh", root], stdout=sys.stderr, timeout=60, check=False)
        if holder:
            holder.kill()
            holder.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
