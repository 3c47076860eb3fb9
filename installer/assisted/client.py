"""The operations of the service that agent, orchestrator, wait-for, gather and agent-installer-client use.

Each path stands here once (installer.md §5.1). All raise ClientError. Answers are the API's JSON as it is: callers read
them tolerantly, as other versions of the service send more or less.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any, BinaryIO
from urllib.parse import quote

from installer.assisted.auth import ATTEMPT_HEADER
from installer.assisted.enums import LogsState, Stage
from installer.assisted.restclient import RestClient, objects, one_object

Json = dict[str, Any]
#: The most that a cluster's log archive may have, in bytes.
LARGEST_LOGS = 2 * 1024**3
MANIFESTS = "openshift"


class AssistedClient(RestClient):
    """The service with one caller's token."""

    # Clusters

    def clusters(self) -> list[Json]:
        """All clusters."""
        return self._list("/clusters")

    def cluster(self, cluster_id: str) -> Json:
        """One cluster with its validations; not to be changed, as it is given again while it is the same."""
        path = path_of("clusters", cluster_id)
        return one_object(self.call("GET", path, remember=True), f"GET {path}")

    def register_cluster(self, params: Mapping[str, Any]) -> Json:
        """Register one by cluster-create-params."""
        return one_object(self.call("POST", "/clusters", params), "POST /clusters")

    def import_installed(self, params: Mapping[str, Any]) -> Json:
        """Register an installed one by import-cluster-params."""
        return one_object(self.call("POST", "/clusters/import", params), "POST /clusters/import")

    def redirect_hosts(self, cluster_id: str, endpoint: Mapping[str, str]) -> None:
        """Have an imported cluster's hosts fetch their configs by this ignition-endpoint."""
        self.call("PATCH", path_of("clusters", cluster_id), {"ignition_endpoint": dict(endpoint)})

    def update_install_config(self, cluster_id: str, overrides: str) -> None:
        """Send overrides of the install-config, a JSON text."""
        self.call("PATCH", path_of("clusters", cluster_id, "install-config"), overrides)

    def cluster_hosts(self, cluster_id: str, *, with_inventory: bool = False) -> list[Json]:
        """Hosts of the cluster."""
        query = {"with-inventory": "true"} if with_inventory else None
        return self._list(path_of("clusters", cluster_id, "hosts"), query)

    def cluster_file(self, cluster_id: str, name: str) -> bytes:
        """Return a file that was generated for the cluster."""
        return self.download(path_of("clusters", cluster_id, "downloads", "files"), {"file_name": name})

    def manifests(self, cluster_id: str) -> list[Json]:
        """Return the user's manifests: folders and names."""
        return self._list(path_of("clusters", cluster_id, "manifests"))

    def manifest(self, cluster_id: str, name: str) -> bytes:
        """Return the content of a manifest in the folder ``openshift``."""
        path = path_of("clusters", cluster_id, "manifests", "files")
        return self.download(path, {"folder": MANIFESTS, "file_name": name})

    def add_manifest(self, cluster_id: str, name: str, content: bytes) -> None:
        """Put a manifest into the folder ``openshift``."""
        body = {"folder": MANIFESTS, "file_name": name, "content": base64.b64encode(content).decode()}
        self.call("POST", path_of("clusters", cluster_id, "manifests"), body)

    def openshift_versions(self) -> Json:
        """Versions that can be installed, by number."""
        return one_object(self.call("GET", "/openshift-versions") or {}, "GET /openshift-versions")

    # Infra-envs

    def infra_envs(self) -> list[Json]:
        """All infra-envs."""
        return self._list("/infra-envs")

    def register_infra_env(self, params: Mapping[str, Any]) -> Json:
        """Register one by infra-env-create-params."""
        return one_object(self.call("POST", "/infra-envs", params), "POST /infra-envs")

    def events(self, infra_env_id: str, offset: int = 0) -> list[Json]:
        """Events of the infra-env (of the whole service without one) after the first ``offset``, the oldest first."""
        query = {"order": "ascending"} | ({"infra_env_id": infra_env_id} if infra_env_id else {})
        return self._list("/events", query | ({"offset": str(offset)} if offset else {}))

    # Hosts

    def hosts(self, infra_env_id: str) -> list[Json]:
        """Hosts that registered with the infra-env; not to be changed, as with ``cluster``."""
        path = _hosts(infra_env_id)
        return objects(self.call("GET", path, remember=True), f"GET {path}")

    def register_host(self, infra_env_id: str, host_id: str, version: str) -> None:
        """Register an agent's host; ``version``: the agent's image. The same again is the same host."""
        body = {"host_id": host_id, "discovery_agent_version": version}
        self.call("POST", _hosts(infra_env_id), body, headers=_agent(version), repeatable=True)

    def update_host(self, infra_env_id: str, host_id: str, params: Mapping[str, Any]) -> None:
        """Change a host by host-update-params."""
        self.call("PATCH", _hosts(infra_env_id, host_id), params)

    def instructions(self, infra_env_id: str, host_id: str, version: str) -> Json:
        """Fetch an agent's next steps; empty for an answer that is no object."""
        query = {"timestamp": str(int(time.time()))}
        path = _hosts(infra_env_id, host_id, "instructions")
        answer = self.call("GET", path, query=query, headers=_agent(version))
        return answer if isinstance(answer, dict) else {}

    def reply(self, infra_env_id: str, host_id: str, version: str, reply: Mapping[str, Any]) -> None:
        """Send a step's result (step-reply); the service keeps the last one, so a repetition does no harm."""
        path = _hosts(infra_env_id, host_id, "instructions")
        self.call("POST", path, reply, headers=_agent(version), repeatable=True)

    def report_progress(
        self, infra_env_id: str, host_id: str, stage: Stage, info: str | None = None, *, attempt: str = ""
    ) -> None:
        """Report how far a host's installation is; ``info``: within the stage, None for nothing new."""
        body = {"current_stage": stage.value, **({} if info is None else {"progress_info": info})}
        self.call("PUT", _hosts(infra_env_id, host_id, "progress"), body, headers=_attempt(attempt))

    def host_ignition(self, infra_env_id: str, host_id: str) -> bytes:
        """Return the Ignition config of one host."""
        return self.download(path_of("infra-env", infra_env_id, "hosts", host_id, "downloads", "ignition"))

    # Logs

    def report_logs(self, infra_env_id: str, host_id: str, state: LogsState, *, attempt: str = "") -> None:
        """Report how far a host is with sending its logs."""
        body = {"logs_state": state.value}
        self.call("PUT", _hosts(infra_env_id, host_id, "logs-progress"), body, headers=_attempt(attempt))

    def upload_host_logs(
        self, cluster_id: str, infra_env_id: str, host_id: str, file: BinaryIO, *, attempt: str = ""
    ) -> None:
        """Send a host's logs (tar.gz)."""
        query = {"logs_type": "host", "infra_env_id": infra_env_id, "host_id": host_id}
        name = f"host_{host_id}.tar.gz"
        self.upload(path_of("clusters", cluster_id, "logs"), file, name, query=query, headers=_attempt(attempt))

    def download_logs(self, cluster_id: str, file: BinaryIO) -> int:
        """Write the cluster's log archive, at most 2 GiB, to a file; its size in bytes. Raises OSError as well."""
        return self.download_to(path_of("clusters", cluster_id, "logs"), file, LARGEST_LOGS)

    def _list(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        return objects(self.call("GET", path, query=query), f"GET {path}")


def path_of(*parts: str) -> str:
    """Return a path below the API's base; its parts are quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _hosts(infra_env_id: str, *parts: str) -> str:
    return path_of("infra-envs", infra_env_id, "hosts", *parts)


def _agent(version: str) -> dict[str, str]:
    return {"discovery_agent_version": version}


def _attempt(attempt: str) -> dict[str, str]:
    return {ATTEMPT_HEADER: attempt} if attempt else {}
