"""Extracting files of an image by pattern, as `oc image extract --path` does."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from pathlib import Path

from installer.release.layers import normal, open_layer, whiteouts, write_file
from installer.release.proxy import OpenImage


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a path is one of `patterns`, of which only the last part may be a glob."""
    folder, base = posixpath.split(name)
    split = (posixpath.split(normal(pattern)) for pattern in patterns)
    return any(folder == where and fnmatch.fnmatchcase(base, glob) for where, glob in split)


def extract_matching(
    image: OpenImage, patterns: Sequence[str], folder: Path
) -> tuple[dict[str, Path], dict[str, Path]]:
    """Write what matches into `folder`, by its last name; links to the same directory become such links.

    Returns {path: where it was written} and {path that a found link leads to: where its content is wanted}.
    """
    extracted: dict[str, Path] = {}
    elsewhere: dict[str, Path] = {}
    seen: set[str] = set()
    hidden: set[str] = set()  # names that whiteouts of the layers above hide
    for digest, size in reversed(image.layers()):
        whited: set[str] = set()
        with image.blob(digest, size) as (fd, _size), open_layer(fd, image.pullspec) as archive:
            for member in archive:
                name = normal(member.name)
                folder_name, base = posixpath.split(name)
                if base.startswith(".wh."):
                    whited.add(name)
                if name in seen or not matches(name, patterns) or whiteouts(name) & hidden:
                    continue
                dest = folder / base
                if member.isfile():
                    data = archive.extractfile(member)
                    assert data is not None
                    write_file(data, dest, member.mode)
                    extracted[name] = dest
                elif member.issym() and "/" not in member.linkname:
                    dest.symlink_to(member.linkname)
                    extracted[name] = dest
                elif member.issym():
                    elsewhere[normal(posixpath.join("/" + folder_name, member.linkname))] = dest
                elif member.islnk():
                    elsewhere[normal(member.linkname)] = dest
                else:
                    continue
                seen.add(name)
        hidden |= whited
    return extracted, elsewhere
