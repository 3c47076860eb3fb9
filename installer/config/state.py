"""What an asset directory remembers between commands: .openshift_install_state.json (reference/installer.md §2.2).

Keys are the names of upstream's assets where there is such an asset, since scripts read tokens with
`jq '."*gencrypto.AuthConfig".WatcherAuthToken'`; what only node0 has is under `*node0.<Name>`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from installer import jsontext
from installer.errors import StateError
from installer.inputs import LARGEST_STATE, read_input
from installer.partial import write_whole

FILE = ".openshift_install_state.json"

INSTALL_CONFIG = "*agent.OptionalInstallConfig"
AGENT_CONFIG = "*agentconfig.AgentConfig"
EXTRA_MANIFESTS = "*manifests.ExtraManifests"
AUTH = "*gencrypto.AuthConfig"
CREDENTIALS = "*node0.Credentials"
# What wait-for needs to know.
OWN = "node0"


class State:
    """The state of one asset directory, in memory until `save`."""

    def __init__(self, directory: Path, data: dict[str, Any]) -> None:
        self.path = directory / FILE
        self.data = data

    @classmethod
    def load(cls, directory: Path) -> State:
        """The saved state, empty if there is none; StateError if it cannot be used."""
        path = directory / FILE
        try:
            data = jsontext.loads(read_input(path, LARGEST_STATE))
        except FileNotFoundError:
            data = {}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise StateError(f"failed to load state file {path}: {reason}") from error
        if not isinstance(data, dict):
            raise StateError(f"failed to load state file {path}: not a JSON object")
        return cls(directory, data)

    def get(self, name: str) -> dict[str, Any]:
        """One asset's fields, empty if it was never generated."""
        found = self.data.get(name)
        return dict(found) if isinstance(found, dict) else {}

    def put(self, name: str, fields: dict[str, Any]) -> None:
        """Replace one asset's fields."""
        self.data[name] = fields

    def files(self, name: str) -> dict[str, bytes]:
        """The files that an asset consumed, by their path below the asset directory."""
        try:
            return {
                str(file["Filename"]): base64.b64decode(file["Data"], validate=True)
                for file in self.get(name).get("Files", [])
            }
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"failed to load state file {self.path}: damaged files of {name}: {error}") from error

    def put_files(self, name: str, files: dict[str, bytes]) -> None:
        """Keep the files that an asset consumed."""
        entries = [{"Filename": path, "Data": base64.b64encode(data).decode()} for path, data in sorted(files.items())]
        self.put(name, {**self.get(name), "Files": entries})

    def text(self) -> str:
        """The state as it is saved."""
        return json.dumps(self.data, indent=4) + "\n"

    def save(self) -> None:
        """Write the state, whole or not at all, readable by its owner only: it holds tokens and the pull secret."""
        write_private(self.path, self.text().encode())


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, with `mode` from its first byte on; StateError."""
    try:
        write_whole(path, data, mode)
    except OSError as error:
        raise StateError(f"failed to write {path}: {error.strerror or error}") from error
