"""Static pages: what is in them, what may not be, and how they do in a browser."""

import multiprocessing
import os
import re
import signal
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.errors import InformerError
from ci.informer.history.model import Attempt, Run
from ci.informer.history.store import History
from ci.informer.judging import clusters
from ci.informer.pages import build as build_module
from ci.informer.pages import views
from ci.informer.pages.build import build, run
from ci.informer.pages.views import job_file
from ci.informer.tests.kit import filled
from drivers.browser import PROGRAM, chromium
from installer.common.certificates import authority
from lab.evidence import symptoms
from lab.testing.axe_kit import complaints

EVIL = "<script>document.title='taken'</script>\"'&/.."


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("pages")
    with History(root / "history.db") as history:
        filled(history, sno=[*["PPPPP"] * 40, "PPPFV"], compact=["PPPF"] * 40 + ["FFFF"])
        attempts = [Attempt(EVIL, Outcome.FAILED, 1.0, EVIL)]
        history.add(
            [
                Run(
                    EVIL,
                    "p040",
                    "evil",
                    "2026-02-10T00:00:00Z",
                    seconds=5.0,
                    attempts=attempts,
                    evidence={"console": EVIL},
                )
            ]
        )
        triage.label(history, symptoms.read())
        clusters.assign(history)
        build(history, root / "out")
    return root / "out"


class Links(HTMLParser):
    """Find what a page refers to, and the elements that want a name."""

    def __init__(self, text):
        super().__init__()
        self.links, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]


def test_every_link_leads_to_a_page_of_ours(pages):
    for path in pages.rglob("*.html"):
        for link in Links(path.read_text()).links:
            if link.startswith(("#", "data:,")):
                continue
            assert "//" not in link
            assert (path.parent / unquote(link)).is_file(), f"{path.name}: {link}"


def test_no_page_has_a_script_and_text_stays_text(pages):
    for path in pages.rglob("*.html"):
        assert "script" not in Links(path.read_text()).tags
        assert "<script" not in path.read_text()


def failed_run(pages):
    """Return the page of a run that failed."""
    return next(p for p in sorted(pages.glob("runs/*.html")) if 'class="big"><span class="failed"' in p.read_text())


def test_pages_say_what_they_are_about(pages):
    index = (pages / "index.html").read_text()
    assert re.search(r'class="big"><span class="rejected">rejected</span>|undecided|accepted', index)
    assert "(run sno@vm again where it ran)" in index
    grid = (pages / "grid.html").read_text()
    assert 'aria-label="failed, 2026-02-10T03:00:00Z">F</a>' in grid
    assert 'class="void"' in grid
    job = (pages / "jobs" / job_file("compact@vm")).read_text()
    assert "P50" in job
    assert "<svg" in job
    failed = failed_run(pages).read_text()
    for words in ("Phases", "Tests", "Symptoms", "Failures like this one", "Run it again", "Whose:"):
        assert words in failed


def test_a_grid_of_many_jobs_is_laid_out_in_parts(history, tmp_path):
    history.add([Run(f"job-{n:02}", "p", str(n), "2026-02-10T00:00:00Z", seconds=5.0) for n in range(60)])
    build(history, tmp_path / "out")
    text = (tmp_path / "out/grid.html").read_text()
    assert re.findall(r"<caption>Jobs and their runs: (.*?)</caption>", text) == [
        "job-00 to job-24",
        "job-25 to job-49",
        "job-50 to job-59",
    ]
    assert text.count('aria-label="passed, 2026-02-10T00:00:00Z">P</a>') == 60


