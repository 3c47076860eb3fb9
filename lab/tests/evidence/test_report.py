"""The page of a run: everything in it, nothing of it believed."""

import inspect
import json
import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, unquote_to_bytes

import pytest

from drivers.browser import PROGRAM, chromium
from installer.common.certificates import authority
from lab.evidence import record, report, summary
from lab.testing.axe_kit import complaints

EVIL = "<script>alert('x')</script> & \"quotes\""


class Page(HTMLParser):
    """A page as a browser would see it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.text = " ".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for key, value in attrs if key in ("href", "src")]

    def handle_data(self, data):
        self.words.append(data.strip())


def phase(name, seconds=1.0, outcome="passed", depth=0, **more):
    return {"name": name, "at": 0, "depth": depth, "seconds": seconds, "outcome": outcome, **more}


def make(folder, phases, tests=None):
    folder.mkdir(parents=True)
    (folder / "phases.json").write_text(json.dumps(phases))
    if tests is not None:
        (folder / "tests.json").write_text(json.dumps(tests))
    return folder


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "artifacts"
    good = make(root / "sno-a", [phase("lab up", 2), phase("install", 754.2)], [phase("test_x")])
    make(root / "sno-b", [phase("boot", 3, "failed", error=EVIL)], [phase("test_y", 1, "failed", message=EVIL)])
    for name in ("console/master-0.timed.log", "console/odd name#1.txt", "commands/001-wait-for.log", "screens/m.png"):
        (good / name).parent.mkdir(exist_ok=True)
        (good / name).write_text("x")
    for name in ("installer/logs/events.json", "nodes/master-0/journal.log"):
        (good / name).parent.mkdir(parents=True, exist_ok=True)
        (good / name).write_text("x")
    (good / "missing.txt").touch()
    return root


def test_the_page_lists_outcomes_phases_tests_and_links_to_what_exists(root):
    shown = Page(report.write(root).read_text())
    for word in ("sno-a", "sno-b", "lab up", "12:34", "test_x", "boot", "failed", "passed"):
        assert word in shown.text, word
    files = [link for link in shown.links if not link.startswith("#")]
    assert len(files) >= 7
    assert [link for link in files if not (root / unquote(link)).is_file()] == []
    assert len(files) == len(set(files)) + 1, "only the picture is there twice"
    assert not any("missing.txt" in link for link in files), "an empty file is no evidence"
    assert {link for link in shown.links if link.startswith("#")} == {"#sno-a", "#sno-b"}


def test_a_link_in_the_page_s_way_is_not_followed(root, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (root / ".index.html.new").symlink_to(tmp_path / "mine")
    report.write(root)
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_a_test_or_phase_said_is_text(root):
    text = report.write(root).read_text()
    shown = Page(text)
    assert "script" not in shown.tags
    assert "alert('x')" in shown.text
    assert "http" not in text.replace("https://", "http"), "the page must need nothing from elsewhere"


def test_a_name_is_text_wherever_it_is_from(tmp_path):
    """Of a phase, a test, an outcome, a run, a machine, a file."""
    name = EVIL.replace("/", "")
    folder = make(tmp_path / "all" / name, [phase(EVIL, 1, EVIL)], [phase(EVIL, 1, EVIL)])
    make(tmp_path / "all/other", [phase("a")])
    for place in ("screens/{}.png", "commands/{}.log", "nodes/{}/journal.log", "installer/logs/{}/x"):
        path = folder / place.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    shown = Page(report.write(tmp_path / "all").read_text())
    assert "script" not in shown.tags
    assert shown.text.count("alert('x')") >= 7
    files = [link for link in shown.links if not link.startswith("#")]
    assert len(files) == 5
    assert all((tmp_path / "all" / unquote(link)).is_file() for link in files)


def test_a_run_alone_has_its_own_page(root):
    shown = Page(report.write(root / "sno-a").read_text())
    assert "sno-b" not in shown.text
    assert all((root / "sno-a" / unquote(link)).is_file() for link in shown.links)


@pytest.mark.parametrize(
    ("phases", "tests", "outcome"),
    [
        ([phase("a")], [], "passed"),
        ([phase("a", None, "running")], [], "running"),
        ([phase("a", 1, "failed")], [], "failed"),
        ([phase("a", 1, "failed")], [phase("wanted it to fail")], "passed"),
        ([phase("a")], [phase("x"), phase("y", 1, "failed")], "failed"),
        ([phase("a", 1, "running")], [phase("x")], "running"),
        ([phase("a")], [phase("x", 1, "skipped")], "skipped"),
        ([phase("a")], [phase("x"), phase("y", 1, "skipped")], "passed"),
        ([phase("a", 1, "crashed")], [], "failed"),
        ([phase("a")], [phase("x", 1, None)], "failed"),
        ([], [], "running"),
        ([phase("a"), phase("b", 1, "interrupted")], [], "interrupted"),
        ([phase("a", 1, "interrupted")], [phase("x")], "interrupted"),
        ([phase("a", 1, "interrupted")], [phase("x", 1, "failed")], "failed"),
    ],
)
def test_the_tests_judge_where_there_are_any(tmp_path, phases, tests, outcome):
    [run] = record.runs(make(tmp_path / "x", phases, tests))
    assert run.outcome == outcome


def test_damaged_records_and_no_records_are_no_trouble(tmp_path):
    assert report.write(tmp_path) is None
    folder = make(tmp_path / "x", [])
    (folder / "phases.json").write_text('[{"name": "a"}, 3')
    (folder / "tests.json").write_text("[1]")
    assert "x: invalid" in Page(report.write(tmp_path).read_text()).text


ODD = ["x", [1], {}, True, -1, 1e400, float("nan"), 10**400, 1e300, None]


@pytest.mark.parametrize("value", ODD, ids=lambda value: str(value)[:10])
@pytest.mark.parametrize("field", ["seconds", "depth", "name", "outcome", "error"])
def test_whatever_stands_in_a_record_there_is_a_page(tmp_path, field, value):
    make(tmp_path / "x", [phase("a"), {**phase("b"), field: value}], [{**phase("t"), field: value}])
    assert len(report.write(tmp_path).read_text()) < 1 << 16


def test_names_that_are_no_utf_8_and_halves_of_characters_are_shown(tmp_path):
    """A host's archive may have such files."""
    folder = make(tmp_path / os.fsdecode(b"run\xff"), [phase("\ud800", error="\udfff")], [phase("\ud800")])
    odd = os.fsdecode(b"installer/logs/\xff\xfe")
    (folder / odd / odd).parent.mkdir(parents=True)
    (folder / odd / odd).write_text("x")
    for root in (folder, tmp_path):
        [link] = [link for link in Page(report.write(root).read_text()).links if "logs" in link]
        assert (os.fsencode(root) + b"/" + unquote_to_bytes(link)) == os.fsencode(folder / odd / odd)


