"""JUnit in and out, so that runs of other systems can be loaded and other systems can show ours."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError
from xml.parsers import expat

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite, xunit2

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history import files
from ci.informer.history.artifacts import KIND_BYTES
from ci.informer.history.model import Attempt, Run, began_of, seconds_of
from lab.redact import shortened

#: How much of a message is kept, and how big a file may be.
MESSAGE = 4000
BIGGEST = 64 << 20
_PIECE = 64 << 10
#: What the message of a void test begins with.
VOID = "void: "
#: GoogleTest's words for a test that was not run.
_NOT_RUN = ("notrun", "disabled")
#: Characters that XML cannot hold, not even escaped.
_NO_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _message(result: Error | Failure | Skipped | xunit2.InterimResult) -> str:
    text = f"{result.message or ''}\n{result.text or ''}".strip()
    return shortened(text or str(result.type or ""), MESSAGE)


def _attempts(element: Element) -> Iterator[Attempt]:
    """The attempts at a test: those of Surefire's reruns, and how it ended in the end."""
    case = xunit2.TestCase.fromelem(element)
    name = str(case.name or "(no name)")
    test, seconds = f"{case.classname}::{name}" if case.classname else name, _seconds_stated(element)
    for interim in case.interim_result:
        yield Attempt(test, Outcome.FAILED, 0.0, _message(interim))
    outcome, message = Outcome.PASSED, ""
    for result in case.result:
        if isinstance(result, (Error, Failure)):
            message = _message(result)
            # As `save` writes what is void; a test that fails may say what it likes.
            void = isinstance(result, Error) and message.startswith(VOID)
            outcome = Outcome.VOID if void else Outcome.FAILED
            break
        if isinstance(result, Skipped):
            outcome, message = Outcome.SKIPPED, _message(result)
    if outcome is Outcome.PASSED and element.get("status") in _NOT_RUN:
        outcome = Outcome.SKIPPED
    yield Attempt(test, outcome, seconds, message)


def _seconds_stated(element: Element) -> float:
    """An element's own time in seconds; some programs write thousands with a comma."""
    return seconds_of((element.get("time") or "").replace(",", ""))


def _seconds(element: Element) -> float:
    """How long a document, a suite or a test took: its own time, or where it says none that of all in it."""
    within = (_seconds(one) for one in element if one.tag in ("testsuite", "testcase"))
    return _seconds_stated(element) or seconds_of(sum(within))


def _has_doctype(content: bytes) -> bool:
    """Whether a document type comes before the first element."""
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
    """The content of a file or a pipe. Raises InformerError if it is too large."""
    with path.open("rb") as file:
        content = file.read(BIGGEST + 1)
    if len(content) > BIGGEST:
        raise InformerError(f"{path}: bigger than {BIGGEST >> 20} MiB")
    return content


def _parsed(path: Path) -> tuple[bytes, Element]:
    """A file and its root, without namespaces. Raises InformerError."""
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
    if root.tag not in ("testsuites", "testsuite"):
        raise InformerError(f"{path}: not a JUnit file: its root is {root.tag}, not testsuites or testsuite")
    return content, root


def _stated(root: Element, began: str | None) -> str:
    """The time at which the run began, as the user or else its first suite with a timestamp says; else empty."""
    stamps = (one.get("timestamp") for one in root.iter() if one.tag != "testcase")
    return began or next((stamp for stamp in stamps if stamp), "")


def _began(path: Path, stated: str, *, where: str) -> str:
    """The UTC time at which the run began: as stated (`where`), else the file's own time. Raises InformerError."""
    try:
        stamp = datetime.fromisoformat(stated.strip()) if stated else datetime.fromtimestamp(path.stat().st_mtime, UTC)
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


def load(path: Path, job: str, payload: str, began: str | None = None) -> Run:
    """A JUnit file as one run. A test that occurs more than once was attempted so often, as openshift-tests has it.

    `began` is taken from the first suite's timestamp, else from the file's. The same file is another run where it is
    said to be of another payload or time: two nights in which nothing failed may leave the same text. Raises
    InformerError.
    """
    content, root = _parsed(path)
    try:
        attempts = [attempt for case in root.iter("testcase") for attempt in _attempts(case)]
        seconds = _seconds(root)
    except RecursionError as error:
        raise InformerError(f"{path}: not a JUnit file: its suites nest too deeply") from error
    if not attempts:
        raise InformerError(f"{path}: testcase: there is none")
    text = "\n".join(one.message for one in attempts if one.outcome is Outcome.FAILED)
    stated = _stated(root, began)
    at = _began(path, stated, where="--began" if began else "timestamp")
    return Run(
        job=job,
        payload=payload,
        key=f"junit {job} {payload} {at if stated else ''} {hashlib.sha256(content).hexdigest()}",
        began=at,
        seconds=seconds,
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
    """A text without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _filled(result: Failure | Error, message: str) -> Failure | Error:
    clean = _xml(message)
    result.message = clean.splitlines()[0] if clean else ""
    result.text = clean.partition("\n")[2]
    return result
