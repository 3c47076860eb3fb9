"""Inputs that differ in their YAML: of the single-node base, by name."""

from __future__ import annotations

import json

import yaml

INSTALL, AGENT = "install-config.yaml", "agent-config.yaml"


def texts(install: str, agent: str) -> dict[str, dict[str, bytes]]:
    """The files of each."""
    changed: dict[str, tuple[str | bytes | None, str | bytes | None]] = {}

    def of_install(name: str, text: str | bytes | None) -> None:
        changed[f"install-config {name}"] = (text, agent)

    def of_agent(name: str, text: str | bytes | None) -> None:
        changed[f"agent-config {name}"] = (install, text)

    for name, text in _documents(install).items():
        of_install(name, text)
    for name, text in _documents(agent).items():
        of_agent(name, text)
    changed["both missing"] = (None, None)
    once = "replicas: 1"
    for number in ("01", "0x1", "0o1", "1e0", "1.0", "1_0", '"1"', "+1", ".nan", ".inf", "-0", "1:30", "!!str 1"):
        of_install(f"replicas {number}", install.replace(once, f"replicas: {number}"))
    for value in ("yes", "12", "2001-01-01", "!foo ostest", "a: b", '"ostest', "{{ name }}", "os\U0001f600", "*x"):
        of_install(f"name {value}", install.replace("name: ostest", f"name: {value}"))
    for value in ("yes", "on", "True", "y"):
        of_install(f"fips {value}", f"{install}fips: {value}\n")
    for key in ("5", "~", "true", "foo: 1\nbar"):
        of_install(f"key {key!r}", f"{install}{key}: x\n")
    of_install("basedomain", install.replace("baseDomain", "basedomain"))
    of_install("PullSecret", install.replace("pullSecret", "PullSecret"))
    of_install("merge key", install.replace("controlPlane:\n  name: master\n", "controlPlane:\n  <<: {name: master}\n"))
    of_install("alias", "x: &a v1\n" + install.replace("apiVersion: v1", "apiVersion: *a"))
    of_install("platform null", install.replace("none: {}", "none: ~"))
    of_install("unknown within", install.replace("controlPlane:\n", "controlPlane:\n  foo: 1\n"))
    of_install("deep", f"{install}x: {'[' * 200}{']' * 200}\n")
    of_install("long comment", f"{install}#{'x' * 70_000}\n")
    of_agent("rendezvousip", agent.replace("rendezvousIP", "rendezvousip"))
    of_agent("pre-release form", "metadata:\n  name: x\nspec:\n  rendezvousIP: 192.168.111.80\n")
    of_agent("least", "apiVersion: v1beta1\nrendezvousIP: 192.168.111.80\n")
    of_agent("no rendezvous", "apiVersion: v1beta1\n")
    of_agent("address a number", agent.replace("rendezvousIP: 192.168.111.80", "rendezvousIP: 192"))
    of_agent("unknown in host", agent.replace("- hostname: node-0", "- hostname: node-0\n  foo: 1"))
    result: dict[str, dict[str, bytes]] = {}
    for name, pair in changed.items():
        named = zip((INSTALL, AGENT), pair, strict=True)
        result[name] = {
            file: text if isinstance(text, bytes) else text.encode() for file, text in named if text is not None
        }
    return result


def _documents(text: str) -> dict[str, str | bytes | None]:
    """Changes that any YAML document may have."""
    data = yaml.safe_load(text)
    first = text.partition("\n")[0]
    return {
        "missing": None,
        "empty": "",
        "comment": "# nothing\n",
        "dashes": "---\n",
        "null": "null\n",
        "list": "- a\n",
        "scalar": "abc\n",
        "open brace": "{\n",
        "tab": text.replace("metadata:\n  name", "metadata:\n\tname"),
        "indented": text.replace("  name: ostest", "   name: ostest\n  x: 1"),
        "key twice": f"{text}{first}\n",
        "BOM": f"\ufeff{text}",
        "CRLF": text.replace("\n", "\r\n"),
        "second document": f"{text}---\nkind: x\n",
        "marked beginning": f"---\n{text}",
        "marked end": f"{text}...\n",
        "JSON": json.dumps(data),
        "flow": yaml.safe_dump(data, default_flow_style=True),
        "no UTF-8": text.encode().replace(b"ostest", b"os\xfftest"),
        "UTF-16 mark": b"\xff\xfe" + text.encode(),
        "NUL": text.replace("ostest", "os\0test"),
    }
