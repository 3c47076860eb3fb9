"""Inside an installer pod: writes files and static pods onto the node, stage by stage.

A stage's pods are handed to the kubelet when the previous stage answers: an API server that starts together with its
etcd and five Python programs takes twice as long on an emulated CPU. Every step is idempotent.

Each revision stays on the node, below static-pod-resources/control-plane-pod-N. One that does not answer in time is
taken back by the one before, as kubeadm does (phases/upgrade/staticpods.go): the pod then fails, and says why.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPException
from itertools import groupby
from pathlib import Path
from typing import Any

from installer.common.formats import yamltext
from installer.common.secretfiles import write_private
from lab.release.cluster.errors import ClusterError, RolledBack, Superseded, WaitError
from lab.release.cluster.pods import pacemaker
from lab.release.cluster.pods.installerpod import ETCD_DATA, FILES, KUBERNETES, MEMBER_ID, PODS
from lab.release.cluster.pods.pod import CONTENT_ENV

log = logging.getLogger(__name__)

STAGE_SECONDS = 20 * 60.0
ASIDE_SECONDS = 120.0
PEER_PORT = 2380
#: For how long a stage of a later revision may not answer until it is taken back (kubeadm's UpgradeManifestTimeout).
REVISION_SECONDS = 5 * 60.0
#: For how long a pod must have run that nothing can be asked of.
STEADY_SECONDS = 10.0
#: Revisions that stay on the node, as OpenShift's operators keep them.
KEPT = 5
#: The file in a revision's directory that says why it was taken back.
REFUSED = "refused"
PROC = Path("/proc")
#: How long keepalived may take to end, having given its addresses away.
LEAVE_SECONDS = 10.0
#: A revision's directory, before its number.
DIRECTORY = "control-plane-pod-"
#: Where Kubernetes takes a container's last word from.
TERMINATION_LOG = Path("/dev/termination-log")


def files_in(source: Path) -> dict[Path, Path]:
    """Return a projected volume's or a directory's files, by their path within it."""
    data = source / "..data"  # where the kubelet keeps what the names beside it link to
    base = data.resolve() if data.exists() else source
    return {path.relative_to(base): path for path in sorted(base.rglob("*")) if path.is_file()}


def _content(source: Path) -> dict[Path, bytes]:
    return {name: path.read_bytes() for name, path in files_in(source).items()}


def copy_files(source: Path, target: Path) -> int:
    """Copy a projected volume's or a directory's files, 0600 in directories 0700; returns how many."""
    found = files_in(source)
    for name, path in found.items():
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = place.with_name(f".{place.name}.new")
        write_private(temporary, path.read_bytes())
        temporary.rename(place)
    return len(found)


def stages(pods: Path) -> list[tuple[str, list[Path]]]:
    """Return the manifests by stage, in order; a file is called `<number>-<stage>_<pod>.yaml`."""
    files = sorted(path for path in pods.iterdir() if path.suffix == ".yaml")
    return [(key.partition("-")[2], list(group)) for key, group in groupby(files, lambda p: p.name.partition("_")[0])]


def kubelets_name(manifest: Path) -> str:
    """Return what the kubelet's copy of a manifest is called."""
    return f"{manifest.stem.partition('_')[2]}-pod.yaml"


