"""Checks of plain data against OpenAPI schemas: those of the inputs (data/), and those of the hub's definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from ipaddress import ip_address, ip_network
from typing import Any

from installer.common.formats import jsontext, yamltext
from installer.common.redact import NOT_SHOWN
from installer.errors import NetworkConfigError
from installer.hub.baremetal.address import AddressError, parse
from installer.hub.kube.kinds import Json
from installer.network.errors import InvalidNetworkConfig
from installer.network.generate import keyfiles

_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "must be text (in quotes where YAML takes it for something else)"),
    "integer": (int, "must be a whole number"),
    "number": ((int, float), "must be a number"),
    "boolean": (bool, "must be true or false"),
    "object": (dict, "must be a mapping"),
    "array": (list, "must be a list"),
}
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")


def _parses(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_json(text: str, kind: type) -> bool:
    """Check the form of a JSON text; an empty one stands for nothing."""
    try:
        return not text or isinstance(jsontext.loads(text), kind)
    except ValueError:
        return False


def _bmc_rule(address: str) -> str:
    try:
        parse(address)
    except AddressError as error:
        return str(error)
    return ""


def _is_name(text: str) -> bool:
    return len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.split("."))


#: A check that a text of the format passes, and the rule for those that do not.
_FORMATS: dict[str, tuple[Callable[[str], Any], str]] = {
    "cidr": (lambda text: "/" in text and _parses(ip_network, text), "must be a network, such as 192.0.2.0/24"),
    "ip": (lambda text: _parses(ip_address, text), "must be an IP address"),
    "mac": (_MAC.fullmatch, "must be a MAC address, such as 52:54:00:00:00:01"),
    "dns-label": (_LABEL.fullmatch, "must be a DNS label: a-z, 0-9 and -, at most 63 characters"),
    "dns-name": (_is_name, "must be a DNS name: a-z, 0-9, - and ."),
    "json-object": (lambda text: _is_json(text, dict), "must be the text of a JSON object"),
    "json-list": (lambda text: _is_json(text, list), "must be the text of a JSON list"),
}


@cache
def table(name: str) -> Json:
    """Return the content of data/NAME.yaml; not to be changed."""
    text = resources.files(__package__ or "").joinpath(f"data/{name}.yaml").read_text()
    return dict(yamltext.load(text))


def without_nulls(value: Any) -> Any:
    """Return a copy without members that are null, which Go's readers take for absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def defaulted(value: Json, schema: Json) -> Json:
    """Return an object with the defaults of the schema's properties."""
    defaults = {name: known["default"] for name, known in schema["properties"].items() if "default" in known}
    return defaults | value


def left_out(value: Json, schema: Json, path: str) -> Iterator[str]:
    """Yield what a valid object has that is accepted and has no effect here."""
    for name in value:
        if reason := schema["properties"].get(name, {}).get("x-left-out"):
            yield f"{path}.{name}: left out: {reason}"


def problems(value: Any, schema: Json, path: str) -> Iterator[str]:
    """Yield what is wrong with a value, a line each: field, value where it can be no secret, and rule."""
    kind = schema.get("type")
    if reason := schema.get("x-refused"):
        yield f"{path}: {reason}"
    elif kind is None:
        return
    elif not isinstance(value, _TYPES[kind][0]) or (kind != "boolean" and isinstance(value, bool)):
        # A text or a number in the place of a mapping may be the secret that the mapping was to name.
        shown = f"{value!r}: " if kind in ("boolean", "integer") and isinstance(value, (str, int, float)) else ""
        yield f"{path}: {shown}{_TYPES[kind][1]}"
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: must not be empty"
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from (
            f"{path}.{name}: is missing" for name in schema.get("required", ()) if value.get(name) in (None, "")
        )
        yield from _members(value, schema, path)
    elif rule := _rule(value, schema):
        yield f"{path}: {NOT_SHOWN if schema.get('x-hidden') else repr(value)}: {rule}"


def _members(value: Json, schema: Json, path: str) -> Iterator[str]:
    if schema.get("format") == "nmstate":
        yield from _network(value, path)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, item in value.items():
        if not isinstance(name, str):
            yield f"{path}: {name!r}: a key must be text (in quotes where YAML takes it for something else)"
            continue
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if known is None:
            yield f"{path}.{name}: unknown field"
        elif known is not True:
            yield from problems(item, known, f"{path}.{name}")


def _rule(value: Any, schema: Json) -> str:
    """Return the rule that a scalar breaks, or nothing."""
    if value not in schema.get("enum", [value]):
        return f"must be {' or '.join(str(item) or repr(item) for item in schema['enum'])}"
    if isinstance(value, str):
        form = schema.get("format", "")
        if form == "bmc":
            return _bmc_rule(value)
        if form in _FORMATS and not _FORMATS[form][0](value):
            return _FORMATS[form][1]
        if len(value) < schema.get("minLength", 0):
            return "must not be empty"
        return "" if re.search(schema.get("pattern", ""), value) else "must match " + str(schema["pattern"])
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return "" if low <= value <= high else f"must be from {low} on" + (f" to {high}" if "maximum" in schema else "")


def _network(config: Json, path: str) -> Iterator[str]:
    try:
        keyfiles(config)
    except InvalidNetworkConfig as error:
        yield from (f"{path}.{problem.path}: {problem.rule}" for problem in error.problems)
    except NetworkConfigError as error:
        yield f"{path}.{error.path}: {error.message}"
