"""Holds installer.network against recorded output of the upstream generator; for developers, not part of the tests.

    python -m installer.testing.network.nmstate_compare FIXTURES [CASE...]   (or FIXTURES in env NODE0_NMSTATE_FIXTURES)

A case is a directory with input.yaml and either out/ (keyfiles, '%2F' standing for '/') or error.json. Keyfiles are
compared by section and key; routing rules as a set over all files, since upstream's choice of the file varies. Where
upstream accepts and we refuse, the case is a difference unless docs/nmstate.md's list of deviations has its kind: the
problems are printed so that a reader can judge. Exit code 1 when keyfiles differ, or where we accept what upstream
refuses.
"""

from __future__ import annotations

import configparser
import json
import os
import sys
from pathlib import Path

from installer.network import InvalidNetworkConfig, keyfiles
from installer.network.document import load

Parsed = dict[str, dict[str, dict[str, str]]]


def parse(text: str) -> dict[str, dict[str, str]]:
    """Sections of one keyfile."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def pull_rules(files: Parsed) -> list[str]:
    """Take the routing rules out of the files, and returns them sorted."""
    rules = []
    for sections in files.values():
        for keys in sections.values():
            rules += [keys.pop(key) for key in list(keys) if key.startswith("routing-rule")]
    return sorted(rules)


def differences(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """List the differences of two sets of keyfiles, one line each."""
    left = {name: parse(text) for name, text in ours.items()}
    right = {name: parse(text) for name, text in theirs.items()}
    lines = [f"{name}: only {'ours' if name in left else 'upstream'}" for name in sorted(set(left) ^ set(right))]
    mine, wanted = pull_rules(left), pull_rules(right)
    if mine != wanted:
        lines.append(f"routing rules: {mine} instead of {wanted}")
    for name in sorted(set(left) & set(right)):
        for section in sorted(set(left[name]) | set(right[name])):
            a, b = left[name].get(section), right[name].get(section)
            if a is None or b is None:
                lines.append(f"{name} [{section}]: only {'upstream' if a is None else 'ours'}")
                continue
            odd = [key for key in sorted(set(a) | set(b)) if a.get(key) != b.get(key)]
            lines += [f"{name} [{section}] {key}: {a.get(key)!r} instead of {b.get(key)!r}" for key in odd]
    for name in sorted(set(ours) & set(theirs)):
        if ours[name].rstrip("\n") != theirs[name].rstrip("\n") and not lines:
            lines.append(f"{name}: same keys, other text")
    return lines


def generated(text: str) -> tuple[dict[str, str], list[str]]:
    """Our keyfiles by name, or what is wrong with the document."""
    try:
        return keyfiles(load(text)), []
    except InvalidNetworkConfig as err:
        return {}, [str(problem) for problem in err.problems]


def compare(case: Path) -> tuple[str, list[str]]:
    """(verdict, lines): same, refused by both, refused by us alone, DIFFERENT or ACCEPTED where upstream refuses."""
    recorded = {path.name.replace("%2F", "/"): path.read_text() for path in sorted(case.glob("out/*"))}
    upstream_refuses = (case / "error.json").exists()
    ours, lines = generated((case / "input.yaml").read_text())
    if lines:
        return ("refused by both" if upstream_refuses else "refused by us alone"), lines
    if upstream_refuses:
        return "ACCEPTED", [(case / "error.json").read_text()[:300]]
    differing = differences(ours, recorded)
    order = case / "order.json"
    if order.exists() and list(ours) != (wanted := json.loads(order.read_text())):
        differing.append(f"order: {list(ours)} instead of {wanted}")
    return ("DIFFERENT" if differing else "same"), differing


def main(argv: list[str]) -> int:
    """Print one line a case, and what differs."""
    where = argv[0] if argv else os.environ.get("NODE0_NMSTATE_FIXTURES", "")
    if not where or not Path(where).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    counts: dict[str, int] = {}
    for case in sorted(path.parent for path in Path(where).glob("*/input.yaml")):
        if argv[1:] and case.name not in argv[1:]:
            continue
        verdict, lines = compare(case)
        counts[verdict] = counts.get(verdict, 0) + 1
        print(f"{verdict:20} {case.name}")
        for line in lines if verdict != "refused by both" else lines[:2]:
            print(f"{'':22}{line}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if {"DIFFERENT", "ACCEPTED"} & set(counts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
