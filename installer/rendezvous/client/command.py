"""``agent-installer-client``: registerCluster, importCluster, registerInfraEnv, configure; all can be repeated
(installer.md §5.1)."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from installer import logs
from installer.assisted.auth import Scheme
from installer.assisted.client import MANIFESTS, AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.errors import ClientError, ConfigurationError, DiskMissing, ManifestError, RendezvousError
from installer.assisted.restclient import text_field
from installer.common.formats import jsontext
from installer.rendezvous import settings
from installer.rendezvous.client import manifests as cm
from installer.rendezvous.validations import hints as hint_rules

log = logging.getLogger("agent-installer-client")
FAILURES = Path("/var/run/agent-installer/host-config-failures")
# openshift-install's units mount what is to be registered at /manifests and /extra-manifests.
MOUNTED = Path("/")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


class Client:
    """The three jobs against one service; ``root`` is /etc/assisted."""

    def __init__(
        self,
        service: AssistedClient,
        root: Path,
        failures: Path,
        env: Mapping[str, str],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.service = service
        self.root = root
        self.failures = failures
        self.env = env
        self.sleep = sleep
        self._fenced: set[tuple[str, str, str]] = set()  # the API never shows such credentials
        # Hosts whose disk was chosen by the hints: it is not chosen a second time.
        self._chosen: set[str] = set()
        config = settings.load({key: env[key] for key in ("RELEASE_IMAGES", "OPENSHIFT_VERSION") if key in env})
        self.release = env.get("OPENSHIFT_INSTALL_RELEASE_IMAGE") or env.get("RELEASE_IMAGE") or config.release_image
        self.version = config.openshift_version

    def register_cluster(self) -> str:
        """Register the cluster unless one exists, then bring overrides and extra manifests in line. Its id."""
        manifests = cm.load(self.root / "manifests")
        clusters = self.service.clusters()
        if len(clusters) > 1:
            raise ClientError(
                "registerCluster", None, f"the service has {len(clusters)} clusters, expected at most one"
            )
        if clusters:
            cluster = clusters[0]
            cluster_id = text_field(cluster, "id", "GET /clusters")
            log.info("cluster %s is registered already", cluster_id)
        else:
            body = cm.cluster_params(manifests, self.release, self.version)
            cluster = self.service.register_cluster(body)
            cluster_id = text_field(cluster, "id", "POST /clusters")
            log.info("registered cluster %s", cluster_id)
        self._apply_overrides(cluster_id, cluster, cm.overrides(manifests))
        self._apply_extra(cluster_id)
        return cluster_id

    def import_cluster(self) -> str:
        """Register the installed cluster that this host is added to, unless it is, and the place of its hosts' configs.

        Its id.
        """
        clusters = self.service.clusters()
        if not clusters:
            names = {"name": "NAME", "openshift_cluster_id": "ID", "api_vip_dnsname": "API_VIP_DNS_NAME"}
            body = {field: self.env.get(f"CLUSTER_{name}", "") for field, name in names.items()}
            clusters = [self.service.import_installed(body)]
            log.info("imported cluster %s", body["name"])
        cluster_id = text_field(clusters[0], "id", "GET /clusters")
        endpoint = cm.ignition_endpoint(self.root / "clusterconfig/worker-ignition-endpoint.json")
        self.service.redirect_hosts(cluster_id, endpoint)
        return cluster_id

    def _apply_overrides(self, cluster_id: str, cluster: Mapping[str, Any], wanted: str) -> None:
        if not wanted:
            return
        current = str(cluster.get("install_config_overrides") or "{}")
        try:
            if jsontext.loads(current) == jsontext.loads(wanted):
                return
        except ValueError as error:
            raise ManifestError(cm.OVERRIDES, f"is not JSON: {error}") from None
        self.service.update_install_config(cluster_id, wanted)
        log.info("applied install-config overrides")

    def _apply_extra(self, cluster_id: str) -> None:
        registered = {(item.get("folder"), item.get("file_name")) for item in self.service.manifests(cluster_id)}
        for name, content in cm.extra_manifests(self.root / "extra-manifests"):
            if (MANIFESTS, name) in registered:
                if self.service.manifest(cluster_id, name) != content:
                    raise ManifestError(name, "is registered already with another content")
                continue
            self.service.add_manifest(cluster_id, name, content)
            log.info("added manifest %s", name)

    def register_infra_env(self) -> str:
        """Register the infra-env unless one exists. Its id.

        In an interactive installation a person registers the cluster, and binds hosts to it.
        """
        interactive = (self.root / "interactive-ui").exists()
        manifests = cm.load(self.root / "manifests", with_cluster=not interactive)
        infra_envs = self.service.infra_envs()
        if len(infra_envs) > 1:
            raise ClientError(
                "registerInfraEnv", None, f"the service has {len(infra_envs)} infra-envs, expected at most one"
            )
        if infra_envs:
            infra_env_id = text_field(infra_envs[0], "id", "GET /infra-envs")
            log.info("infra-env %s is registered already", infra_env_id)
            return infra_env_id
        clusters = self.service.clusters()
        if len(clusters) != 1 and not interactive:
            raise ClientError("registerInfraEnv", None, f"the service has {len(clusters)} clusters, expected one")
        kind = self.env.get("IMAGE_TYPE_ISO") or "full-iso"
        cluster_id = "" if interactive else text_field(clusters[0], "id", "GET /clusters")
        body = cm.infra_env_params(manifests, cluster_id, kind, self.version)
        infra_env_id = text_field(self.service.register_infra_env(body), "id", "POST /infra-envs")
        log.info("registered infra-env %s", infra_env_id)
        return infra_env_id

    def configure(self) -> None:
        """Apply roles and disk hints to the hosts as they appear, until every expected host has its own."""
        configs = cm.host_configs(self.root / "hostconfig")
        alone = self.env.get("WORKFLOW_TYPE") == "addnodes"
        pause = FIRST_PAUSE
        while True:
            failures = self.configure_once(configs, alone=alone) if configs else {}
            self._write_failures(failures)
            if not failures:
                log.info("all %d host configs are applied", len(configs))
                return
            log.info("hosts that are not configured: %s", "; ".join(f"{k}: {v}" for k, v in failures.items()))
            self.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def configure_once(self, configs: list[cm.HostConfig], *, alone: bool = False) -> dict[str, str]:
        """Send each host what the config that is meant for it says: role, name, disk, fencing.

        `alone`: the service is that of one host, which is added to a cluster, and other hosts' configs are not its
        business.

        Returns what could not be done, by the config's name: a host that has not registered yet, a disk that is
        missing, what the service refused. Raises ClientError unless there is exactly one infra-env.
        """
        infra_envs = self.service.infra_envs()
        if len(infra_envs) != 1:
            raise ClientError("configure", None, f"the service has {len(infra_envs)} infra-envs, expected one")
        infra_env_id = text_field(infra_envs[0], "id", "GET /infra-envs")
        hosts = self.service.hosts(infra_env_id)
        failures: dict[str, str] = {}
        if alone and hosts:
            configs = [config for config in configs if any(_is_meant(host, config) for host in hosts)]
            if not configs:
                return {"this host": "nodes-config.yaml has none of its NICs, so it is not added"}
        for config in configs:
            host = next((host for host in hosts if _is_meant(host, config)), None)
            if host is None:
                described = (
                    f"MAC address {', '.join(sorted(config.macs))}" if config.macs else f"name {config.hostname}"
                )
                failures[config.name] = f"host with {described} has not registered yet"
                continue
            host_id = text_field(host, "id", "GET hosts")
            try:
                changes = _changes(host, config, host_id in self._chosen)
            except DiskMissing as missing:
                failures[config.name] = str(missing)
                continue
            # A host's folder and its entry in the file for all may have the same name.
            fenced = (config.hostname, config.name, host_id)
            if config.fencing and fenced not in self._fenced:
                changes["fencing_credentials"] = dict(config.fencing)
            if not changes:
                continue
            try:
                self.service.update_host(infra_env_id, host_id, changes)
            except ClientError as error:
                failures[config.name] = _explain(error, changes, config)
            else:
                if "fencing_credentials" in changes:
                    self._fenced.add(fenced)
                if "disks_selected_config" in changes:
                    self._chosen.add(host_id)
        return failures

    def _write_failures(self, failures: Mapping[str, str]) -> None:
        self.failures.parent.mkdir(parents=True, exist_ok=True)
        if not failures:
            self.failures.unlink(missing_ok=True)
            return
        temporary = self.failures.with_suffix(".new")
        temporary.write_text("".join(f"{name}: {text}\n" for name, text in sorted(failures.items())))
        temporary.replace(self.failures)


def _inventory(host: Mapping[str, Any]) -> dict[str, Any]:
    value = json.loads(host.get("inventory") or "{}")
    return value if isinstance(value, dict) else {}


def _is_meant(host: Mapping[str, Any], config: cm.HostConfig) -> bool:
    inventory = _inventory(host)
    if config.hostname:
        return config.hostname in (host.get("requested_hostname"), inventory.get("hostname"))
    return any(str(nic.get("mac_address", "")).lower() in config.macs for nic in inventory.get("interfaces") or [])


def _changes(host: Mapping[str, Any], config: cm.HostConfig, chosen: bool) -> dict[str, Any]:
    """Return the changes to PATCH, empty for a host as it should be. ``chosen``: the hints were applied already.

    Raises DiskMissing when the disk that was chosen for the host is not there: no other takes its place.
    """
    changes: dict[str, Any] = {}
    if config.role and host.get("role") != config.role:
        changes["host_role"] = config.role
    if config.hints:
        disks = _inventory(host).get("disks") or []
        name = host.get("installation_disk_id")
        current = next((disk for disk in disks if name in hint_rules.names(disk)), None)
        # The service itself chooses among what is there only.
        if name and disks and current is None:
            raise DiskMissing(str(name), hint_rules.describe(config.hints))
        if not chosen and (current is None or not hint_rules.matches(current, config.hints)):
            changes["disks_selected_config"] = [{"id": hint_rules.choose(disks, config.hints), "role": "install"}]
    return changes


def _explain(error: ClientError, changes: Mapping[str, Any], config: cm.HostConfig) -> str:
    chosen = changes.get("disks_selected_config")
    if chosen and chosen[0]["id"] == hint_rules.NOT_FOUND:
        return f"no eligible disk matches the root device hints ({hint_rules.describe(config.hints)}): {error.reason}"
    return error.reason


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 with one line on any failure, with a traceback on a bug of ours: the unit starts it again."""
    parser = argparse.ArgumentParser(prog="agent-installer-client")
    parser.add_argument("job", choices=("registerCluster", "importCluster", "registerInfraEnv", "configure"))
    args = parser.parse_args(argv)
    logs.to_journal("%(levelname)s %(message)s")
    env = os.environ
    try:
        if not env.get("SERVICE_BASE_URL"):
            raise ConfigurationError("SERVICE_BASE_URL", "must be set")
        ca_file = Path(env["SERVICE_CA_CERT_PATH"]) if env.get("SERVICE_CA_CERT_PATH") else None
        server = endpoint(env["SERVICE_BASE_URL"], ca_file=ca_file)
        service = AssistedClient(server, Scheme.USER, env.get("USER_AUTH_TOKEN", ""))
        root = Path(env.get("ASSISTED_DIR") or (MOUNTED if (MOUNTED / "manifests").is_dir() else "/etc/assisted"))
        client = Client(service, root, Path(env.get("HOST_CONFIG_FAILURES", str(FAILURES))), env)
        jobs: dict[str, Callable[[], object]] = {
            "registerCluster": client.register_cluster,
            "importCluster": client.import_cluster,
            "registerInfraEnv": client.register_infra_env,
            "configure": client.configure,
        }
        jobs[args.job]()
    except (RendezvousError, OSError) as error:
        print(f"agent-installer-client {args.job}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
