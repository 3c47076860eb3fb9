"""Labs for inputs as `node0-lab deploy` derives them, with `node0 agent show inputs` in the test's own process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from installer.create.show import described
from lab.derive import AGENT, INSTALL, derive
from lab.derive.inputs import decoded
from lab.topology import Topology

Config = str | Mapping[str, Any]


def lab_of(directory: Path, changes: Mapping[str, Any] | None = None, **options: Any) -> Topology:
    """Derive the lab for the inputs in a directory, with these changes to their description."""
    return derive(decoded(json.dumps(described(directory) | dict(changes or {}))), **options)


def lab_for(install: Config, agent: Config, **options: Any) -> Topology:
    """Derive the lab for these two files, given as text or as data."""
    with TemporaryDirectory() as folder:
        for name, config in ((INSTALL, install), (AGENT, agent)):
            text = config if isinstance(config, str) else yaml.dump(dict(config), Dumper=yaml.CSafeDumper)
            (Path(folder) / name).write_text(text)
        return lab_of(Path(folder), **options)
