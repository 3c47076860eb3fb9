"""A release's list of images, kept between runs: what a digest names does not change, so it is fetched once.

It counts only for the same access as before (pull secret, mirrors, certificates): any other has yet to be seen to work.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from pathlib import Path

from installer.common.formats import jsontext
from installer.files import write_whole
from installer.release import Content, RegistryAccess, image_cache, registries_conf

log = logging.getLogger(__name__)


class ContentCache:
    """A `Memory` of releases in the cache directory, for one way to reach registries.

    Files are readable by their owner only, and hold a salted hash of that way: it is made with the pull secret.
    """

    def __init__(self, access: RegistryAccess) -> None:
        access_values = [access.pull_secret, registries_conf(access.sources), access.trust_bundle, access.architecture]
        self._way = json.dumps(access_values).encode()

    def recall(self, pullspec: str) -> Content | None:
        """Return the kept content; None if that was with another access, or nothing was, or it cannot be read."""
        path = _path(pullspec)
        if path is None:
            return None
        try:
            saved = jsontext.loads(path.read_bytes())
            if saved["access"] != self._hash(saved["salt"]):
                return None
            return Content({name: text.encode() for name, text in saved["files"].items()}, saved["architecture"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, pullspec: str, content: Content) -> None:
        """Keep it. A full or read-only disk costs nothing but time, the next time."""
        path = _path(pullspec)
        if path is None:
            return
        salt = secrets.token_hex(16)
        try:
            files = {name: data.decode() for name, data in content.files.items()}
            saved = {"salt": salt, "access": self._hash(salt), "architecture": content.architecture, "files": files}
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, json.dumps(saved).encode())
        except (OSError, ValueError) as error:
            log.debug("release payload is not kept: %s", error)

    def _hash(self, salt: str) -> str:
        return hashlib.sha256(bytes.fromhex(salt) + self._way).hexdigest()


def _path(pullspec: str) -> Path | None:
    """Return the path of a kept release by digest; None for one by tag, which may change."""
    match = re.search(r"@sha256:([0-9a-f]{64})$", pullspec)
    return image_cache.cache_dir().with_name("release_cache") / f"{match[1]}.json" if match else None
