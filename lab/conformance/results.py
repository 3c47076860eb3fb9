"""Results of a conformance run: by spec, from the suite's JUnit files, and as one JUnit file of our own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError, SubElement

Outcome = Literal["passed", "failed", "left out", "not run"]
SUITE = "conformance"
#: What the suite prints around an error, and the time before it.
_UNEXPECTED = "Unexpected error:"
_STAMP = re.compile(r"^[A-Z][a-z]{2} +\d+ [\d:.]+: ")
#: Characters that XML cannot hold, not even escaped.
_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Result:
    """The end of one spec: in seconds, with what it failed by, or why it was not run. ``output`` is the suite's log of
    a failed one."""

    spec: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""
    output: str = ""


def read(paths: Iterable[Path]) -> dict[str, Result]:
    """Return the results that the suite's processes left, by spec; what was skipped in all of them is not among them.

    A file that a process did not finish has none. A failed set-up of the whole suite is a result too.
    """
    found: dict[str, Result] = {}
    for path in sorted(paths):
        try:
            root = ElementTree.parse(path).getroot()
        except (ParseError, OSError):
            continue
        for case in root.iter("testcase"):
            if case.find("skipped") is not None:
                continue
            failure = case.find("failure")
            name, seconds = str(case.get("name")), float(case.get("time") or 0)
            if failure is None:
                found.setdefault(name, Result(name, "passed", seconds))
            elif name not in found or found[name].outcome == "passed":
                # The first process, by number, sets the suite up; of others its failure says no more than that.
                output = case.findtext("system-out") or ""
                found[name] = Result(name, "failed", seconds, _message(failure.text or ""), output)
    return found


def _message(text: str) -> str:
    """Return a failure's text without the places in the suite's sources around it."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    inner = [line for line in lines if not re.fullmatch(r"\S+\.go:\d+", line)]
    return "\n".join(inner).strip() or "\n".join(lines)


def complete(
    specs: Sequence[str], left_out: Mapping[str, str], found: Mapping[str, Result], why_not: str
) -> list[Result]:
    """Return a result for each spec of a plan, in its order, then failures of the suite itself, then those left out."""
    asked = [found.get(name, Result(name, "not run", message=why_not)) for name in specs]
    known = set(specs)
    others = [result for name, result in found.items() if name not in known and result.outcome == "failed"]
    return [*asked, *others, *(Result(name, "left out", message=reason) for name, reason in left_out.items())]


def red(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each spec that failed, and one for all that were not run for the same reason."""
    yield from (f"failed: {r.spec}: {gist(r.message)}" for r in results if r.outcome == "failed")
    reasons = Counter(r.message for r in results if r.outcome == "not run")
    yield from (f"not run: {number} specs: {gist(reason)}" for reason, number in reasons.items())


def gist(text: str) -> str:
    """Return a failure's text in one line: of an error that the suite prints as Go has it, its words alone."""
    lines = [_STAMP.sub("", line).strip() for line in text.splitlines() if line.strip()]
    if _UNEXPECTED in lines and "occurred" in lines:
        place, end = lines.index(_UNEXPECTED), lines.index("occurred")
        lines = [*lines[:place], lines[end - 1]]
    return ": ".join(lines[:2])


def counts(results: Iterable[Result]) -> Counter[Outcome]:
    """Count results by outcome."""
    return Counter(result.outcome for result in results)


def ok(results: Sequence[Result]) -> bool:
    """Return whether all that was to be run has passed, and that was something."""
    number = counts(results)
    return number["passed"] > 0 and not (number["failed"] or number["not run"])


def line(results: Sequence[Result], seconds: float) -> str:
    """Return the summary: how many passed, failed, were not run and were left out."""
    number = counts(results)
    words = [f"{number['passed']} of {len(results)} passed", f"{number['failed']} failed"]
    words += [f"{number[word]} {word}" for word in ("not run", "left out") if number[word]]
    return f"{', '.join(words)}; {seconds / 60:.1f} minutes"


def junit(results: Sequence[Result], *, began: datetime, seconds: float, facts: Mapping[str, str]) -> bytes:
    """Return one JUnit file: a test a spec; what is left out is skipped, what was not run an error."""
    number = counts(results)
    suite = Element(
        "testsuite",
        name=SUITE,
        tests=str(len(results)),
        failures=str(number["failed"]),
        errors=str(number["not run"]),
        skipped=str(number["left out"]),
        time=f"{seconds:.3f}",
        timestamp=f"{began.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )
    properties = SubElement(suite, "properties")
    for name, value in facts.items():
        SubElement(properties, "property", name=name, value=_clean(value))
    elements = {"failed": "failure", "left out": "skipped", "not run": "error"}
    for result in results:
        case = SubElement(suite, "testcase", classname=SUITE, name=_clean(result.spec), time=f"{result.seconds:.3f}")
        if element := elements.get(result.outcome):
            SubElement(case, element, message=_clean(gist(result.message))).text = _clean(result.message)
        if result.output:
            SubElement(case, "system-out").text = _clean(result.output)
    ElementTree.indent(suite)
    content: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return content


def _clean(text: str) -> str:
    return _NO_XML.sub("?", text)
