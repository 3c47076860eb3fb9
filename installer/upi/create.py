"""`node0 create`: what the payload's own installer makes of install-config.yaml, as files in the asset directory.

The program runs on a private directory, into which the inputs are copied and from which the results are taken, so a run
that fails changes nothing. What it made for itself (its state, certificates) is kept in our state between a `create
manifests` and the `create ignition-configs` that follows, as openshift-install keeps it in its own
(reference/upi.md §1).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from installer.common.secretfiles import private_directory, write_private
from installer.config.fielderror import FieldError, invalid, raise_if_any, required
from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE, decoded_text, parse_install_config
from installer.config.state import (
    AUTH,
    INSTALL_CONFIG,
    INSTALLER,
    OPENSHIFT_MANIFESTS,
    OWN,
    USER_MANIFESTS,
    State,
    blaming_state,
)
from installer.config.types.install import InstallConfig
from installer.create.outputs import Outputs
from installer.create.stages.read import loading, read_present, same_install_config
from installer.create.stages.resolve import opened_release
from installer.create.stages.write import save
from installer.create.targets import created_in
from installer.errors import INSTALL_CONFIG_MARKER, AssetError, ConfigError, ProgramFailed, StateError
from installer.overrides import RELEASE_OVERRIDE
from installer.release import programs
from installer.release.image_cache import files_folder
from installer.upi import certificates
from installer.upi.templates import INSTALL_CONFIG_TEMPLATE

log = logging.getLogger(__name__)

MADE = "manifestsMade"
FOLDERS = {USER_MANIFESTS: "manifests", OPENSHIFT_MANIFESTS: "openshift"}
LABELS = {USER_MANIFESTS: "Common Manifests", OPENSHIFT_MANIFESTS: "Openshift Manifests"}
IN_PLACE = "single-node-ignition-config"
#: The asset that openshift-install's errors name: the first that a target is made of.
ASSETS = {
    "manifests": "Master Machines",
    "ignition-configs": "Kubeconfig Admin Client",
    IN_PLACE: "Kubeconfig Admin Client",
}
#: What the program keeps between two of its runs.
_KEPT = (".openshift_install_state.json", "tls/", "auth/")
_LOG = ".openshift_install.log"


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Inputs of a target. `manifests`: by path, those on disk, else the consumed ones; `on_disk`: those that are
    consumed now, by asset. `kept`: the program's own files of an earlier run, none where all is made anew."""

    install: InstallConfig
    text: bytes = field(repr=False)
    manifests: dict[str, bytes] = field(repr=False)
    on_disk: dict[str, dict[str, bytes]] = field(repr=False)
    kept: dict[str, bytes] = field(repr=False)


def create(target: str, directory: Path) -> None:
    """Make one target. Raises InstallerError, and leaves the directory as it was then."""
    if target == "install-config":
        _install_config(directory)
        return
    state = State.load(directory)
    if state.get(AUTH) or (directory / AGENT_CONFIG_FILE).exists():
        what = AGENT_CONFIG_FILE if (directory / AGENT_CONFIG_FILE).exists() else "the state of `agent create`"
        raise StateError(
            f"{directory} holds {what}: hosts that install themselves get theirs from `node0 agent create image`; for "
            f"`node0 create {target}` begin with install-config.yaml alone in a directory of its own"
        )
    inputs = _read(target, directory, state)
    made, generated = _made(target, inputs)
    state.put(OWN, own_state(inputs.install) | {MADE: state.get(OWN).get(MADE) if generated is None else generated})
    _deliver(target, state, inputs, made)


def _install_config(directory: Path) -> None:
    path = directory / INSTALL_CONFIG_FILE
    if os.path.lexists(path):
        raise StateError(f"failed to write {path}: there is one already, which is not overwritten; move it away first")
    with Outputs(directory) as outputs:
        outputs.put(INSTALL_CONFIG_FILE, INSTALL_CONFIG_TEMPLATE.encode())
        outputs.commit()
    log.info("%s", created_in("install-config", directory, [INSTALL_CONFIG_FILE]))


def _read(target: str, directory: Path, state: State) -> Inputs:
    wrap = ASSETS[target]
    with loading(wrap, "Install Config"):
        new = read_present(directory, (INSTALL_CONFIG_FILE,), f"{INSTALL_CONFIG_MARKER}: ")
    kept = state.files(INSTALL_CONFIG)
    files = new or kept
    with loading(wrap, "Install Config"), blaming_state(state.path, kept=not new):
        if not files:
            raise ConfigError(
                f"{INSTALL_CONFIG_MARKER}: {directory / INSTALL_CONFIG_FILE} does not exist; `node0 create "
                "install-config` writes a sample"
            )
        data = files[INSTALL_CONFIG_FILE]
        install = parse_install_config(decoded_text(data, INSTALL_CONFIG_FILE, f"{INSTALL_CONFIG_MARKER}: "))
        if target == IN_PLACE:
            raise_if_any("invalid install-config configuration", _in_place_problems(install), INSTALL_CONFIG_FILE)
    if new:
        log.info("Consuming Install Config from target directory")
    changed = bool(new) and not same_install_config(new, kept)
    on_disk = {asset: _folder(directory, name, wrap) for asset, name in FOLDERS.items()}
    if changed and kept:
        _discard(state, on_disk)
    for asset, found in on_disk.items():
        if found:
            log.info("Consuming %s from target directory", LABELS[asset])
    manifests: dict[str, bytes] = {}
    for asset, found in on_disk.items():
        manifests |= found or ({} if changed else state.files(asset))
    kept_by_program = {} if changed else state.files(INSTALLER)
    return Inputs(install=install, text=data, manifests=manifests, on_disk=on_disk, kept=kept_by_program)


