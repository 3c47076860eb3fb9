"""First stage of `create`: the input files of an asset directory, as they are (reference/installer.md §2.1).

An install-config.yaml on disk counts more than manifests, which would be made from it; else manifests on disk count
more than what earlier commands left in the state.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE
from installer.config.state import AGENT_CONFIG, EXTRA_MANIFESTS, INSTALL_CONFIG, MANIFESTS, MIRROR, State, blamed
from installer.errors import INSTALL_CONFIG_MARKER, AssetError, ConfigError, InstallerError
from installer.inputs import read_input
from installer.manifests import files as names

log = logging.getLogger(__name__)

EXTRA_DIRECTORY = "openshift"


@dataclass(frozen=True)
class InputFiles:
    """The files of a directory by asset, then by path below it; and the state, with what it keeps of earlier commands.

    `from_manifests`: whether cluster-manifests/ is what the image is made from. `stale`: whether kept manifests are
    older than the configs that they were made from.
    """

    state: State
    on_disk: dict[str, dict[str, bytes]] = field(repr=False)
    from_manifests: bool = False
    stale: bool = False

    def of(self, asset: str) -> dict[str, bytes]:
        """An asset's files on disk, where there are none those that are kept. Raises StateError."""
        return self.on_disk.get(asset) or self.state.files(asset)

    def blamed(self, *assets: str) -> contextlib.AbstractContextManager[None]:
        """Errors within the block name the state file, where it has all of these `assets` and the disk has none."""
        return blamed(self.state.path, kept=not any(asset in self.on_disk for asset in assets))


@contextlib.contextmanager
def loading(target: str, label: str = "") -> Iterator[None]:
    """Errors within the block name what was to be made, and the asset `label` that could not be loaded for it."""
    try:
        yield
    except InstallerError as error:
        asset = f': failed to load asset "{label}"' if label else ""
        raise AssetError(f"failed to fetch {target}{asset}", error) from error


def read(directory: Path, target: str, state: State | None = None) -> InputFiles:
    """All input files of a directory; `target` is for messages. Raises ConfigError, AssetError, StateError.

    `state`: the directory's, if it was loaded before.
    """
    if not directory.is_dir():
        raise ConfigError(f"asset directory {directory} does not exist")
    if state is None:
        state = State.load(directory)
    on_disk = {MANIFESTS: read_present(directory, names.MANIFESTS), MIRROR: read_present(directory, names.MIRROR)}
    from_manifests = stale = False
    if not (directory / INSTALL_CONFIG_FILE).exists():
        manifests = on_disk[MANIFESTS] or state.files(MANIFESTS)
        has_configs = (directory / AGENT_CONFIG_FILE).exists() and state.files(INSTALL_CONFIG)
        stale = bool(has_configs) and not on_disk[MANIFESTS]
        from_manifests = bool(manifests) and not stale
    if not from_manifests:
        with loading(target, "Install Config"):
            on_disk[INSTALL_CONFIG] = read_present(directory, (INSTALL_CONFIG_FILE,), f"{INSTALL_CONFIG_MARKER}: ")
        if not on_disk[INSTALL_CONFIG] and not state.files(INSTALL_CONFIG):
            with loading(target, "Install Config"):
                raise _missing(directory)
    with loading(target, "" if from_manifests else "Agent Config"):
        on_disk[AGENT_CONFIG] = read_present(directory, (AGENT_CONFIG_FILE,))
    with loading(target) if from_manifests else contextlib.nullcontext():
        on_disk[EXTRA_MANIFESTS] = _extra_manifests(directory)
    return InputFiles(state, {asset: files for asset, files in on_disk.items() if files}, from_manifests, stale)


def _missing(directory: Path) -> ConfigError:
    """No install-config: users of the first description of this installer had put theirs where now manifests are."""
    folder = names.DIRECTORY
    misplaced = [
        f"{folder}/{name}" for name in (INSTALL_CONFIG_FILE, AGENT_CONFIG_FILE) if (directory / folder / name).exists()
    ]
    hint = f"; {' and '.join(misplaced)} must be moved to {directory} to be read" if misplaced else ""
    path = directory / INSTALL_CONFIG_FILE
    return ConfigError(f"missing configuration or manifest file: {path} does not exist{hint}")


def read_file(directory: Path, name: str, wrap: str = "") -> bytes | None:
    """One file, None if it is not there; `wrap` begins the error. Raises ConfigError."""
    try:
        return read_input(directory / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{wrap}failed to load {name} file: {error.strerror or error}", file=name) from error


def read_present(directory: Path, paths: tuple[str, ...], wrap: str = "") -> dict[str, bytes]:
    """Those of the files that are there. Raises ConfigError."""
    contents = ((path, read_file(directory, path, wrap)) for path in paths)
    return {path: data for path, data in contents if data is not None}


def _extra_manifests(directory: Path) -> dict[str, bytes]:
    try:
        paths = sorted((directory / EXTRA_DIRECTORY).iterdir())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"failed to load {EXTRA_DIRECTORY}: {error.strerror or error}", file=EXTRA_DIRECTORY
        ) from error
    contents = {}
    for path in paths:
        name = f"{EXTRA_DIRECTORY}/{path.name}"
        if path.suffix in (".yaml", ".yml"):
            data = read_file(directory, name)
            if data is None:
                raise ConfigError(f"failed to load {name} file: it is a link that leads nowhere", file=name)
            contents[name] = data
        elif not path.name.startswith("."):
            log.warning("%s is ignored: extra manifests end in .yaml or .yml", name)
    return contents
