"""`node0 create cluster`: a bootstrap machine and the hosts of install-config.yaml, driven by their BMCs to a cluster.

The payload's own program makes the Ignition configs (installer/upi). What has been done is in the books
(record.py), so a run that was killed is gone on with: the bootstrap machine is started once, and removed once.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import urllib3

from installer.assisted.enums import Stage
from installer.common.inputs import read_input
from installer.config.load import INSTALL_CONFIG_FILE, decode_file, decoded_text
from installer.config.types.install import InstallConfig
from installer.config.types.platform import BareMetalHost
from installer.config.values import check as values
from installer.create.stages.resolve import resolve_payload
from installer.dirlock import locked
from installer.errors import EXIT_BOOTSTRAP_FAILED, EXIT_INSTALL_FAILED, ConfigError, InstallerError, WaitError
from installer.hub import spoke
from installer.hub.baremetal.provisioner import Failed, Outcome, Power
from installer.hub.kube.api import Api, KubeError
from installer.hub.kube.kinds import Json, Key
from installer.ipi import hostimage, imageserver
from installer.ipi.boot import alone, install_config
from installer.ipi.media import Media
from installer.ipi.plan import Action, Step, decide
from installer.ipi.record import Record
from installer.ipi.targets import HOSTS, Target, authorities, each, finished, look, place_of, refusals, targets_of
from installer.observe.errors import KubeError as Unreachable
from installer.observe.kube import Kube
from installer.observe.state import Expected, Inputs
from installer.upi import certificates
from installer.upi.create import create as create_target
from installer.waitfor.install import Install
from installer.waitfor.settings import Settings, duration

log = logging.getLogger("installer.ipi.cluster")

#: The folder with books and images, which is locked for the length of a run: waiting locks the asset directory itself.
FOLDER, BOOKS = ".node0_cluster", ".node0_cluster/books.json"
BOOTSTRAP = "bootstrap"
# Steps of the bootstrap machine: it is needed no more, and it is switched off.
COMPLETE, REMOVED = "complete", "removed"
# As openshift-install: 20 minutes for the API, 45 for the bootstrap on bare metal 60.
API_SECONDS, BOOTSTRAP_SECONDS = 1200.0, 3600.0
WORKER_SECONDS = 3600.0
POWER_SECONDS = 600.0
LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """A user's wishes: the bootstrap machine's file, and as in boot.Options."""

    bootstrap: Path | None
    force: bool = False
    ports: tuple[int, int]
    old_tls: bool = False


@dataclass(frozen=True)
class Machines:
    """All machines of a cluster with their BMCs, and the host entry of each by its name."""

    targets: list[Target]
    hosts: dict[str, BareMetalHost]

    def of(self, role: str) -> list[Target]:
        """Return the machines of a role."""
        return [target for target in self.targets if target.role == role]


def create(directory: Path, options: Options) -> int:
    """Run the command; returns 0. Raises InstallerError."""
    with alone(directory / FOLDER), ExitStack() as stack:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        install = install_config(directory)
        check(install)
        ca = stack.enter_context(authorities(install))
        step = step_of(directory)
        machines = machines_of(install, options, ca, removed=step == REMOVED)
        refuse_expired(directory / "bootstrap.ign", step)
        refuse_unusable(machines.targets)
        if not (directory / "bootstrap.ign").exists():
            with locked(directory):
                create_target("ignition-configs", directory)
        record = Record.load(directory / BOOKS, directory / "bootstrap.ign", [])
        paths = images(directory, install, machines, record)
        steps = decided(machines, record, paths, options)
        addresses = list(dict.fromkeys(imageserver.address_towards(t.address.url) for t in machines.targets))
        served = {paths[target.name]: directory / FOLDER / f"{target.name}.iso" for target in machines.targets}
        stack.enter_context(imageserver.serving(served, addresses, options.ports))
        Run(directory, install, machines, record, paths=paths, ports=options.ports).carry_out(steps)
    for image in (directory / FOLDER).glob("*.iso"):
        image.unlink()
    return 0


def step_of(directory: Path) -> str:
    """Return how far the bootstrap machine has come in an earlier run."""
    if not (directory / BOOKS).exists() or not (directory / "bootstrap.ign").exists():
        return ""
    return Record.load(directory / BOOKS, directory / "bootstrap.ign", []).step(BOOTSTRAP)


def refuse_expired(ignition: Path, step: str) -> None:
    """Refuse to begin with an Ignition config whose certificates have expired. Raises ConfigError."""
    if not step and ignition.exists() and (line := certificates.expired(read_input(ignition), datetime.now(UTC))):
        raise ConfigError(line)


def check(install: InstallConfig) -> None:
    """Refuse what this command cannot install, all at once. Raises ConfigError."""
    platform, problems = install.platform.baremetal, []
    if platform is None:
        raise ConfigError(
            f"{INSTALL_CONFIG_FILE}: platform.{install.platform.name}: create cluster installs platform.baremetal; "
            "other platforms: node0 create ignition-configs, or node0 agent create image"
        )
    if platform.provisioning_network != "Disabled":
        problems.append(
            f"platform.baremetal.provisioningNetwork: {platform.provisioning_network}: only Disabled is installed: "
            "hosts boot virtual media"
        )
    roles = [host.role for host in platform.hosts]
    for role, wanted in (("master", install.masters), ("worker", install.workers)):
        if roles.count(role) < wanted:
            problems.append(f"{HOSTS}: {wanted} hosts of role {role} are wanted, there are {roles.count(role)}")
    if install.arbiters:
        problems.append("arbiter.replicas: create cluster installs masters and workers")
    for host in platform.hosts:
        if host.role not in ("master", "worker"):
            problems.append(f"{place_of(host)}.role: {host.role!r}: must be master or worker")
        if not host.name:
            problems.append(f"{place_of(host)}.name: missing: it is the name of the node")
        elif host.name == BOOTSTRAP:
            problems.append(f"{place_of(host)}.name: {BOOTSTRAP} is the bootstrap machine's")
        elif problem := values.subdomain(host.name, 63):
            problems.append(f"{place_of(host)}.name: {host.name!r}: no name of a node: {problem}")
    if problems:
        raise ConfigError("\n".join(f"{INSTALL_CONFIG_FILE}: {problem}" for problem in problems))


def machines_of(install: InstallConfig, options: Options, ca: str, *, removed: bool) -> Machines:
    """Return as many hosts as there are replicas, and the bootstrap machine unless it is `removed`.

    Raises ConfigError.
    """
    platform = install.platform.baremetal
    assert platform is not None
    all_targets = targets_of(install, ca, old_tls=options.old_tls)
    targets = [
        target
        for role, count in (("master", install.masters), ("worker", install.workers))
        for target in [target for target in all_targets if target.role == role][:count]
    ]
    hosts = {host.name: host for host in platform.hosts}
    if not removed:
        host = bootstrap_host(options.bootstrap)
        alone = replace(install, platform=replace(install.platform, baremetal=replace(platform, hosts=(host,))))
        try:
            [target] = targets_of(alone, ca, old_tls=options.old_tls)
        except ConfigError as error:
            shown = str(error).replace(f"{INSTALL_CONFIG_FILE}: {HOSTS}[{BOOTSTRAP}].", f"{options.bootstrap}: ")
            raise ConfigError(shown) from None
        if taken := [other.name for other in all_targets if other.address == target.address and other.role == "master"]:
            raise ConfigError(
                f"{options.bootstrap}: bmc.address is also that of {taken[0]}: the bootstrap machine may become a "
                "worker, but no master"
            )
        targets.insert(0, target)
        hosts[BOOTSTRAP] = host
    return Machines(targets, hosts)


def bootstrap_host(path: Path | None) -> BareMetalHost:
    """Read the bootstrap machine's file: an entry as in `platform.baremetal.hosts`. Raises ConfigError."""
    if path is None:
        raise ConfigError(
            "no bootstrap machine: give the file of one by --bootstrap FILE (bmc, bootMACAddress, networkConfig, as an "
            f"entry of {HOSTS}); a virtual machine at libvirtURI is not made"
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--bootstrap {path}: cannot be read: {error.strerror or error}") from error
    host = decode_file(decoded_text(data, path.name), BareMetalHost, path.name, "")
    return replace(host, name=BOOTSTRAP, role=BOOTSTRAP)


def refuse_unusable(targets: Sequence[Target]) -> None:
    """Look at all BMCs. Raises InstallerError, after a line for each that cannot be used."""
    problems = refusals(targets, look(targets))
    for name, problem in problems.items():
        log.error("%s: %s", name, problem)
    if problems:
        raise InstallerError(f"{len(problems)} of {len(targets)} machines cannot be booted; nothing was changed")


def images(directory: Path, install: InstallConfig, machines: Machines, record: Record) -> dict[str, str]:
    """Make the machines' images, where they are not there; returns their paths on the server. Raises InstallerError."""
    folder = directory / FOLDER
    base: Path | None = None
    paths = {}
    for target in machines.targets:
        image = folder / f"{target.name}.iso"
        paths[target.name] = record.path_of(image)
        if image.exists() and image.stat().st_mtime >= (directory / "bootstrap.ign").stat().st_mtime:
            continue
        if base is None:
            base = resolve_payload(install, ()).iso
        host = machines.hosts[target.name]
        connections = hostimage.networks(host, target.field)
        if target.role == BOOTSTRAP:
            config = hostimage.bootstrap_config((directory / "bootstrap.ign").read_bytes(), connections)
        else:
            pointer = (directory / f"{target.role}.ign").read_bytes()
            config = hostimage.host_config(
                pointer, host.name, host.root_device_hints, connections=connections, ssh_key=install.ssh_key
            )
        hostimage.write(base, image, config, install)
    return paths


def decided(machines: Machines, record: Record, paths: dict[str, str], options: Options) -> dict[str, Step]:
    """Return each machine's step. Raises InstallerError for those that run or whose drives hold others' images."""
    looks = look(machines.targets)
    # A worker that is the bootstrap machine until then is not in anybody else's use.
    busy = {target.address for target in machines.of(BOOTSTRAP)}

    def step(target: Target) -> Step:
        if target.role == BOOTSTRAP and record.step(BOOTSTRAP) == COMPLETE:
            return Step(Action.DONE, "switch it off: the bootstrap is complete")
        if target.role == "worker" and target.address in busy:
            return Step(Action.BOOT, "boot it after the bootstrap")
        return decide(target, looks[target.name], record, paths[target.name], force=options.force)

    steps = {target.name: step(target) for target in machines.targets}
    refused = {name: step.text for name, step in steps.items() if step.action is Action.REFUSE}
    for name, text in refused.items():
        log.error("%s: %s", name, text)
    if refused:
        raise InstallerError(f"{len(refused)} of {len(steps)} machines are in use; none was started")
    return steps


class Run:
    """One run over a cluster's machines."""

    def __init__(
        self,
        directory: Path,
        install: InstallConfig,
        machines: Machines,
        record: Record,
        *,
        paths: dict[str, str],
        ports: tuple[int, int],
    ) -> None:
        self._directory = directory.absolute()
        self._install = install
        self._machines = machines
        self._record = record
        self._paths = paths
        self._media = Media(record, ports)

    def carry_out(self, steps: dict[str, Step]) -> None:
        """Install the cluster; however it ends, only machines that run from our images keep them.

        Raises InstallerError.
        """
        workers = self._machines.of("worker")
        kube = Kube(self._directory / "auth/kubeconfig", Settings())
        try:
            self._start([*self._machines.of(BOOTSTRAP), *self._machines.of("master")], steps)
            if self._record.step(BOOTSTRAP) not in (COMPLETE, REMOVED):
                self._await_bootstrap(kube)
                # Before it is switched off: a run that finds it off must not start it again.
                self._record.note(BOOTSTRAP, COMPLETE)
            if self._record.step(BOOTSTRAP) != REMOVED:
                self._remove_bootstrap()
            self._installed(self._machines.of("master"))
            self._start(workers, steps)
            with self._approving(workers) as joining:
                inputs = self._inputs()
                Install(inputs, kube, Settings(), None, follow=joining.look).wait()
                joining.wait(WORKER_SECONDS)
        finally:
            kube.close()
            self._leave()

    def _leave(self) -> None:
        """Empty the drives, but of machines that run from them: those would read errors, and not go on."""
        running = [target for target in self._machines.targets if self._record.step(target.name) == "started"]
        busy = {target.address for target in running}
        self._media.eject([target for target in self._machines.targets if target.address not in busy])
        if running:
            log.warning(
                "Left running from our images: %s; run create cluster again soon, which goes on, or destroy cluster",
                ", ".join(target.name for target in running),
            )

    def _start(self, targets: Sequence[Target], steps: dict[str, Step]) -> None:
        """Start the machines that are to be booted, all at once. Raises InstallerError."""
        waiting = [target for target in targets if steps[target.name].action is Action.BOOT]

        def start(target: Target) -> str:
            return self._media.start(target, self._paths[target.name])

        problems = [problem for problem in each(waiting, start, self._media.stop).values() if problem]
        for problem in problems:
            log.error(problem)
        if problems:
            raise InstallerError(f"{len(problems)} of {len(waiting)} machines were not started: see above")

    def _await_bootstrap(self, kube: Kube) -> None:
        """Wait until the API answers, then until it says that the bootstrap is complete. Raises WaitError."""
        log.info("Waiting up to %s for the Kubernetes API at %s...", duration(API_SECONDS), kube.host)

        def answers() -> bool:
            kube.check_alive()
            return True

        self._until(API_SECONDS, answers, "the Kubernetes API did not answer")
        log.info("API is up; waiting up to %s for bootstrapping to complete...", duration(BOOTSTRAP_SECONDS))

        def complete() -> bool:
            return kube.config_map("kube-system", "bootstrap").get("status") == "complete"

        self._until(BOOTSTRAP_SECONDS, complete, "ConfigMap kube-system/bootstrap did not say complete")
        log.info("cluster bootstrap is complete")

    def _until(self, seconds: float, look_once: Callable[[], bool], what: str) -> None:
        deadline, last = time.monotonic() + seconds, "not asked"
        while True:
            try:
                if look_once():
                    return
                last = "not yet"
            except Unreachable as error:
                last = str(error)
            if time.monotonic() > deadline:
                raise WaitError(
                    f"bootstrap process timed out: {what} within {duration(seconds)}, last: {last}; the bootstrap "
                    "machine still runs: see its console and its journal (bootkube.service)",
                    EXIT_BOOTSTRAP_FAILED,
                )
            time.sleep(LOOK_AGAIN_SECONDS)

    def _remove_bootstrap(self) -> None:
        log.info("Destroying the bootstrap resources...")
        for problem in switched_off(self._machines.of(BOOTSTRAP)):
            log.warning("%s; switch it off: it must not answer for the cluster any more", problem)
        self._media.eject(self._machines.of(BOOTSTRAP))
        self._record.note(BOOTSTRAP, REMOVED)

    def _installed(self, targets: Sequence[Target]) -> None:
        for target in targets:
            self._record.note(target.name, "installed")
        self._media.eject(targets)

    def _inputs(self) -> Inputs:
        """Return what waiting needs, which has no rendezvous service here."""
        password = self._directory / "auth/kubeadmin-password"
        return Inputs(
            self._directory,
            "",
            "",
            "",
            cluster_name=self._install.metadata.name,
            base_domain=self._install.base_domain,
            platform=self._install.platform.name,
            expected=Expected((), self._install.masters + self._install.workers),
            password=password.read_text() if password.exists() else None,
        )

    @contextmanager
    def _approving(self, workers: Sequence[Target]) -> Iterator[Joining]:
        kubeconfig = (self._directory / "auth/kubeconfig").read_text()
        with spoke.reached(kubeconfig) as api:
            yield Joining(api, workers, self._installed)


class Joining:
    """Workers whose kubelets ask for certificates: each gets what the node of its name needs, and nothing else."""

    def __init__(self, api: Api, workers: Sequence[Target], installed: Callable[[Sequence[Target]], None]) -> None:
        self._api = api
        self._waiting = list(workers)
        self._installed = installed
        self.last = "the cluster's API was not asked"

    def look(self) -> None:
        """Look at all of them once, and approve what is theirs."""
        for worker in list(self._waiting):
            try:
                node: Json | None = self._api.get(spoke.NODE, Key("", worker.name))
                addresses = frozenset(
                    str(item.get("address")) for item in ((node or {}).get("status") or {}).get("addresses") or ()
                )
                stage = spoke.follow(self._api, spoke.Joining(worker.name, addresses), {}, datetime.now(UTC))
            except KubeError as error:
                self.last = str(error)
                return
            if stage is Stage.DONE:
                log.info("%s: its node is ready", worker.name)
                self._waiting.remove(worker)
                self._installed([worker])
        self.last = ", ".join(worker.name for worker in self._waiting)

    def wait(self, seconds: float) -> None:
        """Look until all nodes are ready. Raises WaitError."""
        deadline = time.monotonic() + seconds
        while self._waiting:
            self.look()
            if time.monotonic() > deadline:
                raise WaitError(
                    f"workers' nodes were not ready within {duration(seconds)}: {self.last}", EXIT_INSTALL_FAILED
                )
            if self._waiting:
                time.sleep(LOOK_AGAIN_SECONDS)


def switched_off(targets: Sequence[Target]) -> list[str]:
    """Switch machines off; returns what went wrong, a line each."""
    stop = threading.Event()

    def off(target: Target) -> Outcome:
        machine = target.machine()
        try:
            return finished(lambda: machine.power(Power.OFF), POWER_SECONDS, stop)
        finally:
            machine.detach()

    return [f"{name}: {done.message}" for name, done in each(targets, off, stop).items() if isinstance(done, Failed)]


def destroy(directory: Path, options: Options) -> int:
    """Switch all machines of the cluster off and take our images out; returns 0. Raises InstallerError."""
    if not (directory / BOOKS).exists():
        raise ConfigError(f"{directory}: no cluster was created here: there is no {BOOKS}")
    with alone(directory / FOLDER), ExitStack() as stack:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        install = install_config(directory)
        ca = stack.enter_context(authorities(install))
        record = Record.load(directory / BOOKS, None, [])
        gone = record.step(BOOTSTRAP) in ("", REMOVED)
        machines = machines_of(install, options, ca, removed=gone)
        started = [target for target in machines.targets if record.step(target.name)]
        problems = switched_off(started)
        # A worker may be the bootstrap machine.
        full = Media(record, options.ports).eject(
            list({target.address: target for target in machines.targets}.values())
        )
        for problem in problems:
            log.error(problem)
        if problems or full:
            raise InstallerError("not all machines were switched off and emptied: see above, then run this again")
        shutil.rmtree(directory / FOLDER)
    log.info("%d machines are switched off, and our image is in none of their drives", len(started))
    return 0
