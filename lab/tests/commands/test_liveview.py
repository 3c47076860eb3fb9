"""The compact view of a deployment on a terminal."""

import io
import json
import logging
import re
import signal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lab.commands import interrupts, liveview

log = logging.getLogger("lab.test")


@pytest.fixture(autouse=True)
def _level():
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(level)


def shown(act, events=None, machines=(), expected=None, width=100):
    """Return the screen's text at the end of a view during which `act` was called."""
    file = io.StringIO()
    console = Console(file=file, width=width, height=60, force_terminal=False)
    with liveview.LiveView("ostest: 2 containers", expected, console=console) as view:
        view.machines, view.events = machines, events
        act()
    return file.getvalue()


def test_steps_hosts_and_times(tmp_path):
    events = tmp_path / "events.json"
    messages = ["Starting installation", "Writing image to disk: 45%"]
    events.write_text(
        json.dumps([{"message": f"Host: master-0, reached installation stage {text}"} for text in messages])
    )

    def act():
        log.info("phase %s", "create image")
        log.info("phase %s: %s after %.1f s", "create image", "passed", 6.2)
        log.info("phase power on")
        log.info("phase power on: failed after 61.0 s")
        log.info("phase wait-for bootstrap-complete")
        log.info('level=info msg="Waiting for cluster install to initialize"')
        log.info('level=error msg="slow \\"disk\\""')

    text = shown(act, events, ["master-0", "worker-0"], 227.0)
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == 'error: slow "disk"'
    assert re.fullmatch(r"ostest: 2 containers  0:[0-5][0-9] \(last time 3:47\)", lines[1])
    assert lines[2:4] == ["✓ create image  0:06", "✗ power on  1:01"]
    assert re.fullmatch(r"… wait-for bootstrap-complete  0:[0-5][0-9]  hosts boot, register, .*", lines[4])
    assert lines[5].startswith("master-0")
    assert lines[5].endswith("Writing image to disk: 45%")
    assert lines[6].startswith("worker-0")
    assert "initialize" not in text, "the last message goes with the end"
    log_end = ("phase %s: %s after %.1f s", liveview.LAST_WITH_HOSTS, "passed", 1.0)
    over = shown(lambda: (log.info("phase %s", liveview.LAST_WITH_HOSTS), log.info(*log_end)), events, ["master-0"])
    assert "master-0" not in over


@pytest.mark.parametrize("content", ["", "{}", "[1, {}]", '[{"message": null}]', None])
def test_events_that_are_none_show_no_hosts(content, tmp_path):
    events = tmp_path / "events.json"
    if content is not None:
        events.write_text(content)
    assert "master-0" not in shown(lambda: log.info("x"), events, ["master-0"])


@given(st.text(), st.integers(20, 200))
def test_any_message_is_shown_as_it_is(text, width):
    """Neither markup nor a terminal's commands of a peer's words are obeyed."""
    out = shown(lambda: log.warning("%s", f"[bold red]x[/] \x1b[2J {text}"), width=width)
    assert "[bold red]x[/]" in out.replace("\n", "")
    assert "\x1b" not in out


def test_a_hosts_name_is_shown_as_it_is(tmp_path):
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"message": "Host: a[/]b, reached installation stage In\x1b[2Jstalling"}]))
    out = shown(lambda: None, events, ["[red]m"])
    assert "\x1b" not in out
    assert "[red]m" in out
    assert "a[/]b" in out


def test_output_to_a_file_goes_there(capsys):
    with liveview.LiveView("t", None, console=Console(file=io.StringIO(), force_terminal=True)):
        print("console    https://x")
    assert capsys.readouterr().out == "console    https://x\n"


def test_other_handlers_come_back():
    before = logging.getLogger().handlers
    shown(lambda: None)
    assert logging.getLogger().handlers is before


def test_the_last_time_of_a_kind_is_known(tmp_path):
    file = tmp_path / "cache" / "deployments.json"
    assert liveview.last_time(file, "3 container") is None
    liveview.note_time(file, "3 container", 226.54)
    liveview.note_time(file, "1 vm", 5)
    assert (liveview.last_time(file, "3 container"), liveview.last_time(file, "1 vm")) == (226.5, 5)
    file.write_text('["damaged"')
    assert liveview.last_time(file, "1 vm") is None
    liveview.note_time(file, "1 vm", 7)
    assert liveview.last_time(file, "1 vm") == 7
    assert [path.name for path in file.parent.iterdir()] == [file.name]


WARNINGS = {
    "validation": "Cluster validation 'all-hosts' that used to succeed is now failing",
    "host": "Host node-2: updated status from discovering to insufficient (no DNS)",
    "cause": "DNS server 192.168.0.10 does not answer (agent-config.yaml: hosts[0])",
}


