"""JUnit in and out, so that runs of other systems can be loaded and other systems can show ours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree.ElementTree import ParseError

from junitparser import Error, Failure, JUnitXml, JUnitXmlError, Skipped, TestCase, TestSuite

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history.model import Attempt, Run, seconds_of
from lab.redact import redact

#: How much of a message is kept, and how big a file may be: expat expands entities no further than a hundredfold.
MESSAGE = 4000
BIGGEST = 64 << 20
#: What a void test says before its reason.
VOID = "void: "


def _outcome(case: TestCase) -> tuple[Outcome, str]:
    for result in case.result:
        if isinstance(result, (Error, Failure)):
            message = f"{result.message or ''}\n{result.text or ''}".strip()
            return (Outcome.VOID if message.startswith(VOID) else Outcome.FAILED), redact(message)[:MESSAGE]
        if isinstance(result, Skipped):
            return Outcome.SKIPPED, redact(result.message or "")[:MESSAGE]
    return Outcome.PASSED, ""


def _suites(document: JUnitXml | TestSuite) -> list[TestSuite]:
    """A document's suites; its root may be one itself, and suites may nest."""
    found = [document] if isinstance(document, TestSuite) else list(document)
    return [inner for suite in found for inner in (suite, *_suites_in(suite))]


def _suites_in(suite: TestSuite) -> list[TestSuite]:
    return [inner for one in suite.testsuites() for inner in (one, *_suites_in(one))]


def load(path: Path, job: str, payload: str, began: str | None = None) -> Run:
    """A JUnit file as one run. A test that occurs more than once was attempted so often, as openshift-tests has it.

    `began` is taken from the first suite's timestamp, else from the file's. Raises InformerError.
    """
    try:
        if path.stat().st_size > BIGGEST:
            raise InformerError(f"{path}: bigger than {BIGGEST >> 20} MiB")
        content = path.read_bytes()
        document = JUnitXml.fromstring(content)
        suites = _suites(document)
        attempts = [_attempt(case) for suite in suites for case in suite if isinstance(case, TestCase)]
        stamps = [suite.timestamp for suite in suites if suite.timestamp]
        seconds = sum(seconds_of(suite.time) for suite in ([document] if isinstance(document, TestSuite) else document))
    except (OSError, ParseError, JUnitXmlError, ValueError, TypeError) as error:
        raise InformerError(f"{path}: not a JUnit file: {error}") from error
    if not attempts:
        raise InformerError(f"{path}: testcase: there is none")
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        stamp = datetime.fromisoformat(began or stamps[0]) if began or stamps else written
    except ValueError as error:
        raise InformerError(f"{path}: timestamp: {error}") from error
    utc = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    text = "\n".join(one.message for one in attempts if one.outcome is Outcome.FAILED)
    return Run(
        job=job,
        payload=payload,
        key=f"junit {job} {hashlib.sha256(content).hexdigest()}",
        began=f"{utc:%Y-%m-%dT%H:%M:%SZ}",
        seconds=seconds,
        attempts=attempts,
        evidence={"message": text} if text else {},
        folder=str(path.parent),
    )


def _attempt(case: TestCase) -> Attempt:
    outcome, message = _outcome(case)
    name = str(case.name or "(no name)")
    return Attempt(f"{case.classname}::{name}" if case.classname else name, outcome, seconds_of(case.time), message)


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
