"""The asset directory: inputs that are consumed, outputs that are all written or none, and the state file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from installer.errors import StateError

STATE_FILE = ".openshift_install_state.json"
LOG_FILE = ".openshift_install.log"
# Our part of the state; the other keys are asset names, as OpenShift's installer has them.
OWN_KEY = "node0"


def read_state(directory: Path) -> dict[str, Any]:
    """The state file as an object, empty when there is none. Raises StateError when it is damaged."""
    path = directory / STATE_FILE
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StateError(f"{path}: the state file cannot be read: {error}") from error
    if not isinstance(state, dict):
        raise StateError(f"{path}: the state file is not a JSON object")
    return state


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write_outputs(directory: Path, outputs: Mapping[str, bytes], state: Mapping[str, Any]) -> None:
    """Write all outputs, then the state: a state file means that everything it speaks of is there."""
    for name, content in outputs.items():
        write_private(directory / name, content)
    write_private(directory / STATE_FILE, json.dumps(state, indent=1).encode() + b"\n")
