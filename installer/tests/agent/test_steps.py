"""The table of steps: each is answered, whatever goes wrong; a lost medium is told in place of what it broke."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installer.agent import steps
from installer.agent.containers import AgentContext
from installer.agent.errors import AgentError, MediaLost, StepError
from installer.agent.host import media
from installer.hostsys.errors import CommandError
from installer.testing.agent_kit import FakeClient, Host

AGENT = AgentContext("https://192.0.2.1:8090/", "i", "h", "TOKEN", "", False, "agent@sha256:1")
MOUNT = "36 25 11:0 / /run/media/iso ro,nodev shared:9 - iso9660 /dev/sr0 ro\n"


def context(root: Path, step: Callable[[], str] | None = None) -> steps.StepContext:
    table = {"s": lambda ctx, args: step()} if step else steps.TABLE
    return steps.StepContext(Host(root), AGENT, FakeClient(), media.Watch(every=3600), table)  # type: ignore[arg-type]


def raises(error: BaseException) -> Callable[[], str]:
    def step() -> str:
        raise error

    return step


def with_media(root: Path) -> Path:
    """The host's discovery medium, which is there; its device."""
    host = Host(root)
    host.path("/run/media/iso").mkdir(parents=True)
    host.write("/proc/1/mountinfo", MOUNT)
    return host.write("/dev/sr0", bytes(4096))


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StepError("no", 7), 7, "no"),
        (StepError("no"), -1, "no"),
        (MediaLost("gone"), 256, "gone"),
        (CommandError("lsblk", 1, "broke"), -1, "lsblk: exit code 1: broke"),
        (CommandError("lsblk", None, "slow"), -1, "lsblk: slow"),
        (AgentError("odd"), -1, "odd"),
        (OSError("I/O"), -1, "OSError: I/O"),
        (ValueError("v"), -1, "ValueError: v"),
        (KeyError("k"), -1, "KeyError: 'k'"),
        (TypeError("t"), -1, "TypeError: t"),
        (AttributeError("a"), -1, "AttributeError: a"),
        (RuntimeError("can't start new thread"), -1, "RuntimeError: can't start new thread"),
        (IndexError("i"), -1, "IndexError: i"),
    ],
)
def test_whatever_a_step_raises_is_answered(tmp_path: Path, error: Exception, code: int, text: str) -> None:
    assert steps.run(context(tmp_path, raises(error)), "s", []) == (code, "", text)


def test_what_nobody_expected_is_logged_with_its_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps.run(context(tmp_path, raises(ValueError("v"))), "s", [])
    assert caplog.records == []
    with caplog.at_level(logging.ERROR):
        steps.run(context(tmp_path, raises(AttributeError("a"))), "s", [])
    assert "Traceback" in caplog.text


def test_an_answer(tmp_path: Path) -> None:
    assert steps.run(context(tmp_path, lambda: "out"), "s", []) == (0, "out", "")


def test_unknown_steps_and_bad_arguments_are_answered(tmp_path: Path) -> None:
    known = context(tmp_path)
    unknown = (-1, "", "step type download-boot-artifacts is not known to this agent")
    assert steps.run(known, "download-boot-artifacts", []) == unknown

    def said(kind: str, *args: str) -> str:
        code, output, error = steps.run(known, kind, list(args))
        assert (code, output) == (-1, "")
        return error

    assert said("domain-resolution") == "one argument is expected, not 0"
    assert said("domain-resolution", "{}", "{}") == "one argument is expected, not 2"
    assert said("domain-resolution", "{").startswith("argument is not JSON: ")
    assert said("domain-resolution", "[]") == "argument must be a JSON dict"
    assert said("connectivity-check", "{}") == "argument must be a JSON list"
    assert said("install", "{}") == "install request has no role"
    assert said("installation-disk-speed-check", "{}") == "path '' is not a device"
    assert said("installation-disk-speed-check", "{}", "480.00") == "path '' is not a device"
    assert said("installation-disk-speed-check", "{}", "soon") == "the time limit 'soon' is not a number of seconds"
    assert said("installation-disk-speed-check", "{}", "nan") == "the time limit 'nan' is not a number of seconds"
    assert said("installation-disk-speed-check", "{}", "1", "2") == "one argument is expected, not 3"
    assert said("logs-gather", "{}") == "KeyError: 'cluster_id'"
    for kind in ("free-network-addresses", "verify-vips"):
        assert said(kind, '"a"') == "argument must be a JSON list"
    for kind in ("ntp-synchronizer", "container-image-availability", "tang-connectivity-check"):
        assert said(kind, "[1]") == "argument must be a JSON dict"


