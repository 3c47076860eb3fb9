"""`--set FIELD=VALUE`: fields of a topology that the user changes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from lab import topology
from lab.errors import TopologyError
from lab.release.cluster import yamltext
from lab.topology import Topology, written

#: Lists, and the fields for a single value that they replace.
_REPLACED_BY_LIST = {
    "nics": ("mac",),
    "disks": ("disk_gib",),
    "networks": ("machine_network", "address", "aliases", "addressing"),
    "api_vips": ("api_vip",),
    "ingress_vips": ("ingress_vip",),
}
_PATH = re.compile(r"[a-z_0-9]+(\[\d+\])*(\.[a-z_0-9]+(\[\d+\])*)*")


def changed(shape: Topology, settings: Iterable[str]) -> Topology:
    """Return the topology with these fields changed, for example `nodes[0].memory_mib=8192`; values are YAML.

    Raises TopologyError, whose source is the setting.
    """
    for setting in settings:
        document = written(shape)
        source = f"--set {setting}"
        path, equals, text = setting.partition("=")
        if not equals or not _PATH.fullmatch(path):
            raise TopologyError(source, "want FIELD=VALUE, for example nodes[0].memory_mib=8192")
        try:
            value = yamltext.load_once(text)
        except yaml.YAMLError as error:
            raise TopologyError(source, str(error)) from error
        _put(document, path, value, source)
        shape = topology.read(document, source)
    return shape


def _put(document: Any, path: str, value: Any, source: str) -> None:
    steps: list[str | int] = [int(step) if step.isdecimal() else step for step in re.findall(r"[a-z_0-9]+", path)]
    container = document
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        walked = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in steps[:number])[1:]
        if isinstance(container, list | tuple) and isinstance(step, int):
            if step >= len(container):
                folder = walked[: walked.rfind(".") + 1]
                single = () if container else _REPLACED_BY_LIST.get(str(steps[number - 1]), ())
                names = " or ".join([*(folder + name for name in single), f"all of {walked}"])
                rule = f"there is no {walked}[{step}]: {walked} has {len(container)} entries; set {names}"
                raise TopologyError(source, rule)
        elif not isinstance(container, dict) or isinstance(step, int):
            raise TopologyError(source, f"{walked or 'a topology'} has no field {step}")
        if last:
            container[step] = value
            for name in _REPLACED_BY_LIST.get(str(step), ()) if value else ():
                container.pop(name, None)
        else:
            container = container.get(step) if isinstance(container, dict) else container[step]
