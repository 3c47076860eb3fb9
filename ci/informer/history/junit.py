"""JUnit in and out, so that runs of other systems can be loaded and other systems can show ours."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError
from xml.parsers import expat

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite, xunit2

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import files
from ci.informer.history.model import Attempt, Run, began_of, seconds_of
from installer.common.redact import shortened
from lab.evidence.texts import KIND_BYTES

#: How much of a message is kept, and how big a file may be.
MESSAGE = 4000
BIGGEST = 64 << 20
_PIECE = 64 << 10
#: The begin of an invalid test's message.
VOID = "void: "
#: What programs say of a test or a suite, and where, that has ended well or was not run; any other word is a failure.
_STATED = ("status", "result", "outcome")
_RAN = ("run", "completed", "passed", "pass", "ok", "success", "successful", "succeeded")
_NOT_RUN = ("notrun", "disabled", "suppressed", "skipped", "pending", "ignored", "untested")
_NO = ("", "0", "false", "no", "none")
#: Counters of a suite: those that JUnit has, and by what they count under other names too.
_OF_JUNIT = ("tests", "failures", "errors", "skipped", "disabled")
_COUNTERS = {
    "tests": re.compile("tests"),
    "failed": re.compile("(fail(ed|s|ure|ures)?|err(or|ors)?|crash(ed|es)?|abort(ed|s)?|broken)([-_]?count)?"),
    "skipped": re.compile("(skip(ped|s)?|disabled|ignored|pending|not-?run)([-_]?count)?"),
}
#: Elements: what may be in a test, what TestNG says of one that was not run, what may be in a suite.
_INTERIM = ("rerunFailure", "rerunError", "flakyFailure", "flakyError")
_OF_CASE = ("failure", "error", "skipped", "system-out", "system-err", "properties", *_INTERIM)
_IGNORED = "ignored"
_SUITES = ("testsuite", "testsuites")
_OF_SUITE = ("properties", "property", "skipped", "system-out", "system-err")
#: The test that a suite's own failure is one of.
_ITSELF = "(the suite itself)"
#: Characters that XML cannot hold, not even escaped.
_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: A test: where it is (file and suites), its class, its name.
_Key = tuple[tuple[str, ...], str, str]


class _Result(NamedTuple):
    """An attempt, without its test's name, and the test that it is one at."""

    place: tuple[str, ...]
    class_name: str
    name: str
    attempt: Attempt

    @property
    def key(self) -> _Key:
        """The test."""
        return self.place, self.class_name, self.name


def _message(result: Error | Failure | Skipped | xunit2.InterimResult) -> str:
    text = f"{result.message or ''}\n{result.text or ''}".strip()
    return shortened(text or str(result.type or ""), MESSAGE)


def _attempts(element: Element) -> Iterator[Attempt]:
    """Yield the attempts at a test: those of Surefire's reruns, and how it ended in the end. What says neither that it
    passed nor that it was not run has failed."""
    case = xunit2.TestCase.fromelem(element)
    seconds = _seconds_stated(element)
    for interim in case.interim_result:
        yield Attempt("", Outcome.FAILED, 0.0, _message(interim))
    outcome, message = Outcome.PASSED, ""
    if element.find("rerunFailure") is not None or element.find("rerunError") is not None:
        outcome, message = Outcome.FAILED, "it failed when it was run again"  # what passed then is flaky
    for result in case.result:
        if isinstance(result, (Error, Failure)):
            message = _message(result)
            # As `save` writes an invalid test; a test that fails may say what it likes.
            void = isinstance(result, Error) and message.startswith(VOID)
            outcome = Outcome.VOID if void else Outcome.FAILED
            break
        if isinstance(result, Skipped) and outcome is Outcome.PASSED:
            outcome, message = Outcome.SKIPPED, _message(result)
    if outcome is Outcome.PASSED:
        if unknown := [child.tag for child in element if child.tag not in (*_OF_CASE, _IGNORED)]:
            outcome, message = Outcome.FAILED, f"<{unknown[0]}> is no result that JUnit has"
        elif element.find(_IGNORED) is not None:
            outcome = Outcome.SKIPPED
    if outcome in (Outcome.PASSED, Outcome.SKIPPED):
        stated = _stated(element)
        if failing := stated.get(Outcome.FAILED):
            outcome, message = Outcome.FAILED, failing
        elif stated:
            outcome = Outcome.SKIPPED
    yield Attempt("", outcome, seconds, shortened(message, MESSAGE))


