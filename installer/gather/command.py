"""Asks the service, the cluster and every host that answers, and packs what they send, with notes on what failed."""

from __future__ import annotations

import io
import json
import logging
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from installer.assisted.client import AssistedClient
from installer.assisted.errors import ClientError
from installer.assisted.restclient import text_field
from installer.common.inputs import LARGEST_STATE, open_input, read_input
from installer.common.redact import Redactor
from installer.common.secretfiles import private_directory
from installer.errors import ConfigError, InstallerError
from installer.files import deliver, is_stream
from installer.gather.remote import LARGEST_UNPACKED, Access, Running, add, add_file, fetch
from installer.observe import state
from installer.observe.archive import members
from installer.observe.kube import Kube
from installer.observe.service import Reach, watcher
from installer.observe.service import hosts as hosts_of_service

log = logging.getLogger("installer.gather")
AT_ONCE = 8
LOGS = (".openshift_install.log",)


class Gathering:
    """One archive that is being made. ``notes``: lines of its summary."""

    def __init__(self, inputs: state.Inputs, archive: tarfile.TarFile, work: Path, top: str) -> None:
        self.inputs, self.archive, self.work, self.top = inputs, archive, work, top
        self.redactor = Redactor((inputs.token, _text(inputs.directory / "auth/kubeadmin-password").strip()))
        # What the user has given, the pull secret and the machines' passwords among it, is in the state.
        for name in (state.STATE_FILE, "auth/kubeconfig"):
            self.redactor.learn(_text(inputs.directory / name))
        self.notes: list[str] = []

    def note(self, text: str, *, bad: bool = False) -> None:
        """Write a line for the user, and for the archive's reader."""
        self.notes.append(text)
        (log.warning if bad else log.info)("%s", text)

    def put(self, name: str, value: Any) -> None:
        """Write a JSON document without its secrets."""
        data = json.dumps(self.redactor.value(value), indent=1).encode() + b"\n"
        add_file(self.archive, f"{self.top}/{name}", io.BytesIO(data))

    def own_files(self) -> None:
        """List the installer's own files on this machine."""
        for name in LOGS:
            try:
                source = open_input(self.inputs.directory / name)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.note(f"{name}: {error.strerror or error}", bad=True)
                continue
            with source, tempfile.TemporaryFile() as clean:
                self.redactor.copy(source, clean)
                add_file(self.archive, f"{self.top}/{name.lstrip('.')}", clean)

    def service(self, reach: Reach) -> dict[str, str]:
        """Return the service's own view, events and logs; names by address of the hosts that it knows."""
        service = watcher(self.inputs, reach)
        names: dict[str, str] = {}
        try:
            for infra_env in service.infra_envs():
                infra_env_id = text_field(infra_env, "id", "GET /infra-envs")
                hosts = hosts_of_service(service, infra_env_id)
                names.update(addresses(hosts))
                self.put(f"service/infra-env-{infra_env_id}.json", infra_env)
                self.put(f"service/hosts-{infra_env_id}.json", hosts)
                self.put(f"service/events-{infra_env_id}.json", service.events(infra_env_id))
            for cluster in service.clusters():
                cluster_id = text_field(cluster, "id", "GET /clusters")
                self.put(f"service/cluster-{cluster_id}.json", service.cluster(cluster_id))
                self._logs(service, cluster_id)
            self.note("service: its state and events are here")
        except ClientError as error:
            self.note(f"service: {error}", bad=True)
        finally:
            service.close()
        return names

    def _logs(self, service: AssistedClient, cluster_id: str) -> None:
        packed = self.work / "logs"
        try:
            with packed.open("wb") as file:
                service.download_logs(cluster_id, file)
            count = self._unpack_logs(packed, f"{self.top}/service/logs")
            # An installation without trouble has none.
            self.note(f"service: {count} files of logs that hosts have sent")
        except ClientError as error:
            self.note(f"service: no logs: {error}", bad=True)
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            self.note(f"service: its logs cannot be unpacked: {error}", bad=True)

    def _unpack_logs(self, packed: Path, folder: str) -> int:
        """Return a tar of hosts' archives, or one archive: unpacked, as secrets are found in plain text only."""
        count = archives = 0
        for member, file in members(packed, LARGEST_UNPACKED):
            if file is None or not member.name.endswith(".tar.gz"):
                continue
            archives += 1
            inner = self.work / "logs-of-a-host"
            with inner.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
            name = Path(member.name).name.removesuffix(".tar.gz")
            count += add(self.archive, inner, f"{folder}/{name}", self.redactor)
        return count if archives else add(self.archive, packed, folder, self.redactor)

    def nodes(self, reach: Reach) -> dict[str, str]:
        """Names by address of the nodes that the cluster knows."""
        kube = Kube(self.inputs.kubeconfig, reach)
        try:
            return kube.node_addresses()
        except InstallerError as error:
            self.note(f"cluster: {error}")
            return {}
        finally:
            kube.close()

    def hosts(self, names: dict[str, str], access: Access) -> int:
        """Fetch from every host over ssh, several at once. Returns how many gave their part."""
        done = 0
        running = Running()
        with ThreadPoolExecutor(AT_ONCE) as pool, running.ended_with(pool):
            files = {address: self.work / f"host-{number}" for number, address in enumerate(names)}
            asked = {address: pool.submit(fetch, access, address, files[address], running) for address in names}
            for address, name in names.items():
                label = f"{name} ({address})" if name and name != address else address
                problem = asked[address].result()
                if not problem:
                    try:
                        count = add(self.archive, files[address], f"{self.top}/hosts/{address}", self.redactor)
                    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
                        problem = f"its archive is damaged: {error}"
                    else:
                        done += 1
                        self.note(f"host {label}: {count} files")
                if problem:
                    self.note(f"host {label}: {problem}", bad=True)
                files[address].unlink(missing_ok=True)
        return done

    def summary(self) -> None:
        """Write the notes."""
        text = "".join(f"{note}\n" for note in self.notes)
        add_file(self.archive, f"{self.top}/summary.txt", io.BytesIO(text.encode()))


