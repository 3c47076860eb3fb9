"""Kernel arguments of a live ISO, edited: appended, replaced, deleted (swagger: kernel_argument)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from installer.errors import ConfigError

#: One argument; blanks within quotes belong to it.
ARGUMENT = re.compile(r'(?:[^\s"]|"[^"]*")+')
#: Arguments without which the image would not find its root or its configuration.
NEEDED = ("coreos.liveiso", "coreos.live.rootfs_url", "ignition.firstboot", "ignition.platform.id")


def name_of(argument: str) -> str:
    """Return an argument's name: what is before the first ``=``."""
    return argument.partition("=")[0]


def edited(text: str, operations: Sequence[Mapping[str, str]]) -> str:
    """``text`` after each {operation, value} in turn. Raises ConfigError for one that cannot be done.

    ``append`` adds; ``replace`` puts NAME=VALUE in the place of the first argument of that name, and takes out others;
    ``delete`` takes out every argument that is the value, or, for a value without ``=``, has it as its name.
    """
    arguments = ARGUMENT.findall(text)
    for item in operations:
        operation, value = item["operation"], item["value"]
        if operation == "append":
            arguments.append(value)
            continue
        name = name_of(value)
        if name in NEEDED:
            raise ConfigError(f"kernel argument {value} cannot be {operation}d: the image needs its own {name}")
        whole = operation == "delete" and "=" in value
        hit = [
            at for at, argument in enumerate(arguments) if (argument == value if whole else name_of(argument) == name)
        ]
        if not hit:
            raise ConfigError(f"kernel argument {value} cannot be {operation}d: the image has {' '.join(arguments)}")
        if operation == "replace":
            arguments[hit.pop(0)] = value
        arguments = [argument for at, argument in enumerate(arguments) if at not in hit]
    return " ".join(arguments)
