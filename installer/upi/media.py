"""The live ISO of the release that a directory installs: what machines boot to install themselves."""

from __future__ import annotations

import logging
from pathlib import Path

from installer.config.load import INSTALL_CONFIG_FILE, decoded_text, parse_install_config
from installer.config.state import INSTALL_CONFIG, State
from installer.create.stages.read import read_present
from installer.create.stages.resolve import architecture, opened_release
from installer.errors import StateError
from installer.files import Partial
from installer.image.copy import IMAGE_MODE, clone
from installer.release.base_iso import base_iso

log = logging.getLogger(__name__)


def fetch(directory: Path, output: Path) -> None:
    """Write the live ISO of the release, reached by the directory's install-config, or by that which was consumed.

    Raises InstallerError.
    """
    state = State.load(directory)
    files = read_present(directory, (INSTALL_CONFIG_FILE,)) or state.files(INSTALL_CONFIG)
    if not files:
        raise StateError(f"{directory} has no {INSTALL_CONFIG_FILE}, and none was consumed: it has the pull secret")
    install = parse_install_config(decoded_text(files[INSTALL_CONFIG_FILE], INSTALL_CONFIG_FILE))
    with opened_release(install, "Base ISO Image") as release:
        source = base_iso(release, architecture(install))
    try:
        partial = Partial(output, IMAGE_MODE)
        try:
            with source.open("rb") as file:
                clone(file.fileno(), partial.fd)
            partial.commit()
        finally:
            partial.discard()
    except OSError as error:
        raise StateError(f"failed to write {output}: {error.strerror or error}") from error
    log.info("Live ISO of the release written to %s", output)