def _stated(element: Element) -> dict[Outcome, str]:
    """Read from a test's or a suite's own attributes that it failed or was not run."""
    said: dict[Outcome, str] = {}
    for name, value in element.attrib.items():
        word = value.strip().lower()
        failed = element.tag == "testcase" and _COUNTERS["failed"].fullmatch(name.lower()) and word not in _NO
        if name in _STATED and word and word not in _RAN:
            said[Outcome.SKIPPED if word in _NOT_RUN else Outcome.FAILED] = f"{name}: {value}"
        elif failed or (name.lower() in ("passed", "success") and word in ("false", "no")):
            said[Outcome.FAILED] = f"{name}: {value}"
    return said


def _counts(element: Element) -> tuple[int, int, int]:
    """Return the tests, the failures and the tests not run that a suite's counters say; 0 where they say none. The same
    may be counted under a name of JUnit's and another one. Raises ValueError for what is no count."""
    own, others = Counter[str](), Counter[str]()
    for name, value in element.attrib.items():
        kind = next((kind for kind, names in _COUNTERS.items() if names.fullmatch(name.lower())), "")
        text = value.strip().replace(",", "")
        if kind and text and not (text.isascii() and text.isdigit()):
            raise ValueError(f"{name}: {value!r} is no count")
        if kind:
            (own if name in _OF_JUNIT else others)[kind] += int(text or 0)
    tests, failed, skipped = (max(own[kind], others[kind]) for kind in _COUNTERS)
    return tests, failed, skipped


def _contradiction(element: Element, shown: Sequence[Outcome]) -> str:
    """Describe a suite's counters that contradict its cases (`shown`, all below it); empty where they agree.

    Only what could hide a failure: cases that are missing, failures that are not shown, passes that were none.
    """
    interim = sum(1 for child in element.iter() if child.tag in _INTERIM)  # Surefire may count each attempt
    try:
        tests, failed, skipped = _counts(element)
    except ValueError as error:
        return str(error)
    red = sum(outcome in (Outcome.FAILED, Outcome.VOID) for outcome in shown)
    if failed > red:
        return f"its counters say that {failed} failed, its cases that {red} did"
    left_out = max(0, skipped - sum(outcome is Outcome.SKIPPED for outcome in shown))
    if tests > len(shown) + interim + left_out:
        return f"tests: {tests}, of which {len(shown)} are there"
    passed = sum(outcome is Outcome.PASSED for outcome in shown)
    if element.get("tests") and passed - interim > tests - failed - skipped:
        return f"its counters say that {max(0, tests - failed - skipped)} passed, its cases that {passed} did"
    return ""


def _suite(element: Element, place: tuple[str, ...]) -> Iterator[_Result]:
    """All attempts of a suite and those within it. `place` tells it from every other suite, also of the same name: the
    same test in two suites is two tests. A failure that is the suite's own is one of a test `_ITSELF`."""
    shown: list[Outcome] = []

    def noted(results: Iterable[_Result]) -> Iterator[_Result]:
        for result in results:
            shown.append(result.attempt.outcome)
            yield result

    def of_suite(message: str) -> _Result:
        return _Result(place, "", _ITSELF, Attempt("", Outcome.FAILED, 0.0, shortened(message, MESSAGE)))

    names, nameless = Counter[str](), 0
    for child in element:
        if child.tag == "testcase":
            name = child.get("name") or ""
            # Two without a name are not one that was tried twice.
            nameless += not name
            test = child.get("classname") or "", name or f"(no name) {nameless}".removesuffix(" 1")
            # The same name in another file, or on another line, is another test.
            where = ":".join(filter(None, [child.get("file"), child.get("line")]))
            yield from noted(_Result((*place, where), *test, attempt) for attempt in _attempts(child))
        elif child.tag in _SUITES:
            name = child.get("name") or ""
            names[name] += 1
            yield from noted(_suite(child, (*place, name if names[name] == 1 else f"{name}#{names[name]}")))
        elif child.tag in ("error", "failure"):
            text = f"{child.get('message') or ''}\n{child.text or ''}".strip()
            yield from noted([of_suite(text or child.get("type") or child.tag)])
        elif child.tag not in _OF_SUITE:
            yield of_suite(f"<{child.tag}> is nothing that JUnit has in a suite")
        elif child.tag == "system-err" and element.find(".//testcase") is None and (child.text or "").strip():
            yield of_suite((child.text or "").strip())
    if why := _contradiction(element, shown) or _stated(element).get(Outcome.FAILED):
        yield of_suite(why)


