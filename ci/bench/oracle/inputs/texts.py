"""Inputs that differ in their texts, and files that users put beside their inputs."""

from __future__ import annotations

import json

import yaml

INSTALL, AGENT = "install-config.yaml", "agent-config.yaml"
_REGISTRIES, _BROKEN = "mirror/registries.conf", b"a: [\n"
_REGISTRY = b"""[[registry]]
location = "%s"
mirror-by-digest-only = true
"""
_MIRROR = _REGISTRY + b'[[registry.mirror]]\nlocation = "registry.example:5000/ocp/release"\n'
#: Files beside manifests, or in the place of one.
FILES: tuple[dict[str, bytes | None], ...] = (
    {"cluster-manifests/nmstateconfig.yaml": b""},
    {"cluster-manifests/infraenv.yaml": _BROKEN},
    {"cluster-manifests/other.yaml": b"a: 1\n"},
    {"openshift/broken.yaml": _BROKEN},
    {_REGISTRIES: _MIRROR % b"127.0.0.1/ocp/release"},
    {_REGISTRIES: _MIRROR % b"quay.io/other"},
    {_REGISTRIES: _REGISTRY % b"127.0.0.1/ocp/release"},
    {_REGISTRIES: b"location = 1 2\n"},
    {"mirror/ca-bundle.crt": b"nonsense\n"},
    {AGENT: b"apiVersion: v1beta1\nkind: AgentConfig\nrendezvousIP: 192.168.111.80\n"},
    {AGENT: _BROKEN},
)


def texts(install: str, agent: str) -> dict[str, dict[str, bytes]]:
    """Configs in another text, by name."""
    both = {INSTALL: install.encode(), AGENT: agent.encode()}
    changed = {
        "no file": {},
        **{f"no {name}": {other: both[other] for other in both if other != name} for name in both},
    }
    for file, text in ((INSTALL, install), (AGENT, agent)):
        for name, other in {**_documents(text), **{new: text.replace(old, new) for old, new in _REPLACED}}.items():
            changed[f"{file} {name!r}"] = {**both, file: other if isinstance(other, bytes) else other.encode()}
    return changed


_REPLACED = (
    *(("replicas: 1", f"replicas: {number}") for number in (
        "01", "0x1", "0o1", "1e0", "1.0", "1_0", '"1"', "+1", ".nan", ".inf", "-0", "1:30", "!!str 1")),
    *(("name: ostest", f"name: {value}") for value in (
        "yes", "12", "2001-01-01", "!foo ostest", "a: b", '"ostest', "{{ name }}", "os\U0001f600", "*x")),
    *(("baseDomain: ", f"{line}\nbaseDomain: ") for line in (
        "fips: yes", "fips: on", "fips: True", "fips: y", "5: x", "~: x", "true: x", f"x: {'[' * 200}{']' * 200}")),
    ("baseDomain", "basedomain"), ("pullSecret", "PullSecret"), ("none: {}", "none: ~"),
    ("controlPlane:\n  name: master\n", "controlPlane:\n  <<: {name: master}\n"),
    ("apiVersion: v1\n", "x: &a v1\napiVersion: *a\n"), ("- hostname: node-0", "- hostname: node-0\n  foo: 1"),
    ("rendezvousIP", "rendezvousip"), ("apiVersion: v1beta1\n", "spec: {}\n"), ("192.168.111.80", "192"),
)  # fmt: skip


def _documents(text: str) -> dict[str, str | bytes]:
    """Changes that any YAML document may have."""
    data = yaml.safe_load(text)
    first = text.partition("\n")[0]
    return {
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
        "long comment": f"{text}#{'x' * 70_000}\n",
        "NUL": text.replace("ostest", "os\0test"),
    }
