"""The temporary control plane on this host: extract bootstrap.ign, start its services, wait (installer.md §7.1)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from installer.assisted.stages import FAILS_AGAIN
from installer.common.ignition import merge
from installer.common.redact import redact
from installer.common.secretfiles import write_private
from installer.hostsys.errors import CommandError
from installer.hostsys.system import HostSystem
from installer.orchestrator import ignfs
from installer.orchestrator.errors import StageError

log = logging.getLogger("assisted-installer")
DONE = "/opt/openshift/.bootkube.done"
MASTER_IGNITION = "/opt/openshift/master.ign"
INSTALL_DIR = "/opt/install-dir"
# Marker by which the payload's etcd knows that the bootstrap host becomes a master (cluster.md §2.5).
MARKER = "/opt/openshift/assisted-install-bootstrap"
# The live system's systemd is asked while everything starts at once, on what may be an emulated processor.
SYSTEMD_TIMEOUT = 600.0
SERVICES = ("bootkube.service", "approve-csr.service", "progress.service")
POLL_SECONDS = 1.0
# How often the unit and its last lines are looked at: each look is two processes, which is much on an emulated CPU.
REPORT_SECONDS = 15.0
# systemd starts bootkube again 5 s after it fails: only a state that stays means that it gave up.
FAILED_FOR = 60.0
# One run may fail for what is over a moment later, a registry that restarts, say; and the run after it takes a while to
# get to where the last one failed.
FAILURES, FAILING_FOR = 2, 60.0


def extract(host: HostSystem, config: Mapping[str, Any], sno: bool) -> None:
    """Put the bootstrap config's files and units in place and let systemd see them. Raises StageError."""
    result = ignfs.Writer(host.root).extract(config)
    log.info("extracted %d files of bootstrap.ign", result.files)
    if not sno:
        marker = host.path(MARKER)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    try:
        host.run("systemctl", "daemon-reload", timeout=SYSTEMD_TIMEOUT)
        for name in result.mask:
            host.run("systemctl", "mask", name, timeout=SYSTEMD_TIMEOUT)
        for name in result.enable:
            host.run("systemctl", "enable", name, timeout=SYSTEMD_TIMEOUT)
        if not sno:
            host.run("systemctl", "restart", "NetworkManager.service", timeout=SYSTEMD_TIMEOUT)
    except CommandError as error:
        raise StageError("prepare bootstrap", str(error)) from None


def take_hostname(host: HostSystem, own_config: Mapping[str, Any]) -> None:
    """Give this system the name that its ignition (``own_config``) gives the installed one. Raises StageError.

    A host that was discovered first was named afterwards, so its live system may still be called otherwise.
    """
    name = ignfs.text_of(own_config, "/etc/hostname").strip()
    if not name or host.read("/etc/hostname") == name:
        return
    host.path("/etc").mkdir(exist_ok=True)
    host.path("/etc/hostname").write_text(f"{name}\n")
    try:
        host.run("hostname", name)
    except CommandError as error:
        raise StageError("set the hostname", str(error)) from None


def _exists(host: HostSystem, unit: str) -> bool:
    state = host.run("systemctl", "show", "-p", "LoadState", "--value", unit, check=False, timeout=SYSTEMD_TIMEOUT)
    # Where systemd does not say, the unit counts as loaded: starting it tells.
    return state.strip() in ("loaded", "")


def start(host: HostSystem, config: Mapping[str, Any]) -> None:
    """Start bootkube and those of its companions that exist, and the units that the config enables."""
    enabled = [
        str(unit["name"])
        for unit in (config.get("systemd") or {}).get("units") or []
        if unit.get("enabled") and not unit.get("mask")
    ]
    for unit in dict.fromkeys([*enabled, *SERVICES]):
        if unit != SERVICES[0] and not _exists(host, unit):
            continue
        try:
            host.run("systemctl", "start", "--no-block", unit, timeout=SYSTEMD_TIMEOUT)
        except CommandError as error:
            if unit == SERVICES[0]:
                raise StageError("start bootkube", str(error)) from None
            log.warning("%s", error)


