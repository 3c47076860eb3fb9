"""`node0 agent boot`: the agent ISO in the virtual CD drives of all hosts, until each has left it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import urllib3

from installer.config.load import parse_install_config
from installer.config.state import INSTALL_CONFIG
from installer.config.types.install import InstallConfig
from installer.create.stages.read import read
from installer.create.stages.resolve import TARGET
from installer.dirlock import locked
from installer.errors import ConfigError, InstallerError
from installer.ipi import imageserver
from installer.ipi.follow import Follower
from installer.ipi.media import Media
from installer.ipi.plan import Action, Step, decide, table
from installer.ipi.record import Record
from installer.ipi.targets import AT_A_TIME, Target, authorities, look, refusals, targets_of
from installer.observe import state
from installer.observe.service import Reach, watcher

log = logging.getLogger("installer.ipi.boot")

#: The folder with the books, which is locked for the length of a run: wait-for locks the asset directory itself.
FOLDER, BOOKS = ".node0_boot", ".node0_boot/books.json"
LOOK_AGAIN_SECONDS = 2.0
# Machines with much memory take ten minutes to their boot loader.
QUIET_SECONDS = 1200.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """A user's wishes; `ports` of HTTP and HTTPS, `timeout` in seconds."""

    plan: bool = False
    force: bool = False
    image_urls: tuple[str, ...] = ()
    ports: tuple[int, int]
    old_tls: bool = False
    timeout: float


def run(directory: Path, options: Options) -> int:
    """Run the command; returns 0. Raises InstallerError."""
    with contextlib.nullcontext() if options.plan else alone(directory / FOLDER):
        install = install_config(directory)
        image = agent_iso(directory)
        inputs = state.load(directory, with_password=False)
        # Said of every request to a BMC with disableCertificateVerification, which the user has chosen.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        with authorities(install) as ca:
            targets = targets_of(install, ca, old_tls=options.old_tls)
            record = Record.load(directory / BOOKS, image, list(options.image_urls))
            steps = looked_at(targets, record, record.path_of(image), options)
            if options.plan:
                return 0
            path = record.path_of(image)
            service = watcher(inputs, Reach())
            try:
                addresses = list(dict.fromkeys(imageserver.address_towards(t.address.url) for t in targets))
                with imageserver.serving({path: image}, addresses, options.ports):
                    Boot(targets, record, path, options).carry_out(steps, Follower(service))
            finally:
                service.close()
    log.info("All %d hosts run from their disks, and the image is in none of their drives", len(targets))
    return 0


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of the command's own, which is made. Raises DirectoryBusy."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder):
        yield


def install_config(directory: Path) -> InstallConfig:
    """Return the directory's install-config, which `create` may have consumed. Raises InstallerError."""
    files = read(directory, TARGET).of(INSTALL_CONFIG)
    if not files:
        raise ConfigError(f"{directory}: there is no install-config.yaml, which names the BMCs")
    return parse_install_config(next(iter(files.values())).decode())


def agent_iso(directory: Path) -> Path:
    """Return the ISO that `agent create image` made. Raises ConfigError."""
    images = sorted(directory.glob("agent.*.iso"))
    if not images:
        raise ConfigError(f"{directory}: there is no agent ISO: run node0 agent create image first")
    return images[0]


def looked_at(targets: Sequence[Target], record: Record, path: str, options: Options) -> dict[str, Step]:
    """Look at all BMCs, and return each machine's step; with `plan`, print them. Raises InstallerError if any of them
    cannot be used, or may not: then nothing has been changed."""
    looks = look(targets)
    problems = refusals(targets, looks)
    usable = [target for target in targets if target.name not in problems]
    steps = {target.name: decide(target, looks[target.name], record, path, force=options.force) for target in usable}
    problems |= {name: step.text for name, step in steps.items() if step.action is Action.REFUSE}
    if options.plan:
        print(table(usable, steps, looks), end="")
    for name, problem in problems.items():
        log.error("%s: %s", name, problem)
    if problems:
        raise InstallerError(f"{len(problems)} of {len(targets)} hosts cannot be booted; nothing was changed")
    return steps


class Boot:
    """One run over all machines."""

    def __init__(self, targets: Sequence[Target], record: Record, path: str, options: Options) -> None:
        self._targets = targets
        self._record = record
        self._options = options
        self._media = Media(record, options.ports, options.image_urls)
        self._path = path

    def carry_out(self, steps: Mapping[str, Step], follower: Follower) -> None:
        """Start the machines, and empty the drive of each that runs from its disk; of all, however it ends.

        Raises InstallerError that names what failed.
        """
        targets = [target for target in self._targets if steps[target.name].action is not Action.DONE]
        try:
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                try:
                    starts = {
                        pool.submit(self._media.start, target, self._path): target
                        for target in targets
                        if steps[target.name].action is Action.BOOT
                    }
                    self._follow(targets, starts, follower)
                finally:
                    self._media.stop.set()
        finally:
            full = self._media.eject(self._targets)
        if full:
            raise InstallerError(
                f"all hosts run from their disks, but the image may still be in drives: {', '.join(full)}"
            )

    def _follow(self, targets: Sequence[Target], starts: dict[Future[str], Target], follower: Follower) -> None:
        deadline = time.monotonic() + self._options.timeout
        quiet = time.monotonic() + QUIET_SECONDS
        waiting = {target.name: target for target in targets}
        problems: list[str] = []
        known: set[str] = set()
        while waiting or starts:
            ended, _ = wait(starts, timeout=LOOK_AGAIN_SECONDS) if starts else (set(), set())
            for future in ended:
                target = starts.pop(future)
                if problem := future.result():
                    log.error(problem)
                    problems.append(problem)
                    waiting.pop(target.name)
            if not starts:
                self._media.stop.wait(LOOK_AGAIN_SECONDS)
            follower.look()
            for target in [target for target in waiting.values() if follower.host(target)]:
                if target.name not in known:
                    known.add(target.name)
                    log.info("%s: has booted the image and registered", target.name)
            left = [target for target in waiting.values() if follower.left(target)]
            for target in left:
                waiting.pop(target.name)
                self._record.note(target.name, "installed")
            self._media.eject(left)
            if failed := follower.failed(waiting.values()):
                raise InstallerError("\n".join(failed))
            now = time.monotonic()
            missing = [name for name in waiting if name not in known]
            if missing and now > quiet:
                quiet = float("inf")
                log.warning("Not registered %.0f minutes after the start: %s; their consoles tell why",
                            QUIET_SECONDS / 60, ", ".join(missing))  # fmt: skip
            if now > deadline:
                seen = "; ".join(self._last(target, follower) for target in waiting.values())
                raise InstallerError(f"hosts did not leave the image within {self._options.timeout:.0f} s: {seen}")
        if problems:
            raise InstallerError(f"{len(problems)} of {len(self._targets)} hosts were not booted: see above")

    def _last(self, target: Target, follower: Follower) -> str:
        if host := follower.host(target):
            return f"{target.name} was last at {host.stage or host.status}"
        return f"{target.name} has not registered with the rendezvous service ({follower.problem or 'which answers'})"
