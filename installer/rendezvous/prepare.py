"""From a cluster to its ignition: extract the payload's installer and run it (design.md, decision 1).

Runs in a thread, touches no state of the service: it gets a Job and gives files back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from installer.rendezvous import diskencryption, hostignition, installconfig
from installer.rendezvous.enums import Role
from installer.rendezvous.errors import BadRequest, PrepareError
from installer.rendezvous.model import Cluster, Host, InfraEnv, Manifest
from installer.rendezvous.registries import digest_sources
from installer.rendezvous.settings import Settings

BINARY = "usr/bin/openshift-install"
COMMAND_TIMEOUT = 540.0
SIGNERS = (
    "admin-kubeconfig-signer",
    "kube-apiserver-lb-signer",
    "kube-apiserver-localhost-signer",
    "kube-apiserver-service-network-signer",
)
TLS_FILES = (*(f"{name}.{end}" for name in SIGNERS for end in ("crt", "key")), "kubeadmin-password.hash")
SNO_IGNITION = "bootstrap-in-place-for-live-iso.ign"
OUTPUTS: Mapping[str, str] = {
    "master.ign": "master.ign",
    "worker.ign": "worker.ign",
    "arbiter.ign": "arbiter.ign",
    "metadata.json": "metadata.json",
    "auth/kubeconfig": "kubeconfig",
    "auth/kubeadmin-password": "kubeadmin-password",
}


@dataclass(frozen=True)
class Job:
    """Everything that one preparation needs, taken at its start."""

    cluster: Cluster
    infra_env: InfraEnv | None
    hosts: Sequence[Host]
    manifests: Sequence[Manifest]
    settings: Settings

    @property
    def release(self) -> str:
        """Pull spec of the release image."""
        return self.cluster.ocp_release_image or self.settings.release_image


def fetch_installer(job: Job, dest: Path) -> Path:
    """The payload's installer as an executable file at ``dest``. Raises PrepareError."""
    if job.settings.installer_binary is not None:
        return job.settings.installer_binary
    if not job.release:
        raise PrepareError("release image", "neither the cluster nor RELEASE_IMAGES names one")
    from installer.errors import InstallerError
    from installer.release.access import RegistryAccess
    from installer.release.payload import Release

    sources = digest_sources(job.settings.registries_conf)
    conf = job.settings.registries_conf if job.settings.registries_conf.is_file() else None
    bundle = installconfig.trust_bundle(job.infra_env, job.settings, bool(sources))
    try:
        access = RegistryAccess(pull_secret=job.cluster.pull_secret, registries_conf_file=conf, trust_bundle=bundle)
        with access:
            release = Release(job.release, access)
            release.extract(release.image_for("installer"), BINARY, dest)
    except (InstallerError, OSError) as error:
        raise PrepareError(f"extract {BINARY} from {job.release}", str(error)) from error
    dest.chmod(0o755)
    return dest


def _run(binary: Path, args: Sequence[str], directory: Path, env: Mapping[str, str]) -> None:
    what = f"openshift-install {' '.join(args)}"
    command = [str(binary), *args, "--dir", str(directory)]
    try:
        done = subprocess.run(
            command,
            env=dict(env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PrepareError(what, f"did not end within {COMMAND_TIMEOUT:.0f} s") from None
    except OSError as error:
        raise PrepareError(what, str(error)) from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
        raise PrepareError(what, f"exit code {done.returncode}: {' | '.join(last)}")


def _private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _copy_tls(source: Path | None, target: Path) -> None:
    """The signers made at image time, so that the user's kubeconfig works (installer.md §4.2)."""
    if source is None or not source.is_dir():
        return
    for name in TLS_FILES:
        if (source / name).is_file():
            _private(target / name, (source / name).read_bytes())


def _role_file(host: Host) -> str:
    role = host.suggested_role if host.role is Role.AUTO else host.role
    return "worker" if role is Role.WORKER else role.value if role is Role.ARBITER else "master"


def generate(job: Job) -> dict[str, bytes]:
    """Files by name: bootstrap.ign, master.ign, worker.ign, one ign a host, kubeconfig, metadata, install-config.

    Raises PrepareError, which names the step and what it said.
    """
    import yaml

    work = job.settings.work_dir / "install" / job.cluster.id
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, mode=0o700)
    try:
        binary = fetch_installer(job, job.settings.work_dir / "install" / "openshift-install")
        document = installconfig.build(job.cluster, job.infra_env, job.hosts, job.settings)
        text = yaml.safe_dump(document, sort_keys=False).encode()
        _private(work / "install-config.yaml", text)
        _copy_tls(job.settings.tls_override_dir, work / "tls")
        env = {
            **os.environ,
            "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": job.release,
            "OPENSHIFT_INSTALL_INVOKER": job.settings.install_invoker,
        }
        _run(binary, ["create", "manifests"], work, env)
        # The user's own come last: of two with one name, theirs counts.
        for manifest in (*_own_manifests(job.cluster), *job.manifests):
            _private(work / manifest.folder / Path(manifest.file_name).name, manifest.content)
        sno = job.cluster.is_sno
        _run(binary, ["create", "single-node-ignition-config" if sno else "ignition-configs"], work, env)
        return _collect(job, work, text)
    finally:
        # Keys and the pull secret stay in the store only.
        shutil.rmtree(work, ignore_errors=True)


def _own_manifests(cluster: Cluster) -> list[Manifest]:
    """What the service adds to the user's manifests. Raises PrepareError."""
    try:
        return diskencryption.manifests(cluster)
    except BadRequest as error:
        raise PrepareError("disk encryption", error.reason) from None


def ntp_sources(job: Job) -> list[str]:
    """The time sources that the user gave, which an installed host needs as much as a live one."""
    env = job.infra_env.additional_ntp_sources if job.infra_env else ""
    given = env or job.cluster.additional_ntp_source
    return [part.strip() for part in given.split(",") if part.strip()]


def _collect(job: Job, work: Path, install_config: bytes) -> dict[str, bytes]:
    bootstrap = work / (SNO_IGNITION if job.cluster.is_sno else "bootstrap.ign")
    if not bootstrap.is_file():
        raise PrepareError("openshift-install", f"made no {bootstrap.name}")
    files = {"bootstrap.ign": bootstrap.read_bytes(), "install-config.yaml": install_config}
    hostignition.parse(files["bootstrap.ign"], bootstrap.name)
    for source, name in OUTPUTS.items():
        if (work / source).is_file():
            files[name] = (work / source).read_bytes()
    if "kubeconfig" in files:
        files["kubeconfig-noingress"] = files["kubeconfig"]
    for host in job.hosts:
        role = _role_file(host)
        pointer = files.get(f"{role}.ign")
        if pointer is None:
            raise PrepareError("openshift-install", f"made no {role}.ign")
        files[f"{role}-{host.id}.ign"] = hostignition.for_host(pointer, host, f"{role}.ign", ntp_sources(job))
    return files
