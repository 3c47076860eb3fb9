"""Agent: made when a host registers; its spec goes to the service, the host's state into its status."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from installer.assisted.endpoint import BASE
from installer.assisted.enums import ClusterStatus, HostStatus, Role
from installer.assisted.errors import ClientError
from installer.errors import ConfigError
from installer.hub import spoke
from installer.hub.conditions import HEARTBEAT, condition, set_conditions
from installer.hub.controllers.cluster import INFRA_ENV_LABEL, cluster_of, secret_names
from installer.hub.controllers.deployment import install_name
from installer.hub.controllers.inputs import Inputs, problem_of
from installer.hub.kube.api import Conflict, KubeError
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLASSIFICATION,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    INFRA_ENV,
    SECRET,
    Json,
    Key,
    Kind,
    annotations_of,
    is_deleted,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from installer.hub.kube.manager import Hub, Retry
from installer.hub.tables import agent as table
from installer.hub.tables import classification, hostspec
from installer.hub.tables.agent import AgentFacts
from installer.hub.tables.clusterspec import SpecError, spec_of
from installer.hub.tables.facts import SyncProblem
from installer.hub.tables.hostspec import HostChanges
from installer.rendezvous.clock import age

log = logging.getLogger("node0-hub")
FINALIZER = "agent.agent-install.openshift.io/ai-deprovision"
SKIP_CLEANUP = "agent.agent-install.openshift.io/skip-spoke-cleanup"
ADDED = "AddToExistingClusterHost"
# The entry of a Secret with the token for a host's Ignition.
TOKEN = "ignition-token"
# Seconds until a host that cannot be removed yet is tried again.
PATIENCE = 10.0
# Seconds after which the Node of an agent that is deleted is given up.
LONGEST_CLEANUP = 600.0


class AgentController:
    """Reconciles Agents; an Agent has its host's id for a name, and lies in its InfraEnv's namespace."""

    kind = AGENT

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._inputs = Inputs(hub)
        # Digests of what the service was sent last and shows nobody.
        self._private: dict[Key, str] = {}
        # Hosts that the service has named, with their infra-envs: all of them after a start, as the feed begins anew.
        self._hosts: dict[Key, str] = {}
        hub.caches[INFRA_ENV].index("uid", lambda obj: [uid_of(obj)])
        hub.caches[CLUSTER_DEPLOYMENT].index("uid", lambda obj: [uid_of(obj)])
        hub.caches[AGENT].index("secrets", _secrets_of)
        hub.caches[AGENT].index("cluster", lambda obj: [str(key) for key in (cluster_of(obj),) if key])

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return the agents that a cluster's coming concerns, a namespace's classifications, and BMCs' logins."""
        return {
            CLUSTER_DEPLOYMENT: lambda obj: self._unbound(key_of(obj)),
            SECRET: lambda obj: map(key_of, self._hub.caches[AGENT].by("secrets", str(key_of(obj)))),
            AGENT_CLASSIFICATION: lambda obj: map(key_of, self._hub.caches[AGENT].list(key_of(obj).namespace)),
        }

    def follow(self, change: Json) -> Iterable[Key]:
        """Return the key of the host that changed; of a cluster those of agents that wait to be bound to it."""
        if change.get("kind") == "host":
            infra_env_id = str(change.get("infra_env_id"))
            found = self._hub.caches[INFRA_ENV].by("uid", infra_env_id)
            keys = [Key(key_of(obj).namespace, str(change.get("id"))) for obj in found]
            self._hosts |= dict.fromkeys(keys, infra_env_id)
            return keys
        if change.get("kind") == "cluster":
            found = self._hub.caches[CLUSTER_DEPLOYMENT].by("uid", str(change.get("id")))
            return [key for obj in found for key in self._unbound(key_of(obj))]
        return []

    def reconcile(self, key: Key) -> float | None:
        """Bring one agent nearer to what its resource wants."""
        agent = self._hub.caches[AGENT].get(key)
        if agent is not None and not is_deleted(agent):
            agent = self._moved(agent)
        infra_env = self._infra_env(key, agent)
        if agent is None:
            if infra_env is not None and not is_deleted(infra_env):
                self._create(key, infra_env)
            return None
        infra_env_id = uid_of(infra_env) if infra_env is not None else _owner(agent)
        if is_deleted(agent):
            return self._delete(agent, infra_env_id)
        agent = self._hub.add_finalizer(AGENT, agent, FINALIZER)
        host, problem = None, None
        try:
            host = self._hub.service.find_host(infra_env_id, key.name) if infra_env_id else None
            if host is not None:
                host = self._synced(agent, infra_env, host)
        except SpecError as error:
            problem = SyncProblem(str(error), True)
        except ClientError as error:
            problem = problem_of(error)
        self._write(agent, host, problem)
        if problem is not None and not problem.is_input:
            raise Retry(problem.message)
        return None

    def _infra_env(self, key: Key, agent: Json | None) -> Json | None:
        """Return the InfraEnv that the host belongs to; None if it is not of this hub."""
        uid = _owner(agent) if agent is not None else self._hosts.get(key, "")
        return next(iter(self._hub.caches[INFRA_ENV].by("uid", uid)), None) if uid else None

    def _moved(self, agent: Json) -> Json:
        """Have an agent belong to another InfraEnv, of the same namespace, whose image its host has booted since.

        Its spec is emptied and its labels are replaced, as if it were new.
        """
        key, old, new = key_of(agent), _owner(agent), self._hosts.get(key_of(agent), "")
        infra_env = next(iter(self._hub.caches[INFRA_ENV].by("uid", new)), None) if new else None
        if infra_env is None or not old or new == old:
            return agent
        service = self._hub.service
        before, after = service.find_host(old, key.name), service.find_host(new, key.name)
        if after is None or (before and str(before.get("registered_at")) >= str(after.get("registered_at"))):
            self._hosts[key] = old
            return agent
        emptied = dict.fromkeys(spec_of(agent)) | _first_spec(spec_of(infra_env))
        labels = dict.fromkeys(labels_of(agent)) | _first_labels(infra_env)
        metadata = {"labels": labels, "ownerReferences": [owner_reference(INFRA_ENV, infra_env)]}
        agent = self._hub.patch(AGENT, agent, {"metadata": metadata, "spec": emptied})
        if before is not None:
            service.delete_host(old, key.name)
        return agent

    def _create(self, key: Key, infra_env: Json) -> None:
        """Make the Agent of a host, with all that it needs from the beginning, in one write."""
        host = self._hub.service.find_host(uid_of(infra_env), key.name)
        if host is None:
            self._hosts.pop(key, None)
            return
        spec = spec_of(infra_env)
        agent = AGENT.new(key, spec=_first_spec(spec))
        agent["metadata"] |= {
            "finalizers": [FINALIZER],
            "labels": _first_labels(infra_env),
            "annotations": dict((table.LABELS_VERSION,)),
            "ownerReferences": [owner_reference(INFRA_ENV, infra_env)],
        }
        agent["metadata"]["labels"] |= self._labels(agent, host)
        try:
            self._hub.api.create(AGENT, agent)
        except Conflict:
            return  # the cache is behind; its watch brings the Agent
        self._hub.events.event(infra_env, "HostRegistered", f"host {key.name} has registered")

    # Spec to service

    def _synced(self, agent: Json, infra_env: Json | None, host: Json) -> Json:
        """Pass on what the spec says; returns the host as it is then. Raises SpecError, ClientError."""
        host = self._bound(agent, infra_env, host)
        changes = hostspec.changes(spec_of(agent), host)
        infra_env_id, host_id, service = host["infra_env_id"], host["id"], self._hub.service
        private = self._add_private(agent, host, changes)
        if not changes or host["status"] not in table.EDITABLE:
            return self._second_day(agent, host)
        # An installation that waits for nothing but this must not begin without it.
        if changes.installer_args is not None:
            service.update_installer_args(infra_env_id, host_id, changes.installer_args)
        if changes.ignition is not None:
            service.update_host_ignition(infra_env_id, host_id, changes.ignition)
        if "disks_selected_config" in changes.params and not host.get("inventory"):
            changes.params.pop("disks_selected_config")
        if changes.params:
            service.update_host(infra_env_id, host_id, changes.params)
        if private:
            self._private[key_of(agent)] = private
        return service.find_host(infra_env_id, host_id) or host

    def _add_private(self, agent: Json, host: Json, changes: HostChanges) -> str:
        """Add to a host's changes what the service shows nobody, unless it was sent before; a digest of what is added.

        After a restart it is sent once more.
        """
        params: Json = {}
        login, token, spec = _login_key(agent), hostspec.token_key(agent), spec_of(agent)
        if login.name:
            data = self._inputs.data(SECRET, login, "spec.fencingCredentialsSecretRef")
            params["fencing_credentials"] = {
                field: data[entry] for field, entry in hostspec.FENCING.items() if data.get(entry)
            }
        secret = self._inputs.secret(token, TOKEN, "spec.ignitionEndpointTokenReference") if token.name else ""
        if host.get("kind") == ADDED:
            headers = spec.get("ignitionEndpointHTTPHeaders") or {}
            params["ignition_endpoint_token"] = secret
            params["ignition_endpoint_http_headers"] = [{"key": key, "value": headers[key]} for key in sorted(headers)]
        # Another host of the same id, such as one that was deleted and has registered again, knows nothing of it.
        sent = [host.get("infra_env_id"), host.get("created_at"), params]
        digest = hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()
        if not params or self._private.get(key_of(agent)) == digest:
            return ""
        changes.params.update(params)
        return digest

    def _bound(self, agent: Json, infra_env: Json | None, host: Json) -> Json:
        """Bind or unbind the host as the spec has it. Raises SpecError, ClientError."""
        wanted, infra_env_id, service = cluster_of(agent), host["infra_env_id"], self._hub.service
        cluster_id = ""
        if wanted is not None:
            deployment = self._hub.caches[CLUSTER_DEPLOYMENT].get(wanted)
            if deployment is None:
                raise SpecError(f"ClusterDeployment {wanted}, which spec.clusterDeploymentName names, does not exist")
            cluster_id = uid_of(deployment)
        present = str(host.get("cluster_id") or "")
        if present == cluster_id or host["status"] in table.LEAVING:
            return host
        if present:
            reference = spec_of(infra_env or {}).get("clusterRef")
            if reference:
                name = f"{reference.get('namespace')}/{reference.get('name')}"
                raise SpecError(
                    f"spec.clusterDeploymentName: the agent belongs to {name} as its InfraEnv does, and cannot leave it"
                )
            if host["status"] in table.INSTALLING and host.get("kind") != ADDED:
                raise SpecError("spec.clusterDeploymentName cannot change while the agent is being installed")
            if left := self._cleaned(agent, host):
                self._hub.events.event(agent, "NodeNotRemoved", left, warning=True)
            return service.unbind_host(infra_env_id, host["id"])
        if host["status"] not in table.UNBOUND:
            return host
        return service.bind_host(infra_env_id, host["id"], cluster_id)

    def _second_day(self, agent: Json, host: Json) -> Json:
        """Begin to add an approved host to a cluster that was installed before."""
        if host["status"] != HostStatus.KNOWN or not spec_of(agent).get("approved") or not host.get("cluster_id"):
            return host
        cluster = self._hub.service.find_cluster(host["cluster_id"])
        if cluster is None or cluster["status"] != ClusterStatus.ADDING_HOSTS:
            return host
        return self._hub.service.install_host(host["infra_env_id"], host["id"])

    def _cleaned(self, agent: Json, host: Json) -> str:
        """Take the Node of an installed host out of the cluster that stays; why that failed, empty where it did not."""
        deployment = self._staying(host)
        is_installed = host["status"] in (HostStatus.INSTALLED, HostStatus.ADDED_TO_EXISTING)
        if deployment is None or not is_installed or annotations_of(agent).get(SKIP_CLEANUP) is not None:
            return ""
        secret = Key(key_of(deployment).namespace, secret_names(deployment)[0])
        try:
            text = self._inputs.secret(secret, "kubeconfig", f"ClusterDeployment {key_of(deployment)}")
            with spoke.reached(text) as api:
                api.delete(spoke.NODE, Key("", str(host.get("requested_hostname"))))
        except (KubeError, ConfigError, SpecError) as error:
            return f"{error}; annotation {SKIP_CLEANUP} leaves the Node"
        return ""

    def _staying(self, host: Json) -> Json | None:
        """Return the ClusterDeployment of a host's cluster unless it, or its AgentClusterInstall, is gone or going."""
        for found in self._hub.caches[CLUSTER_DEPLOYMENT].by("uid", str(host.get("cluster_id"))):
            install = self._hub.caches[AGENT_CLUSTER_INSTALL].get(Key(key_of(found).namespace, install_name(found)))
            if not is_deleted(found) and install is not None and not is_deleted(install):
                return found
        return None

    # Service to status

    def _labels(self, agent: Json, host: Json) -> Json:
        """Return the labels that are to change; None: taken off."""
        present = labels_of(agent)
        cluster = cluster_of(agent)
        inventory = table.inventory(host.get("inventory") or "{}") if host.get("inventory") else {}
        wanted = table.labels(inventory, cluster.namespace if cluster else "")
        changes: Json = {key: value for key, value in wanted.items() if present.get(key) != value}
        rules = map(classification.rule, self._hub.caches[AGENT_CLASSIFICATION].list(key_of(agent).namespace))
        return changes | classification.labels(rules, inventory, present)

    def _write(self, agent: Json, host: Json | None, problem: SyncProblem | None, cleanup: str = "") -> None:
        key = key_of(agent)
        if host is not None:
            metadata: Json = {}
            if changes := self._labels(agent, host):
                metadata["labels"] = changes
            if annotations_of(agent).get(table.LABELS_VERSION[0]) != table.LABELS_VERSION[1]:
                metadata["annotations"] = dict((table.LABELS_VERSION,))
            if metadata:
                agent = self._hub.patch(AGENT, agent, {"metadata": metadata})
        facts = AgentFacts(
            name=str(key),
            host=host,
            is_approved=bool(spec_of(agent).get("approved")),
            problem=problem,
            cluster=str(cluster_of(agent) or ""),
            cleanup=cleanup,
        )
        url = self._hub.service.url + BASE
        infra_env_id = (host or {}).get("infra_env_id")
        logs = f"{url}/clusters/{(host or {}).get('cluster_id')}/logs?host_id={key.name}"
        wanted = table.conditions(facts)
        status = agent.get("status") or {}
        if status and host is None and problem is not None and not problem.is_input:
            # While the service is away all else is as it was last seen.
            status, wanted = {**status}, wanted[:1]
        else:
            status = table.status(facts, f"{url}/events?host_id={key.name}&infra_env_id={infra_env_id}", logs)
        old = [item for item in (agent.get("status") or {}).get("conditions") or () if item.get("type") != "Cleanup"]
        status["conditions"] = set_conditions(old, wanted, self._hub.now(), second=HEARTBEAT)
        self._hub.write_status(AGENT, agent, status)

    def _delete(self, agent: Json, infra_env_id: str) -> float | None:
        """Take the Node away, deregister the host; then the resource may go.

        A host that is being installed is waited for, a cluster that does not answer for some minutes.
        """
        key = key_of(agent)
        host, cleanup, problem = None, "", None
        try:
            host = self._hub.service.find_host(infra_env_id, key.name) if infra_env_id else None
            if host is not None:
                cleanup = self._cleaned(agent, host)
            if cleanup and age(agent["metadata"]["deletionTimestamp"], self._hub.now()) > LONGEST_CLEANUP:
                self._hub.events.event(agent, "CleanupGivenUp", cleanup, warning=True)
                cleanup = ""
            if host is not None and not cleanup:
                self._hub.service.delete_host(infra_env_id, key.name)
        except ClientError as error:
            problem = SyncProblem(f"it is to be deleted, and waits: {problem_of(error).message}", False)
        if cleanup or problem:
            self._write(agent, host, problem, cleanup)
            raise Retry(cleanup or f"{problem}", PATIENCE)
        self._hosts.pop(key, None)
        self._hub.remove_finalizer(AGENT, agent, FINALIZER)
        return None

    def _unbound(self, deployment: Key) -> list[Key]:
        """Return the agents that are to belong to a cluster and do not yet."""
        found = self._hub.caches[AGENT].by("cluster", str(deployment))
        return [key_of(agent) for agent in found if not _is_bound(agent)]


