"""JUnit in and out, so that runs of other systems can be loaded and other systems can show ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite, xunit2

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history.model import Attempt, Run, seconds_of
from lab.redact import redact

#: How much of a message is kept, and how big a file may be: expat expands entities no further than a hundredfold.
MESSAGE = 4000
BIGGEST = 64 << 20
#: What a void test says before its reason.
VOID = "void: "
#: GoogleTest's words for a test that was not run.
_NOT_RUN = ("notrun", "disabled")


def _message(result: Error | Failure | Skipped | xunit2.InterimResult) -> str:
    text = f"{result.message or ''}\n{result.text or ''}".strip()
    return redact(text or str(result.type or ""))[:MESSAGE]


def _attempts(element: Element) -> Iterator[Attempt]:
    """The attempts at a test: those of Surefire's reruns, and how it ended in the end."""
    case = xunit2.TestCase.fromelem(element)
    name = str(case.name or "(no name)")
    test, seconds = f"{case.classname}::{name}" if case.classname else name, _seconds_said(element)
    for interim in case.interim_result:
        yield Attempt(test, Outcome.FAILED, 0.0, _message(interim))
    outcome, message = Outcome.PASSED, ""
    for result in case.result:
        if isinstance(result, (Error, Failure)):
            message = _message(result)
            outcome = Outcome.VOID if message.startswith(VOID) else Outcome.FAILED
            break
        if isinstance(result, Skipped):
            outcome, message = Outcome.SKIPPED, _message(result)
    if outcome is Outcome.PASSED and element.get("status") in _NOT_RUN:
        outcome = Outcome.SKIPPED
    yield Attempt(test, outcome, seconds, message)


def _seconds_said(element: Element) -> float:
    """What an element says of its time; some write thousands with a comma."""
    return seconds_of((element.get("time") or "").replace(",", ""))


def _seconds(element: Element) -> float:
    """How long a document, a suite or a test took: its own time, or where it says none that of all in it."""
    return _seconds_said(element) or sum(_seconds(one) for one in element if one.tag in ("testsuite", "testcase"))


def _parsed(path: Path) -> tuple[bytes, Element]:
    """A file and its root, without namespaces. Raises InformerError."""
    try:
        if path.stat().st_size > BIGGEST:
            raise InformerError(f"{path}: bigger than {BIGGEST >> 20} MiB")
        content = path.read_bytes()
        root = ElementTree.fromstring(content)
    except (OSError, ParseError, ValueError, LookupError) as error:
        raise InformerError(f"{path}: not a JUnit file: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag not in ("testsuites", "testsuite"):
        raise InformerError(f"{path}: not a JUnit file: its root is {root.tag}, not testsuites or testsuite")
    return content, root


def _began(path: Path, root: Element, began: str | None) -> str:
    """When it began: as the user says, else the first of its suites, else when the file was written."""
    stamps = (one.get("timestamp") for one in root.iter() if one.tag != "testcase")
    text = began or next((stamp for stamp in stamps if stamp), "")
    try:
        stamp = datetime.fromisoformat(text.strip()) if text else datetime.fromtimestamp(path.stat().st_mtime, UTC)
        utc = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        where = "--began" if began else "timestamp"
        raise InformerError(f"{path}: {where}: {text!r} is no time in ISO 8601: say it by --began TIME") from error
    return f"{utc:%Y-%m-%dT%H:%M:%SZ}"


def load(path: Path, job: str, payload: str, began: str | None = None) -> Run:
    """A JUnit file as one run. A test that occurs more than once was attempted so often, as openshift-tests has it.

    `began` is taken from the first suite's timestamp, else from the file's. Raises InformerError.
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
    return Run(
        job=job,
        payload=payload,
        key=f"junit {job} {hashlib.sha256(content).hexdigest()}",
        began=_began(path, root, began),
        seconds=seconds,
        attempts=attempts,
        evidence={"message": text} if text else {},
        folder=str(path.parent),
    )


def save(path: Path, name: str, runs: Sequence[tuple[str, str, float, Sequence[Attempt]]]) -> None:
    """Write runs as a JUnit file, a suite each: its name, when it began, its seconds, its attempts. Void tests are
    errors, as JUnit knows nothing of them."""
    document = JUnitXml(name)
    for job, began, _, attempts in runs:
        suite = TestSuite(job)
        suite.timestamp = began
        for attempt in attempts:
            case = TestCase(attempt.test, job, attempt.seconds)
            if attempt.outcome is Outcome.FAILED:
                case.result = [_filled(Failure(), attempt.message)]
            elif attempt.outcome is Outcome.VOID:
                case.result = [_filled(Error(), attempt.message if attempt.message.startswith(VOID) else VOID)]
            elif attempt.outcome is Outcome.SKIPPED:
                case.result = [Skipped(attempt.message)]
            suite.add_testcase(case)
        # Not add_testsuite, which makes one of two runs of a job that began within a second.
        document.append(suite)
    document.update_statistics()
    # A run takes longer than its tests: the installation is before them.
    for suite, (_, _, seconds, _) in zip(document, runs, strict=True):
        suite.time = seconds
    document.time = sum(seconds for _, _, seconds, _ in runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    document.write(str(path), pretty=True)


def _filled(result: Failure | Error, message: str) -> Failure | Error:
    clean = "".join(c for c in message if c in "\t\n" or c >= " ")
    result.message = clean.splitlines()[0] if clean else ""
    result.text = clean.partition("\n")[2]
    return result
