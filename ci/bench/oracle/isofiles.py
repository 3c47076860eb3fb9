"""What an ISO carries, read as a host or a script reads it: by xorriso, and not by the code that wrote it."""

from __future__ import annotations

import base64
import contextlib
import json
import stat
import subprocess
import tempfile
import urllib.parse
import zlib
from collections.abc import Iterator
from pathlib import Path

from lab.machines.container.firmware.formats import cpio
from lab.machines.container.firmware.formats.errors import BadArchive

_GZIP = b"\x1f\x8b\x08"


def file_of(iso: Path, path: str) -> bytes:
    """A file of an ISO, by its Rock Ridge name. Raises ValueError if it is not there."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "file"
        argv = ["xorriso", "-osirrox", "on", "-indev", str(iso), "-extract", "/" + path.lstrip("/"), str(out)]
        completed = subprocess.run(argv, capture_output=True, text=True, check=False)
        if not out.is_file():
            raise ValueError(f"{iso.name} has no {path}: {completed.stderr.strip()[-200:]}")
        return out.read_bytes()


def archive(iso: Path, path: str) -> dict[str, bytes]:
    """The regular files of a compressed cpio archive of an ISO."""
    return _unpacked(file_of(iso, path))


def _unpacked(packed: bytes) -> dict[str, bytes]:
    """Raises ValueError if it is no compressed cpio archive."""
    try:
        plain = zlib.decompressobj(31).decompress(packed)
        return {one.name: bytes(one.data) for one in cpio.members(memoryview(plain)) if stat.S_ISREG(one.mode)}
    except (zlib.error, BadArchive) as error:
        raise ValueError(f"not a compressed cpio archive: {error}") from error


def ignition_files(text: bytes) -> dict[str, bytes]:
    """The files of an Ignition config, by path."""
    files = {}
    for entry in json.loads(text)["storage"]["files"]:
        head, _, data = ((entry.get("contents") or {}).get("source") or "data:,").partition(",")
        raw = base64.b64decode(data) if head.endswith(";base64") else urllib.parse.unquote_to_bytes(data)
        files[entry["path"]] = raw
    return files


def host_file(iso: Path, path: str) -> bytes:
    """A file that an ISO gives to a host: through Ignition, or, from a config image, as it is. Raises KeyError."""
    if iso.name.startswith("agentconfig."):
        return archive(iso, "config.gz")[path]
    return ignition_files(archive(iso, "images/ignition.img")["config.ign"])[path]


def names_in_initrd(iso: Path) -> set[str]:
    """The files in the compressed archives of an ISO's initrd."""
    initrd = file_of(iso, "images/pxeboot/initrd.img")
    return {name for packed in compressed_archives(initrd) for name in packed}


def compressed_archives(initrd: bytes) -> Iterator[dict[str, bytes]]:
    """The regular files of each gzip-compressed cpio archive in it."""
    at = initrd.find(_GZIP)
    while at >= 0:
        with contextlib.suppress(ValueError):  # three bytes may only look like a beginning
            yield _unpacked(initrd[at:])
        at = initrd.find(_GZIP, at + 1)
