"""The memory of an asset directory between commands: .openshift_install_state.json (reference/installer.md §2.2).

Keys are the names of upstream's assets where there is such an asset, since scripts read tokens with
`jq '."*gencrypto.AuthConfig".WatcherAuthToken'`; what only node0 has is under `*node0.<Name>`.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from installer.common.formats import jsontext
from installer.common.inputs import LARGEST_STATE, read_input
from installer.errors import InstallerError, StateError
from installer.files import write_asset

FILE = ".openshift_install_state.json"

INSTALL_CONFIG = "*agent.OptionalInstallConfig"
AGENT_CONFIG = "*agentconfig.AgentConfig"
EXTRA_MANIFESTS = "*manifests.ExtraManifests"
MANIFESTS = "*manifests.AgentManifests"
MIRROR = "*mirror.RegistriesConf"
# Of `node0 create`: what the payload's own installer keeps for itself, and the manifests that it read.
INSTALLER = "*node0.Installer"
USER_MANIFESTS = "*manifests.Manifests"
OPENSHIFT_MANIFESTS = "*manifests.Openshift"
AUTH = "*gencrypto.AuthConfig"
CREDENTIALS = "*node0.Credentials"
# The part that wait-for reads.
OWN = "node0"

# The names that each asset's files may have; a folder stands for all files in it.
FILES = {
    INSTALL_CONFIG: ("install-config.yaml",),
    AGENT_CONFIG: ("agent-config.yaml",),
    EXTRA_MANIFESTS: ("openshift/",),
    MANIFESTS: ("cluster-manifests/",),
    MIRROR: ("mirror/",),
    INSTALLER: (".openshift_install_state.json", "tls/", "auth/"),
    USER_MANIFESTS: ("manifests/",),
    OPENSHIFT_MANIFESTS: ("openshift/",),
}
# What openshift-install keeps of the two configs (case counts for nothing in Go). node0 does not use it, but reports it
# as damaged where openshift-install could not read it.
_GO_OBJECTS = frozenset({"config", "file"})
WHAT_TO_DO = "restore it from a copy, or begin anew in an empty directory, with your configs"


class State:
    """The state of one asset directory, in memory until `save`."""

    def __init__(self, directory: Path, data: dict[str, Any]) -> None:
        self.path = directory / FILE
        self.data = data

    @classmethod
    def load(cls, directory: Path) -> State:
        """Return the saved state, empty if there is none; StateError if it cannot be used."""
        path = directory / FILE
        try:
            data = jsontext.loads(read_input(path, LARGEST_STATE))
        except FileNotFoundError:
            data = {}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise damaged(path, str(reason)) from error
        if data is None:  # Go reads `null` as an empty map
            data = {}
        if not isinstance(data, dict):
            raise damaged(path, "not a JSON object")
        for name in (*FILES, AUTH, CREDENTIALS, OWN):
            if not isinstance(data.get(name, {}), dict):
                raise damaged(path, f"{name} is not a JSON object")
        for name in (INSTALL_CONFIG, AGENT_CONFIG):
            for key, value in data.get(name, {}).items():
                if key.lower() in _GO_OBJECTS and not isinstance(value, dict | None):
                    raise damaged(path, f"{name}.{key} is not a JSON object")
        return cls(directory, data)

    def get(self, name: str) -> dict[str, Any]:
        """One asset's fields, empty if it was never generated. Raises StateError."""
        fields = self.data.get(name, {})
        if not isinstance(fields, dict):
            raise damaged(self.path, f"{name} is not a JSON object")
        return dict(fields)

    @property
    def has_secrets(self) -> bool:
        """Return whether there are secrets, so that none are to be made. Raises StateError."""
        return bool(self.get(CREDENTIALS) or self.get(AUTH))

    def put(self, name: str, fields: dict[str, Any]) -> None:
        """Replace one asset's fields."""
        self.data[name] = fields

    def files(self, name: str) -> dict[str, bytes]:
        """Return the files that an asset consumed, by their path below the asset directory. Raises StateError."""
        entries = self.get(name).get("Files", [])
        if not isinstance(entries, list):
            raise damaged(self.path, f"{name}.Files is not a list")
        contents: dict[str, bytes] = {}
        for number, entry in enumerate(entries):
            what = f"{name}.Files[{number}]"
            path, data = (entry.get(key) if isinstance(entry, dict) else None for key in ("Filename", "Data"))
            if not isinstance(path, str) or path in contents or not _may_have(name, path):
                raise damaged(self.path, f"{what}.Filename is not the name of a file that is kept there")
            if not isinstance(data, str):
                raise damaged(self.path, f"{what}.Data is not a text")
            try:
                contents[path] = base64.b64decode(data, validate=True)
            except ValueError as error:
                raise damaged(self.path, f"{what}.Data is not base64: {error}") from error
        return contents

    def put_files(self, name: str, files: dict[str, bytes]) -> None:
        """Keep the files that an asset consumed."""
        entries = [{"Filename": path, "Data": base64.b64encode(data).decode()} for path, data in sorted(files.items())]
        self.put(name, {**self.get(name), "Files": entries})

    def text(self) -> str:
        """Return the state as it is saved."""
        return json.dumps(self.data, indent=4) + "\n"

    def save(self) -> None:
        """Write the state, whole or not at all, readable by its owner only: it holds tokens and the pull secret."""
        write_asset(self.path, self.text().encode())


def damaged(path: Path, reason: str) -> StateError:
    """Return the error of a state file that cannot be used; it says what to do."""
    return StateError(f"failed to load state file {path}: {reason}: {WHAT_TO_DO}")


@contextlib.contextmanager
def blaming_state(path: Path, kept: bool) -> Iterator[None]:
    """Errors within the block name the state file at `path`, if it has `kept` their input, and say what to do."""
    try:
        yield
    except InstallerError as error:
        if not kept:
            raise
        wrapped = StateError(f"{error} (as kept in {path}: {WHAT_TO_DO})")
        wrapped.exit_code = error.exit_code
        raise wrapped from error


def _may_have(asset: str, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return bool(name) and any(known in (path, f"{folder}/") for known in FILES[asset])
