"""The rendezvous service as a hub uses it: operations that may be repeated, with ids that the client chooses.

All raise ClientError: a status of 400 or 409 says what is wrong with the request, 404 that the object is not there, and
``is_passing`` that the same may succeed later. Answers are the API's JSON, not to be changed where ``cluster`` and
``hosts`` remember them. One client may be used by any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from installer.assisted.client import AssistedClient, Json, path_of
from installer.assisted.errors import ClientError
from installer.assisted.restclient import objects, one_object, text_field

Params = Mapping[str, Any]
#: Longest wait of a poll for changes (s).
LONGEST_POLL = 50.0
T = TypeVar("T")
NOT_FOUND, CONFLICT, GONE = 404, 409, 410
#: Statuses of a cluster in which deleting it takes a cancellation first.
UNDER_WAY = frozenset(
    {"preparing-for-installation", "installing", "installing-pending-user-action", "finalizing", "error"}
)
#: Statuses of a bound host that may go together with its infra-env.
FINISHED = frozenset({"installed", "added-to-existing-cluster"})


class Changes(NamedTuple):
    """A page of the feed, the oldest change first, each object once; ``next`` is the mark to go on from.

    A change has ``kind`` (cluster, host or infra_env), ``id``, a host's also ``infra_env_id``, and ``deleted`` (true)
    if the object is gone.
    """

    changes: list[Json]
    next: str


class MarkTooOld(ClientError):
    """The feed has forgotten this mark: begin anew with an empty mark."""


class HubClient(AssistedClient):
    """The service with the user's token."""

    # Releases

    def put_release(self, image: str, pull_secret: str) -> Json:
        """Have the service read a release image, unless it knows it: ``image``, ``version``, ``cpu_architectures``.

        400 says why it cannot be read. A refusal is remembered for a while, longer each time, so that asking often
        costs no registry anything.
        """
        return self._object("PUT", "/releases", {"image": image, "pull_secret": pull_secret})

    def releases(self) -> list[Json]:
        """Releases that the service has read, as ``put_release`` returns them."""
        return self._list("/releases")

    # Clusters

    def put_cluster(self, cluster_id: str, params: Params) -> Json:
        """Register a cluster (cluster-create-params) with this id, and return it.

        The same parameters again change nothing, whatever has become of the cluster since. Others are an update, which
        leaves alone what is not among them: 409 names those that can only be chosen at registration, or says that it
        is too late for any.
        """
        return self._object("PUT", path_of("clusters", cluster_id), params)

    def find_cluster(self, cluster_id: str) -> Json | None:
        """Return a cluster with its validations, without its hosts, None if there is none.

        With hosts, each change of each would bring all of them.
        """
        path, query = path_of("clusters", cluster_id), {"exclude-hosts": "true"}
        answer = _unless_absent(lambda: self.call("GET", path, query=query, remember=True))
        return None if answer is None else one_object(answer, f"GET {path}")

    def update_cluster(self, cluster_id: str, params: Params) -> Json:
        """Change a cluster (v2-cluster-update-params)."""
        return self._object("PATCH", path_of("clusters", cluster_id), params)

    def delete_cluster(self, cluster_id: str) -> None:
        """Cancel any installation and remove the cluster; a missing cluster is no error.

        Hosts of its own infra-envs are removed with it; those that were bound to it become unbound.
        """
        cluster = self.find_cluster(cluster_id)
        if cluster is None:
            return
        if cluster.get("status") in UNDER_WAY:
            self.cancel_cluster(cluster_id)
        _unless_absent(lambda: self.call("DELETE", path_of("clusters", cluster_id)))

    def install_cluster(self, cluster_id: str) -> Json:
        """Start the installation; 409 unless the cluster is ready. Nothing else ever starts one."""
        return self._object("POST", path_of("clusters", cluster_id, "actions", "install"))

    def cancel_cluster(self, cluster_id: str) -> Json:
        """Cancel the installation; 409 where none is under way."""
        return self._object("POST", path_of("clusters", cluster_id, "actions", "cancel"))

    def reset_cluster(self, cluster_id: str) -> Json:
        """Go back to before the installation; its hosts must boot from the image again."""
        return self._object("POST", path_of("clusters", cluster_id, "actions", "reset"))

    def import_cluster(self, cluster_id: str, params: Params) -> Json:
        """Register an installed cluster with this id, so that hosts can be added to it (import-cluster-params).

        Repeatable as ``put_cluster``.
        """
        return self._object("PUT", path_of("clusters", cluster_id, "import"), params)

    def allow_add_hosts(self, cluster_id: str) -> Json:
        """Let hosts be added to an installed cluster; may be repeated."""
        return self._object("POST", path_of("clusters", cluster_id, "actions", "allow-add-hosts"))

    def install_config_overrides(self, cluster_id: str, overrides: str) -> None:
        """Set the overrides of install-config, a JSON text; empty for none."""
        self.update_install_config(cluster_id, overrides)

    def set_ignored_validations(self, cluster_id: str, *, host_ids: str, cluster_ids: str) -> None:
        """Set the validations that may fail: two JSON lists of ids as texts, empty for none."""
        body = {"host-validation-ids": host_ids, "cluster-validation-ids": cluster_ids}
        self.call("PUT", path_of("clusters", cluster_id, "ignored-validations"), body)

    def put_manifest(self, cluster_id: str, name: str, content: bytes) -> None:
        """Put a manifest into the folder ``openshift``, replacing any of the same name."""
        self.add_manifest(cluster_id, name, content)

    def delete_manifest(self, cluster_id: str, name: str) -> None:
        """Remove a manifest from the folder ``openshift``; a missing manifest is no error."""
        query = {"folder": "openshift", "file_name": name}
        _unless_absent(lambda: self.call("DELETE", path_of("clusters", cluster_id, "manifests"), query=query))

    def credentials(self, cluster_id: str) -> Json:
        """Return username, password and console_url; 409 before they are made."""
        return self._object("GET", path_of("clusters", cluster_id, "credentials"))

    def kubeconfig(self, cluster_id: str, *, ingress: bool = True) -> bytes:
        """Return the administrator's kubeconfig; ``ingress``: with the ingress CA, which an installed cluster has."""
        name = "kubeconfig" if ingress else "kubeconfig-noingress"
        return self.download(path_of("clusters", cluster_id, "downloads", "credentials"), {"file_name": name})

    def logs_url(self, cluster_id: str) -> str:
        """Return a URL of the cluster's logs that opens for ten minutes."""
        query = {"file_name": "logs", "logs_type": "all"}
        path = path_of("clusters", cluster_id, "downloads", "files-presigned")
        return str(one_object(self.call("GET", path, query=query), f"GET {path}").get("url", ""))

    # Infra-envs

    def put_infra_env(self, infra_env_id: str, params: Params) -> Json:
        """Register an infra-env (infra-env-create-params) with this id, and return it; repeatable as ``put_cluster``.

        URLs of its images have no end: they stay the same until what the images are made of changes, and open until
        the infra-env is gone or its key is made anew (``renew_image_key``).
        """
        return self._object("PUT", path_of("infra-envs", infra_env_id), params)

    def find_infra_env(self, infra_env_id: str) -> Json | None:
        """Return an infra-env, None if there is none."""
        return _unless_absent(lambda: self._object("GET", path_of("infra-envs", infra_env_id)))

    def update_infra_env(self, infra_env_id: str, params: Params) -> Json:
        """Change an infra-env (infra-env-update-params)."""
        return self._object("PATCH", path_of("infra-envs", infra_env_id), params)

    def delete_infra_env(self, infra_env_id: str) -> None:
        """Remove an infra-env with its unbound and its installed hosts; 409 while others are bound."""
        if self.find_infra_env(infra_env_id) is None:
            return
        hosts = self.hosts(infra_env_id)
        bound = [host["id"] for host in hosts if host.get("cluster_id") and host.get("status") not in FINISHED]
        if bound:
            reason = f"hosts of infra-env {infra_env_id} are bound to a cluster: {', '.join(bound)}"
            raise ClientError("delete infra-env", CONFLICT, reason)
        for host in hosts:
            self.delete_host(infra_env_id, host["id"])
        _unless_absent(lambda: self.call("DELETE", path_of("infra-envs", infra_env_id)))

    def image_url(self, infra_env_id: str) -> Json:
        """Return ``url`` of the infra-env's ISO, and ``expires_at`` (RFC 3339) if it has an end."""
        return self._object("GET", path_of("infra-envs", infra_env_id, "downloads", "image-url"))

    def boot_artifacts(self, infra_env_id: str) -> Json:
        """Return the URLs ``kernel``, ``initrd``, ``rootfs``, ``ipxe_script``, ``discovery_ignition``."""
        return self._object("GET", path_of("infra-envs", infra_env_id, "boot-artifacts"))

    def renew_image_key(self, infra_env_id: str) -> None:
        """Replace the key of the infra-env's URLs: earlier URLs stop working."""
        self.call("POST", path_of("infra-envs", infra_env_id, "regenerate-signing-key"))

    # Hosts

    def find_host(self, infra_env_id: str, host_id: str) -> Json | None:
        """Return a host with inventory and validations, None if there is none."""
        return _unless_absent(lambda: self._object("GET", _host(infra_env_id, host_id)))

    def bind_host(self, infra_env_id: str, host_id: str, cluster_id: str) -> Json:
        """Bind a free host to a cluster; its agent registers anew."""
        return self._object("POST", _host(infra_env_id, host_id, "actions", "bind"), {"cluster_id": cluster_id})

    def unbind_host(self, infra_env_id: str, host_id: str) -> Json:
        """Take a host out of its cluster; it leaves when its agent registers anew, an installed one after a boot from
        the image."""
        return self._object("POST", _host(infra_env_id, host_id, "actions", "unbind"))

    def delete_host(self, infra_env_id: str, host_id: str) -> None:
        """Remove a host; 409 while it is being installed, a missing host is no error."""
        _unless_absent(lambda: self.call("DELETE", _host(infra_env_id, host_id)))

    def install_host(self, infra_env_id: str, host_id: str) -> Json:
        """Start adding a host to a cluster that was installed; 409 unless the host is ready."""
        return self._object("POST", _host(infra_env_id, host_id, "actions", "install"))

    def reset_host(self, infra_env_id: str, host_id: str) -> Json:
        """Reset a host that is being added to an installed cluster; it must boot from the image again."""
        return self._object("POST", _host(infra_env_id, host_id, "actions", "reset"))

    def update_host_ignition(self, infra_env_id: str, host_id: str, overrides: str) -> Json:
        """Set overrides of the host's Ignition config, a JSON text; empty for none."""
        return self._object("PATCH", _host(infra_env_id, host_id, "ignition"), {"config": overrides})

    def update_installer_args(self, infra_env_id: str, host_id: str, args: list[str]) -> Json:
        """Set further arguments of coreos-installer."""
        return self._object("PATCH", _host(infra_env_id, host_id, "installer-args"), {"args": args})

    def report_host_joined(self, infra_env_id: str, host_id: str, stage: str) -> None:
        """Report ``Joined`` or ``Done`` of a host that was added: seen at its Node, which the host itself cannot."""
        self.call("PUT", _host(infra_env_id, host_id, "joined"), {"current_stage": stage})

    # The feed

    def changes(self, after: str, seconds: float) -> Changes:
        """Wait up to ``seconds`` (at most LONGEST_POLL) for changes after a mark; none by then is an empty page.

        An empty mark is the beginning: everything that there is, in pages. Raises MarkTooOld.
        """
        query = {"after": after, "timeout": f"{min(seconds, LONGEST_POLL):g}"}
        try:
            answer = one_object(self.call("GET", "/changes", query=query), "GET /changes")
        except ClientError as error:
            if error.status == GONE:
                raise MarkTooOld(error.what, error.status, error.reason) from None
            raise
        return Changes(objects(answer.get("changes"), "GET /changes"), text_field(answer, "next", "GET /changes"))

    def _object(self, method: str, path: str, body: Params | None = None) -> Json:
        return one_object(self.call(method, path, body), f"{method} {path}")


def _unless_absent(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except ClientError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def _host(infra_env_id: str, host_id: str, *parts: str) -> str:
    return path_of("infra-envs", infra_env_id, "hosts", host_id, *parts)