def test_a_tree_that_nests_too_deeply_is_left_out(tmp_path):
    folder = make(tmp_path / "x", [phase("a")])
    (folder / "installer/logs").mkdir(parents=True)
    (folder / "installer/top.log").write_text("x")
    (folder / "installer/logs" / "/".join("d" * 150)).mkdir(parents=True)
    usual = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 120)
        text = report.write(tmp_path).read_text()
    finally:
        sys.setrecursionlimit(usual)
    assert "top.log" in text


@pytest.mark.parametrize("name", ["phases.json", "tests.json", "lab-failed.txt"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "bytes"])
def test_whatever_a_record_is_there_is_a_page(tmp_path, name, kind):
    folder = make(tmp_path / "x", [phase("a")])
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    elif kind == "loop":
        path.symlink_to(path)
    else:
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    if (kind, name) == ("loop", "phases.json"):
        assert report.write(tmp_path) is None
    else:
        assert report.write(tmp_path)


@pytest.fixture
def failed(tmp_path):
    """Provide the artefacts of a `node0-lab deploy` that failed."""
    folder = make(tmp_path / "first", [phase("lab up"), phase("wait-for", 9, "failed", error="node0 ended with 5")])
    for name, text in {
        "commands/003-wait-for.log": "level=info msg=x\nlevel=error msg=unauthorized: authentication required\n",
        "console/master-0.txt": "".join(f"line {number}\n" for number in range(40)),
        "lab-failed.txt": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    record.note(folder, {"cluster": "first.example.com", record.COMMAND: "cd / && node0-lab deploy DIR"})
    return folder


def test_a_failed_run_s_page_begins_with_the_reason(failed):
    shown = Page(report.write(failed).read_text()).text
    wanted = ["failed", "unauthorized: authentication required", "product (pull-secret in wait-for", "line 39"]
    places = [shown.index(text) for text in (*wanted, "first.example.com", "node0-lab deploy DIR", "lab up")]
    assert places == sorted(places)
    assert "line 20" not in shown, "the end of the console"


def test_the_summary_is_markdown_in_which_nothing_else_is(failed, monkeypatch, tmp_path):
    (failed / "tests.json").write_text(json.dumps([phase(EVIL, 1, "failed", message="E   | ```\n<b> [x](y)")]))
    record.note(failed, {"cluster": "a``b"})
    report.write(failed)
    monkeypatch.setenv(summary.GITHUB, str(tmp_path / "github"))
    summary.publish(failed)
    text = (tmp_path / "github").read_text()
    assert text == (failed / summary.SUMMARY).read_text()
    table = text.splitlines()[2]
    assert table == r"| first | ❌ failed | 10.0 s | \| \`\`\` |"
    assert "````\n| ```\n" in text, "a fence longer than those within"
    assert "- cluster: ``` a``b ```" in text


def test_what_tests_have_measured_is_on_the_page_and_in_the_summary(tmp_path):
    figures = {"loss": "3 failed | longest 5.2 s", "login": "http://user:pa55word@r.lab/x"}
    folder = make(tmp_path / "first", [phase("a")], [phase("test_x", figures=figures), phase("y", figures=["?"])])
    page, text = Page(report.write(folder).read_text()).text, (folder / summary.SUMMARY).read_text()
    assert "loss: 3 failed | longest 5.2 s" in page
    assert r"- first, test\_x: loss: 3 failed \| longest 5.2 s" in text
    assert "pa55word" not in page + text


@pytest.mark.parametrize("place", ["phase", "test", "console"])
def test_no_password_is_on_the_page_or_in_the_summary(place, tmp_path):
    secret = "level=fatal msg=proxy http://user:pa55word@proxy.lab:3128 refuses"
    error, message = (secret if place == name else "" for name in ("phase", "test"))
    tests = [phase("test_x", 1, "failed", message=message)] if place == "test" else None
    folder = make(tmp_path / "first", [phase("install", 2, "failed", error=error)], tests)
    (folder / "console").mkdir()
    (folder / "console/master-0.txt").write_text(secret if place == "console" else "x")
    report.write(folder)
    for name in (report.PAGE, summary.SUMMARY):
        text = (folder / name).read_text()
        assert "proxy.lab:3128" in text
        assert "pa55word" not in text


def test_what_is_run_is_noted_without_a_password(tmp_path):
    record.note(tmp_path, {record.COMMAND: "node0-lab deploy DIR --release http://user:pa55word@r.lab/x"})
    assert "pa55word" not in (tmp_path / record.ABOUT).read_text()


def test_a_summary_stays_below_what_github_takes(failed, monkeypatch, tmp_path):
    report.write(failed)
    (tmp_path / "github").write_text("x" * 899_990)
    monkeypatch.setenv(summary.GITHUB, str(tmp_path / "github"))
    for _ in range(2):
        summary.publish(failed)
        assert (tmp_path / "github").stat().st_size == 900_000


def test_a_summary_that_nobody_takes_fails_no_run(failed, monkeypatch, tmp_path, caplog):
    """A cluster was installed, and the command ended with 1."""
    report.write(failed)
    monkeypatch.setenv(summary.GITHUB, str(tmp_path / "not-mounted/summary"))
    summary.publish(failed)
    assert caplog.messages == [f"GITHUB_STEP_SUMMARY: {tmp_path}/not-mounted/summary: No such file or directory"]


@pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell")
def test_the_page_is_accessible_on_a_telephone_and_a_desk(failed, root, tmp_path):
    (failed / "tests.json").write_text(json.dumps([phase("test_" + "x" * 100, 1, "failed", message="y" * 400)]))
    with chromium(tmp_path / "profile", authority("nobody").certificate.encode()) as page:
        for folder in (failed, root):
            page.open(report.write(folder).as_uri())
            assert complaints(page) == [], folder
