"""docs/machines.md agrees with the scenarios."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/machines.md").read_text()
SCENARIOS = {path.name: path.read_text() for path in (ROOT / "scenarios").glob("*.py")}


def test_every_reason_for_a_virtual_machine_stands_in_the_page():
    marks = re.compile(r"mark\.vm\(\s*([\"'])(?P<reason>.+?)\1")
    reasons = [mark["reason"] for text in SCENARIOS.values() for mark in marks.finditer(text)]
    assert [reason for reason in reasons if reason not in PAGE] == []
    assert ("No scenario has the mark today" in PAGE) == (not reasons)


def test_the_tests_that_show_less_in_a_container_exist():
    named = set(re.findall(r"^\| `(test_\w+)` \|", PAGE, re.M))
    assert len(named) >= 3
    assert [name for name in named if not any(f"def {name}(" in text for text in SCENARIOS.values())] == []