def warn(name):
    log.info("level=warning msg=%s", json.dumps(WARNINGS[name]))


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Cluster validation 'all-hosts' is now fixed", {"host", "cause"}),
        ("Host node-2: updated status from insufficient to known (ready)", {"validation", "cause"}),
        ("Host node-2 validation: Host NTP is synced", {"validation", "cause"}),
        ("Host node-3: updated status from insufficient to known (ready)", {*WARNINGS}),
        ("Host: node-3, reached installation stage Installing", set()),
        ("Cluster is ready for install", set()),
        ("New image status x", {*WARNINGS}),
    ],
)
@pytest.mark.parametrize("outcome", ["failed", "interrupted"])
def test_warnings_of_a_healthy_start_do_not_stay_on_the_terminal(outcome, message, left):
    """Nor does what an installation has left behind; a failure or an interruption shows what held until then."""

    def fail():
        for name in WARNINGS:
            warn(name)
        log.info('level=info msg="%s"', message)
        log.warning("level=warning msg=Found override for release image (x). Please be warned")
        log.info("phase wait-for bootstrap-complete")
        log.info("phase %s: %s after %.1f s", "wait-for bootstrap-complete", outcome, 61.0)
        log.info("phase %s: %s after %.1f s", "collect the evidence", "passed", 1.0)
        raise ZeroDivisionError

    file = io.StringIO()
    with pytest.raises(ZeroDivisionError), liveview.LiveView("t", None, console=Console(file=file, width=200)):
        fail()
    text = file.getvalue()
    assert " ✗ wait-for bootstrap-complete  1:01" in text.splitlines()
    assert {name for name, words in WARNINGS.items() if f"warning: {words}" in text} == left
    assert "override" not in text
    assert "warning" not in shown(lambda: [warn(name) for name in WARNINGS]), "it went well all the same"


def test_a_warning_that_lasts_stays_once_and_a_state_does_not(monkeypatch):
    def act():
        for name in WARNINGS:
            warn(name)
        monkeypatch.setattr(liveview, "LASTS_SECONDS", 1e-9)
        log.info("Waiting for cluster install to initialize")
        log.info("Waiting for cluster install to initialize")

    assert re.findall(r"warning: (\w+)", shown(act)) == ["DNS"]


def test_a_state_takes_the_place_of_the_one_before():
    def fail():
        for number in (0, 2):
            log.info("level=warning msg=Cluster validation: exactly 3 nodes, found %d", number)
        for text in ("insufficient (no DNS)", "insufficient (no NTP)"):
            log.info("level=warning msg=Host node-2: updated status from x to %s", text)
        raise ZeroDivisionError

    file = io.StringIO()
    with pytest.raises(ZeroDivisionError), liveview.LiveView("t", None, console=Console(file=file, width=200)):
        fail()
    assert re.findall(r"found \d|no \w+", file.getvalue()) == ["found 2", "no NTP"]


def test_the_labs_own_warnings_stay_at_once_but_not_what_it_waits_for():
    def act():
        logging.getLogger("lab.commands.interrupts").warning("interrupted: lab x is taken down")
        logging.getLogger("lab.host.budget").warning("lab x waits for memory")

    text = shown(act)
    assert "warning: interrupted: lab x is taken down" in text
    assert "memory" not in text


def test_a_signal_that_comes_while_a_message_is_taken_up_is_announced(monkeypatch):
    """Its handler logs to the view that it has interrupted."""

    def monotonic():
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return 0.0

    def stuck(*_):
        raise TimeoutError

    def act():
        monkeypatch.setattr(liveview, "time", SimpleNamespace(monotonic=monotonic))
        log.info("Waiting for cluster install to initialize")

    file = io.StringIO()
    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(5)
    try:
        with (
            interrupts.announced(lambda: "lab x is taken down"),
            pytest.raises(interrupts.Interrupted),
            liveview.LiveView("t", None, console=Console(file=file, width=200)),
        ):
            act()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert "warning: interrupted: lab x is taken down" in file.getvalue()


def test_somebody_who_waits_long_is_shown_since_when():
    clock = [0.0]

    def act():
        log.info("phase wait-for install-complete")
        log.info("operators come up")
        clock[0] = 42.0
        assert "(42 s ago) operators come up" in rendered(view)
        log.info("phase wait for the machine")
        clock[0] = 642.0
        log.info("phase %s: %s after %.1f s", "wait for the machine", "passed", 600.0)
        assert "t  0:00 (last time 1:51)" in rendered(view), "others' time is no installation's"

    def rendered(view):
        console = Console(file=io.StringIO(), width=100)
        console.print(view._drawn())
        return console.file.getvalue()

    with (
        pytest.MonkeyPatch.context() as patched,
        liveview.LiveView("t", 111.0, console=Console(file=io.StringIO())) as view,
    ):
        patched.setattr(liveview.time, "monotonic", lambda: clock[0])
        act()