def _first_spec(infra_env: Mapping[str, Any]) -> Json:
    """Return the spec of a new Agent, from its InfraEnv's."""
    spec: Json = {
        "approved": bool((infra_env.get("agentApproval") or {}).get("autoApprove")),
        "role": Role.AUTO.value,
    }
    reference = infra_env.get("clusterRef")
    if reference:
        spec["clusterDeploymentName"] = {key: reference[key] for key in ("name", "namespace") if reference.get(key)}
    return spec


def _first_labels(infra_env: Mapping[str, Any]) -> Json:
    return {**(spec_of(infra_env).get("agentLabels") or {}), INFRA_ENV_LABEL: key_of(infra_env).name}


def _owner(agent: Mapping[str, Any]) -> str:
    """Return the uid of the InfraEnv that an Agent belongs to; empty if it has none."""
    owners = agent["metadata"].get("ownerReferences") or []
    return next((str(item["uid"]) for item in owners if item["kind"] == INFRA_ENV.name), "")


def _login_key(agent: Json) -> Key:
    return Key(key_of(agent).namespace, str(spec_of(agent).get("fencingCredentialsSecretRef") or ""))


def _secrets_of(agent: Json) -> list[str]:
    """Return the Secrets that an Agent names."""
    token = spec_of(agent).get("ignitionEndpointTokenReference") or {}
    return [str(_login_key(agent)), str(Key(key_of(agent).namespace, str(token.get("name") or "")))]


def _is_bound(agent: Json) -> bool:
    return bool(condition(agent, "Bound").get("status") == "True")
