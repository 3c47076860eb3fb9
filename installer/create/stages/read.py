"""First stage of `create`: the input files of an asset directory, as they are (reference/installer.md §2.1).

What was made of a file is made again once the file differs from the one that the state keeps: of an
install-config.yaml all manifests and mirror/, of an agent-config.yaml the three manifests that depend on it.
Else manifests on disk count more than what earlier commands left in the state, or than what the configs there give.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from installer.common.formats import YamlError
from installer.common.formats.yamltext import load
from installer.common.inputs import read_input
from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE
from installer.config.state import (
    AGENT_CONFIG,
    EXTRA_MANIFESTS,
    INSTALL_CONFIG,
    MANIFESTS,
    MIRROR,
    State,
    blaming_state,
)
from installer.config.state import FILE as STATE_FILE
from installer.errors import INSTALL_CONFIG_MARKER, AssetError, ConfigError, InstallerError
from installer.manifests import files as names

log = logging.getLogger(__name__)

EXTRA_DIRECTORY = "openshift"


@dataclass(frozen=True, kw_only=True)
class InputFiles:
    """The files of a directory by asset, then by path below it; and the state, with what it keeps of earlier commands.

    `manifests`: those of cluster-manifests/ that count, on disk or kept. `from_manifests`: whether the image is made
    from them; else they take the place of what the configs give. `discarded`: files on disk that newer configs replace.
    `install_changed`: whether the install-config is new or was changed.
    """

    state: State
    on_disk: dict[str, dict[str, bytes]] = field(repr=False)
    manifests: dict[str, bytes] = field(default_factory=dict, repr=False)
    from_manifests: bool = False
    discarded: tuple[str, ...] = ()
    install_changed: bool = False

    def of(self, asset: str) -> dict[str, bytes]:
        """Return an asset's files on disk, where there are none those that are kept. Raises StateError."""
        return self.on_disk.get(asset) or self.state.files(asset)

    def blaming_state(self, *assets: str) -> contextlib.AbstractContextManager[None]:
        """Errors within the block name the state file, where it has all of these `assets` and the disk has none."""
        return blaming_state(self.state.path, kept=not any(asset in self.on_disk for asset in assets))


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
    _note_unread(directory)
    on_disk: dict[str, dict[str, bytes]] = {}
    with loading(target, "Install Config"):
        on_disk[INSTALL_CONFIG] = read_present(directory, (INSTALL_CONFIG_FILE,), f"{INSTALL_CONFIG_MARKER}: ")
    with loading(target, "Agent Config"):
        on_disk[AGENT_CONFIG] = read_present(directory, (AGENT_CONFIG_FILE,))
    for asset, paths in ((MANIFESTS, names.MANIFESTS), (MIRROR, names.MIRROR)):
        on_disk[asset] = read_manifests(directory, target, paths)
    installs, agents = on_disk[INSTALL_CONFIG], on_disk[AGENT_CONFIG]
    install_changed = bool(installs) and not same_install_config(installs, state.files(INSTALL_CONFIG))
    agent_changed = bool(agents and state.files(INSTALL_CONFIG)) and agents != state.files(AGENT_CONFIG)
    manifests, discarded = _effective_manifests(
        on_disk, state, install_changed=install_changed, agent_changed=agent_changed
    )
    # Where those that depend on an agent-config are missing, the rest are edited manifests that were used beside
    # configs.
    alone = not state.files(INSTALL_CONFIG) or any(name in manifests for name in names.OF_AGENT_CONFIG)
    from_manifests = bool(manifests) and alone and not (install_changed or agent_changed)
    if not (from_manifests or installs or state.files(INSTALL_CONFIG)):
        with loading(target, "Install Config"):
            raise _missing(directory)
    with loading(target) if from_manifests else contextlib.nullcontext():
        on_disk[EXTRA_MANIFESTS] = _extra_manifests(directory)
    assets = {asset: files for asset, files in on_disk.items() if files}
    return InputFiles(
        state=state,
        on_disk=assets,
        manifests=manifests,
        from_manifests=from_manifests,
        discarded=discarded,
        install_changed=install_changed,
    )


