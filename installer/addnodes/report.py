"""report.json: the stages of making an image, and how it ended, for programs (reference/add-nodes.md §4)."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from installer.common.redact import redact
from installer.errors import InstallerError
from installer.files import write_whole

log = logging.getLogger(__name__)

FILE = "report.json"
#: The stages by their identifiers, which are upstream's.
STAGES = {
    "add-nodes-cluster-inspection": "Reading what the cluster says of itself",
    "fetch-base-iso": "Fetching the base image from the release",
    "ignition": "Rendering the hosts' Ignition config",
    "generate-iso": "Writing the ISO",
    "generate-pxe": "Writing the files for booting from a network",
}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Report:
    """The report of one command. `name`: what is made."""

    def __init__(self, name: str) -> None:
        began = datetime.now(UTC)
        self._document: dict[str, Any] = {"id": f"report-{name}-{began:%Y%m%d%H%M}", "start_time": _now()}
        self._stages: list[dict[str, str]] = []

    def stage(self, identifier: str) -> None:
        """Begin a stage, which ends the one before."""
        self._end_stage()
        self._stages.append({"id": identifier, "description": STAGES[identifier], "start_time": _now()})

    def _end_stage(self) -> None:
        if self._stages:
            self._stages[-1].setdefault("end_time", _now())

    def text(self, error: BaseException | None, code: int) -> str:
        """Return the report of a command that has ended with this code, without secrets."""
        self._end_stage()
        result: dict[str, Any] = {"exit_code": code}
        if error is not None:
            cause = error
            while isinstance(cause.__cause__, InstallerError):
                cause = cause.__cause__
            result |= {"error_message": redact(_line(cause)), "detailed_error_message": redact(_line(error))}
        document = {**self._document, "end_time": _now(), "stages": self._stages, "result": result}
        return json.dumps(document, indent=2) + "\n"


def _line(error: BaseException) -> str:
    return str(error) or traceback.format_exception_only(error)[-1].strip()


@contextmanager
def reported(directory: Path, name: str, *, always: bool) -> Iterator[Report]:
    """Provide a report, which is written into the directory where the block fails, and otherwise if `always`."""
    report = Report(name)
    try:
        yield report
    except InstallerError as error:
        with suppress(OSError):  # the error says what is wrong, and may well be a full disk
            write_whole(directory / FILE, report.text(error, error.exit_code).encode())
        raise
    if always:
        write_whole(directory / FILE, report.text(None, 0).encode())
