"""AgentClusterInstall: a cluster in the service, kept as the resources want it, installed when all is there."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from installer.assisted.endpoint import BASE
from installer.assisted.enums import ClusterStatus
from installer.assisted.errors import ClientError
from installer.common.formats import jsontext
from installer.hub.admission.clusters import cluster_install
from installer.hub.conditions import condition, set_conditions
from installer.hub.controllers.deployment import deployment_key, install_name
from installer.hub.controllers.inputs import Inputs, naming, problem_of
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_CLUSTER_INSTALL,
    CLUSTER_DEPLOYMENT,
    CLUSTER_IMAGE_SET,
    CONFIG_MAP,
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
from installer.hub.tables import cluster as table
from installer.hub.tables import clusterspec, hostspec
from installer.hub.tables.cluster import ClusterFacts, Member
from installer.hub.tables.clusterspec import Release, SpecError, spec_of
from installer.hub.tables.facts import SyncProblem
from installer.rendezvous.clock import age, to_text

log = logging.getLogger("node0-hub")
FINALIZER = "agentclusterinstall.agent-install.openshift.io/ai-deprovision"
# Installations that were started, and for which generation of the spec.
ATTEMPTS = "agentclusterinstall.agent-install.openshift.io/attempts"
# Seconds until agents' specs that the service does not know yet are looked at again.
LAG = 1.0
# Seconds until the service is asked again for what it refused.
REFUSED = 60.0
BACKUP = {"cluster.open-cluster-management.io/backup": "true"}
DEPLOYMENT_LABEL, TYPE_LABEL = "hive.openshift.io/cluster-deployment-name", "hive.openshift.io/secret-type"


@dataclass
class _Sent:
    """Digests of what a cluster in the service was sent last: after a restart all is sent once more."""

    params: str = ""
    manifests: object = None
    stage: str = ""


class Refused(SpecError):
    """The service's refusal, which may have a cause that no watch sees, such as a registry that is away."""


