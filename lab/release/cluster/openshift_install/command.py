"""`openshift-install` of the lab release: renders manifests and Ignition configs (reference/cluster.md §3.1, §7).

    openshift-install create manifests|ignition-configs|single-node-ignition-config --dir D

The release image comes from OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE. Certificates in D/tls are used, missing ones are
made. Files in D/manifests and D/openshift become part of the Ignition configs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from installer.common.certificates import Pair
from installer.common.secretfiles import write_private
from lab.release.cluster import tls
from lab.release.cluster.errors import ClusterError, ConfigError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import InstallConfig, parse
from lab.release.cluster.kube import kubeconfig, payload, resources
from lab.release.cluster.kube.client import Object
from lab.release.cluster.openshift_install import bootstrap

RELEASE_ENV = "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE"
STATE = ".openshift_install_state.json"
_ALPHABET = "abcdefghijkmnopqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class Assets:
    """Everything that is decided once per cluster."""

    config: InstallConfig
    pairs: Mapping[str, Pair]
    infra_id: str
    cluster_id: str
    kubeadmin_hash: str = field(repr=False)
    release_image: str


def new_password() -> str:
    """Return a kubeadmin password: four groups of five (§7.3)."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(5)) for _ in range(4))


def _bcrypt(password: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # crypt leaves with Python 3.13; the images have 3.11
        import crypt

    return crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1024))


def _load_state(directory: Path) -> dict[str, str]:
    path = directory / STATE
    if not path.exists():
        return {}
    try:
        state = json.loads(path.read_text())
    except ValueError as error:
        raise ConfigError(str(path), "", f"not JSON ({error})") from error
    return {str(key): str(value) for key, value in state.items()}


def load_assets(directory: Path, release_image: str) -> Assets:
    """Read the inputs in ``directory``, make what is missing and store it there. Raises ConfigError."""
    if not release_image:
        raise ConfigError(RELEASE_ENV, "", "must name the release image")
    state = _load_state(directory)
    source = directory / "install-config.yaml"
    if source.exists():
        text = source.read_text()
    elif "install-config" in state:
        text = state["install-config"]
    else:
        raise ConfigError(str(source), "", "no such file")
    config = parse(text, source.name)
    pairs = tls.complete(config, tls.load(directory / "tls"))
    tls.save(pairs, directory / "tls")
    hash_file = directory / "tls" / "kubeadmin-password.hash"
    password = ""
    if hash_file.exists():
        kubeadmin_hash = hash_file.read_text().strip()
    else:
        password = new_password()
        kubeadmin_hash = _bcrypt(password)
        write_private(hash_file, kubeadmin_hash)
    if not (directory / "auth" / "kubeadmin-password").exists():
        write_private(directory / "auth" / "kubeadmin-password", password)
    assets = Assets(
        config=config,
        pairs=pairs,
        infra_id=state.get("infraID", f"{config.name[:21]}-{secrets.token_hex(3)[:5]}"),
        cluster_id=state.get("clusterID", str(uuid.uuid4())),
        kubeadmin_hash=kubeadmin_hash,
        release_image=release_image,
    )
    state = {"install-config": text, "infraID": assets.infra_id, "clusterID": assets.cluster_id}
    write_private(directory / STATE, json.dumps(state, indent=1))
    return assets


def kubeconfigs(assets: Assets) -> dict[str, str]:
    """Return the four kubeconfigs by file name (§7.1)."""
    domain, pairs = assets.config.domain, assets.pairs
    servers = tls.bundle(pairs, tls.SERVER_CAS)
    admin = pairs["admin-kubeconfig-client"]

    def render(host: str, ca: str, user: str, client: Pair) -> str:
        name = assets.config.name
        return kubeconfig.render(cluster=name, server=f"https://{host}:6443", ca=ca, user=user, client=client)

    return {
        "kubeconfig": render(f"api.{domain}", servers, "admin", admin),
        "kubeconfig-internal": render(f"api-int.{domain}", servers, "admin", admin),
        "kubeconfig-loopback": render(
            "localhost", pairs["kube-apiserver-localhost-signer"].certificate, "loopback", admin
        ),
        "kubeconfig-kubelet": render(f"api-int.{domain}", servers, "kubelet", pairs["kubelet-client"]),
    }


def pointers(assets: Assets) -> dict[str, ignition.Config]:
    """Return the Ignition config by pool that sends a machine to the machine-config server for its own (§3.1)."""
    ca = assets.pairs["root-ca"].certificate
    base = f"https://{assets.config.api_host}:22623/config"
    return {role: ignition.pointer(f"{base}/{role}", ca) for role in assets.config.pools}


