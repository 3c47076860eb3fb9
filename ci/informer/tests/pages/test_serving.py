"""Pages that are served: they follow the history, and nobody writes by them."""

import asyncio
import json
import logging
import re
import signal
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from ci.informer.history import artifacts, work
from ci.informer.history.store import History
from ci.informer.pages.build import build
from ci.informer.pages.serving import application, serve
from ci.informer.pages.views import job_file
from ci.informer.tests.kit import artefacts, filled, runs_of
from drivers.browser import PROGRAM, chromium
from installer.common.certificates import authority
from lab.evidence import report
from lab.waiting import wait_until


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "history.db"
    with History(file) as history:
        filled(history, sno=["PPFP"] * 3)
        work.begin(history, "abc", "2026-01-04T00:00:00Z", b"{}", folder=tmp_path)
        work.add(history, "abc", [("abc/sno@vm/0.0", b"{}"), ("abc/ha@vm/0.0", b"{}")])
        work.done(history, "abc/sno@vm/0.0")
    return file


def answers(path, *requests):
    """Status and text of each request (METHOD, PATH)."""

    async def asked():
        async with TestClient(TestServer(application(path))) as client:
            results = []
            for method, where in requests:
                async with client.request(method, where) as answer:
                    results.append((answer.status, await answer.text(), answer.headers))
            return results

    return asyncio.run(asked())


def test_all_pages_are_there_and_show_what_runs(path):
    with History(path) as history:
        red = next(row for row in history.runs() if row.outcome.value == "failed")
    index, grid, job, run, style = answers(
        path,
        *(("GET", where) for where in ("/", "/grid.html", "/jobs/sno@vm.html", f"/runs/{red.id}.html", "/style.css")),
    )
    assert [page[0] for page in (index, grid, job, run, style)] == [200] * 5
    assert "Plan abc, made 2026-01-04T00:00:00Z: 1 of 2 runs done" in index[1]
    assert "ha@vm" in index[1]
    assert f'href="runs/{red.id}.html"' in grid[1]
    assert "Phases" in run[1]
    assert index[2]["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("where", ["/runs/99999.html", "/jobs/none.html", "/jobs/%3Cscript%3E.html"])
def test_unknown_jobs_and_runs_are_not_found(path, where):
    [(status, text, _)] = answers(path, ("GET", where))
    assert status == 404
    assert "<script>.html" not in text
    assert "has no runs" in text or "there is no run" in text


@pytest.mark.parametrize("where", ["/../history.db", "/runs/../history.db", "/runs/x.html", "/etc/passwd"])
def test_nothing_else_is_served(path, where):
    assert answers(path, ("GET", where))[0][0] == 404


def test_a_run_s_page_leads_to_that_of_its_artefacts(path, tmp_path):
    folder = tmp_path / "sno"
    artefacts(folder, {"outcome": "failed"}, tests=[{"outcome": "failed", "message": "E   x"}])
    (folder / "console").mkdir()
    (folder / "console/m.txt").write_text("<script>")
    (folder / "console/link.txt").symlink_to(path)
    report.write(folder)
    with History(path) as history:
        [number] = history.add(artifacts.load(folder, "p"))
        build(history, tmp_path / "out")
    link = re.search('href="([^"]+)">Its consoles', (tmp_path / f"out/runs/{number}.html").read_text())[1]
    assert (tmp_path / "out/runs" / link).resolve() == folder / "index.html"
    where = f"/evidence/{number}"
    paths = ("index.html", "console/m.txt", "console/link.txt", "%2e%2e/history.db", "console/no.txt")
    run, page, console, *refused, unknown = answers(
        path, ("GET", f"/runs/{number}.html"), *(("GET", f"{where}/{x}") for x in paths), ("GET", "/evidence/999/x")
    )
    assert f'href="..{where}/index.html"' in run[1]
    assert "script-src" not in page[2]["Content-Security-Policy"]
    assert (page[2]["Content-Type"][:9], console[2]["Content-Type"][:10]) == ("text/html", "text/plain")
    assert {answer[0] for answer in (*refused, unknown)} == {404}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_get_is_answered(path, method):
    assert answers(path, (method, "/"))[0][0] == 405


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:{}/"), ("::1", "http://[::1]:{}/")])
def test_the_address_is_reported_when_it_answers(path, host, url):
    """Whoever waits for the line, a script for example, may ask at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    lines = []

    def say(line):
        lines.append(line)
        try:
            socket.create_connection((host, port), timeout=5).close()
        finally:
            signal.raise_signal(signal.SIGTERM)

    serve(path, host, port, (), say=say)
    assert lines == [url.format(port)]


def test_a_job_of_any_name_has_a_page(path):
    with History(path) as history:
        history.add(runs_of("a/b ä~@vm", ["P"]))
    [(status, text, _)] = answers(path, ("GET", f"/jobs/{job_file('a/b ä~@vm')}"))
    assert status == 200
    assert "<h1>a/b ä~@vm</h1>" in text


@contextmanager
def listening(path):
    """Provide the pages, for a browser; their address."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    runner = web.AppRunner(application(path))

    async def start():
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()

    def run():
        loop.run_until_complete(start())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


@pytest.mark.skipif(not PROGRAM, reason="no Chromium here: apt-get install chromium-headless-shell")
def test_a_page_follows_what_happens_and_is_accessible(path, tmp_path):
    axe = pytest.importorskip("axe_core_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text()
    with listening(path) as address, chromium(tmp_path / "profile", authority("nobody").certificate.encode()) as page:
        page.open(f"{address}/")
        page.js(source + "; true")
        violations = json.loads(page.js("axe.run().then(r => JSON.stringify(r.violations.map(v => v.id)))"))
        assert violations == []
        with History(path) as history:
            work.done(history, "abc/ha@vm/0.0")
        wait_until(
            lambda: "2 of 2 runs done" in page.js("document.getElementById('main').textContent"),
            30,
            "the page to show that both runs are done",
            poll=0.5,
        )


def test_a_history_that_cannot_be_read_now_is_said(path):
    path.write_bytes(path.read_bytes()[:5000])
    [(status, text, _)] = answers(path, ("GET", "/grid.html"))
    assert status in (404, 503)
    assert "malformed" in text


def test_a_free_port_is_reported(path):
    lines = []

    def say(line):
        lines.append(line)
        signal.raise_signal(signal.SIGTERM)

    serve(path, "127.0.0.1", 0, (), say=say)
    assert int(lines[0].rpartition(":")[2].rstrip("/")) > 0


def test_what_is_no_http_is_answered_and_leaves_no_traceback(path, caplog):
    answered = []

    def ask(port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/9.9\r\n\r\n")
            answered.append(connection.recv(100))
        signal.raise_signal(signal.SIGTERM)

    def say(line):
        threading.Thread(target=ask, args=(int(line.rpartition(":")[2].rstrip("/")),)).start()

    serve(path, "127.0.0.1", 0, (), say=say)
    assert answered[0].startswith(b"HTTP/1.0 400 ")
    # Requests are logged at INFO where a test before has set the level so.
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
