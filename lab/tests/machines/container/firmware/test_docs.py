"""The early boot does as docs/machines.md says."""

from __future__ import annotations

import re
from pathlib import Path

from lab.machines.container.firmware.early.stage import REPLACED

PAGE = Path(__file__).parents[5] / "docs/machines.md"


def test_each_unit_that_is_replaced_is_in_the_table() -> None:
    table = PAGE.read_text().partition("## What the initramfs does in a container")[2]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9-]+\.(?:service|socket|target))`", row)}
    assert named == set(REPLACED)