def user_data(assets: Assets) -> dict[str, list[Object]]:
    """Return the Secrets with the pools' pointers, which OpenShift's machine-config operator keeps for machines that
    come later."""
    secrets = [
        resources.secret(
            "openshift-machine-api",
            f"{role}-user-data-managed",
            {"disableTemplating": "true", "userData": json.dumps(pointer)},
        )
        for role, pointer in pointers(assets).items()
    ]
    return {"openshift-machine-api-user-data-secrets.yaml": secrets}


def create_manifests(directory: Path, assets: Assets) -> None:
    """Write manifests/ and openshift/, replacing earlier ones."""
    manifests = resources.manifests(
        assets.config,
        assets.pairs,
        cluster_id=assets.cluster_id,
        infra_id=assets.infra_id,
        invoker=os.environ.get("OPENSHIFT_INSTALL_INVOKER", "user"),
        version=payload.SNAPSHOT,  # the bootstrap host reads the release's version out of the release itself
        kubeadmin_hash=assets.kubeadmin_hash,
    )
    (directory / "openshift").mkdir(parents=True, exist_ok=True)
    for name, objects in (manifests | user_data(assets) | machineconfig.fips(assets.config)).items():
        # OpenShift keeps what starts with 99_ in openshift/
        target = directory / ("openshift" if name.startswith("99_") else "manifests") / name
        write_private(target, yaml.safe_dump_all(objects, sort_keys=False))


def create_ignition(directory: Path, assets: Assets, *, single_node: bool) -> None:
    """Write the Ignition configs, kubeconfig and metadata.json."""
    config = assets.config
    if single_node and not config.single_node:
        raise ConfigError(
            "install-config.yaml", "controlPlane.replicas", "must be 1, and no workers, for a single node"
        )
    if single_node and not config.in_place:
        raise ConfigError(
            "install-config.yaml", "bootstrapInPlace.installationDisk", "must name the disk to install on"
        )
    if not single_node and config.in_place:
        rule = "is for create single-node-ignition-config; leave it out where a bootstrap machine is used"
        raise ConfigError("install-config.yaml", "bootstrapInPlace", rule)
    if not single_node and config.etcd_members == 2 and not (config.fenced and config.fencing):
        rule = "must be 3 or more, or 2 with an arbiter or fencing, or 1"
        raise ConfigError("install-config.yaml", "controlPlane.replicas", rule)
    if not (directory / "manifests" / "cluster-config.yaml").exists():
        create_manifests(directory, assets)
    files = kubeconfigs(assets)
    live = bootstrap.render(
        bootstrap.Inputs(
            config=config,
            pairs=assets.pairs,
            kubeconfigs=files,
            release_image=assets.release_image,
            infra_id=assets.infra_id,
            cluster_id=assets.cluster_id,
            manifests=bootstrap.read_tree(directory / "manifests"),
            openshift=bootstrap.read_tree(directory / "openshift"),
            in_place=single_node,
        )
    )
    name = "bootstrap-in-place-for-live-iso.ign" if single_node else "bootstrap.ign"
    outputs = {name: live}
    outputs |= {f"{role}.ign": pointer for role, pointer in pointers(assets).items()}
    for output, content in outputs.items():
        write_private(directory / output, json.dumps(content))
    write_private(directory / "auth" / "kubeconfig", files["kubeconfig"])
    metadata = {"clusterName": config.name, "clusterID": assets.cluster_id, "infraID": assets.infra_id}
    (directory / "metadata.json").write_text(json.dumps(metadata))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when all was written, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(prog="openshift-install")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("version")
    create = verbs.add_parser("create")
    create.add_argument("target", choices=("manifests", "ignition-configs", "single-node-ignition-config"))
    for sub in (parser, create):
        sub.add_argument("--dir", type=Path, default=argparse.SUPPRESS)
        sub.add_argument("--log-level", default="info", choices=("debug", "info", "warn", "error"))
    arguments = parser.parse_args(argv)
    release = os.environ.get(RELEASE_ENV, "")
    if arguments.verb == "version":
        print(f"openshift-install lab release\nrelease image {release or 'unknown'}")
        return 0
    directory: Path = getattr(arguments, "dir", Path())
    try:
        directory.mkdir(parents=True, exist_ok=True)
        assets = load_assets(directory, release)
        if arguments.target == "manifests":
            create_manifests(directory, assets)
            print(
                f"level=info msg=Manifests created in: {directory}/manifests and {directory}/openshift", file=sys.stderr
            )
        else:
            create_ignition(directory, assets, single_node=arguments.target == "single-node-ignition-config")
            print(f"level=info msg=Ignition-Configs created in: {directory} and {directory}/auth", file=sys.stderr)
    except (ClusterError, OSError) as error:
        print(f"level=error msg={error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