def _effective_manifests(
    on_disk: dict[str, dict[str, bytes]], state: State, *, install_changed: bool, agent_changed: bool
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the manifests that count, and the files on disk that a changed config invalidates."""
    if install_changed:
        return {}, (*on_disk[MANIFESTS], *on_disk[MIRROR])
    manifests = {**state.files(MANIFESTS), **on_disk[MANIFESTS]}
    if not agent_changed:
        return manifests, ()
    remaining = {name: data for name, data in manifests.items() if name not in names.OF_AGENT_CONFIG}
    return remaining, tuple(name for name in on_disk[MANIFESTS] if name not in remaining)


def same_install_config(new: dict[str, bytes], kept: dict[str, bytes]) -> bool:
    """Return whether an install-config says the same as the kept one; its style does not count."""
    if not kept or new == kept:
        return bool(kept)
    try:
        return bool(load(new[INSTALL_CONFIG_FILE]) == load(kept[INSTALL_CONFIG_FILE]))
    except YamlError:
        return False


def _missing(directory: Path) -> ConfigError:
    """No install-config was found: early documentation of this installer had users put it where manifests are now."""
    folder = names.DIRECTORY
    misplaced = [
        f"{folder}/{name}" for name in (INSTALL_CONFIG_FILE, AGENT_CONFIG_FILE) if (directory / folder / name).exists()
    ]
    path = directory / INSTALL_CONFIG_FILE
    if misplaced:
        belong = "belongs" if len(misplaced) == 1 else "belong"
        return ConfigError(
            f"missing configuration or manifest file: {' and '.join(misplaced)} {belong} into the asset directory "
            f"itself, not into {folder}/, which is for manifests: {_move(directory, misplaced)}"
        )
    return ConfigError(f"missing configuration or manifest file: {path} does not exist")


def _move(directory: Path, files: Sequence[str]) -> str:
    """Return the command that moves these into the asset directory itself."""
    return shlex.join(["mv", *(str(directory / name) for name in files), f"{directory}/"])


def _note_unread(directory: Path) -> None:
    """Warn of files that look like inputs and are none, by their names or their places."""
    known = {INSTALL_CONFIG_FILE, AGENT_CONFIG_FILE, *names.MANIFESTS, *names.MIRROR}
    by_stem = {Path(name).with_suffix(""): name for name in known}
    for pattern in ("*.yml", f"{names.DIRECTORY}/*", f"{names.MIRROR_DIRECTORY}/*", "manifests/*.y*ml"):
        for path in sorted(directory.glob(pattern)):
            name = path.relative_to(directory)
            meant = by_stem.get(name.with_suffix(""))
            if str(name) in known or name.name.startswith(".") or (len(name.parts) == 1 and not meant):
                continue
            why = f"manifests for the cluster are read from {EXTRA_DIRECTORY}/"
            if name.name in (INSTALL_CONFIG_FILE, AGENT_CONFIG_FILE):
                others = (INSTALL_CONFIG_FILE, STATE_FILE, *names.MANIFESTS)
                if not any((directory / other).exists() for other in others):
                    continue  # the error says it
                why = f"it belongs into the asset directory itself: {_move(directory, [str(name)])}"
                if (directory / name.name).exists():
                    why = f"the {name.name} in the asset directory itself is read"
            elif meant:
                why = f"it would be read as {meant}"
            elif name.parts[0] == names.MIRROR_DIRECTORY:
                why = f"only {' and '.join(names.MIRROR)} are read"
            log.warning("%s is ignored: %s", name, why)


def read_file(directory: Path, name: str, wrap: str = "") -> bytes | None:
    """One file, None if it is not there; `wrap` begins the error. Raises ConfigError."""
    try:
        return read_input(directory / name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{wrap}failed to load {name} file: {error.strerror or error}", file=name) from error


def read_present(directory: Path, paths: tuple[str, ...], wrap: str = "") -> dict[str, bytes]:
    """Return the files that are there. Raises ConfigError."""
    contents = ((path, read_file(directory, path, wrap)) for path in paths)
    return {path: data for path, data in contents if data is not None}


def read_manifests(
    directory: Path, target: str, paths: tuple[str, ...], assets: Mapping[str, str] = names.ASSETS
) -> dict[str, bytes]:
    """Return the files of cluster-manifests/ and mirror/ that are there. Raises AssetError, for the first that cannot
    be read: `assets` has their order, and what they are called."""
    contents: dict[str, bytes] = {}
    for path in sorted(paths, key=[*assets].index):
        with loading(target, assets[path]):
            contents |= read_present(directory, (path,))
    return contents


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
            why = "folders are not looked into" if path.is_dir() else "extra manifests end in .yaml or .yml"
            log.warning("%s is ignored: %s", name, why)
    return contents
