"""Inside an installer pod: writes files and static pods onto the node, stage by stage.

A stage's pods are handed to the kubelet when the previous stage answers: an API server that starts together with its
etcd and five Python programs takes twice as long on an emulated CPU. Every step is idempotent.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from itertools import groupby
from pathlib import Path
from typing import Any

from installer.common.secretfiles import write_private
from lab.release.cluster.errors import ClusterError, WaitError
from lab.release.cluster.pods import pacemaker
from lab.release.cluster.pods.installerpod import ETCD_DATA, FILES, KUBERNETES, PODS

log = logging.getLogger(__name__)

STAGE_SECONDS = 20 * 60.0
ASIDE_SECONDS = 120.0
#: The file by which a node that joins etcd learns as which member.
MEMBER_ID = "etcd-certs/member-id"
PEER_PORT = 2380


def copy_files(source: Path, target: Path) -> int:
    """Copy a projected volume's changed files, 0600 in directories 0700; returns how many."""
    count = 0
    data = source / "..data"  # where the kubelet keeps what the names beside it link to
    base = data.resolve() if data.exists() else source
    for path in sorted(base.rglob("*")):
        if not path.is_file():
            continue
        place = target / path.relative_to(base)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = place.with_name(f".{place.name}.new")
        write_private(temporary, path.read_bytes())
        temporary.rename(place)
        count += 1
    return count


def stages(pods: Path) -> list[tuple[str, list[Path]]]:
    """Return the manifests by stage, in order; a file is called `<number>-<stage>_<pod>.yaml`."""
    files = sorted(path for path in pods.iterdir() if path.suffix == ".yaml")
    return [(key.partition("-")[2], list(group)) for key, group in groupby(files, lambda p: p.name.partition("_")[0])]


def place(manifest: Path, directory: Path) -> None:
    """Hand one static pod to the kubelet, which ignores names that begin with a dot."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{manifest.stem.partition('_')[2]}-pod.yaml"
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


def pacemaker_runs_etcd(resources: Path) -> str:
    """Empty when pacemaker has taken etcd over on this node."""
    return "" if (resources / pacemaker.FOLDER / pacemaker.RUNNING).exists() else "pacemaker does not run etcd yet"


CHECKS: dict[str, Callable[[Path], str]] = {
    "etcd": etcd_ready,
    "kube-apiserver": api_ready,
    pacemaker.FOLDER: pacemaker_runs_etcd,
}


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


def run(files: Path, pods: Path, kubernetes: Path, etcd_data: Path) -> None:
    """Run the whole installation. Raises WaitError, OSError."""
    resources = kubernetes / "static-pod-resources"
    set_aside(files, kubernetes, etcd_data)
    log.info("Copied %d files", copy_files(files, resources))
    etcd_data.chmod(0o700)  # etcd warns about a data directory that others may read
    for stage, manifests in stages(pods):
        for manifest in manifests:
            place(manifest, kubernetes / "manifests")
        log.info("Placed %s: %s", stage, ", ".join(m.stem.partition("_")[2] for m in manifests))
        wait(stage, resources)
    if (files / pacemaker.FOLDER).exists():
        wait(pacemaker.FOLDER, resources)
    log.info("All static pods are in place")


def main() -> int:
    """Entry point of the installer pod."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    try:
        run(Path(FILES), Path(PODS), Path(KUBERNETES), Path(ETCD_DATA))
    except (ClusterError, OSError) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