def _named(results: Sequence[_Result]) -> list[Attempt]:
    """Return attempts, by names that no two tests share: class and name; the suite before it where others have the
    same, and the file before that where its suites are called the same."""
    keys = dict.fromkeys(result.key for result in results)
    forms = [{key: _name(key, depth) for key in keys} for depth in (0, 1, 2)]
    counts = [Counter(form.values()) for form in forms]
    names: dict[str, _Key] = {}
    for key in keys:
        fitting = (form[key] for form, count in zip(forms, counts, strict=True) if count[form[key]] == 1)
        name = next(fitting, forms[-1][key])
        # A class may be called like a suite.
        number = 1
        while (free := name if number == 1 else f"{name} ({number})") in names:
            number += 1
        names[free] = key
    by_key = {key: name for name, key in names.items()}
    return [replace(result.attempt, test=by_key[result.key]) for result in results]


def _name(key: _Key, depth: int) -> str:
    """Return a test's class and name; before them its suites, if `depth`, and the file too, if it is 2."""
    (file, *suites), *test = key
    before = [*([file] if depth == 2 else []), *(suites if depth else [])]
    return "::".join(part for part in (*before, *test) if part)


def _seconds_stated(element: Element) -> float:
    """Return an element's own time in seconds; some programs write thousands with a comma."""
    return seconds_of((element.get("time") or "").replace(",", ""))


def _seconds(element: Element) -> float:
    """Read how long a document, a suite or a test took: its own time, or where it says none that of all in it."""
    within = (_seconds(child) for child in element if child.tag in (*_SUITES, "testcase"))
    return _seconds_stated(element) or seconds_of(sum(within))


def _has_doctype(content: bytes) -> bool:
    """Tell whether a document type comes before the first element."""
    seen: list[str] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: seen.append("doctype")
    parser.StartElementHandler = lambda *_: seen.append("element")
    # Errors in the XML are reported by the parser that reads all of it.
    with suppress(expat.ExpatError, LookupError):
        for begin in range(0, len(content), _PIECE):
            parser.Parse(content[begin : begin + _PIECE])
            if seen:
                break
    return "doctype" in seen


def _content(path: Path) -> bytes:
    """Return the content of a file or a pipe. Raises InformerError if it is too large."""
    with path.open("rb") as file:
        content = file.read(BIGGEST + 1)
    if len(content) > BIGGEST:
        raise InformerError(f"{path}: bigger than {BIGGEST >> 20} MiB")
    return content


