"""From a cluster to its ignition: extract the payload's installer and run it (design.md, decision 1).

Runs in a thread, touches no state of the service: it gets a Job and gives files back.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from installer.assisted.errors import BadRequest, PrepareError
from installer.common.formats import YamlError
from installer.errors import InstallerError, ProgramFailed
from installer.files import write_whole
from installer.release import programs
from installer.rendezvous.prepare import diskencryption, hostignition, installconfig, patches
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Host, InfraEnv, Manifest
from installer.rendezvous.validations import networks

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


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that one preparation needs, taken at its start."""

    cluster: Cluster
    infra_envs: Sequence[InfraEnv]
    hosts: Sequence[Host]
    manifests: Sequence[Manifest]
    settings: Settings
    # Set when nobody waits for the result any more: the program is ended then.
    stop: threading.Event = field(default_factory=threading.Event)
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def work(self) -> Path:
        """A folder of this job's own: the program of another, even of a service that was killed, may still run."""
        return _attempts(self.settings) / self.cluster.id / self.name

    @property
    def release(self) -> str:
        """Pull spec of the release image."""
        return self.cluster.ocp_release_image or self.settings.release_image


def _attempts(settings: Settings) -> Path:
    return settings.work_dir / "install" / "attempts"


def _programs(settings: Settings) -> Path:
    return settings.work_dir / "install" / "programs"


def sweep(settings: Settings) -> None:
    """Remove what an earlier process left behind when it was killed: half a program, keys, the pull secret."""
    folder = _programs(settings)
    for other in (settings.work_dir / "install").glob("*"):
        if other.is_dir() and other != folder:
            shutil.rmtree(other, ignore_errors=True)
        elif other.is_file():
            other.unlink(missing_ok=True)
    programs.sweep(folder)


@contextmanager
def installer_of(job: Job) -> Iterator[Path]:
    """Provide the payload's installer as an executable file, for as long as the block runs. Raises PrepareError."""
    if job.settings.installer_binary is not None:
        yield job.settings.installer_binary
        return
    if not job.release:
        raise PrepareError("release image", "neither the cluster nor RELEASE_IMAGES names one")
    from installer.release.access import RegistryAccess
    from installer.release.payload import Release

    conf = job.settings.registries_conf if job.settings.registries_conf.is_file() else None
    bundle = installconfig.trust_bundle(job.infra_envs, job.settings, job.cluster)
    with ExitStack() as stack:
        try:
            access = RegistryAccess(pull_secret=job.cluster.pull_secret, registries_conf_file=conf, trust_bundle=bundle)
            with access:
                release = Release(job.release, access)
                image = release.image_for("installer")
                binary = stack.enter_context(
                    programs.installer(
                        _programs(job.settings), image, lambda dest: release.extract(image, programs.BINARY, dest)
                    )
                )
        except (InstallerError, OSError) as error:
            raise PrepareError(f"extract {programs.BINARY} from {job.release}", str(error)) from error
        yield binary


def _run(job: Job, binary: Path, args: Sequence[str], env: Mapping[str, str]) -> None:
    try:
        programs.run(binary, args, job.work, env, stop=job.stop)
    except ProgramFailed as error:
        raise PrepareError(error.command, error.why) from None


def _private(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, content)


def _copy_tls(source: Path | None, target: Path) -> None:
    """Copy the signers made at image time, so that the user's kubeconfig works (installer.md §4.2)."""
    if source is None or not source.is_dir():
        return
    for name in TLS_FILES:
        if (source / name).is_file():
            _private(target / name, (source / name).read_bytes())


def generate(job: Job) -> dict[str, bytes]:
    """Files by name: bootstrap.ign, master.ign, worker.ign, one ign a host, kubeconfig, metadata, install-config.

    Raises PrepareError, which names the step and what it said.
    """
    work = job.work
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, mode=0o700)
    try:
        with installer_of(job) as binary:
            return _generated(job, binary)
    finally:
        # Keys and the pull secret stay in the store only.
        shutil.rmtree(work, ignore_errors=True)
        with suppress(OSError):
            work.parent.rmdir()


def _generated(job: Job, binary: Path) -> dict[str, bytes]:
    import yaml

    work = job.work
    document = installconfig.build(job.cluster, job.infra_envs, job.hosts, job.settings)
    text = yaml.safe_dump(document, sort_keys=False).encode()
    _private(work / "install-config.yaml", text)
    _copy_tls(job.settings.tls_override_dir, work / "tls")
    env = {
        **programs.environment(os.environ),
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": job.release,
        "OPENSHIFT_INSTALL_INVOKER": job.settings.install_invoker,
    }
    _run(job, binary, ["create", "manifests"], env)
    if job.cluster.schedulable_masters:
        _schedule_on_masters(work / "manifests/cluster-scheduler-02-config.yml")
    # The user's own come last: of two with one name, theirs counts.
    for manifest in (*_own_manifests(job.cluster), *job.manifests):
        _private(work / manifest.folder / Path(manifest.file_name).name, manifest.content)
    patches.split([work / manifest.folder / Path(manifest.file_name).name for manifest in job.manifests], job.name[:7])
    patches.apply(work)
    sno = job.cluster.is_sno
    _run(job, binary, ["create", "single-node-ignition-config" if sno else "ignition-configs"], env)
    return _collect(job, work, text)


def _schedule_on_masters(manifest: Path) -> None:
    """Let the control plane run the users' work too. Raises PrepareError."""
    from installer.common.formats.yamltext import dump, load

    try:
        scheduler = load(manifest.read_bytes())
        scheduler["spec"]["mastersSchedulable"] = True
    except (OSError, YamlError, KeyError, TypeError) as error:
        raise PrepareError("schedulable_masters", f"{manifest.name}: {error!r}") from None
    _private(manifest, dump(scheduler).encode())


def _own_manifests(cluster: Cluster) -> list[Manifest]:
    """Return the manifests that the service adds to the user's. Raises PrepareError."""
    try:
        return diskencryption.manifests(cluster)
    except BadRequest as error:
        raise PrepareError("disk encryption", error.reason) from None


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
    # An installed host needs them as much as a live one.
    sources = networks.time_sources(job.cluster, *job.infra_envs)
    for host in job.hosts:
        source = f"{host.pool}.ign"
        if source not in files:
            raise PrepareError("openshift-install", f"made no {source}")
        files[host.ignition_file] = hostignition.for_host(files[source], host, source, sources)
    return files
