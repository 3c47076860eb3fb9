"""The pictures and the output that README.md shows, from a real installation: `.venv/bin/python -m ci.pictures`.

docs/examples/one-node is deployed twice in a container: once while a browser shows the rendezvous service's page, and
once with an orchestrator that is killed, for the page of a run that failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from drivers.browser import Page, chromium
from installer.common.certificates import authority
from lab.deploy import STATE
from lab.errors import LabError
from lab.evidence.report import PAGE
from lab.host import records
from lab.lab import Lab
from lab.waiting import wait_until
from scenarios.testing.page import watching

ROOT = Path(__file__).parents[1]
NODE0_LAB = str(Path(sys.executable).with_name("node0-lab"))
EXAMPLE = "docs/examples/one-node"
#: Seconds until a lab is up (others may be before it) or its service serves the page, until an installation has ended,
#: and until one that was interrupted has.
UP_SECONDS, DEPLOY_SECONDS, END_SECONDS = 900.0, 3600.0, 120.0
WIDTH, OF_SERVICE, OF_RUN = 900, 780, 480
#: What the page says when a picture of it is worth taking.
BUSY = "document.body.innerText.includes('Writing image to disk')"
#: What `deploy` prints once the orchestrator is at work.
AT_WORK = "reached installation stage Waiting for bootkube"
KILL = ("fault", "begin", "kill", "--node", "master-0", "--process", "orchestrator")


@contextmanager
def deploying(artifacts: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `node0-lab deploy` as a user does, not longer than the block; its output is in ARTIFACTS.log."""
    words = [NODE0_LAB, "deploy", EXAMPLE, "--machines", "container", "--artifacts", str(artifacts), *options]
    with artifacts.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()  # its lab ends with it
        process.wait(END_SECONDS)


def installed(artifacts: Path, picture: Path) -> str:
    """Install, and take a picture meanwhile; what a user's commands print, up to the end of the lab. Raises LabError
    where it fails."""
    with deploying(artifacts) as process:
        lab = lab_of(process, artifacts)
        try:
            of_service(lab, picture)
            code = process.wait(DEPLOY_SECONDS)
            output = artifacts.with_suffix(".log").read_text(errors="replace")
            if code:
                raise LabError(output)
            output += "$ node0-lab kubectl get nodes\n" + _said("kubectl", "--lab", lab.id, "get", "nodes")
        finally:
            lab.detach()
            down = _said("down", "--lab", lab.id)
    return f"{output}$ node0-lab down\n{down}"


def failed(artifacts: Path) -> None:
    """Install, and kill the orchestrator meanwhile. Raises LabError where that is no failure."""
    log = artifacts.with_suffix(".log")
    with deploying(artifacts, "--lab-keep", "never") as process:
        lab = lab_of(process, artifacts)
        lab.detach()
        words = f"{log} to have {AT_WORK!r}"
        wait_until(lambda: AT_WORK in log.read_text(errors="replace"), UP_SECONDS, words, poll=0.5)
        _said(*KILL, "--lab", lab.id)
        if not process.wait(DEPLOY_SECONDS):
            raise LabError(f"{artifacts}: it was installed although its orchestrator was killed")


def _said(*words: str) -> str:
    return subprocess.run(
        [NODE0_LAB, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def lab_of(process: subprocess.Popen[bytes], artifacts: Path) -> Lab:
    """Wait for the lab of a deployment, and for what its service's page is asked with. Raises LabError."""
    end = time.monotonic() + UP_SECONDS
    while time.monotonic() < end and process.poll() is None:
        for record in records.all_labs():
            if Path(record.artifacts) == artifacts and (record.root / "cluster" / STATE).is_file():
                return Lab.attach(record.id)
        time.sleep(0.5)
    raise LabError(f"no lab of {artifacts} had an image within {UP_SECONDS:.0f} s")


def of_service(lab: Lab, target: Path) -> None:
    """Take a picture of the service's page while a host installs. Raises BrowserError, OSError."""
    state = json.loads((lab.layout.root / "cluster" / STATE).read_text())["node0"]
    end = time.monotonic() + UP_SECONDS
    while True:
        try:
            with watching(lab, lab.topology.rendezvous_ip, state["serviceCACert"]) as page:
                page.resize(WIDTH, OF_SERVICE)
                page.until(BUSY, UP_SECONDS)
                _keep(page, target)
                return
        except OSError:  # the host still boots
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


def of_run(artifacts: Path, target: Path) -> None:
    """Take a picture of the top of a run's page."""
    with tempfile.TemporaryDirectory() as profile:
        trusted = authority("nobody").certificate.encode()  # files need none, but the browser wants one
        with chromium(Path(profile, "profile"), trusted) as page:
            page.resize(WIDTH, OF_RUN)
            page.open((artifacts / PAGE).as_uri())
            _keep(page, target)


def _keep(page: Page, target: Path) -> None:
    """Take a PNG of what the window shows."""
    page.picture(target, whole=False)
    print(f"{target}: {target.stat().st_size >> 10} KiB", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Install, print what the commands say, and write DIR/service.png and DIR/failed-run.png; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "docs/pictures", metavar="DIR", help="default: %(default)s")
    into = parser.parse_args(argv).into.absolute()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        good, bad = Path(scratch, "installed"), Path(scratch, "one-node")
        print(installed(good, into / "service.png"), flush=True)
        failed(bad)
        of_run(bad, into / "failed-run.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
