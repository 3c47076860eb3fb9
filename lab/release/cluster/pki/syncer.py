"""Renewed certificates onto a control plane node: each node's version operator writes those of all its static pods.

As OpenShift's cert-syncers, and from the same side of the door as its recovery controller: its client certificate and
the API server's certificate for it outlast all others, so a cluster that was off until everything had run out is mended
before any kubelet is let in again. What is read at a start alone is left to revisions.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from installer.common.secretfiles import write_private
from lab.release.cluster.kube.client import Kube
from lab.release.cluster.pods.assets import READ_AT_START
from lab.release.cluster.pods.installerpod import CONTROL_PLANE, HOLDS_FILES, NAMESPACE, PERSONAL, files_of

log = logging.getLogger(__name__)


def write(files: Mapping[str, str], resources: Path) -> list[str]:
    """Write the files that differ, each at once; return their paths.

    A key comes right before its certificate: who reads the two in between takes neither, and looks again.
    """
    changed = []
    for path in sorted(files, key=lambda path: (path.rpartition(".")[0], not path.endswith(".key"))):
        target = resources / path
        if path in READ_AT_START or (target.exists() and target.read_bytes() == files[path].encode()):
            continue
        temporary = target.with_name(f".{target.name}.new")
        write_private(temporary, files[path])
        temporary.rename(target)
        changed.append(path)
    return changed


def run(kube: Kube, node: str, resources: Path, stop: threading.Event) -> None:
    """Follow the Secrets of static pods' files until ``stop``."""
    names = (CONTROL_PLANE, PERSONAL + node)
    for objects in kube.watch("v1", "Secret", stop, namespace=NAMESPACE, labels=HOLDS_FILES):
        files = {path: text for key, obj in objects.items() if key[1] in names for path, text in files_of(obj).items()}
        try:
            if changed := write(files, resources):
                log.info("Wrote %s", ", ".join(changed))
        except OSError as error:
            log.error("certificates: %s", error)  # the next change, or the next start, tries again
