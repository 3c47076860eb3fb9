"""Overrides in the environment: the release image, the base ISO. Loads quickly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from installer.errors import ConfigError

RELEASE_OVERRIDE = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
OS_OVERRIDE = "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE"


def release_override(env: Mapping[str, str] = os.environ) -> str:
    """Return the release image's pullspec in the environment, empty without one. Raises ConfigError for what is
    none."""
    override = env.get(RELEASE_OVERRIDE, "").strip()
    if not re.fullmatch(r"[!-~]*", override):
        raise ConfigError(f"{RELEASE_OVERRIDE}: {override!a} is not the name of an image")
    return override


def os_override() -> Path | None:
    """Return the base ISO of the environment, None without one. Raises ConfigError if it is not a file."""
    override = os.environ.get(OS_OVERRIDE, "").strip()
    if not override:
        return None
    path = Path(override.removeprefix("file://"))
    if path.is_file():
        return path
    if not re.match("[a-zA-Z/][a-zA-Z0-9+.-]*:?", override):
        raise ConfigError(f'parse "{override}": invalid URI for request')  # as upstream, which takes URLs only
    raise ConfigError(f"{OS_OVERRIDE}: {path} is not a file")
