"""From YAML text, or from a mapping that is loaded already, to a `Document`."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from installer.network.dns import read_dns
from installer.network.errors import UnreadableDocument
from installer.network.interface import read_interface
from installer.network.model import Document
from installer.network.reader import Fields, Problems
from installer.network.routes import read_routes, read_rules


class _Loader(yaml.SafeLoader):
    """YAML's core schema: no base-60 numbers (52:54:00:12:34:56 is a MAC address), no doubled keys, no merge keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """As the base class does, but a key that is there twice is an error: one of the two would be lost."""
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_number(self, node: yaml.ScalarNode) -> int:
        """A decimal number even with leading zeros, or a hexadecimal one."""
        text = self.construct_scalar(node)
        return int(text, 16 if text.startswith("0x") else 10)


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"([-+]?[0-9]{1,40}|0x[0-9a-fA-F]{1,32})$"), list("-+0123456789")
)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)


def load(text: str | bytes) -> Any:
    """Parses one YAML (or JSON) document; raises UnreadableDocument when it is none. Empty text is None."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        reason = " ".join(str(getattr(err, "problem", None) or err).split())
        raise UnreadableDocument("", f"not YAML: {where}{reason}") from err
    except (RecursionError, ValueError) as err:
        raise UnreadableDocument("", f"not a document that can be read: {type(err).__name__}") from err


def read_document(config: Any, problems: Problems) -> Document:
    """Reads the desired state; what is wrong is added to `problems`, and what was readable is returned."""
    fields = Fields(config, "", problems)
    fields.text("description")
    interfaces = [one for entry in fields.tables("interfaces") if (one := read_interface(entry)) is not None]
    document = Document(
        interfaces=tuple(interfaces),
        routes=read_routes(fields),
        rules=read_rules(fields),
        dns=read_dns(fields),
    )
    hostname = fields.table("hostname")
    if hostname is not None:
        hostname.ignore("running")
        if hostname.raw("config") != "":
            hostname.refuse("config", "is not supported: a host name is no part of a connection profile")
        hostname.close()
    for name in ("ovs-db", "ovn"):
        fields.refuse(name, "is not supported: settings of the whole switch are no part of a connection profile")
    fields.close()
    return document
