"""agent-tui and the nmstate library, which go into the live system's initrd (reference/installer.md §3.3, §4.4).

They are in the payload's image agent-installer-utils, if it has one. What is kept between runs is the archive as it is
appended to an initrd: packing it costs more than all else that `create image` does.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from installer.common import cpio
from installer.errors import ReleaseError
from installer.release import Release, image_cache

log = logging.getLogger(__name__)

TAG = "agent-installer-utils"
PROGRAM = "usr/bin/agent-tui"
PATTERNS = (PROGRAM, "usr/lib64/libnmstate.so.*")
FOLDER = "/agent-files"
HOOK = "/usr/lib/dracut/hooks/pre-pivot/99-agent-copy-files.sh"
# dracut sources it: it must neither exit nor fail.
_SCRIPT = f"""\
#!/bin/sh
# Puts the agent's console and its library into the live system, whose root file system is mounted at $NEWROOT.
mkdir -p "$NEWROOT/usr/local/bin"
cp -P -p {FOLDER}/* "$NEWROOT/usr/local/bin/"
for agent_file in {FOLDER}/*; do
    chcon system_u:object_r:bin_t:s0 "$NEWROOT/usr/local/bin/${{agent_file##*/}}" 2>/dev/null || :
done
"""
# The cache's folder is named for the image; the name of the archive has to change with how it is made.
_MADE_OF = json.dumps([PATTERNS, FOLDER, HOOK, _SCRIPT])
ARCHIVE = f"agent-files-{hashlib.sha256(_MADE_OF.encode()).hexdigest()[:8]}.cpio.gz"


def agent_archive(release: Release) -> bytes:
    """Return a compressed cpio archive to be appended to the initrd; empty if the payload has no agent-tui.

    Raises ReleaseError.
    """
    if TAG not in release.tags():
        return b""
    image = release.image_for(TAG)
    folder = image_cache.files_folder(image)
    path = folder / ARCHIVE
    try:
        if not image_cache.is_whole(path):
            with image_cache.locked_folder(folder):
                if not image_cache.is_whole(path):
                    _make(release, image, path)
                    image_cache.stamp_of(path).write_text(image_cache.stamp(path))
        archive = path.read_bytes()
    except OSError as error:
        raise ReleaseError(image, f"cannot keep the files of {TAG} in {folder}: {error.strerror or error}") from error
    if not archive:
        log.warning("Image %s has no /%s: the hosts will have no interactive console", image, PROGRAM)
    return archive


def _make(release: Release, image: str, path: Path) -> None:
    log.info("Extracting agent-tui from release payload")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".extract-") as name:
        files = Path(name) / "files"
        files.mkdir()
        release.extract_matching(image, PATTERNS, files)
        partial = Path(name) / ARCHIVE
        with partial.open("wb") as out:
            if (files / Path(PROGRAM).name).exists():
                # One file at a time in memory: agent-tui alone has tens of megabytes.
                with gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
                    packed.writelines(cpio.pieces(_members(files)))
        partial.replace(path)


def _members(files: Path) -> Iterator[tuple[str, int, bytes]]:
    yield FOLDER, 0o040755, b""
    for path in sorted(files.iterdir()):
        name = f"{FOLDER}/{path.name}"
        if path.is_symlink():
            yield name, 0o120777, os.readlink(path).encode()
        else:
            yield name, 0o100555, path.read_bytes()
    yield HOOK, 0o100755, _SCRIPT.encode()