def addresses(hosts: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Host names by the first address of each host's inventory."""
    names = {}
    for host in hosts:
        try:
            inventory = json.loads(host.get("inventory") or "{}")
            nics = inventory.get("interfaces") or []
            every = [
                text for nic in nics for key in ("ipv4_addresses", "ipv6_addresses") for text in nic.get(key) or []
            ]
            first = str(ip_address(every[0].split("/")[0]))
        except (ValueError, IndexError, AttributeError, TypeError, RecursionError):
            continue
        names[first] = str(host.get("requested_hostname") or inventory.get("hostname") or "")
    return names


def _text(path: Path) -> str:
    try:
        return read_input(path, LARGEST_STATE).decode(errors="surrogateescape")
    except OSError:
        return ""


def run(
    directory: Path,
    access: Access,
    hosts: Sequence[str] = (),
    output: Path | None = None,
    *,
    reach: Reach | None = None,
) -> int:
    """Gather into DIR/agent-gather-<time>.tar.gz, or ``output``; 0, or 1 when no host and no service answered.

    Raises InstallerError when DIR holds no installation or the archive cannot be written.
    """
    inputs = state.load(directory, with_password=False)
    return _packed(
        inputs,
        access,
        "agent-gather",
        output=output,
        fill=lambda gathering: _gather_all(gathering, access, hosts, reach or Reach()),
    )


def run_hosts(directory: Path, access: Access, names: dict[str, str]) -> int:
    """Gather from hosts alone, known by address and name, into DIR/log-bundle-<time>.tar.gz; 0. Raises InstallerError
    when none answers."""
    inputs = state.load_cluster(directory, with_password=False)

    def from_hosts(gathering: Gathering) -> tuple[int, int]:
        gathering.own_files()
        count = gathering.hosts(names, access)
        gathering.summary()
        if not count:
            raise InstallerError(f"nothing could be gathered: none of {', '.join(names)} answers (see above)")
        return count, len(names)

    return _packed(inputs, access, "log-bundle", output=None, fill=from_hosts)


def _packed(
    inputs: state.Inputs,
    access: Access,
    name: str,
    *,
    output: Path | None,
    fill: Callable[[Gathering], tuple[int, int]],
) -> int:
    if access.key is not None and not access.key.is_file():
        raise ConfigError(f"--key {access.key}: no such file")
    top = time.strftime(f"{name}-%Y%m%d%H%M%S")
    target = output or inputs.directory / f"{top}.tar.gz"
    try:
        # Beside the archive, since hosts send much; and not in it before their secrets are out.
        with private_directory("node0-gather-", None if is_stream(target) else target.parent) as work:
            packed = work / "archive"
            with tarfile.open(packed, mode="w:gz", compresslevel=6) as archive:
                count, asked = fill(Gathering(inputs, archive, work, top))
            packed.chmod(0o600)
            deliver(packed, target)
    except OSError as error:
        raise InstallerError(f"{target}: cannot be written: {error.strerror or error}") from error
    log.info("gathered from %d of %d hosts: %s", count, asked, target)
    return 0


def _gather_all(gathering: Gathering, access: Access, hosts: Sequence[str], reach: Reach) -> tuple[int, int]:
    """Everything that answers; how many hosts did, and of how many. Raises InstallerError when nothing does."""
    gathering.own_files()
    service_hosts = gathering.service(reach)
    answered = bool(service_hosts) or any(note.startswith("service: its state") for note in gathering.notes)
    names = {gathering.inputs.rendezvous_ip: "rendezvous host", **service_hosts}
    if not answered:
        # node0 has rebooted into its disk: only the cluster knows its nodes now.
        names.update(gathering.nodes(reach))
    names.update({address: names.get(address, "") for address in hosts})
    count = gathering.hosts(names, access)
    gathering.summary()
    if not count and not answered:
        raise InstallerError("nothing could be gathered: neither the service nor any host answers (see above)")
    return count, len(names)
