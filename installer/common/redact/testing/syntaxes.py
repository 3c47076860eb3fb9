"""The syntaxes that secrets are written in: those for a name and a value, and those for a whole private key."""

from __future__ import annotations

import base64
import gzip
import json
import urllib.parse
from collections.abc import Callable, Mapping


def quoted(text: str) -> str:
    """As JSON and Go's %q write it."""
    return json.dumps(text)


def _document(field: str, value: str) -> dict[str, object]:
    return {
        "hosts": [{"name": "master-0", "bmc": {"username": "root", field: value, "address": "redfish://192.0.2.1"}}]
    }


def _yaml(value: Callable[[str, str], str]) -> Callable[[str, str], str]:
    def written(field: str, text: str) -> str:
        return f"hosts:\n- name: master-0\n  bmc:\n    username: root\n{value(field, text)}\n    address: redfish://192.0.2.1\n"

    return written


def _environment_name(field: str) -> str:
    return field.upper().replace("-", "_")


_HOST = ("master-0", "root", "192.0.2.1")
SYNTAXES: Mapping[str, tuple[Callable[[str, str], str], tuple[str, ...]]] = {
    "JSON": (lambda f, v: json.dumps(_document(f, v)), _HOST),
    "JSON indented": (lambda f, v: json.dumps(_document(f, v), indent=2), _HOST),
    "JSON without blanks": (lambda f, v: json.dumps(_document(f, v), separators=(",", ":")), _HOST),
    "JSON escaped": (lambda f, v: json.dumps({"overrides": json.dumps(_document(f, v)), "id": 7}), (*_HOST, '"id": 7')),
    "JSON escaped twice": (
        lambda f, v: json.dumps({"a": json.dumps({"b": json.dumps(_document(f, v))}), "id": 7}),
        (*_HOST, '"id": 7'),
    ),
    "JSON cut off": (lambda f, v: f'request {{"username":"root","{f}":"{v}', ("root",)),
    "YAML plain": (_yaml(lambda f, v: f"    {f}: {v}"), _HOST),
    "YAML in double quotes": (_yaml(lambda f, v: f"    {f}: {quoted(v)}"), _HOST),
    "YAML in single quotes": (_yaml(lambda f, v: f"    {f}: '{v}'"), _HOST),
    "YAML with a quoted name": (_yaml(lambda f, v: f'    "{f}": {v}'), _HOST),
    "YAML block": (_yaml(lambda f, v: f"    {f}: |\n      {v}"), _HOST),
    "YAML folded block": (_yaml(lambda f, v: f"    {f}: >-\n      {v}"), _HOST),
    "YAML on the next line": (_yaml(lambda f, v: f"    {f}:\n      {v}"), _HOST),
    "YAML list item": (lambda f, v: f"credentials:\n- {f}: {v}\n  username: root\n", ("root",)),
    "YAML flow": (lambda f, v: f"bmc: {{username: root, {f}: {v}, address: 192.0.2.1}}", ("root", "192.0.2.1")),
    "YAML in JSON": (
        lambda f, v: json.dumps({"data": {"install-config": f"a: b\nbmc:\n  {f}: {v}\n  user: root\n"}, "id": 7}),
        ("user: root", '"id": 7'),
    ),
    "YAML block in JSON": (
        lambda f, v: json.dumps({"data": {"install-config": f"a: b\n{f}: |\n  {v}\nuser: root\n"}, "id": 7}),
        ("user: root", '"id": 7'),
    ),
    "INI": (lambda f, v: f"[section]\nuser = root\n{f} = {v}\nport = 22\n", ("user = root", "port = 22")),
    "environment": (lambda f, v: f"A=1\n{_environment_name(f)}={v}\nB=2\n", ("A=1", "B=2")),
    "shell": (lambda f, v: f"export {_environment_name(f)}='{v}'; run --now", ("run --now",)),
    "podman inspect": (
        lambda f, v: json.dumps({"Config": {"Env": ["PATH=/bin", f"{_environment_name(f)}={v}", "TERM=xterm"]}}),
        ("PATH=/bin", "TERM=xterm"),
    ),
    "environment of a pod": (
        lambda f, v: json.dumps({"env": [{"name": _environment_name(f), "value": v}, {"name": "A", "value": "kept"}]}),
        ("kept",),
    ),
    "environment of a pod in YAML": (
        lambda f, v: f"env:\n- name: {_environment_name(f)}\n  value: {v}\n- name: A\n  value: kept\n",
        ("kept",),
    ),
    "option": (
        lambda f, v: f"/usr/bin/agent --{f} {v} --url https://192.0.2.1:8090",
        ("--url https://192.0.2.1:8090",),
    ),
    "option with =": (lambda f, v: f"/usr/bin/agent --{f}={v} --verbose", ("--verbose",)),
    "arguments in JSON": (lambda f, v: json.dumps({"Cmd": ["agent", f"--{f}", v, "--verbose"]}), ("--verbose",)),
    "arguments in Python": (lambda f, v: repr(["agent", f"--{f}", v, "--verbose"]), ("--verbose",)),
    "journal": (lambda f, v: f"Nov 21 10:00:01 master-0 cat[9]:     {f}: {v}", ("master-0 cat[9]",)),
    "message with quotes": (lambda f, v: f"time=x level=info msg={quoted(f'got {f}={v} of host')}", ("level=info",)),
    "Python": (lambda f, v: repr({"username": "root", f: v, "port": 22}), ("root", "22")),
    "dataclass": (lambda f, v: f"BMC(username='root', {f.replace('-', '_')}={v!r}, port=22)", ("root", "port=22")),
    "Python bytes": (lambda f, v: repr({f.encode(): v.encode(), b"port": 22}), ("22",)),
    "Go struct": (lambda f, v: f"{{Username:root {f[0].upper() + f[1:]}:{v} Port:22}}", ("Username:root", "Port:22")),
    "Go map": (lambda f, v: f"map[{f}:{v} port:22]", ("port:22",)),
    "Go syntax": (lambda f, v: f'main.BMC{{Username:"root", {f[0].upper() + f[1:]}:{quoted(v)}}}', ("root",)),
    "XML": (lambda f, v: f"<bmc><user>root</user><{f}>{v}</{f}></bmc>", ("root",)),
    "URL's query": (
        lambda f, v: f"GET /api/v2/x?{f}={urllib.parse.quote(v, safe='')}&id=7 HTTP/1.1 200",
        ("/api/v2/x", "id=7 HTTP/1.1 200"),
    ),
    "base64": (lambda f, v: base64.b64encode(f"user: root\n{f}: {v}\nport: 22\n".encode()).decode(), ()),
    "gzip in base64": (
        lambda f, v: base64.b64encode(gzip.compress(f"user: root\n{f}: {v}\n".encode(), mtime=0)).decode(),
        (),
    ),
    "Ignition": (
        lambda f, v: json.dumps(
            {"path": "/etc/a.env", "contents": {"source": "data:," + urllib.parse.quote(f"user: root\n{f}: {v}\n")}}
        ),
        ("/etc/a.env", "root"),
    ),
    "Ignition in base64": (
        lambda f, v: json.dumps(
            {
                "path": "/etc/a.env",
                "contents": {"source": "data:text/plain;charset=utf-8;base64," + b64(f"user: root\n{f}: {v}\n")},
            }
        ),
        ("/etc/a.env",),
    ),
    "Ignition packed": (
        lambda f, v: json.dumps(
            {
                "contents": {
                    "compression": "gzip",
                    "source": "data:;base64," + b64(gzip.compress(f"{f}: {v}\n".encode(), mtime=0)),
                },
                "path": "/etc/a.env",
            }
        ),
        ("/etc/a.env",),
    ),
    "YAML over lines": (_yaml(lambda f, v: f"    {f}: {v}\n      {v}"), _HOST),
    "value before its name": (
        lambda f, v: f"env:\n- value: {v}\n  name: {_environment_name(f)}\n- name: A\n  value: kept\n",
        ("kept",),
    ),
    "environment with NUL": (lambda f, v: f"A=1\0{_environment_name(f)}={v}\0B=2", ("A=1", "B=2")),
    "arguments with NUL": (lambda f, v: f"agent\0--{f}\0{v}\0--verbose", ("--verbose",)),
    "Go's escapes": (lambda f, v: json.dumps(_document(f, v)).replace('"', r"\u0022"), _HOST),
    "XML's attribute": (lambda f, v: f'<user name="root" {f}="{v}" id="7"/>', ("root", 'id="7"')),
    "Secret in braces": (
        lambda f, v: f"kind: Secret\nstringData: {{a: {quoted(v)}, b: '{v}'}}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret with remarks": (
        lambda f, v: f"kind: Secret # bmc\ndata: &a # it\n  opaque: {b64(v)}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret": (
        lambda f, v: f"apiVersion: v1\ndata:\n  opaque: {b64(v)}\nkind: Secret\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret's texts": (
        lambda f, v: f"kind: Secret\nstringData:\n  opaque: {v}\n  other: |\n    {v}\nmetadata:\n  name: bmc-0\n",
        ("name: bmc-0",),
    ),
    "Secret in JSON": (
        lambda f, v: json.dumps({"data": {"opaque": b64(v)}, "kind": "Secret", "metadata": {"name": "bmc-0"}}),
        ("bmc-0",),
    ),
}
# Where a value's own characters mean something to the syntax, it cannot be written there.
SPECIAL: Mapping[str, str] = {"XML": "<>&", "XML's attribute": '<>&"', "JSON cut off": '"\\'}


def b64(content: str | bytes) -> str:
    """In base64, in one line."""
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


KEY_SYNTAXES: Mapping[str, Callable[[str], str]] = {
    "a file": lambda key: key,
    "CRLF": lambda key: key.replace("\n", "\r\n"),
    "JSON": lambda key: json.dumps({"tls.key": key, "id": 7}),
    "JSON escaped": lambda key: json.dumps({"a": json.dumps({"value": key}), "id": 7}),
    "JSON escaped twice": lambda key: json.dumps({"a": json.dumps({"b": json.dumps({"value": key})}), "id": 7}),
    "one line": lambda key: key.replace("\n", "\\n"),
    "one line with blanks": lambda key: key.replace("\n", " "),
    "YAML block": lambda key: "tls:\n  key: |\n" + "".join(f"    {line}\n" for line in key.splitlines()) + "  id: 7\n",
    "YAML in JSON": lambda key: json.dumps(
        {"x": "key: |\n" + "".join(f"  {line}\n" for line in key.splitlines()) + "id: 7\n"}
    ),
    "YAML in quotes": lambda key: f"value: {json.dumps(key)}\nid: 7",
    "journal": lambda key: "\n".join(f"Nov 21 10:00:01 master-0 cat[9]: {line}" for line in key.splitlines()),
    "journal's continued lines": lambda key: "Nov 21 10:00:01 m cat[9]: " + key.strip().replace("\n", "\n" + " " * 26),
    "container's log": lambda key: "\n".join(f"2024-11-21T10:00:01.5Z stdout F {line}" for line in key.splitlines()),
    "environment": lambda key: f'KEY="{key}"\nid=7',
    "diff": lambda key: "\n".join(f"+{line}" for line in key.splitlines()),
    "Python": lambda key: repr({"pem": key, "id": 7}),
    "Python bytes": lambda key: repr(key.encode()),
    "Go quoted": lambda key: f"msg={json.dumps('read ' + key)} level=info",
    "URL": lambda key: "key=" + urllib.parse.quote(key) + "&id=7",
    "form": lambda key: "key=" + urllib.parse.quote_plus(key) + "&id=7",
    "base64": lambda key: b64(key),
    "base64 in lines": lambda key: base64.encodebytes(key.encode()).decode(),
    "base64 of base64": lambda key: b64(b64(key)),
    "gzip in base64": lambda key: b64(gzip.compress(key.encode(), mtime=0)),
    "Ignition": lambda key: json.dumps({"contents": {"source": "data:," + urllib.parse.quote(key)}, "id": 7}),
    "Ignition in base64": lambda key: json.dumps({"contents": {"source": "data:;base64," + b64(key)}, "id": 7}),
    "Secret": lambda key: f"apiVersion: v1\nkind: Secret\ndata:\n  tls.key: {b64(key)}\n  tls.crt: {b64('x')}\n",
    "cut off": lambda key: key[: key.index("-----END") - 9],
    "its body alone": lambda key: key.splitlines()[1],
    "between others in a journal": lambda key: "\n".join(
        f"Nov 21 10:00:01 m cat[9]: {line}\nNov 21 10:00:01 m kernel: eth{n}: link up"
        for n, line in enumerate(key.splitlines())
    ),
}
KEPT: Mapping[str, tuple[str, ...]] = {
    "between others in a journal": tuple(f"eth{n}: link up" for n in range(5)),
    "journal": ("master-0 cat[9]: ",),
    **dict.fromkeys(("JSON", "JSON escaped", "JSON escaped twice", "Ignition", "Ignition in base64"), ('"id": 7',)),
    **dict.fromkeys(("YAML block", "YAML in JSON", "YAML in quotes"), ("id: 7",)),
    **dict.fromkeys(("environment", "URL", "form"), ("id=7",)),
}
