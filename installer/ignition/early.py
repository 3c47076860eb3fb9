"""A minimal image's needs before it has its root: static networks, in one more initrd (installer.md §3.3, §4.4).

dracut runs the hook, which picks the keyfiles of the host that the machine is; CoreOS takes them from
/etc/coreos-firstboot-network. Ignition, which puts the same files in place for the live system, is part of that root's
boot and comes too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources

from installer.common import cpio
from installer.ignition.config import File

NETWORKS = "/etc/assisted/network/"
HOOK = "usr/lib/dracut/hooks/initqueue/settled/90-assisted-pre-static-network-config.sh"
_SCRIPT = "etc/assisted/pre-network-manager-config.sh"
# dracut sources it repeatedly, until it has what it waits for: it must neither exit nor fail.
_HOOK = f"#!/bin/sh\n[ -e /etc/coreos-firstboot-network ] || bash /{_SCRIPT} || :\n"


def network_archive(files: Iterable[File]) -> bytes:
    """Return a compressed cpio archive to be appended to the initrd: of these files those below /etc/assisted/network.

    Empty if there are none.
    """
    networks = [file for file in files if file.path.startswith(NETWORKS)]
    return cpio.compress(b"".join(cpio.pieces(_members(networks)))) if networks else b""


def _members(networks: list[File]) -> Iterator[tuple[str, int, bytes]]:
    # Only folders that no initrd has: one that is a link there would be replaced.
    folders = {file.path[1:].rpartition("/")[0] for file in networks}
    for folder in ["etc/assisted", NETWORKS.strip("/"), *sorted(folders)]:
        yield folder, 0o040755, b""
    for file in networks:
        yield file.path[1:], 0o100000 | file.mode, file.content
    script = resources.files("installer.ignition") / "data/bin/pre-network-manager-config.sh"
    yield _SCRIPT, 0o100555, script.read_bytes()
    yield HOOK, 0o100755, _HOOK.encode()