def place(manifest: Path, directory: Path) -> None:
    """Hand one static pod to the kubelet, which ignores names that begin with a dot."""
    directory.mkdir(parents=True, exist_ok=True)
    name = kubelets_name(manifest)
    temporary = directory / f".{name}.new"
    write_private(temporary, manifest.read_bytes())
    temporary.rename(directory / name)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Only this node is asked: an answer from elsewhere counts as none."""


def answers(url: str, ca: Path, cert: tuple[Path, Path] | None = None, seconds: float = 15) -> str:
    """Empty when a GET answers 200 in time, else what it said."""
    context = ssl.create_default_context(cafile=str(ca))
    if cert is not None:
        context.load_cert_chain(*cert)
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect())
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(url, timeout=seconds) as answer:
            return "" if answer.status == 200 else f"{url}: {answer.status}"
    except (OSError, HTTPException) as error:
        return f"{url}: {error}"


def etcd_ready(resources: Path) -> str:
    """Empty when the member on this node answers as a voter (a learner's /health is not true)."""
    certs = resources / "etcd-certs"
    return answers("https://localhost:2379/health", certs / "ca.crt", (certs / "server.crt", certs / "server.key"))


def api_ready(resources: Path) -> str:
    """Empty when the API server on this node is ready."""
    return answers(
        "https://localhost:6443/readyz", resources / "kube-controller-manager-certs" / "service-ca-bundle.crt"
    )


def _healthz(port: int) -> Callable[[Path], str]:
    def check(resources: Path) -> str:
        return answers(f"https://localhost:{port}/healthz", resources / "cluster-version-operator" / "root-ca.crt")

    return check


def pacemaker_runs_etcd(resources: Path) -> str:
    """Empty when pacemaker has taken etcd over on this node."""
    return "" if (resources / pacemaker.FOLDER / pacemaker.RUNNING).exists() else "pacemaker does not run etcd yet"


CHECKS: dict[str, Callable[[Path], str]] = {
    "etcd": etcd_ready,
    "kube-apiserver": api_ready,
    pacemaker.FOLDER: pacemaker_runs_etcd,
}


#: Further checks of what runs in the last stage, by pod: those of the first two are those of their stages.
POD_CHECKS = {"kube-controller-manager": _healthz(10257), "kube-scheduler": _healthz(10259)}


def _processes() -> dict[str, list[float]]:
    """Return the ages in seconds of this node's processes of static pods, by content (`pod/hash`)."""
    found: dict[str, list[float]] = {}
    mark, ticks = f"{CONTENT_ENV}=", os.sysconf("SC_CLK_TCK")
    uptime = float((PROC / "uptime").read_text().split()[0])
    for process in PROC.glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            started = (process / "stat").read_text().rpartition(")")[2].split()[19]
            age = uptime - int(started) / ticks
        except OSError:
            continue  # it has ended
        for variable in variables:
            if variable.startswith(mark):
                found.setdefault(variable.removeprefix(mark), []).append(age)
    return found


def _holders() -> list[int]:
    """Return the numbers of this node's keepalived processes."""
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == "keepalived":
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return found


def give_addresses_away() -> None:
    """End keepalived, which says goodbye: another node holds the virtual addresses a second later, long before anything
    here stops to answer. Left to its checks, it would hold them for 15 s beyond that. Its kubelet starts it again, and
    what it has given away does not come back while the other node is as good."""
    before = _holders()
    try:
        for process in before:
            os.kill(process, signal.SIGTERM)
        wait("keepalived", PROC, LEAVE_SECONDS, check=lambda _: _still(before))
    except (OSError, WaitError) as error:  # this costs users some answers, and the revision nothing
        log.warning("The virtual addresses may still be here: %s", error)


def _still(processes: Sequence[int]) -> str:
    """Empty when none of these processes is keepalived any more."""
    left = set(processes) & set(_holders())
    return f"processes {sorted(left)} have not ended" if left else ""


def interrupts(old: Path, new: Path) -> bool:
    """Return whether another revision replaces etcd or the API server: all but what is in the last stage."""
    earlier = {path.name: path.read_bytes() for path in old.glob("*.yaml")}
    return any(earlier.get(path.name) != path.read_bytes() for _, manifests in stages(new)[:-1] for path in manifests)


def not_running(manifests: Sequence[Path], resources: Path) -> str:
    """Return the first of these static pods that does not run, runs beside an older one, or does not answer, and the
    reason; empty when all are well. Raises Superseded when another hand has replaced one: it would be waited for in
    vain, and to take it back would undo an update's wish."""
    processes = _processes()
    for manifest in manifests:
        placed = resources.parent / "manifests" / kubelets_name(manifest)
        if placed.exists() and placed.read_bytes() != manifest.read_bytes():
            raise Superseded(f"{placed.name} has been replaced by that of another release")
        pod = yamltext.load(manifest.read_text())
        name = str(pod["metadata"]["name"])
        env = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0].get("env") or []}
        content = env.get(CONTENT_ENV)
        ages = processes.get(str(content), [])
        if content is None:
            continue
        if any(other.startswith(f"{name}/") and other != content for other in processes):
            return f"{name}: the one before has not ended"
        if not ages or max(ages) < STEADY_SECONDS:
            return f"{name}: it does not run, or has just started"
        if name in POD_CHECKS and (seen := POD_CHECKS[name](resources)):
            return f"{name}: {seen}"
    return ""


