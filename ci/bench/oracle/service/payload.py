"""The payload's installer, as far as the services need one to hand out install steps."""

from __future__ import annotations

from pathlib import Path

# `openshift-install create WHAT --dir DIR`: Ignition without content.
_PROGRAM = """#!/bin/sh
[ "$2" = manifests ] && exit 0
mkdir -p "$4/auth"
for name in bootstrap master worker arbiter bootstrap-in-place-for-live-iso; do
    echo '{"ignition":{"version":"3.2.0"}}' > "$4/$name.ign"
done
echo '{}' > "$4/metadata.json"
echo 'apiVersion: v1' > "$4/auth/kubeconfig"
echo secret > "$4/auth/kubeadmin-password"
"""


def write_installer(path: Path) -> Path:
    """Write it there; the path."""
    path.write_text(_PROGRAM)
    path.chmod(0o755)
    return path
