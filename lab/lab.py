"""The life of a lab, and what it offers while it runs.

with Lab(topology, artifacts=Path("artifacts"), release=release) as lab:
    lab.nodes["master-0"].boot_image(iso)
    lab.nodes["master-0"].console.wait_for("login:", timeout=300)
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from drivers import ssh
from lab.bmcs.recorded import profile_of
from lab.cleanup import Step, afterwards, finish
from lab.connection import Connection
from lab.daemons import services
from lab.errors import LabGoneError
from lab.evidence import bundle as evidence
from lab.evidence import record
from lab.evidence.folder import Folder
from lab.evidence.phases import Phases
from lab.faults import Fault
from lab.host import budget, limits, preflight, records
from lab.host.identity import start_time, this_process
from lab.host.namespaces import enter_argv
from lab.host.paths import budget_file, labs_dir, state_dir
from lab.host.process import clean_environment, in_background, run_streaming
from lab.inputs.configs import Access
from lab.layout import Layout
from lab.machines import containers, disks
from lab.machines.factory import Nodes, Owner, connect, define
from lab.subject import Subject
from lab.supervisor import control, watch
from lab.supervisor.plan import Ended
from lab.supervisor.spawn import Supervisor
from lab.topology import NodeSpec, Topology

if TYPE_CHECKING:
    from drivers.redfish import Service

log = logging.getLogger(__name__)
T = TypeVar("T")


def _ledger() -> budget.Ledger:
    return budget.Ledger(budget_file(), budget.capacity(labs_dir()))


class Lab(AbstractContextManager["Lab"]):
    """One lab of `topology`. Its evidence goes to `artifacts`; the registry serves `release`, read-only.

    Entering it starts it, leaving it ends it, unless `keep` is set. It also ends with this process, however that
    ends. `wait_for_memory` is in seconds; `command` is what makes the run again (default: this process's own).
    """

    def __init__(
        self,
        topology: Topology,
        artifacts: Path | None = None,
        release: Subject | None = None,
        *,
        keep: bool = False,
        wait_for_memory: float = 4 * 3600,
        command: str = "",
    ) -> None:
        self.topology = topology
        self.id = records.new_id(topology)
        self.layout = Layout(labs_dir() / self.id, topology)
        self.artifacts = (artifacts or state_dir() / "artifacts" / self.id).absolute()
        self.nodes = Nodes()

        self._storage = release.registry_storage if release else None
        program = Path(sys.argv[0]).name
        own = [program if shutil.which(program) else str(Path(sys.argv[0]).absolute()), *sys.argv[1:]]
        self._command = command or shlex.join(own)
        self._release = release.version if release else "none"
        self._mirrors = tuple((m.source, m.repository) for m in release.mirrors) if release else ()
        self.components: Mapping[str, str] = release.components if release else {}
        self._keep = keep
        self._wait_for_memory = wait_for_memory
        self._supervisor: Supervisor | None = None
        self._commands = itertools.count(1)
        self.evidence: Final = Folder(self.artifacts, self.id)
        self._phases = Phases(self.artifacts / "phases.json", lambda: self.evidence.is_ours)
        self._record: records.Record | None = None
        self._connection = Connection(self.id)
        self._alive = -1

    # -- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Lab:
        if self._record is None:
            self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._keep:
            finish(("let go of the supervisor", self._let_go), *self._connection.closing(), cause=error)
        else:
            finish(*self._stopping(), cause=error)

    @classmethod
    def attach(cls, lab_id: str, *, watched: bool = True) -> Lab:
        """Attach to a running lab that another process made; closing this object does not end the lab. One that is not
        `watched` is used though parts of it have ended."""
        record = watch.running(lab_id)
        lab = cls(record.topology, Path(record.artifacts), keep=True)
        lab.id = record.id
        lab.layout = Layout(record.root, record.topology)
        lab._mirrors = record.mirrors
        lab.components = record.components
        lab._connection = Connection(lab.id)
        lab._record = record
        lab.evidence.adopt()
        lab._connect(msgspec.json.decode(lab.layout.secrets.read_bytes(), type=services.Credentials), watched=watched)
        try:
            lab._make_nodes(record.machines)
        except LabGoneError as error:
            if watched:
                raise
            lab.nodes = Nodes(str(error))
        return lab

    def start(self) -> None:
        """Bring everything up, machines off. Raises PreflightError, EvidenceError, BudgetError or LabStartError."""
        begin = time.monotonic()
        for line in (*containers.reap(), *records.unclear()):
            log.warning("%s", line)
        preflight.check(self.topology, labs_dir(), self.id)
        if self.topology.machine == "container":
            limits.raise_limits()
        ledger = _ledger()
        need = budget.need_of(self.topology)
        self.evidence.take()
        try:
            with self.phase("wait for the machine"):
                ledger.take(self.id, need, this_process(), self._wait_for_memory)
            self.evidence.replace()
            self._note_what_is_run()
            with self.phase("lab up"):
                self._start(ledger)
        except BaseException as error:
            logs = ("keep its logs", lambda: evidence.keep_logs(self.layout, self.artifacts))
            finish(logs, *self._stopping(), cause=error)
            raise
        log.info("lab %s is up after %.1f s: %s", self.id, time.monotonic() - begin, self.layout.root)

    def _note_what_is_run(self) -> None:
        kinds = f"{len(self.topology.nodes)} {self.topology.machine}"
        facts = {
            "cluster": f"{self.topology.cluster_domain} ({kinds}{'s' * (len(self.topology.nodes) > 1)})",
            "release": self._release,
            "began": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            "lab": self.id,
            record.COMMAND: f"cd {shlex.quote(str(Path.cwd()))} && {self._command}",
        }
        record.note(self.artifacts, facts)

    def _start(self, ledger: budget.Ledger) -> None:
        owner = this_process()
        self._record = record = records.Record(
            id=self.id, topology=self.topology, owner=owner, created=time.time(), artifacts=str(self.artifacts),
            kept=self._keep, mirrors=self._mirrors, components=dict(self.components),
        )  # fmt: skip
        self._alive = records.create(record)
        prepared = services.prepare(self.layout, self.id, owner, self._storage)
        # The iSCSI target opens them when it starts.
        disks.make_all(self.layout)
        ssh.write_config(self.layout.root / "ssh_config", self.layout.ssh_key, self.layout.root / "ssh")
        self._supervisor = Supervisor(self.layout, self._alive)
        # From now on the lab lives as long as its supervisor.
        self._drop_claim()
        init, seconds = self._supervisor.up()
        log.debug("services of lab %s, seconds until ready: %s", self.id, seconds)
        supervisor = (self._supervisor.pid, start_time(self._supervisor.pid) or 0)
        self._record = record = msgspec.structs.replace(record, supervisor=supervisor, init=init)
        record.save()
        ledger.hand_over(self.id, supervisor)
        self._connect(prepared.credentials)
        self._record = msgspec.structs.replace(record, machines=define(self.hypervisor, self.layout))
        self._record.save()
        self._make_nodes(self._record.machines)

    def _connect(self, credentials: services.Credentials, *, watched: bool = True) -> None:
        self._connection.open(self.layout, self.supervisor[0], self.init, watched=watched)
        self.credentials = credentials
        self.bmc = self._bmc(self.layout.bmc_url, "1.2")

    def _bmc(self, url: str, tls: Literal["1.1", "1.2"]) -> Service:
        from drivers.redfish import Service  # with sushy 0.13 s, which is not for who only chooses a topology

        login = self.credentials.bmc_user, self.credentials.bmc_password
        return Service(f"{url}/redfish/v1/", *login, ca=self.layout.ca, run=self._connection.call, tls=tls)

    def bmc_of(self, spec: NodeSpec) -> Service:
        """Return the service that has a machine: the lab's for all of them, or the machine's own where it is a
        vendor's."""
        kind = self.topology.bmc_of(spec)
        return self.bmc if kind == "lab" else self._bmc(self.layout.bmc_url_of(spec), profile_of(kind).tls)

    def _make_nodes(self, machines: Mapping[str, str]) -> None:
        for spec in self.topology.nodes:
            self.nodes[spec.name] = connect(
                spec,
                machines[spec.name],
                hypervisor=self.hypervisor,
                bmc=self.bmc_of(spec),
                layout=self.layout,
                init=self.init,
                serve=self.serve,
                check=self.check,
            )

    def dismiss(self, name: str) -> None:
        """Take a machine out of the lab: out of the load balancer, switched off, and no longer among its machines.
        Its console stays as evidence; its memory and vCPUs are other labs'. Raises LabError, DriverError."""
        node = self.nodes[name]
        rest = tuple(spec for spec in self.topology.nodes if spec.name != name)
        self.topology = msgspec.structs.replace(self.topology, nodes=rest)
        if self.topology.load_balancer:
            services.write_balancer(self.layout.root, self.topology)
            self.services.stop("load-balancer")
            self.services.start("load-balancer")
        node.power.off()
        node.media.eject()
        collector = evidence.Collector(self, self.evidence.path)
        if not collector.attempt(f"outside of {name}", lambda: collector.outside(node)):
            log.warning("evidence: %s", collector.missing[0])
        del self.nodes[name]
        self._note(topology=self.topology)
        _ledger().shrink(self.id, budget.need_of(self.topology))

    def keep(self) -> None:
        """Leave the lab running when this object or this process ends; end it with `node0-lab down`."""
        self._let_go()
        self._note(kept=True)
        self._keep = True
        log.warning("lab %s is kept: node0-lab ls | ssh | console | down --lab %s", self.id, self.id)

    def note_cluster(self, state: Literal["installing", "installed"]) -> None:
        """Record how far its cluster is, for `node0-lab ls`. Raises OSError."""
        self._note(cluster=state)

    def _note(self, **fields: Any) -> None:
        assert self._record is not None
        self._record = msgspec.structs.replace(self._record, **fields)
        self._record.save()

    def detach(self) -> None:
        """Untie this process from the lab, which goes on: no thread of it stays in the lab's namespaces."""
        self._connection.close()

    def _let_go(self) -> None:
        self.evidence.let_go()
        if self._supervisor is not None:
            self._supervisor.let_go()
            self._supervisor = None

    def _drop_claim(self) -> None:
        fd, self._alive = self._alive, -1
        if fd >= 0:
            os.close(fd)

    def _stopping(self) -> tuple[Step, ...]:
        """Return the steps that end a lab; each is independent and idempotent."""
        return (
            *self._connection.closing(),
            ("end its supervisor", self._end_supervisor),
            ("release its directory", self._drop_claim),
            ("remove its files", self._remove_files),
            ("give back what it held of the machine", lambda: _ledger().give_back(self.id)),
            ("let go of its evidence", self.evidence.let_go),
        )

    def _end_supervisor(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.end()

    def _remove_files(self) -> None:
        record, self._record = self._record, None
        if record is not None:
            records.remove(record.root)

    def stop(self) -> None:
        """End the lab: all its processes, namespaces and files. Does nothing when it has ended."""
        begin = time.monotonic()
        finish(*self._stopping())
        log.info("lab %s is down after %.1f s", self.id, time.monotonic() - begin)

    # -- what it offers --------------------------------------------------------------------------------------------

    @property
    def init(self) -> int:
        """The pid of the first process of the lab's namespaces, as this machine sees it."""
        if self._record is None:
            raise LabGoneError(f"lab {self.id} is not running")
        return self._record.init

    @property
    def supervisor(self) -> tuple[int, int]:
        """The process that the lab lives by: its pid and start time (lab.host.identity)."""
        if self._record is None or self._record.supervisor is None:
            raise LabGoneError("the lab has not been started")
        return self._record.supervisor

    @property
    def hypervisor(self) -> Owner:
        """Return the owner of the lab's machines: its libvirt, or the daemon of container machines."""
        return self._connection.hypervisor

    @property
    def ssh_key(self) -> Path:
        """The private SSH key for the nodes; its public key is in `access`."""
        return self.layout.ssh_key

    @property
    def ca_pem(self) -> str:
        """The certificate of the lab's CA."""
        return self.layout.ca.read_text()

    @property
    def pull_secret(self) -> str:
        """The lab registry's credentials as dockerconfigjson text."""
        return services.pull_secret(self.layout, self.credentials)

    @property
    def access(self) -> Access:
        """Return a cluster's access to the lab's registry and the lab's access over SSH."""
        return Access(
            pull_secret=self.pull_secret,
            trust_bundle=self.ca_pem,
            ssh_key=self.layout.ssh_key.with_suffix(".pub").read_text().strip(),
            mirrors=tuple((source, f"{self.layout.registry}/{path}") for source, path in self._mirrors),
            bmcs=tuple(
                services.bmc_access(self.layout, self.credentials, node.spec, node.uuid) for node in self.nodes.values()
            ),
            tang_servers=services.tang_servers(self.layout),
        )

    @property
    def services(self) -> control.Control:
        """Control of the lab's daemons, for faults."""
        return control.Control(self.layout.root / "control.sock")

    def inside(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Return the result of `function(*args, **kwargs)`, run by a thread in the lab's namespaces. Raises
        DaemonEndedError when the lab itself has failed."""
        self.check()
        return self._connection.call(function, *args, **kwargs)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab's namespaces for at most `timeout` seconds; any exit code is a result.

        Its output is streamed to ARTIFACTS/commands/<number>-<name>.log. Raises CommandTimeoutError, or
        DaemonEndedError if the lab itself fails before, during or after the run.
        """
        return run_streaming(
            enter_argv(self.init, list(argv), cwd=str((cwd or Path.cwd()).absolute())),
            log_file=self._command_log(name or Path(argv[0]).name),
            timeout=timeout,
            env=clean_environment(env),
            shown=argv,
            check=self.check,
        )

    @contextmanager
    def running(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, name: str | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a command in the lab's namespaces for the length of the block, and never longer than the lab.

        Its output goes to ARTIFACTS/commands/<number>-<name>.log.
        """
        with in_background(
            enter_argv(self.init, list(argv), cwd=str(Path.cwd())),
            log_file=self._command_log(name or Path(argv[0]).name),
            env=clean_environment(env),
            shown=argv,
        ) as process:
            yield process

    def _command_log(self, name: str) -> Path:
        folder = self.artifacts / "commands"
        folder.mkdir(parents=True, exist_ok=True)
        label = re.sub(r"[^\w.-]+", "-", name)
        return folder / f"{next(self._commands):03d}-{label}.log"

    def serve(self, path: Path, scheme: str = "http") -> str:
        """Serve this file on the lab's HTTP server from now on; returns its URL of that scheme (http, https, nfs)."""
        return self.layout.publish(path, scheme)

    def note_interruption(self) -> None:
        """Note in ARTIFACTS/phases.json that the run was interrupted: it says nothing about what is tested."""
        self._phases.interrupted()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase of the run; its duration goes to ARTIFACTS/phases.json."""
        return self._phases.phase(name)

    @contextmanager
    def fault(self, fault: Fault) -> Iterator[None]:
        """Keep up the fault for the length of the block, which is a phase of its own."""
        with self.phase(f"fault {fault}"):
            fault.begin(self)
            with afterwards((f"end the fault {fault}", lambda: fault.end(self))):
                yield

    def ended(self) -> list[Ended]:
        """Parts of the lab (daemons, or the whole lab) that have ended unexpectedly. If there are any, whatever is
        tested in the lab is void."""
        return self._connection.ended()

    def check(self) -> None:
        """Raise DaemonEndedError when the lab itself has failed."""
        self._connection.check()

    def kernel_trouble(self) -> dict[str, list[str]]:
        """Kernel error messages on each machine's console, by machine; machines without any are left out."""
        trouble = {name: node.console.trouble() for name, node in self.nodes.items()}
        return {name: lines for name, lines in trouble.items() if lines}

    def collect(self, artifacts: Path | None = None) -> list[str]:
        """Collect all evidence, from outside first; returns what could not be collected, one line each. Raises
        EvidenceError where anything else lies in `artifacts`."""
        return evidence.collect(self, self.evidence.claimed(artifacts))
