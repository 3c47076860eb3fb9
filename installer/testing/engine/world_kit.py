"""A service's engine over a store of its own, with a clock that tests turn, and without a network."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from installer.assisted.enums import StepType
from installer.rendezvous import settings
from installer.rendezvous.clock import SteadyClock
from installer.rendezvous.reconcile.engine import Engine
from installer.rendezvous.resources import clusters, hosts
from installer.rendezvous.steps import instructions as steps
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Host
from installer.rendezvous.validations import requirements as hwreqs
from installer.rendezvous.validations.names import names_to_resolve
from installer.testing.engine import sent_kit
from installer.testing.service.rendezvous_kit import CLUSTER, PULL_SECRET, SMALL, inventory

HOST_ID = "00000000-0000-4000-8000-000000000001"


class Clock(SteadyClock):
    """Wall and monotonic clock as tests turn them; called, it is the service's own time."""

    def __init__(self, at: datetime | None = None, passed: float = 1000.0) -> None:
        self.at, self.passed = at or datetime.now(UTC), passed
        super().__init__(lambda: self.at, lambda: self.passed)

    def go(self, seconds: float) -> None:
        """Time passes."""
        self.at += timedelta(seconds=seconds)
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.at += timedelta(seconds=seconds)


class World:
    """A service's engine with a clock of its own, and what hosts do to it."""

    def __init__(self, directory: Path, clock: Clock | None = None, /, **env: str) -> None:
        self.clock = clock or Clock()
        config = settings.load(
            {
                "WORK_DIR": str(directory),
                "HW_VALIDATOR_REQUIREMENTS": SMALL,
                "REGISTRIES_CONF": str(directory / "registries.conf"),
                "INSTALLER_IMAGE": "r.example/installer@sha256:1",
                **env,
            }
        )
        store = Store(config.db_path)
        self.engine = Engine(store, config, hwreqs.load(config), self.clock)
        self.store = store

    def cluster(self, **changes: Any) -> tuple[str, str]:
        """Register a cluster and its infra-env; their ids."""
        cluster = sent_kit.register_cluster(self.engine, {**CLUSTER, **changes})
        body = {"name": "ostest", "pull_secret": PULL_SECRET, "cluster_id": cluster.id}
        return cluster.id, sent_kit.register_infra_env(self.engine, body).id

    def wait(self, seconds: float) -> None:
        """Time passes, and the monitor looks at the clock as often as it does."""
        left = seconds
        while left > 0:
            self.clock.go(min(left, 5.0))
            self.engine.keep_time()
            left -= 5.0

    def step_id(self, infra_env_id: str, kind: StepType, host_id: str = HOST_ID) -> str:
        """Return the id under which a host is asked now."""
        host = self.store.host(infra_env_id, host_id)
        attempt = self.store.cluster(host.cluster_id).attempt if host.cluster_id else ""
        return steps.step_id(kind, host, attempt)

    def reply(
        self,
        infra_env_id: str,
        kind: StepType,
        output: Any,
        code: int = 0,
        *,
        host_id: str = HOST_ID,
        step_id: str | None = None,
    ) -> None:
        """Answer as the host; to what it is asked now if no step is named."""
        text = output if isinstance(output, str) else json.dumps(output)
        body = {
            "step_type": kind.value,
            "step_id": self.step_id(infra_env_id, kind, host_id) if step_id is None else step_id,
            "exit_code": code,
            "output": text,
            "error": "" if not code else text,
        }
        sent_kit.receive(self.engine, infra_env_id, host_id, body)

    def resolved(self, infra_env_id: str, host_id: str = HOST_ID) -> None:
        """Let the DNS know none of the names that a host is asked to resolve."""
        names = names_to_resolve(self.engine.view(self.host(infra_env_id, host_id)))
        answers = [{"domain_name": name} for name in names]
        self.reply(infra_env_id, StepType.DOMAINS, {"resolutions": answers}, host_id=host_id)

    def known_host(self, **changes: Any) -> tuple[str, str]:
        """Return a cluster with one host that is known; the ids of cluster and infra-env."""
        cluster_id, infra_env_id = self.cluster()
        hosts.register(self.engine, infra_env_id, HOST_ID, "")
        self.poll(infra_env_id)
        self.reply(infra_env_id, StepType.INVENTORY, inventory(**changes))
        self.resolved(infra_env_id)
        return cluster_id, infra_env_id

    def poll(self, infra_env_id: str, host_id: str = HOST_ID) -> list[str]:
        """Poll as the host's agent; the types of the steps that it gets."""
        now = int(self.clock().timestamp())
        steps = hosts.next_steps(self.engine, infra_env_id, host_id, "", timestamp=now)
        return [item["step_type"] for item in steps["instructions"]]

    def host(self, infra_env_id: str, host_id: str = HOST_ID) -> Host:
        """Return a host as it is stored now."""
        return self.store.host(infra_env_id, host_id)

    def prepared(self, cluster_id: str, files: dict[str, bytes] | None, reason: str = "") -> bool:
        """Finish the preparation that is under way with the generator's files."""
        attempt = self.store.cluster(cluster_id).attempt
        return clusters.finish_preparation(self.engine, cluster_id, attempt, files, reason=reason)

    def installing(self) -> tuple[str, str]:
        """Return a known host and its cluster, whose installation has begun: (cluster, infra-env)."""
        cluster_id, infra_env_id = self.known_host()
        clusters.install(self.engine, cluster_id)
        self.prepared(cluster_id, {"bootstrap.ign": b"{}"})
        self.reply(
            infra_env_id, StepType.DISK_SPEED, {"path": "/dev/disk/by-path/pci-0000:04:00.0", "io_sync_duration": 5}
        )
        images = [{"name": "r.example/installer@sha256:1", "result": "success", "size_bytes": 1, "time": 1.0}]
        self.reply(infra_env_id, StepType.IMAGES, {"images": images})
        return cluster_id, infra_env_id


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
