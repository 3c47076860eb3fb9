"""The service's page with 100 simulated hosts: its size as sent, and the time from a visit until it can be used."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ci.bench.measure import table
from ci.bench.service.swarm import service
from drivers.browser import Page, chromium

HOSTS, VISITS = 100, 5
ARRIVAL_SECONDS = 180.0
CARDS = "document.querySelectorAll('#hosts article').length"
# The page's own mark: everything that the service had to say is drawn.
MARK = "performance.getEntriesByName('interactive')[0]?.startTime ?? 0"
SENT = (
    "[performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]"
    ".filter(item => !item.name.endsWith('/stream')).reduce((sum, item) => sum + item.encodedBodySize, 0)"
)


def _computed(page: Page) -> float:
    """Milliseconds of a processor that the tab's thread has had so far. Raises BrowserError."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return 1000 * float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


def _visit(page: Page, url: str) -> tuple[float, float]:
    """Milliseconds from the navigation until the mark, with all hosts drawn, and of the tab's processor.

    Raises BrowserError.
    """
    page.open("about:blank")
    before = _computed(page)
    page.open(url)
    took = float(page.until(MARK))
    cards = page.js(CARDS)
    if cards != HOSTS:
        raise SystemExit(f"the page was called ready with {cards} of {HOSTS} hosts")
    return took, _computed(page) - before


def measure() -> tuple[list[tuple[float, float]], int]:
    """(milliseconds of each visit and of its processor, bytes of the page as sent). Raises BrowserError, SystemExit."""
    with tempfile.TemporaryDirectory() as work, service(Path(work), 0) as (_, url):
        auth = Path(work) / "auth"
        argv = [str(Path(sys.executable).with_name("node0")), "swarm", str(HOSTS), "--url", url]
        argv += ["--ca", str(Path(work) / "tls/ca.crt"), "--token", str(auth / "agent-token"), "--ramp", "5"]
        argv += ["--user-token", str(auth / "user-token"), "--seconds", "600"]
        swarm = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            certificate = (Path(work) / "tls/service.crt").read_bytes()
            with chromium(Path(work) / "browser/profile", certificate, log=Path(work) / "browser.log") as page:
                page.call("Performance.enable", timeDomain="threadTicks")
                page.open(url)
                sent = int(page.js(SENT))
                page.js(f"sessionStorage.setItem('token', '{(auth / 'user-token').read_text().strip()}')")
                page.open(url + "#/")
                page.js("location.reload()")
                page.until(f"{CARDS} === {HOSTS}", ARRIVAL_SECONDS)
                page.until("![...document.querySelectorAll('#hosts .status')].some(s => s.innerText === 'discovering')")
                return [_visit(page, url) for _ in range(VISITS)], sent
        finally:
            swarm.terminate()
            swarm.wait(60)


def run() -> None:
    """Measure and print."""
    begin = time.monotonic()
    visits, sent = measure()
    took, computed = zip(*visits, strict=True)
    rows = [
        ("interactive after", f"median {median(took):.0f} ms, at most {max(took):.0f} ms of {VISITS} visits"),
        ("of it, the tab's processor", f"median {median(computed):.0f} ms, at most {max(computed):.0f} ms"),
        ("as sent", f"{sent / 1000:.1f} kB, all but the hosts"),
        ("took", f"{time.monotonic() - begin:.0f} s"),
    ]
    table(f"page: {HOSTS} hosts, headless Chromium on the same machine", rows)
