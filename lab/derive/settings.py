"""`--set FIELD=VALUE`: fields of a topology that the user wants otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from lab.errors import TopologyError
from lab.release.cluster import yamltext
from lab.topology import Topology

_PATH = re.compile(r"[a-z_0-9]+(\[\d+\])*(\.[a-z_0-9]+(\[\d+\])*)*")


def changed(shape: Topology, settings: Iterable[str]) -> Topology:
    """The topology with these fields changed, for example `nodes[0].memory_mib=8192`; values are YAML.

    Raises TopologyError, whose source is the setting.
    """
    document = msgspec.to_builtins(shape)
    for setting in settings:
        source = f"--set {setting}"
        path, equals, text = setting.partition("=")
        if not equals or not _PATH.fullmatch(path):
            raise TopologyError(source, "want FIELD=VALUE, for example nodes[0].memory_mib=8192")
        try:
            value = yamltext.load(text)
        except yaml.YAMLError as error:
            raise TopologyError(source, str(error)) from error
        _put(document, path, value, source)
        try:
            shape = msgspec.convert(document, Topology)
        except (msgspec.ValidationError, ValueError) as error:
            raise TopologyError(source, str(error)) from error
    return shape


def _put(document: Any, path: str, value: Any, source: str) -> None:
    steps: list[str | int] = [int(step) if step.isdecimal() else step for step in re.findall(r"[a-z_0-9]+", path)]
    here = document
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if isinstance(here, list | tuple) and isinstance(step, int):
            if step >= len(here):
                raise TopologyError(source, f"there is no {path.partition('=')[0]}: {len(here)} are there")
        elif not isinstance(here, dict) or isinstance(step, int):
            raise TopologyError(source, f"{step} is no field there")
        if last:
            here[step] = value
        else:
            here = here.get(step) if isinstance(here, dict) else here[step]