def test_a_directory_of_something_else_is_left_alone(history, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/precious").write_text("x")
    with pytest.raises(InformerError, match="not empty"):
        build(history, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]


def test_only_runs_that_are_listed_have_pages(history, tmp_path, monkeypatch):
    filled(history, sno=["PPPF"] * 5)
    build(history, tmp_path / "out")
    assert len(list((tmp_path / "out/runs").iterdir())) == 20
    monkeypatch.setattr(views, "LISTED", 6)
    build(history, tmp_path / "out")
    wanted = {f"{row.id}.html" for row in history.runs(last=6)}
    assert {path.name for path in (tmp_path / "out/runs").iterdir()} == wanted


def test_an_empty_history_has_pages_too(history, tmp_path):
    assert build(history, tmp_path / "out") == 2
    assert "No run has been loaded yet" in (tmp_path / "out/index.html").read_text()


@pytest.mark.parametrize("other", ["a~b", "a/b", "A", "ä", "..", "a b"])
def test_jobs_have_files_of_their_own_in_their_folder(other):
    assert job_file(other) != job_file("a~7eb") or other == "a~b"
    assert "/" not in job_file(other)


#: Rows whose head reaches into their first cell, which axe does not look for.
OVERLAPPING = """[...document.querySelectorAll("tr")].filter(row => {
    const head = row.querySelector("th"), cell = row.querySelector("td"), range = document.createRange();
    if (!head || !cell) return false;
    range.selectNodeContents(head);
    return range.getBoundingClientRect().right > cell.getBoundingClientRect().left + 1;
}).map(row => row.innerText)"""


@pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell")
def test_pages_are_accessible_in_a_browser(pages, tmp_path):
    failed = failed_run(pages)
    # Files need no certificate, but the browser wants one to trust.
    with chromium(tmp_path / "profile", authority("nobody").certificate.encode()) as page:
        for path in (pages / "index.html", pages / "grid.html", pages / "jobs" / job_file("compact@vm"), failed):
            page.open(path.as_uri())
            assert complaints(page) == [], path.name
            assert page.js(OVERLAPPING) == []


def test_without_a_blocking_job_the_verdicts_say_what_to_do(history):
    """Ninety nights, and nobody knew why all of them were undecided."""
    filled(history, job_a=["PPPPP"] * 89 + ["PPPFV"], job_b=["PPPPF"] * 90)
    text = build_module.index(history, informing=["job-a@vm"])
    for expected in (
        "No job blocks, so nothing is accepted or rejected",
        "node0-ci verdict p089 --blocking job-b@vm",
        "informing (20.0% flakes, under 1% wanted)",
        "<dt>invalid run</dt>",
        "<dt>blocking job</dt>",
    ):
        assert expected in text
    assert "No job blocks" not in build_module.index(history, blocking=["job-a@vm"])


def test_somebody_s_site_is_left_alone(history, tmp_path):
    """It has a style.css too."""
    site = tmp_path / "site"
    (site / "runs").mkdir(parents=True)
    for name in ("style.css", "index.html", "runs/mine.html"):
        (site / name).write_text("mine")
    with pytest.raises(InformerError, match="not made by node0-ci page"):
        build(history, site)
    assert {path.read_text() for path in site.rglob("*.*")} == {"mine"}


def test_pages_of_earlier_versions_are_written_over(history, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/style.css").write_text("\n:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#57606a")
    for _ in range(2):
        build(history, tmp_path / "out")


def test_a_long_job_has_a_page(history, tmp_path):
    names = ["j" * 300, "j" * 299 + "k", "\U00020000" * 70]
    history.add([Run(name, "p", name, "2026-02-10T00:00:00Z", seconds=5.0) for name in names])
    build(history, tmp_path / "out")
    assert len(list((tmp_path / "out/jobs").iterdir())) == len(names)


def contents(root):
    """All files of a folder and what is in them, without what those who were killed have left beside them."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.relative_to(root).parts[0].startswith(".node0-new-")
    }


def writing(tmp_path, write=build_module.write):
    """Return a process that writes pages of a history, each of them by `write`."""

    def child():
        build_module.write = write
        with History(tmp_path / "history.db") as history:
            build(history, tmp_path / "out")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    return process


def killed_at(moment, tmp_path):
    """Return a process that is to write pages and is killed before it writes one of them; its exit code."""
    writes = iter(range(1000))

    def write(path, text):
        if next(writes) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        path.write_text(text)

    process = writing(tmp_path, write)
    process.join(60)
    return process.exitcode


def test_pages_stay_the_old_ones_if_the_writer_is_killed(tmp_path):
    """At ten moments; what was written by then goes with the next pages."""
    with History(tmp_path / "history.db") as history:
        filled(history, sno=["PF"] * 3)
        build(history, tmp_path / "out")
        before = contents(tmp_path / "out")
        filled(history, sno=["PF"] * 30)
    for moment in (0, 1, 2, 3, 4, 10, 20, 40, 60, 63):
        assert killed_at(moment, tmp_path) == -signal.SIGKILL
        assert contents(tmp_path / "out") == before
    assert killed_at(64, tmp_path) == 0
    with History(tmp_path / "history.db") as history:
        build(history, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh") != before
    assert not list(tmp_path.glob("out/.*"))


def test_pages_stay_the_old_ones_if_writing_fails(history, tmp_path, monkeypatch):
    filled(history, sno=["PF"])
    build(history, tmp_path / "out")
    before = contents(tmp_path / "out")
    filled(history, sno=["PFPF"] * 3)
    monkeypatch.setattr(views, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build(history, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    assert not list(tmp_path.glob("out/.*"))


def test_a_folder_that_was_begun_by_one_that_was_killed_is_ours(history, tmp_path):
    (tmp_path / "out/.node0-new-abc/runs").mkdir(parents=True)
    assert build(history, tmp_path / "out") == 2
    assert not list(tmp_path.glob("out/.*"))


def test_what_others_have_put_beside_the_pages_stays(history, tmp_path):
    filled(history, sno=["P"])
    build(history, tmp_path / "out")
    (tmp_path / "out/CNAME").write_text("ci.example.org")
    with (tmp_path / "out").joinpath("index.html").open() as served:
        build(history, tmp_path / "out")
        assert served.read() == (tmp_path / "out/index.html").read_text()
    assert (tmp_path / "out/CNAME").read_text() == "ci.example.org"


def test_a_disk_that_is_full_is_reported_and_leaves_the_pages(history, small_disk):
    filled(history, sno=["PF"])
    build(history, small_disk)
    before = contents(small_disk)
    filled(history, sno=["PPPPPPPPPF"] * 30)
    with pytest.raises(InformerError, match=rf"{small_disk}: No space left on device"):
        build(history, small_disk)
    assert contents(small_disk) == before
    assert not list(small_disk.glob(".*"))


def test_notes_are_on_the_pages_of_their_runs(history, tmp_path):
    filled(history, sno=["FF"])
    clusters.assign(history)
    first, second = history.runs()
    history.note("a <cable>", "2026-01-02T00:00:00Z", run=first.id)
    history.note("known", "2026-01-03T00:00:00Z", cluster=first.cluster)
    build(history, tmp_path / "out")
    live = run(history, second.id)
    assert "a &lt;cable&gt;" in (tmp_path / f"out/runs/{first.id}.html").read_text()
    for text in ((tmp_path / f"out/runs/{second.id}.html").read_text(), live):
        assert f"run {first.id}: a &lt;cable&gt;" in text
        assert "known" in text


def test_pages_may_be_written_by_two_processes_at_once(tmp_path):
    with History(tmp_path / "history.db") as history:
        filled(history, sno=["PPPF"] * 5)
    both = [writing(tmp_path) for _ in range(2)]
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    with History(tmp_path / "history.db") as history:
        build(history, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")
    assert not list(tmp_path.glob("out/.*"))
