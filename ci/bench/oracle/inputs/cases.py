"""The inputs: valid ones, fields with other values, values of other types, other YAML, pairs of such changes, and
manifests in place of the configs."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from ci.bench.oracle.inputs.bases import ADDED, Config, bases
from ci.bench.oracle.inputs.values import ABSENT, trust_bundles, values_of
from ci.bench.oracle.programs import Input

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
    """Change that any YAML document may have."""
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


#: How many there are of changes of type and structure, and at most of pairs of changes.
STRUCTURES, PAIRS = 450, 400
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Change:
    """A field of one of a base's files, set or taken away."""

    base: str
    file: str
    path: str
    value: Any

    def __str__(self) -> str:
        text = "absent" if self.value is ABSENT else json.dumps(self.value, default=str, ensure_ascii=False)
        return f"{self.file} {self.path}={text if len(text) < 60 else text[:57] + '...'}"


def dump(document: Any) -> bytes:
    """Return a document as YAML, or several."""
    if isinstance(document, list):
        return b"---\n".join(map(dump, document))
    return yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=1000, allow_unicode=True).encode()


def apply(document: Config, path: str, value: Any) -> None:
    """Set or remove the field at a dotted path. Raises LookupError or TypeError where there is no such place."""
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    container: Any = document
    for part in parents:
        container = container.setdefault(part, {}) if isinstance(container, dict) else container[part]
    if value is ABSENT:
        del container[last]
    elif isinstance(container, list) and last == len(container):
        container.append(copy.deepcopy(value))
    else:
        container[last] = copy.deepcopy(value)


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All fields of a document, nested ones too, with their dotted paths (those without a dot in their name)."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if "." not in str(key):
            field_path = f"{path}.{key}" if path else str(key)
            yield field_path, item
            yield from walk(item, field_path)


def general(path: str) -> str:
    """Return a path with `*` in the place of indices."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def of_other_types(value: Any) -> list[Any]:
    """Values that a field of this type must not hold, and the limits of those that it may."""
    if isinstance(value, bool):
        return ["x", 1, None, []]
    if isinstance(value, int):
        return ["x", 1.5, True, [], {}, None]
    if isinstance(value, str):
        return [5, True, [], {}, None, "", f" {value}", f"{value} ", value + "x" * 300]
    if isinstance(value, list):
        return ["x", {}, 5, None, [], value + value if value else [None]]
    return ["x", [], 5, None, {}]


class Cases:
    """All inputs of one seed. `pem`: two certificates and a private key. `wrote`: what an installer made of each base,
    by path; empty for the bases alone."""

    def __init__(self, pem: tuple[str, str, str], seed: int, wrote: Mapping[str, Mapping[str, str]]) -> None:
        self._bases: dict[str, dict[str, Any]] = {
            name: dict(zip((INSTALL, AGENT), pair, strict=True)) for name, pair in bases(pem[0]).items()
        }
        self._bundles, self._rng, self._wrote = trust_bundles(*pem), random.Random(seed), wrote
        self.bases = [self._input(name, []) for name in self._bases]
        if wrote:
            self._bases["manifests"] = {
                path: [document for document in yaml.safe_load_all(data) if document]
                for path, data in _manifests(wrote["compact: as it is"]).items()
                if path.endswith(".yaml")
            }

    def all(self) -> list[Input]:
        """All inputs, each once, named by their base and what was changed in it."""
        fields, structures = list(self._fields()), list(self._structures())
        fields += self._rng.sample(structures, min(STRUCTURES, len(structures)))
        every = [*self.bases, *(self._input(change.base, [change]) for change in fields)]
        sno, written = self._files("sno"), self._files("manifests")
        texts_of_sno = texts(*(data.decode() for data in sno.values()))
        every += (Input(f"text: {name}", files) for name, files in texts_of_sno.items())
        every += self._pairs(fields)
        every += (Input(f"manifests of {base}", _manifests(files)) for base, files in self._wrote.items())
        changes: list[Mapping[str, bytes | None]] = [*({path: None} for path in written), *FILES]
        for change in changes:
            whole = {path: data for path, data in {**written, **change}.items() if data is not None}
            every.append(Input(f"manifests: {_shown(change)}", whole))
        return list({(*sorted(case.files.items()),): case for case in reversed(every)}.values())[::-1]

    def _files(self, base: str, changes: Sequence[Change] = ()) -> dict[str, bytes]:
        documents = copy.deepcopy(self._bases[base]) if changes else self._bases[base]
        for change in changes:
            apply(documents[change.file], change.path, change.value)
        return {path: dump(document) for path, document in documents.items()}

    def _input(self, base: str, changes: Sequence[Change]) -> Input:
        return Input(f"{base}: {'; '.join(map(str, changes)) or 'as it is'}", self._files(base, changes))

    def documents(self) -> Iterator[tuple[str, str, Any]]:
        """Yield (base, file, document) of all."""
        for name, documents in self._bases.items():
            for file, document in documents.items():
                yield name, file, document

    def _fields(self) -> Iterator[Change]:
        """Each value of each field once, in one of the bases that have the field."""
        places: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for name, file, document in self.documents():
            for path, _ in walk(document):
                places.setdefault((file, general(path)), []).append((name, path))
        for (file, pattern), some in places.items():
            values = self._bundles if pattern == "additionalTrustBundle" else values_of(pattern)
            for value in values:
                name, path = self._rng.choice(some)
                yield Change(name, file, path, value)
        yield from (Change(*row) for row in ADDED)

    def _structures(self) -> Iterator[Change]:
        for name, file, document in self.documents():
            for path, value in walk(document):
                for other in (ABSENT, *of_other_types(value)):
                    yield Change(name, file, path, other)
                if isinstance(value, dict):
                    yield Change(name, file, f"{path}.unknownKey", "x")
                if isinstance(value, list) and value:
                    yield Change(name, file, f"{path}.{len(value)}", value[0])

    def _pairs(self, single: Sequence[Change]) -> Iterator[Input]:
        """Two changes of one base, neither within the other."""
        for _ in range(PAIRS):
            change = self._rng.choice(single)
            other = self._rng.choice([item for item in single if item.base == change.base])
            paths = [f"{item.file}.{item.path}." for item in (change, other)]
            if not (paths[0].startswith(paths[1]) or paths[1].startswith(paths[0])):
                # The first change may have removed the place of the second.
                with suppress(LookupError, TypeError, AttributeError):
                    yield self._input(change.base, [change, other])


def _manifests(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items() if name.startswith(("cluster-manifests/", "mirror/"))}


def _shown(files: Mapping[str, bytes | None]) -> str:
    return "; ".join(f"{name} {'absent' if data is None else repr(data[:40])}" for name, data in files.items())
