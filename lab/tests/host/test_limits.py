"""Limits of the host that machines share."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lab.host.limits import INOTIFY_INSTANCES, raise_inotify


@pytest.mark.parametrize(
    ("before", "after"), [(128, INOTIFY_INSTANCES), (INOTIFY_INSTANCES, INOTIFY_INSTANCES), (65536, 65536)]
)
def test_a_limit_is_only_ever_raised(tmp_path: Path, before: int, after: int) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{before}\n")
    raise_inotify(limit)
    assert int(limit.read_text()) == after


def test_what_cannot_be_raised_is_said_with_the_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")

    def refused(*_: object) -> int:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refused)
    with caplog.at_level(logging.WARNING):
        raise_inotify(limit)
    assert "128" in caplog.text
    assert f"sysctl -w fs.inotify.max_user_instances={INOTIFY_INSTANCES}" in caplog.text
