"""Disk encryption as MachineConfigs, which the service adds to a cluster's manifests (swagger: disk-encryption).

Names and content follow assisted-service: openshift/99-openshift-<role>-<tpm|tang>-encryption.yaml, one a role.
"""

from __future__ import annotations

from installer.assisted.enums import Role
from installer.assisted.errors import BadRequest
from installer.common.formats import jsontext
from installer.ignition import validation
from installer.rendezvous.store.model import Cluster, JsonMap, Manifest
from installer.rendezvous.store.shapes import DiskEncryption

ROLES = {"masters": Role.MASTER, "arbiters": Role.ARBITER, "workers": Role.WORKER}
# The API's name of a mode -> the word in the files' names.
MODES = {"tpmv2": "tpm", "tang": "tang"}
CIPHER = ("--cipher", "aes-cbc-essiv:sha256")


def roles(enable_on: str) -> list[Role]:
    """Return the roles whose disks are encrypted. Raises BadRequest for anything but none, all, or groups of hosts."""
    if enable_on in ("", "none"):
        return []
    if enable_on == "all":
        return [Role.MASTER, Role.WORKER]
    groups = enable_on.split(",")
    if len(set(groups)) != len(groups) or not set(groups) <= set(ROLES):
        choices = ", ".join(("none", "all", *ROLES))
        raise BadRequest(
            f"disk_encryption.enable_on {enable_on!r} is not one of {choices}, nor several of the last three"
        )
    return [ROLES[group] for group in groups]


def servers(text: str) -> list[dict[str, str]]:
    """Tang servers, url and thumbprint of each. Raises BadRequest."""
    try:
        if not text:
            raise BadRequest("Setting Tang mode but tang_servers isn't set")
        entries = jsontext.parsed(text)
    except ValueError as error:
        raise BadRequest(f"disk_encryption.tang_servers is not JSON: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise BadRequest("disk_encryption.tang_servers must be a JSON list with at least one server")
    for index, item in enumerate(entries):
        for key in ("url", "thumbprint"):
            if not isinstance(item, dict) or not isinstance(item.get(key), str) or not item[key].strip():
                raise BadRequest(f"disk_encryption.tang_servers[{index}].{key} is required")
        if not item["url"].startswith(("http://", "https://")):
            raise BadRequest(f"disk_encryption.tang_servers[{index}].url {item['url']!r} is not an http or https URL")
    return [{"url": item["url"], "thumbprint": item["thumbprint"]} for item in entries]


def check(wanted: DiskEncryption) -> None:
    """Refuse Tang servers that no manifest could be made from, or whose config Ignition would refuse on the installed
    host. Raises BadRequest."""
    if wanted.get("mode") == "tang":
        tang = servers(wanted.get("tang_servers") or "")
        if problems := validation.problems(machine_config(Role.MASTER, "tang", tang)["spec"]["config"]):
            raise BadRequest(f"disk_encryption.tang_servers: {'; '.join(problems)}")


def machine_config(role: Role, mode: str, tang: list[dict[str, str]]) -> JsonMap:
    """Return a role's MachineConfig: the root partition becomes a LUKS volume, opened by the TPM or by Tang servers."""
    luks = {
        "name": "root",
        "device": "/dev/disk/by-partlabel/root",
        "clevis": {"tang": tang} if mode == "tang" else {"tpm2": True},
        "options": list(CIPHER),
        "wipeVolume": True,
    }
    filesystem = {"device": "/dev/mapper/root", "format": "xfs", "wipeFilesystem": True, "label": "root"}
    spec: JsonMap = {
        "config": {"ignition": {"version": "3.2.0"}, "storage": {"luks": [luks], "filesystems": [filesystem]}}
    }
    if mode == "tang":
        # The initramfs has to reach the servers at every boot.
        spec["kernelArguments"] = ["rd.neednet=1"]
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": f"{role}-{MODES[mode]}", "labels": {"machineconfiguration.openshift.io/role": role.value}},
        "spec": spec,
    }


def manifests(cluster: Cluster) -> list[Manifest]:
    """One for each role that the cluster wants encrypted. Raises BadRequest for what an older store may hold."""
    import yaml

    wanted = cluster.disk_encryption
    mode = str(wanted.get("mode") or "tpmv2")
    chosen = roles(str(wanted.get("enable_on") or "none"))
    tang = servers(str(wanted.get("tang_servers") or "")) if chosen and mode == "tang" else []
    return [
        Manifest(
            folder="openshift",
            file_name=f"99-openshift-{role}-{MODES[mode]}-encryption.yaml",
            content=yaml.safe_dump(machine_config(role, mode, tang), sort_keys=False).encode(),
            manifest_source="system-generated",
        )
        for role in chosen
    ]
