"""InfraEnvs: registered with the service, their images' URLs in the status, removed with them (hub.md §5)."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from installer.assisted.endpoint import BASE
from installer.assisted.errors import ClientError
from installer.hub.conditions import Condition
from installer.hub.kube.kinds import (
    AGENT_SERVICE_CONFIG,
    CLUSTER_DEPLOYMENT,
    INFRA_ENV,
    NMSTATE_CONFIG,
    SECRET,
    Json,
    Key,
    Kind,
    is_deleted,
    key_of,
    labels_of,
    uid_of,
)
from installer.hub.kube.manager import Hub, Retry
from installer.hub.service import CONFLICT
from installer.hub.tables import infraenv as table

# A new image waits until its inputs have been the same for this long (s): `kubectl apply` brings them one by one, and
# a host that booted an image with half of them would have to boot again. Never longer than the second.
QUIET, LONGEST_QUIET = 5.0, 60.0
# Between two tries of what bound hosts or the service's own state forbid (s).
_REFUSED = 60.0


class Quiet:
    """Knows for how long the inputs of a key have been the same."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: (digest, since when it is the same, since when anything has changed) by key.
        self._seen: dict[Key, tuple[str, float, float]] = {}

    def left(self, key: Key, digest: str) -> float:
        """Return for how long (s) still to wait with these inputs; 0 when they have been the same long enough."""
        now = self._monotonic()
        with self._lock:
            old, since, began = self._seen.get(key, ("", now, now))
            if old != digest:
                if now - since > QUIET:
                    began = now
                since = now
                self._seen[key] = (digest, since, began)
        return max(0.0, min(since + QUIET, began + LONGEST_QUIET) - now)

    def forget(self, key: Key) -> None:
        """Forget an object that is gone."""
        with self._lock:
            self._seen.pop(key, None)