BOOTKUBE_IDENTIFIER = "bootkube.sh"
#: A pull that failed names the image by its digest, then each mirror with its answer: 300 characters before the first
#: that says why.
LONGEST_TAIL = 900


def journal_tail(host: HostSystem, unit: str, lines: int = 5, identifier: str = "", *, run: str = "") -> str:
    """Return the unit's last journal lines, joined; with an identifier what is logged under it instead, and in the run
    of this invocation id alone where there is one.

    A container that a unit started logs in a scope of its own, under the identifier that it inherited.
    """
    source = ("-t", identifier) if identifier else ("-u", unit)
    match = (f"_SYSTEMD_INVOCATION_ID={run}",) if run else ()
    text = host.run("journalctl", *source, "-n", str(lines), "-o", "cat", "--no-pager", *match, check=False)
    return redact(" | ".join(line.strip() for line in text.splitlines() if line.strip()))[-1500:]


@dataclass
class _Bootkube:
    """bootkube's state over time, as systemd shows it: how often it failed and was restarted, and its last lines."""

    host: HostSystem
    _: KW_ONLY
    state: str = ""
    run: str = ""
    failures: int = 0
    failed_at: float = 0.0
    failed_with: str = ""

    def look(self, now: float) -> None:
        properties = ("-p", "ActiveState", "-p", "InvocationID")
        properties_text = self.host.run("systemctl", "show", *properties, SERVICES[0], check=False)
        values = dict(line.partition("=")[::2] for line in properties_text.splitlines())
        self.state, run = values.get("ActiveState", ""), values.get("InvocationID", "")
        if self.run and run and run != self.run:
            # The script's own words: etcd and kube-apiserver log into the same unit.
            words = journal_tail(self.host, SERVICES[0], 1, BOOTKUBE_IDENTIFIER, run=self.run)
            self.failures, self.failed_at, self.failed_with = self.failures + 1, now, words[:LONGEST_TAIL]
        self.run = run or self.run

    def words(self, now: float) -> str:
        """Its last line now; while it fails again and again, the one that it failed with."""
        if self.failed_with and self.failures >= FAILURES and now - self.failed_at <= FAILING_FOR:
            return f"{FAILS_AGAIN}{self.failed_with}"
        return journal_tail(self.host, SERVICES[0], 1, BOOTKUBE_IDENTIFIER)[:LONGEST_TAIL]


def wait_bootkube(
    host: HostSystem,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for .bootkube.done; the service's stage timeout bounds it. Raises StageError when bootkube gave up."""
    bootkube = _Bootkube(host)
    failed_since: float | None = None
    looked_at, reported = clock(), ""
    while not host.path(DONE).exists():
        sleep(POLL_SECONDS)
        if clock() - looked_at < REPORT_SECONDS:
            continue
        bootkube.look(clock())
        failed_since = None if bootkube.state != "failed" else failed_since if failed_since is not None else clock()
        if failed_since is not None and clock() - failed_since > FAILED_FOR:
            raise StageError("bootkube.service failed", journal_tail(host, SERVICES[0]))
        words = bootkube.words(clock())
        if words and words != reported:
            report(words)
            reported = words
        looked_at = clock()


def merged_master(host: HostSystem, host_config: Mapping[str, Any]) -> bytes:
    """master.ign that bootkube left, with this host's own parts. Raises StageError.

    The pointer to the machine-config server is dropped: master.ign is complete, and nobody would answer there.
    """
    path = host.path(MASTER_IGNITION)
    try:
        master = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StageError(MASTER_IGNITION, str(error)) from None
    own = {key: value for key, value in host_config.items() if key != "ignition"}
    result = merge(master, own)
    versions = (master["ignition"]["version"], (host_config.get("ignition") or {}).get("version", "3.0.0"))
    result["ignition"]["version"] = max(
        versions, key=lambda text: [int(part) for part in text.split("-")[0].split(".")]
    )
    return json.dumps(result, separators=(",", ":")).encode()


def store_ignition(host: HostSystem, name: str, data: bytes) -> Path:
    """Write an ignition file for coreos-installer; its path as the host sees it."""
    directory = host.path(INSTALL_DIR)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(directory / name, data)
    return Path(INSTALL_DIR) / name
