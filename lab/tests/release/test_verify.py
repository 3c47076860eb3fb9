"""Programs of an image, started in its root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.release import verify


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_program_that_hangs_or_prints_no_text_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify.in_chroot(Path("/"), "sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\nerr")
    assert verify.in_chroot(Path("/"), "printf", r"a\377b") == (0, "a�b")
    monkeypatch.setattr(verify, "CHROOT_SECONDS", 0.3)
    assert verify.in_chroot(Path("/"), "sleep", "1000") == (124, "sleep did not end within 0.3 s")
