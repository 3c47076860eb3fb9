"""The CAs by which a node's kubelet knows API servers: written anew when one gets a successor.

In OpenShift the machine config daemon does so, without a reboot. The kubelet reads the file again within a minute.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from cryptography import x509

from lab.release.cluster.kube.client import Kube

log = logging.getLogger(__name__)

#: The ConfigMap, by namespace and name, and its key.
SOURCE, KEY = ("openshift-config-managed", "kubelet-client-ca"), "ca-bundle.crt"
#: The node's file, and where its directory is mounted.
DIRECTORY, FILE = Path("/host/etc-kubernetes"), "kubelet-ca.crt"


def write(text: str, directory: Path) -> bool:
    """Write the file, at once, if it differs; return whether it did. Raises OSError, and ValueError for what is no
    certificates: with that a kubelet would not start any more."""
    target = directory / FILE
    if not text or (target.exists() and target.read_text() == text):
        return False
    x509.load_pem_x509_certificates(text.encode())
    temporary = directory / f".{FILE}.new"
    temporary.write_text(text)
    temporary.rename(target)
    return True


def run(kube: Kube, stop: threading.Event, directory: Path = DIRECTORY) -> None:
    """Follow the CAs until ``stop``."""
    namespace, name = SOURCE
    for objects in kube.watch("v1", "ConfigMap", stop, namespace=namespace, fields=f"metadata.name={name}"):
        for obj in objects.values():
            try:
                if write((obj.get("data") or {}).get(KEY, ""), directory):
                    log.info("Wrote %s: the CAs of API servers' clients have changed", FILE)
            except (OSError, ValueError) as error:
                log.error("%s: %s", FILE, error)