def wait(
    stage: str,
    resources: Path,
    seconds: float = STAGE_SECONDS,
    *,
    check: Callable[[Path], str] | None = None,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the stage answers, or passes another check; a stage without a check is not waited for. Raises
    WaitError."""
    check = check or CHECKS.get(stage)
    deadline, last_said = clock() + seconds, ""
    while check is not None and (seen := check(resources)):
        if seen != last_said:
            log.info("Waiting for %s: %s", stage, seen)
            last_said = seen
        if clock() > deadline:
            raise WaitError(f"stage {stage}", seconds, seen)
        pause(2.0)


def set_aside(files: Path, kubernetes: Path, etcd_data: Path, seconds: float = ASIDE_SECONDS) -> None:
    """Stop etcd and put its data aside where the node joins as another member than the one whose data they are: with
    them it would be refused. A node that does not join (no MEMBER_ID among ``files``) keeps its data. Raises
    WaitError, OSError."""
    joins, resources = files / MEMBER_ID, kubernetes / "static-pod-resources"
    earlier = resources / MEMBER_ID
    if not joins.exists() or (earlier.exists() and earlier.read_text() == joins.read_text()):
        return
    data = etcd_data / "member"
    if data.exists():
        (kubernetes / "manifests" / "etcd-pod.yaml").unlink(missing_ok=True)
        wait("the etcd of before to stop", resources, seconds, check=lambda _: _listens(PEER_PORT))
        data.rename(etcd_data / f"removed-archive-{time.strftime('%Y-%m-%d-%H%M%S')}")
        log.info("The data of an earlier member of etcd are put aside")


def _listens(port: int) -> str:
    """Empty when nothing listens at a port of this host."""
    with socket.socket() as probe:
        return "" if probe.connect_ex(("127.0.0.1", port)) else f"something listens at port {port}"


def place_stages(pods: Path, kubernetes: Path, seconds: float, *, watch: bool) -> None:
    """Hand the static pods to the kubelet, stage by stage; with ``watch`` each must run as it is in its manifest.
    Raises WaitError."""
    resources = kubernetes / "static-pod-resources"
    for stage, manifests in stages(pods):
        for manifest in manifests:
            place(manifest, kubernetes / "manifests")
        log.info("Placed %s: %s", stage, ", ".join(m.stem.partition("_")[2] for m in manifests))
        if watch:
            wait(stage, resources, seconds, check=partial(not_running, manifests))
        wait(stage, resources, seconds)


def adopt(place: Path, files: Path, pods: Path, kubernetes: Path) -> None:
    """Keep what this node runs as the revision at ``place``, if that is not there: what ``files`` and ``pods`` would
    replace."""
    if place.exists():
        return
    temporary = place.with_name(f".{place.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    resources = kubernetes / "static-pod-resources"
    for name in files_in(files):
        if (current := resources / name).exists():
            write_private(temporary / "files" / name, current.read_bytes())
    for manifest in pods.glob("*.yaml"):
        current = kubernetes / "manifests" / kubelets_name(manifest)
        if current.exists():
            write_private(temporary / "pods" / manifest.name, current.read_bytes())
    (temporary / "files").mkdir(parents=True, exist_ok=True)
    temporary.rename(place)


def prune(resources: Path, kept: int = KEPT) -> None:
    """Remove all but the newest revisions."""
    numbered = sorted(resources.glob(f"{DIRECTORY}[0-9]*"), key=lambda place: int(place.name.removeprefix(DIRECTORY)))
    for place in numbered[: max(len(numbered) - kept, 0)]:
        shutil.rmtree(place)


def revise(files: Path, pods: Path, kubernetes: Path, *, revision: int, before: int) -> None:
    """Replace a revision that runs by another. Raises RolledBack when that does not answer in time and the one before
    is back; Superseded, having taken nothing back, when another release has its turn; OSError."""
    resources = kubernetes / "static-pod-resources"
    old, new = resources / f"{DIRECTORY}{before}", resources / f"{DIRECTORY}{revision}"
    adopt(old, files, pods, kubernetes)
    if _content(files) != _content(new / "files") or _content(pods) != _content(new / "pods"):
        # Half a copy, or of a cluster before it was restored, whose numbers come again.
        shutil.rmtree(new, ignore_errors=True)
    copy_files(files, new / "files")
    copy_files(pods, new / "pods")
    refused = new / REFUSED
    if not refused.exists():
        try:
            if interrupts(old / "pods", new / "pods"):
                give_addresses_away()
            copy_files(new / "files", resources)
            place_stages(new / "pods", kubernetes, REVISION_SECONDS, watch=True)
        except WaitError as error:
            # Before anything is taken back: a node that loses power meanwhile goes on with that.
            write_private(refused, str(error))
        else:
            prune(resources)
            log.info("Revision %d runs", revision)
            return
    reason = refused.read_text()
    log.error("Revision %d is taken back: %s", revision, reason)
    lasting = {kubelets_name(manifest) for manifest in (old / "pods").iterdir()}
    for manifest in (new / "pods").iterdir():
        if kubelets_name(manifest) not in lasting:
            (kubernetes / "manifests" / kubelets_name(manifest)).unlink(missing_ok=True)
    copy_files(old / "files", resources)
    try:
        place_stages(old / "pods", kubernetes, REVISION_SECONDS, watch=True)
    except WaitError as error:
        raise RolledBack(revision, before, f"{reason}; nor does revision {before} answer: {error}") from error
    raise RolledBack(revision, before, reason)


def run(files: Path, pods: Path, kubernetes: Path, etcd_data: Path, *, revision: int = 1, before: int = 0) -> None:
    """Run the whole installation. Raises WaitError, RolledBack, Superseded, OSError."""
    if before:
        revise(files, pods, kubernetes, revision=revision, before=before)
        return
    resources = kubernetes / "static-pod-resources"
    set_aside(files, kubernetes, etcd_data)
    if any(pods.glob("*.yaml")):
        prune(resources, 0)  # those from before this node joined
    log.info("Copied %d files", copy_files(files, resources))
    etcd_data.chmod(0o700)  # etcd warns about a data directory that others may read
    place_stages(pods, kubernetes, STAGE_SECONDS, watch=False)
    if (files / pacemaker.FOLDER).exists():
        wait(pacemaker.FOLDER, resources)
    log.info("All static pods are in place")


def main(argv: Sequence[str]) -> int:
    """Entry point of the installer pod: the revision's number, and that of the one that runs (0: none)."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    revision, before = (int(word) for word in argv)
    try:
        run(Path(FILES), Path(PODS), Path(KUBERNETES), Path(ETCD_DATA), revision=revision, before=before)
    except (ClusterError, OSError) as error:
        log.error("%s", error)
        if isinstance(error, RolledBack):
            TERMINATION_LOG.write_text(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