def test_steps_that_need_nothing_of_the_host(tmp_path: Path) -> None:
    known = context(tmp_path)
    assert steps.run(known, "domain-resolution", ['{"domains": []}']) == (0, '{"resolutions": []}', "")
    code, output, _ = steps.run(known, "tang-connectivity-check", ['{"tang_servers": []}'])
    assert (code, json.loads(output)["is_success"]) == (0, False)
    code, output, _ = steps.run(known, "api-vip-connectivity-check", ['{"url": "ftp://x"}'])
    assert (code, json.loads(output)["is_success"]) == (0, False)
    assert steps.run(known, "container-image-availability", ['{"images": []}']) == (0, '{"images": []}', "")


def test_a_lost_medium_is_told_before_a_step_is_run(tmp_path: Path) -> None:
    ran: list[int] = []

    def step() -> str:
        ran.append(1)
        return ""

    device = with_media(tmp_path)
    known = context(tmp_path, step)
    assert steps.run(known, "s", []) == (0, "", "")
    device.unlink()
    # Looked at a moment ago: the step runs.
    assert steps.run(known, "s", []) == (0, "", "")
    assert steps.run(context(tmp_path, step), "s", [])[0] == 256
    assert ran == [1, 1]


@pytest.mark.parametrize(
    "error", [StepError("no", 7), CommandError("lsblk", 1, "Input/output error"), OSError("I/O"), RuntimeError("x")]
)
def test_whatever_fails_when_the_medium_is_lost_is_told_as_that(tmp_path: Path, error: Exception) -> None:
    """Programs and libraries lie on it: what is told is the cause, not what it did to one of them."""
    device = with_media(tmp_path)

    def step() -> str:
        device.unlink()
        raise error

    code, output, text = steps.run(context(tmp_path, step), "s", [])
    assert (code, output) == (256, "")
    assert text.startswith("cannot read /dev/sr0 of /run/media/iso: ")


def test_a_watched_medium_is_looked_at_again_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(media.time, "monotonic", lambda: now[0])
    device = with_media(tmp_path)
    host, watch = Host(tmp_path), media.Watch(every=5.0)
    watch.check(host)
    device.write_bytes(b"x")
    now[0] = 104.9
    watch.check(host)
    now[0] = 105.0
    with pytest.raises(MediaLost, match="empty"):
        watch.check(host)
    device.write_bytes(b"xy")
    watch.check(host)


def test_where_mounts_cannot_be_read_a_program_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from installer.testing.agent_kit import programs_in

    programs = programs_in(tmp_path / "bin", monkeypatch)
    device = with_media(tmp_path)
    host = Host(tmp_path)
    host.path("/proc/1/mountinfo").unlink()
    programs.put("findmnt", "echo /dev/sr0")
    media.check(host)
    assert programs.calls("findmnt") == ["-n -o SOURCE /run/media/iso"]
    device.unlink()
    with pytest.raises(MediaLost):
        media.check(host)
    # Nobody can say, or it is no device at all: nothing to tell.
    for script in ("exit 1", "echo tmpfs"):
        programs.put("findmnt", script)
        media.check(host)


def test_the_kinds_of_arguments(tmp_path: Path) -> None:
    found: list[Any] = [steps.json_argument(['{"a": 1}'], dict), steps.json_argument(["[1]"], list)]
    assert found == [{"a": 1}, [1]]
