"""Reasons of conditions and events: those of the reference and those in the code are each named by a test."""

import ast
import re
from pathlib import Path

HUB = Path(__file__).parents[2] / "hub"
REFERENCE = HUB.parents[1] / "docs" / "reference" / "hub.md"
#: Those of firmware updates, of hardware profiles, and of annotations that the webhook refuses.
LEFT_OUT = {"Servicing", "ProfileSet", "InvalidAnnotationValue"}
REASON = re.compile(r"\b[A-Z][A-Za-z]+\b")
MAKERS = {"Condition", "Verdict", "event"}


def documented():
    text = REFERENCE.read_text().partition("## 3. AgentClusterInstall")[2]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    quoted = {word for row in rows for word in re.findall(r"`([^`]+)`", row)}
    events = re.search(r"^Events: (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    assert events, "the reference lists no events of BareMetalHosts"
    named = set(REASON.findall(events[1].replace("RegistrationError and its like", "RegistrationError")))
    return {word for word in quoted if REASON.fullmatch(word)} | named


def made():
    for path in HUB.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) in MAKERS:
                constants = (
                    node.value for arg in call.args for node in ast.walk(arg) if isinstance(node, ast.Constant)
                )
                yield from (value for value in constants if isinstance(value, str) and REASON.fullmatch(value))


def test_each_reason_is_named_by_a_test():
    tests = [path for path in Path(__file__).parent.rglob("test_*.py") if path != Path(__file__)]
    words = {word for path in tests for word in re.findall(r"\w+", path.read_text())}
    reasons = {*documented(), *made()}
    assert {"SyncOK", "InstallationOnHold", "CleanupFailed", "BMCAccessValidated", "HostRegistered"} <= reasons
    assert reasons - LEFT_OUT - words == set()