class ClusterController:
    """Reconciles AgentClusterInstalls; the cluster's id in the service is the ClusterDeployment's uid."""

    kind = AGENT_CLUSTER_INSTALL

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._inputs = Inputs(hub)
        self._sent: dict[str, _Sent] = {}
        # Releases that the service has read, by image and a digest of the pull secret.
        self._releases: dict[tuple[str, str], Release] = {}
        installs, deployments = hub.caches[AGENT_CLUSTER_INSTALL], hub.caches[CLUSTER_DEPLOYMENT]
        installs.index("deployment", lambda obj: [str(deployment_key(obj))])
        installs.index("inputs", _inputs_of)
        deployments.index("pull-secret", lambda obj: [str(_pull_secret_key(obj))])
        deployments.index("uid", lambda obj: [uid_of(obj)])
        hub.caches[AGENT].index("deployment", lambda obj: [str(key) for key in (cluster_of(obj),) if key])

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return what else a cluster follows from: its deployment, agents, and all that they name."""
        return {
            CLUSTER_DEPLOYMENT: lambda obj: self._installs_of(key_of(obj)),
            AGENT: lambda obj: self._installs_of(cluster_of(obj)),
            CONFIG_MAP: lambda obj: self._by_input(f"ConfigMap {key_of(obj)}"),
            CLUSTER_IMAGE_SET: lambda obj: self._by_input(f"ClusterImageSet {key_of(obj)}"),
            SECRET: self._by_secret,
        }

    def follow(self, change: Json) -> Iterable[Key]:
        """Return the key of the cluster that changed in the service."""
        if change.get("kind") != "cluster":
            return []
        found = self._hub.caches[CLUSTER_DEPLOYMENT].by("uid", str(change.get("id")))
        return [key for obj in found for key in self._installs_of(key_of(obj))]

    def reconcile(self, key: Key) -> float | None:
        """Bring one cluster nearer to what its resources want."""
        install = self._hub.caches[AGENT_CLUSTER_INSTALL].get(key)
        if install is None:
            return None
        deployment = self._hub.caches[CLUSTER_DEPLOYMENT].get(deployment_key(install))
        if is_deleted(install):
            return self._delete(install, deployment)
        cluster, problem, again = None, None, None
        try:
            if deployment is None:
                raise SpecError(f"ClusterDeployment {deployment_key(install)} does not exist")
            if (named := install_name(deployment)) != key.name:
                name, deployment = key_of(deployment), None  # its cluster is none of this resource's
                raise SpecError(f"ClusterDeployment {name} names another AgentClusterInstall: {named!r}")
            install = self._adopted(install, deployment)
            if problems := cluster_install(None, install):
                raise SpecError("; ".join(problems))
            cluster = self._synced(install, deployment)
        except SpecError as error:
            problem = SyncProblem(str(error), True)
            again = REFUSED if isinstance(error, Refused) else None
        except ClientError as error:
            problem = problem_of(error)
        if problem is not None and deployment is not None:
            cluster = self._found(uid_of(deployment))
        facts = self._facts(install, deployment, cluster, problem)
        if deployment is not None and cluster is not None:
            facts, wait = self._started(install, deployment, facts)
            again = again if wait is None else wait
            install = self._credentials(install, deployment, facts)
        install = self._write(install, facts)
        if facts.status == ClusterStatus.INSTALLED and condition(install, "Completed").get("status") == "True":
            self._hub.service.allow_add_hosts(str(facts.cluster and facts.cluster["id"]))
        if problem is not None and not problem.is_input:
            raise Retry(problem.message)
        return again

    # Before the cluster

    def _adopted(self, install: Json, deployment: Json) -> Json:
        """Have the finalizer and the owner there, in one write."""
        metadata = install["metadata"]
        finalizers, owners = metadata.get("finalizers") or [], metadata.get("ownerReferences") or []
        own = owner_reference(CLUSTER_DEPLOYMENT, deployment)
        if FINALIZER in finalizers and any(item["uid"] == own["uid"] for item in owners):
            return install
        others = [item for item in owners if item["kind"] != CLUSTER_DEPLOYMENT.name]
        merge = {"finalizers": [*(item for item in finalizers if item != FINALIZER), FINALIZER]}
        return self._hub.patch(
            AGENT_CLUSTER_INSTALL, install, {"metadata": merge | {"ownerReferences": [*others, own]}}
        )

    def _found(self, cluster_id: str) -> Json | None:
        """Return the service's cluster for the status of what could not be passed on; None where nobody answers."""
        try:
            return self._hub.service.find_cluster(cluster_id)
        except ClientError:
            return None

    def _synced(self, install: Json, deployment: Json) -> Json:
        """Pass on all that the resources say; returns the service's cluster. Raises SpecError, ClientError."""
        service, cluster_id = self._hub.service, uid_of(deployment)
        sent = self._sent.setdefault(cluster_id, _Sent())
        cluster = service.find_cluster(cluster_id)
        if cluster is not None and cluster["status"] == ClusterStatus.ADDING_HOSTS:
            return self._with_endpoint(install, cluster)
        if cluster is None and is_imported(deployment) and not (spec_of(install).get("imageSetRef") or {}).get("name"):
            cluster = service.import_cluster(cluster_id, clusterspec.import_params(deployment, None))
            return self._with_endpoint(install, cluster)
        field = f"spec.pullSecretRef of ClusterDeployment {key_of(deployment)}"
        secret = self._inputs.pull_secret(key_of(deployment).namespace, spec_of(deployment).get("pullSecretRef"), field)
        try:
            release = self._release(install, secret)
            if cluster is None and is_imported(deployment):
                cluster = service.import_cluster(cluster_id, clusterspec.import_params(deployment, release))
                return self._with_endpoint(install, cluster)
            params = clusterspec.cluster_params(deployment, install, release, secret)
            digest = hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()
            if cluster is None or sent.params != digest:
                if cluster is None:
                    self._sent[cluster_id] = sent = _Sent()
                cluster = service.put_cluster(cluster_id, params)
                sent.params = digest
            return self._with_endpoint(install, self._annotated(install, cluster, sent))
        except ClientError as error:
            self._releases.clear()  # it may be another service's folder now
            problem = problem_of(error, [secret])
            if problem.is_input:
                raise Refused(problem.message) from None
            raise

    def _with_endpoint(self, install: Json, cluster: Json) -> Json:
        """Pass on the server of Ignition for hosts that are added later; returns the cluster as it is then."""
        spec, wanted = spec_of(install).get("ignitionEndpoint") or {}, {}
        if url := spec.get("url"):
            wanted["url"] = url
        if name := (spec.get("caCertificateReference") or {}).get("name"):
            field = "spec.ignitionEndpoint.caCertificateReference"
            pem = self._inputs.secret(Key(key_of(install).namespace, name), "tls.crt", field)
            wanted["ca_certificate"] = base64.b64encode(pem.encode()).decode()
        if wanted == (cluster.get("ignition_endpoint") or {}):
            return cluster
        with naming("spec.ignitionEndpoint"):
            return self._hub.service.update_cluster(cluster["id"], {"ignition_endpoint": wanted})

    def _release(self, install: Json, pull_secret: str) -> Release:
        name = str((spec_of(install).get("imageSetRef") or {}).get("name") or "")
        if not name:
            raise SpecError("spec.imageSetRef.name is missing: it is to name a ClusterImageSet")
        image_set = self._hub.caches[CLUSTER_IMAGE_SET].get(Key("", name))
        if image_set is None:
            raise SpecError(f"ClusterImageSet {name}, which spec.imageSetRef names, does not exist")
        image = str(spec_of(image_set).get("releaseImage") or "")
        if not image:
            raise SpecError(f"ClusterImageSet {name}: spec.releaseImage is missing")
        known = image, hashlib.sha256(pull_secret.encode()).hexdigest()
        if known not in self._releases:
            with naming(f"ClusterImageSet {name}"):
                found = self._hub.service.put_release(image, pull_secret)
            self._releases[known] = Release(image, str(found["version"]), tuple(found.get("cpu_architectures") or ()))
        return self._releases[known]

    def _annotated(self, install: Json, cluster: Json, sent: _Sent) -> Json:
        """Pass on annotations and manifests; returns the cluster as it is then."""
        service, cluster_id = self._hub.service, cluster["id"]
        changed = False
        overrides = clusterspec.install_config_overrides(install, self._mirror(install))
        if overrides != (cluster.get("install_config_overrides") or ""):
            with naming(f"annotation {clusterspec.OVERRIDES}"):
                service.install_config_overrides(cluster_id, overrides)
            changed = True
        ignored = clusterspec.ignored_validations(install)
        shown = tuple(_ids(cluster.get(f"ignored_{name}_validations")) for name in ("host", "cluster"))
        if ignored is not None and tuple(map(_ids, ignored)) != shown:
            service.set_ignored_validations(cluster_id, host_ids=ignored[0], cluster_ids=ignored[1])
            changed = True
        if cluster["status"] in table.BEFORE:
            self._pass_manifests(install, cluster_id, sent)
        return (service.find_cluster(cluster_id) or cluster) if changed else cluster

    def _mirror(self, install: Json) -> Json:
        """Return install-config's members of the mirror that the resource names."""
        reference = spec_of(install).get("mirrorRegistryRef") or {}
        if not reference.get("name"):
            return {}
        key = Key(str(reference.get("namespace") or key_of(install).namespace), str(reference["name"]))
        return clusterspec.mirror_overrides(str(key), self._inputs.data(CONFIG_MAP, key, "spec.mirrorRegistryRef"))

    def _pass_manifests(self, install: Json, cluster_id: str, sent: _Sent) -> None:
        """Have the service hold the files of the ConfigMaps and no others."""
        namespace, names = key_of(install).namespace, clusterspec.manifest_names(install)
        versions = [(name, self._inputs.version(CONFIG_MAP, Key(namespace, name))) for name in names]
        if sent.manifests == versions and all(version for _, version in versions):
            return
        field = "spec.manifestsConfigMapRefs"
        files = clusterspec.manifests(
            (name, self._inputs.data(CONFIG_MAP, Key(namespace, name), field)) for name in names
        )
        service = self._hub.service
        present = {str(item.get("file_name")) for item in service.manifests(cluster_id)}
        for name, content in files.items():
            if name not in present or service.manifest(cluster_id, name) != content:
                with naming(field):
                    service.put_manifest(cluster_id, name, content)
        for name in present - files.keys():
            service.delete_manifest(cluster_id, name)
        sent.manifests = versions

    # The cluster's course

    def _members(self, key: Key) -> list[Member]:
        return [_member(agent) for agent in self._hub.caches[AGENT].by("deployment", str(key)) if not is_deleted(agent)]

    def _facts(
        self, install: Json, deployment: Json | None, cluster: Json | None, problem: SyncProblem | None
    ) -> ClusterFacts:
        return ClusterFacts(
            name=str(key_of(install)),
            required=clusterspec.required(install),
            cluster=cluster,
            members=self._members(key_of(deployment)) if deployment else (),
            is_held=deployment is not None and clusterspec.is_held(deployment, install),
            problem=problem,
            attempts=_attempts(install).get("count", 0),
        )

    def _lags(self, deployment: Json, cluster_id: str) -> bool:
        """Return whether the service does not know yet what the spec of some agent says.

        An agent's SpecSynced is of the spec until then: one that is approved and named in one write has an old one.
        """
        hosts = {host["id"]: host for host in self._hub.service.cluster_hosts(cluster_id, with_inventory=True)}
        for agent in self._hub.caches[AGENT].by("deployment", str(key_of(deployment))):
            try:
                if hostspec.changes(spec_of(agent), hosts.get(key_of(agent).name, {})):
                    return True
            except SpecError:
                return True
        return False

    def _started(self, install: Json, deployment: Json, facts: ClusterFacts) -> tuple[ClusterFacts, float | None]:
        """Start the installation if all is there, after a pause if it failed before; seconds until that is over."""
        if not table.can_start(facts) or facts.cluster is None:
            return facts, None
        now = self._hub.now()
        since = (facts.cluster.get("status_updated_at"), _attempts(install).get("at"))
        if (left := table.pause(facts) - min(age(str(item or ""), now) for item in since)) > 0:
            return facts, left
        if self._lags(deployment, facts.cluster["id"]):
            return facts, LAG
        # Written before the call: an attempt that nobody counted would be repeated without a pause.
        count = {"count": facts.attempts + 1, "generation": install["metadata"].get("generation"), "at": to_text(now)}
        self._hub.patch(AGENT_CLUSTER_INSTALL, install, {"metadata": {"annotations": {ATTEMPTS: json.dumps(count)}}})
        try:
            cluster = self._hub.service.install_cluster(facts.cluster["id"])
        except ClientError as error:
            if error.is_passing:
                raise
            log.info("cluster %s was not started: %s", facts.name, error.reason)
            return facts, table.FIRST_PAUSE
        self._hub.events.event(install, "InstallationStarted", f"the installation of cluster {facts.name} has started")
        return replace(facts, cluster=cluster, attempts=facts.attempts + 1), None

    def _credentials(self, install: Json, deployment: Json, facts: ClusterFacts) -> Json:
        """Keep the Secrets with kubeconfig and password; once installed, name them in the cluster's metadata."""
        install = self._hub.caches[AGENT_CLUSTER_INSTALL].get(key_of(install)) or install
        if facts.cluster is None or facts.cluster.get("imported") or facts.status not in table.WITH_KUBECONFIG:
            return install
        is_done = facts.status in table.DONE
        cluster_id, stage = uid_of(deployment), "installed" if is_done else "installing"
        names = secret_names(deployment)
        secrets = [Key(key_of(deployment).namespace, name) for name in (names if is_done else names[:1])]
        sent = self._sent.setdefault(cluster_id, _Sent())
        if sent.stage != stage or not all(self._hub.caches[SECRET].get(key) for key in secrets):
            data = {"kubeconfig": self._hub.service.kubeconfig(cluster_id, ingress=is_done)}
            self._put_secret(deployment, secrets[0], "kubeconfig", data)
            if is_done:
                found = self._hub.service.credentials(cluster_id)
                data = {name: str(found[name]).encode() for name in ("username", "password")}
                self._put_secret(deployment, secrets[1], "kubeadmincreds", data)
            sent.stage = stage
        if not is_done:
            return install
        metadata = {
            "clusterID": facts.cluster.get("openshift_cluster_id") or cluster_id,
            "infraID": cluster_id,
            "adminKubeconfigSecretRef": {"name": names[0]},
            "adminPasswordSecretRef": {"name": names[1]},
        }
        if spec_of(install).get("clusterMetadata") == metadata:
            return install
        return self._hub.patch(AGENT_CLUSTER_INSTALL, install, {"spec": {"clusterMetadata": metadata}})

    def _put_secret(self, deployment: Json, key: Key, secret_type: str, data: Mapping[str, bytes]) -> None:
        """Have a Secret hold these entries, whoever has made it; nothing is written where it does."""
        labels = {DEPLOYMENT_LABEL: key_of(deployment).name, TYPE_LABEL: secret_type, **BACKUP}
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        found = self._hub.api.get(SECRET, key)
        if found is not None:
            if found.get("data") != encoded or not labels.items() <= labels_of(found).items():
                self._hub.api.patch(SECRET, key, {"data": encoded, "metadata": {"labels": labels}})
            return
        wanted = SECRET.new(key, type="Opaque", data=encoded)
        wanted["metadata"] |= {
            "labels": labels,
            "ownerReferences": [owner_reference(CLUSTER_DEPLOYMENT, deployment)],
        }
        self._hub.api.create(SECRET, wanted)

    def _write(self, install: Json, facts: ClusterFacts) -> Json:
        cluster_id = (facts.cluster or {}).get("id")
        url = self._hub.service.url + BASE
        install = self._hub.caches[AGENT_CLUSTER_INSTALL].get(key_of(install)) or install
        wanted = table.conditions(facts)
        status = install.get("status") or {}
        if status and facts.cluster is None and facts.problem is not None and not facts.problem.is_input:
            # While the service is away all else is as it was last seen.
            status, wanted = {**status}, wanted[:1]
        else:
            status = table.status(facts, f"{url}/events?cluster_id={cluster_id}", f"{url}/clusters/{cluster_id}/logs")
        status["conditions"] = set_conditions(_conditions(install), wanted, self._hub.now())
        return self._hub.write_status(AGENT_CLUSTER_INSTALL, install, status)

    # The end

    def _delete(self, install: Json, deployment: Json | None) -> float | None:
        """Cancel, let go of agents, deregister; then the resource may go."""
        if FINALIZER not in (install["metadata"].get("finalizers") or []):
            return None
        owners = install["metadata"].get("ownerReferences") or []
        cluster_id = next((item["uid"] for item in owners if item["kind"] == CLUSTER_DEPLOYMENT.name), "")
        if deployment and uid_of(deployment) == cluster_id and self._is_replaced(install, deployment):
            # The cluster is another's by now, and goes with that one.
            self._hub.remove_finalizer(AGENT_CLUSTER_INSTALL, install, FINALIZER)
            return None
        try:
            if cluster_id:
                self._cancelled(cluster_id)
            for agent in self._hub.caches[AGENT].by("deployment", str(deployment_key(install))):
                self._let_go(agent, deployment_key(install), deployment)
            if cluster_id:
                self._hub.service.delete_cluster(cluster_id)
                self._sent.pop(cluster_id, None)
        except ClientError as error:
            problem = SyncProblem(f"it is to be deleted, and waits: {problem_of(error).message}", False)
            cluster = self._found(cluster_id) if cluster_id else None
            self._write(install, self._facts(install, deployment, cluster, problem))
            raise Retry(problem.message) from None
        self._hub.remove_finalizer(AGENT_CLUSTER_INSTALL, install, FINALIZER)
        return None

    def _is_replaced(self, install: Json, deployment: Json) -> bool:
        """Return whether the deployment has another AgentClusterInstall, which is there to stay."""
        other = self._hub.caches[AGENT_CLUSTER_INSTALL].get(Key(key_of(install).namespace, install_name(deployment)))
        return (
            other is not None
            and uid_of(other) != uid_of(install)
            and not is_deleted(other)
            and deployment_key(other) == key_of(deployment)
        )

    def _cancelled(self, cluster_id: str) -> None:
        cluster = self._hub.service.find_cluster(cluster_id)
        if cluster is not None and cluster["status"] in table.CANCELLABLE:
            self._hub.service.cancel_cluster(cluster_id)

    def _let_go(self, agent: Json, key: Key, deployment: Json | None) -> None:
        """Delete an agent that came with the cluster's own image, or unbind it, so that another may have it."""
        if is_deleted(agent):
            return
        name = labels_of(agent).get(INFRA_ENV_LABEL, "")
        infra_env = self._hub.caches[INFRA_ENV].get(Key(key_of(agent).namespace, name))
        reference = spec_of(infra_env or {}).get("clusterRef") or {}
        is_own = Key(str(reference.get("namespace")), str(reference.get("name"))) == key
        if is_own or (not reference and deployment and spec_of(deployment).get("preserveOnDelete")):
            self._hub.api.delete(AGENT, key_of(agent), uid=uid_of(agent))
        else:
            self._hub.patch(AGENT, agent, {"spec": {"clusterDeploymentName": None}})

    # Keys

    def _installs_of(self, deployment: Key | None) -> list[Key]:
        if deployment is None:
            return []
        return [key_of(obj) for obj in self._hub.caches[AGENT_CLUSTER_INSTALL].by("deployment", str(deployment))]

    def _by_input(self, name: str) -> list[Key]:
        return [key_of(obj) for obj in self._hub.caches[AGENT_CLUSTER_INSTALL].by("inputs", name)]

    def _by_secret(self, secret: Json) -> list[Key]:
        """Return the clusters with this pull secret or CA, or whose credentials it is."""
        key = key_of(secret)
        deployments = [key_of(obj) for obj in self._hub.caches[CLUSTER_DEPLOYMENT].by("pull-secret", str(key))]
        if name := labels_of(secret).get(DEPLOYMENT_LABEL):
            deployments.append(Key(key.namespace, name))
        found = [found for deployment in deployments for found in self._installs_of(deployment)]
        return [*found, *self._by_input(f"Secret {key}")]


