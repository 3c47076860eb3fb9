"""`node0 nmstate gc`: an nmstate document in, its keyfiles out, as `nmstatectl gc` prints them or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import yaml

from installer.common.inputs import read_input, read_stream
from installer.errors import EXIT_FATAL, NetworkConfigError
from installer.network.document import load
from installer.network.errors import InvalidNetworkConfig
from installer.network.generate import keyfiles

STDIN = "standard input"

log = logging.getLogger(__name__)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a literal block, so that a keyfile can be read in the output."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def run_gc(file: str | None, output: str) -> int:
    """Read `file` (None or - is standard input) and prints its keyfiles; returns the exit code.

    `output` is text (YAML: a list of [file name, text] under NetworkManager) or json ({file name: text}). A refused
    document gives one line a problem on stderr, in json also {"errors": [{path, value, rule}]} on stdout, and code 1.
    """
    name = STDIN if file in (None, "-") else str(file)
    try:
        files = keyfiles(load(_read(file)))
    except OSError as err:
        return _fail(name, [{"path": "", "value": "", "rule": f"cannot be read: {err.strerror or err}"}], output)
    except InvalidNetworkConfig as err:
        problems = [{"path": problem.path, "value": problem.value, "rule": problem.rule} for problem in err.problems]
        return _fail(name, problems, output)
    except NetworkConfigError as err:
        return _fail(name, [{"path": err.path, "value": "", "rule": err.message}], output)
    if output == "json":
        print(json.dumps(dict(files), indent=2))
    else:
        result: dict[str, Any] = {"NetworkManager": [list(pair) for pair in files.items()]}
        print(yaml.dump(result, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True), end="")
    return 0


def _read(file: str | None) -> bytes:
    return read_stream(sys.stdin.buffer) if file is None or file == "-" else read_input(file)


def _fail(name: str, problems: list[dict[str, str]], output: str) -> int:
    for problem in problems:
        got = f" (got {problem['value']})" if problem["value"] else ""
        where = f"{problem['path']}: " if problem["path"] else ""
        log.critical("%s: %s%s%s", name, where, problem["rule"], got)
    if output == "json":
        print(json.dumps({"errors": problems}, indent=2))
    return EXIT_FATAL
