"""Network documents: node0's keyfiles against those of the real `nmstatectl gc`, where one was built.

openshift-install leaves them to nmstatectl, so that its own answers say nothing of them (compare.comparable).
"""

from __future__ import annotations

import copy
import logging
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci.bench.measure import share
from ci.bench.oracle.inputs.cases import apply, of_other_types, walk
from ci.bench.oracle.inputs.values import ABSENT
from installer.testing.network.network_documents import DOCUMENTS
from installer.testing.network.nmstate_compare import differences, generated

COUNT = 1500
PATIENCE_S = 30
# nmstatectl's choice among several profiles varies from run to run (reference/nmstate.md §2.5): one of these has ours.
_TRIES = 8
_MAC = re.compile(r"(?<=mac-address=)[0-9A-F-]+$", re.MULTILINE)
#: Differences in keyfiles that docs/nmstate.md names, and what node0 takes alone, as regular expressions.
ACCEPTED = (
    r"keyfiles: .*\[ipv\] (address|dns)",  # written once though given twice
    r"keyfiles: .*\[sriov\] total-vfs",  # needed by the VFs that are given
    r"keyfiles: .*routing rules",  # of a family that no profile has
    r"keyfiles: .*\[ipv\] route",  # two that differ in their metric
    r"keyfiles: (\.nmconnection|.*dhcp-(client-id|duid))",  # empty text
    r"keyfiles: lo\.nmconnection: only ours",
    r"keyfiles: .*\[user\]",  # an empty description, a backslash
)
_ACCEPTED = re.compile("|".join(ACCEPTED))


@dataclass(frozen=True)
class Verdict:
    """Whether each of them accepts a document, and the first difference between their keyfiles; empty for none."""

    theirs_ok: bool
    ours_ok: bool
    difference: str = ""

    @property
    def shape(self) -> str:
        """The difference without names and values of this document; empty for none."""
        text = re.sub(r"\[\d+\]", "[]", self.difference.partition(" (got ")[0])
        text = re.sub(r"\b(?:[a-z-]+\d[\w.-]*)(?=\.nmconnection)", "…", text)
        return re.sub(r"'[^']*'|(?<=[a-z])\d+", "", text)


def documents(count: int, seed: int) -> list[tuple[str, str]]:
    """(what was changed, text): our own documents as they are, then with one to three fields of another value."""
    plain = {name: yaml.safe_load(text) for name, text in DOCUMENTS.items()}
    rng, values = random.Random(seed), _values(plain.values())
    named = [(name, text) for name, text in DOCUMENTS.items()]
    while len(named) < count:
        name = rng.choice(sorted(plain))
        document, changes = copy.deepcopy(plain[name]), []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            # In a dotted path `802.1x` would be two fields.
            places = [place for place in walk(document) if "802.1x" not in place[0]]
            if not places:
                break
            path, old = rng.choice(places)
            new = rng.choice([ABSENT, *of_other_types(old), *rng.sample(values[_last(path)], 1) * 4])
            apply(document, path, new)
            changes.append(f"{path}={'absent' if new is ABSENT else repr(new)[:40]}")
        named.append((f"{name}: {'; '.join(changes)}", yaml.safe_dump(document, sort_keys=False)))
    return named


def _last(path: str) -> str:
    return next((part for part in reversed(path.split(".")) if not part.isdigit()), "")


def _values(plain: Any) -> dict[str, list[Any]]:
    """All values in the documents, by the names of their fields."""
    values: dict[str, list[Any]] = {}
    for document in plain:
        for path, value in walk(document):
            values.setdefault(_last(path), []).append(value)
    return values


def theirs(program: Path, text: str) -> dict[str, str] | None:
    """nmstatectl's keyfiles by name; None where it refuses the document."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        argv = [str(program), "gc", file.name]
        completed = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if completed.returncode:
        return None
    # NetworkManager reads a MAC address with dashes as the one with colons, which node0 writes.
    files = dict(yaml.safe_load(completed.stdout)["NetworkManager"])
    return {name: _MAC.sub(lambda match: match[0].replace("-", ":"), text) for name, text in files.items()}


def judged(program: Path, text: str) -> Verdict:
    """Both answers to one document."""
    answer = theirs(program, text)
    ours, problems = generated(text)
    if problems:
        return Verdict(answer is not None, False, "" if answer is None else f"refused: {problems[0]}")
    if answer is None:
        return Verdict(False, True, "taken by node0 alone")
    for _ in range(_TRIES):
        lines = differences(ours, answer or {})
        if "route-rules" in text:  # differences() holds rules against each other wherever they are
            lines = [line for line in lines if not line.endswith("same keys, other text")]
        if not lines:
            return Verdict(True, True)
        answer = theirs(program, text)
    return Verdict(True, True, f"keyfiles: {lines[0]}")


def _explained(one: Verdict) -> bool:
    return not one.difference or _ACCEPTED.match(one.shape) is not None


def rows(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """The table: verdicts, keyfiles, and what node0 refuses though nmstatectl takes it, by rule."""
    same = sum(one.theirs_ok == one.ours_ok for one in verdicts)
    taken = [one for one in verdicts if one.theirs_ok and one.ours_ok]
    refused = Counter(one.shape for one in verdicts if one.theirs_ok and not one.ours_ok)
    other = Counter(one.shape for one in taken if one.difference)
    return [
        ("verdict", share(same, len(verdicts))),
        ("keyfiles, of those that both take", share(sum(not one.difference for one in taken), len(taken))),
        ("  the same, but for what docs/nmstate.md names", share(sum(map(_explained, taken)), len(taken))),
        ("taken by node0 alone", f"{sum(one.ours_ok and not one.theirs_ok for one in verdicts):5}"),
        ("taken by nmstatectl alone", f"{refused.total():5}"),
        *((f"  {shape[:110]}", f"{often:5}") for shape, often in refused.most_common(20)),
        *((f"  {shape[:110]}", f"{often:5}") for shape, often in other.most_common()),
    ]


def unknown(named: Sequence[tuple[str, Verdict]]) -> Iterator[str]:
    """A line for each document that node0 takes alone, or of which it makes other keyfiles, without a reason."""
    for name, one in named:
        if one.ours_ok and not _explained(one):
            yield f"network document: {one.difference}\n    as in {name}"


def run(program: Path, seed: int, count: int = COUNT) -> tuple[list[tuple[str, str]], list[str]]:
    """The table's rows, and a line for each difference that nothing explains."""
    cases = documents(count, seed)
    logging.getLogger("installer").setLevel(logging.ERROR)  # of fields without effect
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda case: judged(program, case[1]), cases))
    named = [(name, verdict) for (name, _), verdict in zip(cases, verdicts, strict=True)]
    return rows(verdicts), list(unknown(named))
