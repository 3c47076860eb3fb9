"""The table of steps: each is answered, whatever goes wrong; a lost medium is reported in place of what it broke."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.agent import steps
from installer.agent.errors import AgentError, MediaLost, StepError
from installer.agent.host import media
from installer.hostsys.errors import CommandError
from installer.testing.agent_kit import AGENT, FakeClient, Host

DEEP = "[" * 20_000
DEEP_LIST = f'[{{"url": "u", "host_id": "h", "x": {DEEP}'
MOUNT = "36 25 11:0 / /run/media/iso ro,nodev shared:9 - iso9660 /dev/sr0 ro\n"


def context(root: Path, step: Callable[[], str] | None = None) -> steps.StepContext:
    table = {"s": lambda ctx, args: step()} if step else steps.TABLE
    return steps.StepContext(
        host=Host(root), agent=AGENT, client=FakeClient(), media=media.Watch(every=3600), table=table
    )  # type: ignore[arg-type]


def raises(error: BaseException) -> Callable[[], str]:
    def step() -> str:
        raise error

    return step


def with_media(root: Path) -> Path:
    """Return the host's discovery medium, which is there; its device."""
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
    for expected in (OSError("I/O"), StepError("no"), CommandError("lsblk", 1, "broke")):
        steps.run(context(tmp_path, raises(expected)), "s", [])
    assert caplog.records == []
    for own in (KeyError("k"), TypeError("t"), ValueError("v"), AttributeError("a")):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            steps.run(context(tmp_path, raises(own)), "s", [])
        assert "Traceback" in caplog.text


def test_an_answer(tmp_path: Path) -> None:
    assert steps.run(context(tmp_path, lambda: "out"), "s", []) == (0, "out", "")


def test_unknown_steps_and_bad_arguments_are_answered(tmp_path: Path) -> None:
    step_context = context(tmp_path)
    unknown = (-1, "", "step type download-boot-artifacts is not known to this agent")
    assert steps.run(step_context, "download-boot-artifacts", []) == unknown

    def error_of(kind: str, *args: str) -> str:
        code, output, error = steps.run(step_context, kind, list(args))
        assert (code, output) == (-1, "")
        return error

    assert error_of("domain-resolution") == "one argument is expected, not 0"
    assert error_of("domain-resolution", "{}", "{}") == "one argument is expected, not 2"
    assert error_of("domain-resolution", "{").startswith("argument is not JSON: ")
    assert error_of("domain-resolution", "[]") == "argument: it must be an object, not a list"
    assert error_of("connectivity-check", "{}") == "argument: it must be a list, not an object"
    assert error_of("install", "{}") == "argument: cluster_id is required"
    assert error_of("installation-disk-speed-check", "{}") == "argument: path is required"
    assert error_of("installation-disk-speed-check", '{"path": "vda"}', "480.00") == "path 'vda' is not a device"
    assert error_of("installation-disk-speed-check", "{}", "soon") == "the time limit 'soon' is not a number of seconds"
    assert error_of("installation-disk-speed-check", "{}", "nan") == "the time limit 'nan' is not a number of seconds"
    assert error_of("installation-disk-speed-check", "{}", "1", "2") == "one argument is expected, not 3"
    assert error_of("logs-gather", "{}") == "argument: cluster_id is required"
    for kind in ("free-network-addresses", "verify-vips"):
        assert error_of(kind, '"a"') == "argument: it must be a list, not a text"
    for kind in ("ntp-synchronizer", "container-image-availability", "tang-connectivity-check"):
        assert error_of(kind, "[1]") == "argument: it must be an object, not a list"


def test_steps_that_need_nothing_of_the_host(tmp_path: Path) -> None:
    step_context = context(tmp_path)
    assert steps.run(step_context, "domain-resolution", ['{"domains": []}']) == (0, '{"resolutions": []}', "")
    code, output, _ = steps.run(step_context, "tang-connectivity-check", ['{"tang_servers": []}'])
    assert (code, json.loads(output)["is_success"]) == (0, False)
    code, output, _ = steps.run(step_context, "api-vip-connectivity-check", ['{"url": "ftp://x"}'])
    assert (code, json.loads(output)["is_success"]) == (0, False)
    assert steps.run(step_context, "container-image-availability", ['{"images": []}']) == (0, '{"images": []}', "")


