"""YAML as sigs.k8s.io/yaml writes it, letter for letter: manifests are compared with those of OpenShift's installer."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

import yaml

from installer.common.formats.yamltext import GO

# Numbers in base 60 are quoted too, for readers of YAML 1.1.
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[Tt ]|\Z)", re.ASCII)
# Go writes these as escapes in JSON, so that it is safe within HTML.
_HTML: dict[str, str | int | None] = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes a string plain where Go would read it back as a string, else in double quotes; one of several lines as a
    block."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = GO.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def resolved(self: Any, data: str) -> str:
        """Return the tag that a reader gives to the plain text."""
        return str(self.resolve(yaml.ScalarNode, data, (True, False)))


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    style = None
    if "\n" in data:
        style = "|"
    elif _Dumper.resolved(dumper, data) != tag or _BASE60.match(data) or _DATE.match(data):
        style = '"'
    return dumper.represent_scalar(tag, data, style=style)


_Dumper.add_representer(str, _text)


def dump(data: Any) -> str:
    """Plain data, keys in order of the alphabet, words of long lines wrapped at 80 columns."""
    return str(yaml.dump(data, Dumper=_Dumper, default_flow_style=False, sort_keys=True, width=80, allow_unicode=True))


def json_text(data: Any, indent: int | None = None, *, sort: bool = False) -> str:
    """JSON as Go's encoding/json writes it, keys as they are or, as those of its maps, sorted."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=False, sort_keys=sort)
    return text.translate(str.maketrans(_HTML))