INFRA_ENV_LABEL = "infraenvs.agent-install.openshift.io"


def cluster_of(agent: Mapping[str, Any]) -> Key | None:
    """Return the key of the ClusterDeployment that an Agent is to belong to, None if to none."""
    found = spec_of(agent).get("clusterDeploymentName") or {}
    name = str(found.get("name") or "")
    return Key(str(found.get("namespace") or key_of(agent).namespace), name) if name else None


def is_imported(deployment: Mapping[str, Any]) -> bool:
    """Return whether a cluster that the service does not know is one that was installed, here or elsewhere."""
    return bool(spec_of(deployment).get("installed")) and bool(spec_of(deployment).get("clusterMetadata"))


def secret_names(deployment: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the Secrets with kubeconfig and password."""
    found = spec_of(deployment).get("clusterMetadata") or {}
    name = deployment["metadata"]["name"]
    return (
        str((found.get("adminKubeconfigSecretRef") or {}).get("name") or f"{name}-admin-kubeconfig"),
        str((found.get("adminPasswordSecretRef") or {}).get("name") or f"{name}-admin-password"),
    )


def _attempts(install: Mapping[str, Any]) -> Json:
    """Return the annotation on starts of the installation with this generation of the spec; empty before any."""
    try:
        found = jsontext.parsed(annotations_of(install).get(ATTEMPTS) or "{}")
    except ValueError:
        return {}
    is_current = isinstance(found, dict) and found.get("generation") == install["metadata"].get("generation")
    return found if is_current and isinstance(found.get("count"), int) else {}


def _pull_secret_key(deployment: Mapping[str, Any]) -> Key:
    name = (spec_of(deployment).get("pullSecretRef") or {}).get("name")
    return Key(key_of(deployment).namespace, str(name or ""))


def _inputs_of(install: Json) -> list[str]:
    """Return the objects that an AgentClusterInstall names, apart from its deployment."""
    namespace, spec = key_of(install).namespace, spec_of(install)
    found = [f"ConfigMap {Key(namespace, name)}" for name in clusterspec.manifest_names(install)]
    mirror = spec.get("mirrorRegistryRef") or {}
    if mirror.get("name"):
        found.append(f"ConfigMap {Key(str(mirror.get('namespace') or namespace), str(mirror['name']))}")
    authority = (spec.get("ignitionEndpoint") or {}).get("caCertificateReference") or {}
    found.append(f"Secret {Key(namespace, str(authority.get('name') or ''))}")
    return [*found, f"ClusterImageSet {(spec.get('imageSetRef') or {}).get('name')}"]


def _member(agent: Json) -> Member:
    status = agent.get("status") or {}
    return Member(
        key_of(agent).name,
        str(status.get("role") or ""),
        str((status.get("debugInfo") or {}).get("state") or ""),
        bool(spec_of(agent).get("approved")),
        condition(agent, "SpecSynced").get("status") == "True",
    )


def _conditions(install: Json) -> list[Json]:
    return (install.get("status") or {}).get("conditions") or []


def _ids(value: Any) -> list[str]:
    """Return a list of validations' ids, JSON in a text or not."""
    try:
        found = jsontext.parsed(value or "[]") if isinstance(value, str) else value or []
    except ValueError:
        return []
    return sorted(str(item) for item in found)