def _in_place_problems(install: InstallConfig) -> list[FieldError]:
    """Return what bootstrapping in place needs besides (openshift/installer,
    pkg/asset/ignition/bootstrap/bootstrap_in_place.go)."""
    problems = []
    if install.masters != 1:
        text = "bootstrap in place requires a single ControlPlane replica"
        problems.append(invalid("controlPlane.replicas", install.masters, text))
    if install.bootstrap_in_place is None:
        text = "bootstrapInPlace is required when creating a single node bootstrap-in-place ignition"
        problems.append(required("bootstrapInPlace", text))
    elif not install.bootstrap_in_place.installation_disk:
        text = "installationDisk must be set the target disk drive for the installation"
        problems.append(required("bootstrapInPlace.installationDisk", text))
    return problems


def _folder(directory: Path, name: str, wrap: str) -> dict[str, bytes]:
    """Return the manifests in a folder of the asset directory, by path. Raises AssetError."""
    folder = directory / name
    with loading(wrap, name):
        try:
            paths = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"failed to load {name}: {error.strerror or error}", file=name) from error
        return read_present(directory, tuple(f"{name}/{path.name}" for path in paths))


def _discard(state: State, on_disk: dict[str, dict[str, bytes]]) -> None:
    """Leave out what was made of another install-config, and warn: the user's own manifests stay."""
    made = state.get(OWN).get(MADE)
    names = set(made) if isinstance(made, list) else set()
    for asset, files in on_disk.items():
        stale = names & files.keys()
        if stale:
            log.warning(
                "Discarding the %s that was provided in the target directory because its dependencies are dirty and it "
                "needs to be regenerated",
                LABELS[asset],
            )
        on_disk[asset] = {path: data for path, data in files.items() if path not in stale}


def _made(target: str, inputs: Inputs) -> tuple[dict[str, bytes], list[str] | None]:
    """Run the payload's program. Return all files that it left, by path, and what it made as manifests, None where
    those of an earlier run are used. Raises AssetError."""
    with opened_release(inputs.install, ASSETS[target]) as release:
        image = release.image_for("installer")
        folder = files_folder(image) / "programs"
        with (
            programs.installer(folder, image, lambda dest: release.extract(image, programs.BINARY, dest)) as binary,
            private_directory("node0-create-") as work,
        ):
            # The program may be one for the Python that this one runs on.
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
            env = programs.environment(os.environ) | {"PATH": path, RELEASE_OVERRIDE: release.pullspec}
            write_private(work / INSTALL_CONFIG_FILE, inputs.text)
            for name, data in inputs.kept.items():
                write_private(work / name, data)
            try:
                if not inputs.kept:
                    programs.run(binary, ["create", "manifests"], work, env)
                generated = _files(work).keys() if not inputs.kept else None
                for name, data in inputs.manifests.items():
                    write_private(work / name, data)
                if target != "manifests":
                    programs.run(binary, ["create", target], work, env)
            except ProgramFailed as error:
                raise AssetError(f"failed to fetch {ASSETS[target]}", error) from error
            return _files(work), None if generated is None else sorted(generated)


def _files(work: Path) -> dict[str, bytes]:
    paths = (path for path in work.rglob("*") if path.is_file() and path.name != _LOG)
    return {path.relative_to(work).as_posix(): path.read_bytes() for path in sorted(paths)}


def own_state(install: InstallConfig) -> dict[str, Any]:
    """Return the part of the state that `wait-for` reads."""
    return {
        "clusterName": install.metadata.name,
        "baseDomain": install.base_domain.rstrip("."),
        "platform": install.platform.name,
        "expectedHosts": {
            "controlPlane": install.masters,
            "arbiters": install.arbiters,
            "workers": install.workers,
        },
    }


def _deliver(target: str, state: State, inputs: Inputs, made: Mapping[str, bytes]) -> None:
    directory = state.path.parent
    is_manifest = tuple(f"{name}/" for name in FOLDERS.values())
    own = {name: data for name, data in made.items() if name in _KEPT or name.startswith(_KEPT[1:])}
    if target == "manifests":
        results = {name: data for name, data in made.items() if name.startswith(is_manifest)}
    else:
        results = {
            name: data
            for name, data in made.items()
            if name not in (INSTALL_CONFIG_FILE, _KEPT[0]) and not name.startswith((*is_manifest, "tls/"))
        }
    state.put_files(INSTALL_CONFIG, {INSTALL_CONFIG_FILE: inputs.text})
    state.put_files(INSTALLER, own)
    for asset, folder in FOLDERS.items():
        used = {name: data for name, data in made.items() if name.startswith(f"{folder}/")}
        used |= {name: data for name, data in inputs.manifests.items() if name.startswith(f"{folder}/")}
        state.put_files(asset, used)
    with Outputs(directory) as outputs:
        for name, data in results.items():
            outputs.put(name, data, 0o644 if name == "metadata.json" else 0o600)
        outputs.remove(INSTALL_CONFIG_FILE)
        if target != "manifests":
            for files in inputs.on_disk.values():
                outputs.remove(*files)
        save(outputs, state)
    shown = [name for name in results if name.startswith((*is_manifest, "auth/")) or name.endswith(".ign")]
    log.info("%s", created_in(target, directory, shown))
    if target != "manifests":
        certificates.warn(results)
