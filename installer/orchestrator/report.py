"""The orchestrator's requests and reports to the service."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from installer.assisted.client import AssistedClient
from installer.assisted.enums import HostStatus, Stage
from installer.assisted.errors import ClientError
from installer.orchestrator.errors import StageError, Unwanted

log = logging.getLogger("assisted-installer")
RETRY_SECONDS = 120.0
# What of a request's time counts as time without the service: in a longer one the host itself stood still, most likely.
LONGEST_SECONDS = 60.0
# Statuses with which a service refuses an installation that is over, among other things.
REFUSED = (404, 409)
INSTALLING = (HostStatus.INSTALLING, HostStatus.INSTALLING_IN_PROGRESS, HostStatus.INSTALLING_PENDING_USER_ACTION)
PAUSE = 2.0
T = TypeVar("T")


class Reporter:
    """Progress and files of one host. Reports outlast a restart of the service; refused ones are only logged.

    Unless the service refuses them because it no longer wants this installation: then all of them raise Unwanted.
    """

    def __init__(
        self,
        client: AssistedClient,
        infra_env_id: str,
        cluster_id: str,
        host_id: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client = client
        self.infra_env_id = infra_env_id
        self.cluster_id = cluster_id
        self.host_id = host_id
        self._sleep = sleep

    def _retry(self, what: str, call: Callable[[], T]) -> T:
        spent = 0.0
        while True:
            begin = time.monotonic()
            try:
                return call()
            except ClientError as error:
                if error.status in REFUSED:
                    self._check_wanted()
                spent += min(time.monotonic() - begin, LONGEST_SECONDS) + PAUSE
                if not error.is_passing or spent > RETRY_SECONDS:
                    raise StageError(what, str(error)) from None
                log.warning("%s: %s", what, error)
                self._sleep(PAUSE)

    def _check_wanted(self) -> None:
        """Raise Unwanted when the host was cancelled, reset or removed, or another attempt has begun.

        The host is looked up because a stage out of order, for example, is refused with the same status. A service that
        does not answer has not refused anything.
        """
        try:
            hosts = self.client.cluster_hosts(self.cluster_id)
        except ClientError as error:
            if error.status in REFUSED:
                raise Unwanted(str(error)) from None
            log.warning("whether this installation is still wanted: %s", error)
            return
        own = next((host for host in hosts if host.get("id") == self.host_id), None)
        if own is None:
            raise Unwanted("this host is no longer one of the cluster's")
        if own.get("status") not in INSTALLING:
            raise Unwanted(f"this host is in status {own.get('status')}")

    def stage(self, stage: Stage, info: str = "") -> None:
        """PUT progress. What the service does not take is logged: the installation goes on. Raises Unwanted."""
        log.info("stage %s %s", stage.value, info)
        try:
            self._retry("progress", lambda: self.client.report_progress(self.infra_env_id, self.host_id, stage, info))
        except StageError as error:
            log.error("%s", error)

    def file(self, name: str) -> bytes:
        """Return a generated file of the cluster. Raises StageError, Unwanted."""
        return self._retry(f"download {name}", lambda: self.client.cluster_file(self.cluster_id, name))

    def host_ignition(self) -> bytes:
        """Return this host's own ignition. Raises StageError, Unwanted."""
        ids = (self.infra_env_id, self.host_id)
        return self._retry("download host ignition", lambda: self.client.host_ignition(*ids))

    def hosts(self) -> list[dict[str, Any]]:
        """All hosts of the cluster with their inventory. Raises StageError, Unwanted."""
        return self._retry("list hosts", lambda: self.client.cluster_hosts(self.cluster_id, with_inventory=True))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Return an Ignition config as an object. Raises StageError."""
    try:
        config = json.loads(data)
    except ValueError as error:
        raise StageError(name, f"is not JSON: {error}") from None
    if not isinstance(config, dict) or "ignition" not in config:
        raise StageError(name, "is not an Ignition config")
    return config
