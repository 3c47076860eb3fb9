"""Is the discovery media still there? Asked before each step and after one that failed (installer.md §6.1)."""

from __future__ import annotations

from installer.agent.errors import CommandError, MediaLost
from installer.agent.hostsys import HostSystem

MEDIA = "/run/media/iso"


def check(host: HostSystem) -> None:
    """Read two bytes of the media's device. Raises MediaLost. A minimal ISO mounts no media: nothing to check."""
    if not host.path(MEDIA).is_dir():
        return
    source = host.run("findmnt", "--noheadings", "--output", "SOURCE", MEDIA, check=False).strip()
    if not source.startswith("/dev/"):
        return
    try:
        host.run("dd", f"if={source}", "of=/dev/null", "bs=2", "count=1", "iflag=nocache", timeout=30)
    except CommandError as error:
        raise MediaLost(f"cannot read {source} of {MEDIA}: {error.detail}") from None
