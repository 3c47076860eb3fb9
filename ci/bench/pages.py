"""What `node0-ci page` takes for ten thousand runs, and how soon a browser has opened its pages."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.bench.measure import table
from drivers.browser import PROGRAM, Page, chromium
from lab.daemons.pki import Authority

ROOT = Path(__file__).parents[2]
#: Jobs, and runs a night each: ten thousand runs each in fifty nights, of which forty are there always.
SHAPES, NIGHTS = ((200, 1), (20, 10)), 10
TIMES = 5
#: What the browser says of how it opened a page, in ms since it was asked to, once it has painted it.
_OPENED = """new Promise(done => { const look = () => {
    const [at] = performance.getEntriesByType("navigation");
    const [painted] = performance.getEntriesByName("first-contentful-paint");
    if (!at.loadEventEnd || !painted) return setTimeout(look, 10);
    done(JSON.stringify([at.domContentLoadedEventEnd, at.loadEventEnd, painted.startTime]));
}; look(); })"""


def run() -> None:
    """Print medians of the seconds that building and opening take, of the clock and of processors."""
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for jobs, runs in SHAPES:
        with tempfile.TemporaryDirectory(prefix="node0-bench-") as name:
            folder = Path(name)
            simulated = ["--nights", str(NIGHTS), "--jobs", str(jobs), "--runs", str(runs)]
            _node0_ci(["simulate", *simulated, "--keep", str(folder / "history.db")])
            rows = [("built", _built(folder))]
            # The pages with most in them.
            job, one = (max((folder / "pages" / kind).iterdir(), key=_size) for kind in ("jobs", "runs"))
            pages = {
                "verdicts of three releases": folder / "pages/index.html",
                "grid": folder / "pages/grid.html",
                "a job": job,
                "a run": one,
            }
            if PROGRAM:
                # Files need no certificate, but the browser wants one to trust.
                with chromium(folder / "profile", Authority.make("nobody").pem) as page:
                    rows += _opened(page, pages)
            table(f"pages of {jobs} jobs, 50 nights of {runs} runs, medians of {TIMES}", rows)


def _size(path: Path) -> int:
    return path.stat().st_size


def _node0_ci(words: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "ci.informer.cli", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _built(folder: Path) -> str:
    seconds, work = [], []
    for _ in range(TIMES):
        before = os.times()
        _node0_ci(["--history", str(folder / "history.db"), "page", str(folder / "pages")])
        after = os.times()
        seconds.append(after.elapsed - before.elapsed)
        work.append(sum(after[2:4]) - sum(before[2:4]))
    return f"{statistics.median(seconds):6.2f} s, {statistics.median(work):6.2f} s of a processor"


def _opened(page: Page, pages: Mapping[str, Path]) -> list[tuple[str, str]]:
    """When each page was parsed, complete and painted, and what its own thread of the browser worked for it."""
    page.call("Performance.enable", timeDomain="threadTicks")
    rows = []
    for label, path in pages.items():
        moments, work = [], []
        for _ in range(TIMES):
            page.open("about:blank")
            before = _work(page)
            page.open(path.as_uri())
            moments.append([ms / 1000 for ms in json.loads(page.js(_OPENED))])
            work.append(_work(page) - before)
        parsed, complete, painted = (statistics.median(one) for one in zip(*moments, strict=True))
        size = _size(path) >> 10
        figures = f"parsed {parsed:5.2f}, complete {complete:5.2f}, painted {painted:5.2f} s"
        rows.append((f"{label}, {size} KiB", f"{figures}; {statistics.median(work):5.2f} s of a processor"))
    return rows


def _work(page: Page) -> float:
    """Seconds that the thread of the page has worked."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")