def _parsed(path: Path) -> tuple[bytes, Element]:
    """Return a file and its root, without namespaces. Raises InformerError."""
    try:
        content = _content(path)
        if _has_doctype(content):
            # No JUnit file has one, and what its entities stand for may be a hundred times the file.
            raise InformerError(f"{path}: not a JUnit file: it has a document type (<!DOCTYPE ...>)")
        root = ElementTree.fromstring(content)
    except (OSError, ParseError, ValueError, LookupError) as error:
        raise InformerError(f"{path}: not a JUnit file: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag not in _SUITES:
        raise InformerError(f"{path}: not a JUnit file: its root is {root.tag}, not testsuites or testsuite")
    return content, root


def _began(path: Path, root: Element, began: str | None) -> str:
    """Return the UTC time at which the run began, as the user or else its first suite with a timestamp says; a file's
    own time is when it was copied. Raises InformerError."""
    where = "--began" if began else "timestamp"
    stamps = (element.get("timestamp", "").strip() for element in root.iter() if element.tag != "testcase")
    stated = began or next((stamp for stamp in stamps if stamp), "")
    if not stated:
        raise InformerError(f"{path}: timestamp: there is none: say when the run began by --began TIME")
    try:
        stamp = datetime.fromisoformat(stated.strip())
        utc = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InformerError(f"{path}: {where}: {stated!r} is no time in ISO 8601: say it by --began TIME") from error
    try:
        # Go writes a time that nobody set as 0001-01-01T00:00:00Z.
        return began_of(f"{utc.isoformat(timespec='seconds').removesuffix('+00:00')}Z")
    except ValueError as error:
        raise InformerError(
            f"{path}: {where}: {stated!r} is no time of this century: say it by --began TIME"
        ) from error


def _file_names(paths: Sequence[Path]) -> list[str]:
    """Name files beside one another: `a/junit.xml` and `b/junit.xml`, without the folder that they share.
    Raises InformerError for one that is there twice."""
    whole = [path.absolute() for path in paths]
    for place, path in enumerate(whole):
        if path in whole[:place]:
            raise InformerError(f"{paths[place]}: is given twice")
    above = os.path.commonpath([path.parent for path in whole])
    return [os.path.relpath(path, above) for path in whole]


def load(paths: Sequence[Path], job: str, payload: str, began: str | None = None) -> Run:
    """JUnit files as one run. A test that a suite has more than once was attempted so often, as openshift-tests has it;
    the same test in two suites, or two files, is two tests.

    It began with the first of them, by their timestamps, or at `began`. The same files are another run where they are
    said to be of another payload or time: two nights in which nothing failed may leave the same text. Raises
    InformerError.
    """
    digests, times, results, seconds = list[str](), [], list[_Result](), 0.0
    for path, name in zip(paths, _file_names(paths), strict=True):
        content, root = _parsed(path)
        try:
            seen = list(_suite(root, (name, *filter(None, [root.get("name") if root.tag == "testsuite" else ""]))))
            seconds += _seconds(root)
        except RecursionError as error:
            raise InformerError(f"{path}: not a JUnit file: its suites nest too deeply") from error
        if not seen:
            raise InformerError(f"{path}: testcase: there is none")
        results += seen
        times.append(_began(path, root, began))
        digest = hashlib.sha256(content).hexdigest()
        if digest in digests:
            raise InformerError(f"{path}: is {paths[digests.index(digest)]} once more")
        digests.append(digest)
    attempts = _named(results)
    text = "\n".join(attempt.message for attempt in attempts if attempt.outcome is Outcome.FAILED)
    at = min(times)
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()
    return Run(
        job=job,
        payload=payload,
        key=f"junit {job} {payload} {at} {digest}",
        began=at,
        seconds=seconds_of(seconds),
        attempts=attempts,
        evidence={"message": text[:KIND_BYTES]} if text else {},
        # No folder: what lies beside the file is somebody else's, and `prune` would remove it.
    )


def save(path: Path, name: str, runs: Sequence[tuple[str, str, float, Sequence[Attempt]]]) -> None:
    """Write runs as a JUnit file, a suite each: its name, when it began, its seconds, its attempts. Void tests are
    errors, as JUnit knows nothing of them."""
    document = JUnitXml(_xml(name))
    for job, began, _, attempts in runs:
        suite = TestSuite(_xml(job))
        suite.timestamp = began
        for attempt in attempts:
            case = TestCase(_xml(attempt.test), _xml(job), attempt.seconds)
            if attempt.outcome is Outcome.FAILED:
                case.result = [_filled(Failure(), attempt.message)]
            elif attempt.outcome is Outcome.VOID:
                case.result = [_filled(Error(), attempt.message if attempt.message.startswith(VOID) else VOID)]
            elif attempt.outcome is Outcome.SKIPPED:
                case.result = [Skipped(_xml(attempt.message))]
            suite.add_testcase(case)
        # Not add_testsuite, which makes one of two runs of a job that began within a second.
        document.append(suite)
    document.update_statistics()
    # A run takes longer than its tests: the installation is before them.
    for suite, (_, _, seconds, _) in zip(document, runs, strict=True):
        suite.time = seconds
    document.time = sum(seconds for _, _, seconds, _ in runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.BytesIO()
    document.write(text, pretty=True)
    files.write(path, text.getvalue())


def _xml(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _filled(result: Failure | Error, message: str) -> Failure | Error:
    clean = _xml(message)
    result.message = clean.splitlines()[0] if clean else ""
    result.text = clean.partition("\n")[2]
    return result