def test_a_lost_medium_is_told_before_a_step_is_run(tmp_path: Path) -> None:
    ran: list[int] = []

    def step() -> str:
        ran.append(1)
        return ""

    device = with_media(tmp_path)
    step_context = context(tmp_path, step)
    assert steps.run(step_context, "s", []) == (0, "", "")
    device.unlink()
    # Looked at a moment ago: the step runs.
    assert steps.run(step_context, "s", []) == (0, "", "")
    assert steps.run(context(tmp_path, step), "s", [])[0] == 256
    assert ran == [1, 1]


@pytest.mark.parametrize(
    "error", [StepError("no", 7), CommandError("lsblk", 1, "Input/output error"), OSError("I/O"), RuntimeError("x")]
)
def test_every_failure_with_a_lost_medium_is_reported_as_the_lost_medium(tmp_path: Path, error: Exception) -> None:
    """Programs and libraries lie on it: the cause is reported, not what it did to one of them."""
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


@pytest.mark.parametrize(
    ("kind", "args", "problem"),
    [
        ("connectivity-check", '[{"nics": []}]', "argument: [0].host_id is required"),
        (
            "connectivity-check",
            '[{"host_id": "p", "nics": [{"ip_addresses": ["x"]}]}]',
            "nics.ip_addresses: 'x' is no IP address",
        ),
        ("free-network-addresses", '["x"]', "'x' is no network"),
        ("verify-vips", '[{"vip": "192.0.2.5"}]', "argument: [0].vip_type is required"),
        ("verify-vips", '[{"vip": "x", "vip_type": "api"}]', "vip: 'x' is no IP address"),
        ("domain-resolution", '{"domains": [{}]}', "argument: domains[0].domain_name is required"),
        ("container-image-availability", '{"timeout": "1"}', "argument: timeout must be a number, not a text"),
        ("tang-connectivity-check", '{"tang_servers": "["}', "tang_servers is not JSON: "),
        ("tang-connectivity-check", '{"tang_servers": "[{}]"}', "tang_servers: [0].url is required"),
        ("api-vip-connectivity-check", '{"request_headers": [{}]}', "argument: request_headers[0].key is required"),
        ("tang-connectivity-check", json.dumps({"tang_servers": DEEP_LIST}), "tang_servers: it: nested deeper than "),
        ("connectivity-check", DEEP_LIST, "argument: it: nested deeper than "),
        ("domain-resolution", f'{{"x": {DEEP}}}', "argument: it: nested deeper than "),
        ("logs-gather", '{"cluster_id": ""}', "argument: cluster_id: must be a text of length >= 1"),
    ],
)
def test_bad_input_is_named_by_its_field(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, args: str, problem: str
) -> None:
    code, output, error = steps.run(context(tmp_path), kind, [args])
    assert (code, output) == (-1, "")
    assert error.startswith(problem)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("domain-resolution", {"domains": [{"domain_name": "a\0b"}]}),
        ("ntp-synchronizer", {"ntp_source": "a\0b"}),
        ("container-image-availability", {"images": ["a\0b"]}),
        ("installation-disk-speed-check", {"path": "/dev/a\0"}),
    ],
)
def test_a_nul_is_no_fault_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, argument: dict[str, object]
) -> None:
    steps.run(context(tmp_path), kind, [json.dumps(argument)])
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_what_is_null_is_not_given(tmp_path: Path) -> None:
    """As Go's encoder writes empty lists."""
    step_context = context(tmp_path)
    assert steps.run(step_context, "domain-resolution", ['{"domains": null}']) == (0, '{"resolutions": []}', "")
    assert steps.run(step_context, "container-image-availability", ['{"images": null}']) == (0, '{"images": []}', "")


@pytest.mark.parametrize("missing", ["cluster_id", "infra_env_id", "host_id", "role", "boot_device", "installer_image"])
def test_an_installation_needs_all_of_these(tmp_path: Path, missing: str) -> None:
    names = ("cluster_id", "infra_env_id", "host_id", "boot_device", "installer_image")
    request = {**dict.fromkeys(names, "x"), "role": "master"}
    for value in ("", None):
        code, _, error = steps.run(context(tmp_path), "install", [json.dumps({**request, missing: value})])
        assert (code, error.startswith(f"argument: {missing}")) == (-1, True)
    del request[missing]
    assert steps.run(context(tmp_path), "install", [json.dumps(request)])[2] == f"argument: {missing} is required"
