"""Layers whose headers tarfile trips over: an error that names the image."""

from __future__ import annotations

import os
import subprocess
import tarfile
import threading

import pytest

from installer.errors import ReleaseError
from installer.release.layers import open_layer, take


def _sparse() -> bytes:
    info = tarfile.TarInfo("a")
    info.pax_headers = {"GNU.sparse.map": "x", "GNU.sparse.size": "5"}
    return info.tobuf(tarfile.PAX_FORMAT)


def _names() -> bytes:
    info = tarfile.TarInfo("x")
    info.size, info.type = 10, tarfile.GNUTYPE_LONGNAME
    return (info.tobuf(tarfile.GNU_FORMAT) + b"n".ljust(512, b"\0")) * 1200


@pytest.mark.parametrize("content", [_sparse(), _names()], ids=["numbers", "names"])
def test_a_header_that_cannot_be_read_is_the_images_fault(content: bytes) -> None:
    reader, writer = os.pipe()
    source = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    threading.Thread(target=source.communicate, args=(content + bytes(1024),), daemon=True).start()
    try:
        with pytest.raises(ReleaseError, match="a layer is not a tar archive"), open_layer(reader, "image") as archive:
            take(archive, {"etc/x": None}, lambda *_: None)
    finally:
        os.close(reader)
        source.wait(10)