class InfraEnvController:
    """Has the service know each InfraEnv as it is, and its status say what the service answered."""

    kind = INFRA_ENV

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._cache = hub.caches[INFRA_ENV]
        self._quiet = Quiet()
        self._cache.index("uid", lambda obj: [uid_of(obj)])
        self._cache.index("cluster", lambda obj: [str(table.cluster_key(obj))])
        self._cache.index("secret", lambda obj: [str(_secret_key(obj))])
        hub.caches[CLUSTER_DEPLOYMENT].index("uid", lambda obj: [uid_of(obj)])

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return NMStateConfigs, pull secrets, ClusterDeployments, and the mirrors that all images hold."""
        return {
            AGENT_SERVICE_CONFIG: lambda _: map(key_of, self._cache.list()),
            NMSTATE_CONFIG: self._of_nmstate_config,
            SECRET: lambda secret: map(key_of, self._cache.by("secret", str(key_of(secret)))),
            CLUSTER_DEPLOYMENT: lambda deployment: map(key_of, self._cache.by("cluster", str(key_of(deployment)))),
        }

    def follow(self, change: Json) -> Iterable[Key]:
        """Return the InfraEnv that has changed in the service, or those that wait for the cluster that has."""
        if change["kind"] == "infra_env":
            return [key_of(obj) for obj in self._cache.by("uid", change["id"])]
        if change["kind"] != "cluster":
            return []
        deployments = self._hub.caches[CLUSTER_DEPLOYMENT].by("uid", change["id"])
        waiting = [obj for item in deployments for obj in self._cache.by("cluster", str(key_of(item)))]
        return [key_of(obj) for obj in waiting if not (obj.get("status") or {}).get("isoDownloadURL")]

    def reconcile(self, key: Key) -> float | None:
        """Register or update one with the service, and write its status; a deleted one is removed there first."""
        infra_env = self._cache.get(key)
        if infra_env is None:
            self._quiet.forget(key)
            return None
        if is_deleted(infra_env):
            self._remove(infra_env)
            return None
        infra_env = self._hub.add_finalizer(INFRA_ENV, infra_env, table.FINALIZER)
        try:
            return self._make(infra_env)
        except ClientError as error:
            # Hosts may be booting from the image that there is: its URL stays while the service is away.
            if not (infra_env.get("status") or {}).get("isoDownloadURL") or not error.is_passing:
                reason = "the service does not answer, and is asked again" if error.is_passing else error.reason
                self._write(table.Inputs(infra_env), table.failed(reason))
            if error.is_passing:
                raise
            return None

    def _make(self, infra_env: Json) -> float | None:
        try:
            inputs = self._inputs(infra_env)
        except table.SelectorError as error:
            self._write(table.Inputs(infra_env), table.failed(f"spec.nmStateConfigLabelSelector: {error}"))
            return None
        if missing := table.missing_cluster(inputs):
            self._write(inputs, table.waiting(missing))
            return None
        if problems := table.problems(inputs):
            self._write(inputs, table.failed("; ".join(problems)))
            return None
        params = table.parameters(inputs)
        if left := self._quiet.left(key_of(infra_env), _digest(params)):
            return left
        try:
            image = self._image(uid_of(infra_env), params)
        except ClientError as error:
            if error.is_passing:
                raise
            self._write(table.Inputs(infra_env), table.failed(table.with_names(error.reason, inputs.nmstate_configs)))
            return None
        self._write(inputs, table.available(), image)
        return None

    def _inputs(self, infra_env: Json) -> table.Inputs:
        configs = self._hub.caches[NMSTATE_CONFIG].list(key_of(infra_env).namespace)
        chosen = table.chosen(infra_env, configs)
        deployment, cluster = None, None
        if (cluster_key := table.cluster_key(infra_env)) is not None:
            deployment = self._hub.caches[CLUSTER_DEPLOYMENT].get(cluster_key)
            cluster = None if deployment is None else self._hub.service.find_cluster(uid_of(deployment))
        secret, problem = self._pull_secret(infra_env)
        return table.Inputs(infra_env, chosen, secret, secret_problem=problem, deployment=deployment, cluster=cluster)

    def _pull_secret(self, infra_env: Json) -> tuple[str, str]:
        key = _secret_key(infra_env)
        if not key.name:
            return "", "spec.pullSecretRef: names no Secret"
        secret = self._hub.api.get(SECRET, key)
        if secret is None:
            return "", f"Secret {key}, which spec.pullSecretRef names, does not exist"
        try:
            text = base64.b64decode((secret.get("data") or {})[table.PULL_SECRET_KEY], validate=True).decode()
        except KeyError:
            return "", f"Secret {key}, which spec.pullSecretRef names, has no key {table.PULL_SECRET_KEY}"
        except ValueError:
            return "", f"Secret {key}: {table.PULL_SECRET_KEY} is no text"
        return text, ""

    def _image(self, identity: str, params: Json) -> table.Image:
        service = self._hub.service
        try:
            service.put_infra_env(identity, params)
        except ClientError as error:
            if error.status != CONFLICT or not self._is_left_over(identity):
                raise
            service.delete_infra_env(identity)
            service.put_infra_env(identity, params)
        url = str(service.image_url(identity)["url"])
        base = url.partition("/images/")[0] + BASE
        return table.Image(url, service.boot_artifacts(identity), base)

    def _is_left_over(self, identity: str) -> bool:
        """Return whether its cluster is gone and it has no hosts: then one of the same name may take it over."""
        service = self._hub.service
        cluster_id = str((service.find_infra_env(identity) or {}).get("cluster_id") or "")
        return not (cluster_id and service.find_cluster(cluster_id)) and not service.hosts(identity)

    def _write(self, inputs: table.Inputs, condition: Condition, image: table.Image | None = None) -> None:
        infra_env = inputs.infra_env
        self._hub.write_status(INFRA_ENV, infra_env, table.status(inputs, condition, image, self._hub.now()))

    def _remove(self, infra_env: Json) -> None:
        if table.FINALIZER not in (infra_env["metadata"].get("finalizers") or ()):
            return
        try:
            self._hub.service.delete_infra_env(uid_of(infra_env))
        except ClientError as error:
            reason = "DeletionWaits" if error.is_passing else "DeletionRefused"
            self._hub.events.event(infra_env, reason, error.reason, warning=True)
            if error.is_passing:
                raise
            raise Retry(error.reason, _REFUSED) from None
        self._hub.remove_finalizer(INFRA_ENV, infra_env, table.FINALIZER)

    def _of_nmstate_config(self, config: Json) -> Iterable[Key]:
        """Yield the InfraEnvs that select a config; those with a wrong selector have a condition already."""
        for infra_env in self._cache.list(key_of(config).namespace):
            selector = (infra_env.get("spec") or {}).get("nmStateConfigLabelSelector") or {}
            try:
                if table.selects(selector, labels_of(config)):
                    yield key_of(infra_env)
            except table.SelectorError:
                continue


def _secret_key(infra_env: Json) -> Key:
    reference = (infra_env.get("spec") or {}).get("pullSecretRef") or {}
    return Key(key_of(infra_env).namespace, reference.get("name", ""))


def _digest(params: Json) -> str:
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()
