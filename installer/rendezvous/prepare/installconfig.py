"""install-config.yaml as the payload's installer wants it, written from the cluster (installer.md §1.1, §5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from installer.assisted.enums import Role
from installer.assisted.errors import PrepareError
from installer.rendezvous.registries import digest_sources
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, JsonMap
from installer.rendezvous.validations.hostview import load_json

_CERTIFICATE = re.compile("-----BEGIN (X509 )?CERTIFICATE-----(.+?)-----END (X509 )?CERTIFICATE-----", re.DOTALL)


def trust_bundle(infra_envs: Iterable[InfraEnv], settings: Settings, cluster: Cluster | None = None) -> str:
    """CAs of all sources, each once: a cluster's overrides, infra-envs, and what a registry or mirror is trusted by."""
    overrides = load_json(cluster.install_config_overrides) if cluster else None
    override = overrides.get("additionalTrustBundle") if isinstance(overrides, dict) else None
    texts = [str(override or ""), *(infra_env.additional_trust_bundle for infra_env in infra_envs)]
    if settings.mirror_ca_file.is_file():
        # Comments in it may be in any encoding.
        texts.append(settings.mirror_ca_file.read_text("ascii", "replace"))
    certificates = dict.fromkeys(_plain(match[2]) for text in texts for match in _CERTIFICATE.finditer(text))
    return "".join(f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n" for body in certificates)


def _plain(body: str) -> str:
    """Return a certificate's base64 without headers (RFC 1421), blanks and CRs, with which Go reads none."""
    lines = (line.strip() for line in body.splitlines() if ":" not in line)
    return "".join(f"{line}\n" for line in lines if line)


def merge(base: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _platform(cluster: Cluster, hosts: Sequence[Host]) -> JsonMap:
    kind = str(cluster.platform.get("type", "none"))
    api = [str(item["ip"]) for item in cluster.api_vips]
    ingress = [str(item["ip"]) for item in cluster.ingress_vips]
    if kind == "baremetal" and not cluster.is_sno:
        entries = [
            {
                "name": host.requested_hostname,
                "role": (Role.WORKER if Role.WORKER in (host.role, host.suggested_role) else Role.MASTER).value,
                "bootMACAddress": _boot_mac(host),
                "bootMode": "UEFI",
            }
            for host in hosts
        ]
        vips: JsonMap = {"apiVIPs": api, "ingressVIPs": ingress, "provisioningNetwork": "Disabled", "hosts": entries}
        if cluster.load_balancer:
            vips["loadBalancer"] = cluster.load_balancer
        return {"baremetal": vips}
    if kind == "vsphere":
        return {"vsphere": {key: value for key, value in (("apiVIPs", api), ("ingressVIPs", ingress)) if value}}
    if kind == "nutanix":
        return {"nutanix": {"apiVIPs": api, "ingressVIPs": ingress}}
    if kind == "external":
        external = cluster.platform.get("external") or {}
        names = {"platform_name": "platformName", "cloud_controller_manager": "cloudControllerManager"}
        return {"external": {names[key]: value for key, value in external.items() if key in names and value}}
    return {"none": {}}


def _boot_mac(host: Host) -> str:
    nics = host.inventory.value.interfaces if host.inventory.value else []
    with_address = [nic for nic in nics if nic.ipv4_addresses or nic.ipv6_addresses]
    return next((nic.mac_address for nic in with_address or nics), "")


def build(cluster: Cluster, infra_envs: Iterable[InfraEnv], hosts: Sequence[Host], settings: Settings) -> JsonMap:
    """Return the whole document. Raises PrepareError when the overrides are not an object."""
    roles = [host.effective_role for host in hosts]
    sources = digest_sources(settings.registries_conf)
    hyperthreading = {
        role: "Enabled" if cluster.hyperthreading == "all" or f"{role}s" in cluster.hyperthreading else "Disabled"
        for role in ("master", "worker", "arbiter")
    }
    machines = [{"cidr": str(item["cidr"])} for item in cluster.machine_networks]
    clusters = [
        {"cidr": str(item["cidr"]), "hostPrefix": int(item["host_prefix"])} for item in cluster.cluster_networks
    ]
    networking: JsonMap = {
        "networkType": cluster.network_type,
        "clusterNetwork": clusters,
        "serviceNetwork": [str(item["cidr"]) for item in cluster.service_networks],
    }
    if machines:
        networking["machineNetwork"] = machines
    document: JsonMap = {
        "apiVersion": "v1",
        "baseDomain": cluster.base_dns_domain,
        "metadata": {"name": cluster.name},
        "networking": networking,
        "controlPlane": {
            "name": "master",
            "replicas": cluster.control_plane_count,
            "hyperthreading": hyperthreading["master"],
            "architecture": _architecture(cluster),
        },
        "compute": [
            {
                "name": "worker",
                "replicas": roles.count(Role.WORKER),
                "hyperthreading": hyperthreading["worker"],
                "architecture": _architecture(cluster),
            }
        ],
        "platform": _platform(cluster, hosts),
        "pullSecret": cluster.pull_secret,
        "sshKey": cluster.ssh_public_key,
    }
    fencing = _fencing(cluster, hosts, roles)
    if fencing:
        document["controlPlane"]["fencing"] = {"credentials": fencing}
    if Role.ARBITER in roles:
        document["arbiter"] = {"name": "arbiter", "replicas": roles.count(Role.ARBITER)}
    if cluster.is_sno:
        bootstrap = next((host for host in hosts if host.bootstrap), hosts[0])
        document["bootstrapInPlace"] = {"installationDisk": bootstrap.installation_disk_path}
    if sources:
        document["imageDigestSources"] = sources
    proxy = {"httpProxy": cluster.http_proxy, "httpsProxy": cluster.https_proxy, "noProxy": cluster.no_proxy}
    if cluster.http_proxy or cluster.https_proxy:
        document["proxy"] = {key: value for key, value in proxy.items() if value}
    overrides = load_json(cluster.install_config_overrides) if cluster.install_config_overrides else {}
    if not isinstance(overrides, dict):
        raise PrepareError("install-config overrides", "must be a JSON object")
    if trust_bundle(infra_envs, settings):
        document["additionalTrustBundlePolicy"] = "Always"
    result: JsonMap = merge(document, overrides)
    if bundle := trust_bundle(infra_envs, settings, cluster):
        result["additionalTrustBundle"] = bundle
    return result


def _fencing(cluster: Cluster, hosts: Sequence[Host], roles: Sequence[Role]) -> list[JsonMap]:
    """Return the credentials with which two masters fence each other; none for any other topology."""
    masters = [host for host, role in zip(hosts, roles, strict=True) if role is Role.MASTER]
    fenced = [(host, credentials) for host in masters if (credentials := host.fencing_credentials.value)]
    if cluster.control_plane_count != 2 or Role.ARBITER in roles or not len(masters) == len(fenced) == 2:
        return []
    names = {"address": "address", "username": "username", "password": "password"}
    names |= {"certificate_verification": "certificateVerification", "mac_address": "macAddress"}
    entries = []
    for host, credentials in fenced:
        identity = {} if credentials.get("mac_address") else {"hostName": host.requested_hostname}
        entries.append(identity | {names[key]: value for key, value in credentials.items() if key in names and value})
    return entries


def _architecture(cluster: Cluster) -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(cluster.cpu_architecture, cluster.cpu_architecture)
