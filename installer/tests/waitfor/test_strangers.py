"""Answers from others in the rendezvous service's place: the first error says what they do, and blames no host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.errors import ClientError, NoAnswer, Untrusted
from installer.testing import waitfor_kit
from installer.testing.waitfor_kit import OTHER_CA, QUICK, Moment, Run, cluster, host
from installer.waitfor import decide

SHORT = replace(QUICK, bootstrap=0.5, unreachable_after=0)
PAGE = b"<html><title>503 Service Temporarily Unavailable</title></html>"


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[int, Any]]) -> None:
    """Have the service answer these paths so, "" all others, and 404 where that is missing."""
    real = waitfor_kit.World.rest

    def rest(world: Any, path: str, headers: Any) -> tuple[int, Any]:
        short = path.partition("?")[0].removeprefix(waitfor_kit.BASE)
        return answers.get(short) or answers.get("") or real(world, path, headers)

    monkeypatch.setattr(waitfor_kit.World, "rest", rest)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((503, PAGE), "HTTP 503: <html>"),
        ((503, {"code": "503", "reason": "the service's database /x cannot be opened"}), "HTTP 503: the service's dat"),
        ((302, b""), "HTTP 302"),
        ((404, b"404 page not found"), "HTTP 404: 404 page not found"),
        ((429, {"reason": "too many"}), "HTTP 429: too many"),
        ((200, b"<html>hello</html>"), "HTTP 200: the answer is not JSON"),
        ((200, {"a": 1}), "HTTP 200: the answer is not a list of objects"),
    ],
)
def test_an_answer_that_will_not_do_is_no_silence(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, Any], words: str
) -> None:
    answering(monkeypatch, {"": answer})
    assert run([Moment()], settings=SHORT) == 5
    line = run.lines("ERROR")[0]
    begins = "What answers on 127.0.0.1 does not serve as the rendezvous service of this image: GET /infra-envs: "
    assert line.startswith(begins + words)
    assert "never reached" not in line
    assert "answers nothing" not in "\n".join(run.lines())
    # Long before the time-out, and once.
    assert run.lines("WARNING").count(line) == 1


def test_a_service_with_another_ca_or_token_is_another_images(run: Run) -> None:
    assert run([Moment()], settings=SHORT, ca=OTHER_CA) == 5
    line = run.lines("ERROR")[0]
    assert line.startswith(
        "What answers on 127.0.0.1 does not serve as the rendezvous service of this image: TLS with "
    )
    assert "certificate verify failed" in line
    assert line.endswith(f"; was the host booted from the image in {run.dir}?")
    assert run.lines("WARNING") == [line]


def test_a_token_that_is_refused(run: Run) -> None:
    assert run([Moment(cluster("ready"))], settings=SHORT, token="another") == 5
    line = run.lines("ERROR")[0]
    assert "GET /infra-envs: HTTP 401: token is unknown; was the host booted from the image in " in line


@pytest.mark.parametrize("path", ["/clusters", "/clusters/c", "/events"])
def test_a_service_that_cannot_list_its_hosts_blames_none_of_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    answering(monkeypatch, {path: (503, PAGE)})
    assert run([Moment(cluster("ready"), [host("master-0", "known")])], settings=SHORT) == 5
    line = run.lines("ERROR")[0]
    assert line.startswith(
        f"The rendezvous service on 127.0.0.1 cannot say how far it is: GET {path}: HTTP 503: <html>"
    )
    assert not [text for text in run.lines("ERROR") if "never registered" in text]


def test_a_time_out_without_a_failure_says_first_what_was_seen_last(run: Run) -> None:
    assert run([Moment(cluster("installing"), [host("master-0", "installing")])], settings=SHORT) == 5
    line = run.lines("ERROR")[0]
    assert line.startswith(
        "No failure was reported: waited for the bootstrap's kube API to come up; cluster was install"
    )
    assert "host master-0 was installing" in line


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (Untrusted("TLS", "x", "certificate verify failed: certificate is not yet valid"), "; is this machine's clock"),
        (
            Untrusted("TLS", "x", "certificate verify failed: certificate has expired"),
            "; is this machine's clock right?",
        ),
        (
            Untrusted("TLS", "x", "certificate verify failed: IP address mismatch"),
            "; was the host booted from the image",
        ),
        (ClientError("GET /x", 403, "no"), "; was the host booted from the image in /d?"),
        (ClientError("GET /x", 503, "no"), ""),
        (NoAnswer("GET /x", "timed out", "it does not answer"), ""),
    ],
)
def test_what_is_likely(error: ClientError, hint: str) -> None:
    refusal = decide.refusal(error, Path("/d"))
    assert refusal.startswith(hint)
    assert bool(refusal) == bool(hint)
