"""logs-gather: journals, kernel log and network state as tar.gz, sent to the service (installer.md §9)."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from installer.assisted.client import AssistedClient
from installer.assisted.enums import LogsState
from installer.assisted.errors import ClientError
from installer.common.redact import Redactor
from installer.hostsys import commands
from installer.hostsys.system import HostSystem

COMMAND_TIMEOUT = 120.0
LARGEST_OUTPUT = 64 * 1024**2
UNITS = (
    *("agent.service", "assisted-service.service", "agent-register-cluster.service", "agent-register-infraenv.service"),
    *("apply-host-config.service", "start-cluster-installation.service", "node-zero.service"),
    *("set-hostname.service", "pre-network-manager-config.service", "NetworkManager.service"),
)
BOOTSTRAP_UNITS = ("bootkube.service", "approve-csr.service", "progress.service", "kubelet.service")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "dmesg.logs": ("dmesg",),
    "mount.txt": ("mount",),
    "ip-address.txt": ("ip", "-d", "address"),
    "ip-route.txt": ("ip", "route", "show", "table", "all"),
    "lsblk.txt": ("lsblk", "-f"),
    "podman-ps.txt": ("podman", "ps", "-a"),
    "failed-units.txt": ("systemctl", "--failed", "--no-legend", "--plain"),
    "installer-container.logs": ("podman", "logs", "assisted-installer"),
}
FILES = ("/etc/resolv.conf", "/etc/assisted/rendezvous-host.env", "/var/run/agent-installer/host-config-failures")
#: Files with this host's secrets, which are then found by their value wherever they stand.
WITH_SECRETS = (
    "/root/.docker/config.json",
    "/etc/assisted/rendezvous-host.env",
    "/etc/assisted/hostconfig/fencing-credentials.yaml",
)


def redactor(host: HostSystem) -> Redactor:
    """Take out of logs what looks like a secret, and the secrets that this host has (WITH_SECRETS)."""
    clean = Redactor((os.environ.get("PULL_SECRET_TOKEN", ""),))
    for path in WITH_SECRETS:
        clean.learn(host.read(path))
    return clean


def output_of(host: HostSystem, command: tuple[str, ...]) -> str:
    """Return a command's output, followed by how it failed if it did."""
    name = " ".join(command)
    try:
        done = commands.run(host.command(command), COMMAND_TIMEOUT, merged=True, largest=LARGEST_OUTPUT)
    except OSError as error:
        return f"({name}: {error})\n"
    text = done.out.decode(errors="replace")
    return f"{text}\n({name}: {done.why})\n" if done.why else text


def _add(tar: tarfile.TarFile, name: str, text: str, clean: Redactor) -> None:
    data = clean.text(text).encode(errors="replace")
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    tar.addfile(info, io.BytesIO(data))


def write_archive(host: HostSystem, host_id: str, bootstrap: bool, file: Any) -> None:
    """Write the archive: one directory named after the host, one file a source."""
    top = f"host_{host_id}"
    units = (*UNITS, *(BOOTSTRAP_UNITS if bootstrap else ()))
    clean = redactor(host)
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as tar:
        for unit in units:
            _add(
                tar,
                f"{top}/{unit}.logs",
                output_of(host, ("journalctl", "-o", "short-iso-precise", "--no-pager", "-u", unit)),
                clean,
            )
        _add(
            tar,
            f"{top}/journal.logs",
            output_of(host, ("journalctl", "-b", "-o", "short-iso-precise", "--no-pager")),
            clean,
        )
        for name, command in COMMANDS.items():
            _add(tar, f"{top}/{name}", output_of(host, command), clean)
        for path in FILES:
            if host.path(path).is_file():
                _add(tar, f"{top}/files{path}", host.read(path), clean)


@dataclass(frozen=True)
class Sender:
    """Sends one host's logs. ``attempt``: which attempt to install they are of; empty for the client's, if it has
    one."""

    client: AssistedClient
    cluster_id: str
    infra_env_id: str
    host_id: str
    _: KW_ONLY
    attempt: str = ""

    def send(self, host: HostSystem, bootstrap: bool) -> None:
        """Collect and upload, reporting collecting and completed to the service. Raises ClientError, OSError."""
        self._tell(LogsState.COLLECTING)
        with tempfile.TemporaryFile(dir=os.environ.get("TMPDIR")) as file:
            write_archive(host, self.host_id, bootstrap, file)
            ids = (self.cluster_id, self.infra_env_id, self.host_id)
            self.client.upload_host_logs(*ids, file, attempt=self.attempt)
        self._tell(LogsState.COMPLETED)

    def give_up(self) -> None:
        """Report to the service, if it answers, that no logs will come."""
        with contextlib.suppress(ClientError):
            self._tell(LogsState.TIMEOUT)

    def _tell(self, state: LogsState) -> None:
        self.client.report_logs(self.infra_env_id, self.host_id, state, attempt=self.attempt)
