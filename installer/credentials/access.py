"""The user's access to the cluster: a kubeconfig and the kubeadmin password (reference/cluster.md §7.1, §7.3)."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Mapping
from typing import Any

import yaml

from installer.common.certificates import Pair, leaf
from installer.common.formats import YamlError
from installer.common.formats.yamltext import load

# Which signers the user's kubeconfig trusts, in the order of its bundle (reference/cluster.md §7.1).
SERVING_SIGNERS = (
    "kube-apiserver-localhost-signer",
    "kube-apiserver-service-network-signer",
    "kube-apiserver-lb-signer",
)
_PASSWORD = re.compile(r"[!-~]{5,72}")
_HASH = re.compile(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}")
# No l, O, 0 or 1: people type this.
ALPHABET = "abcdefghijkmnopqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ23456789"
GROUPS, GROUP_LENGTH = 4, 5


def kubeadmin_password() -> str:
    """Make a password of 23 characters: four groups of five, joined by dashes."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP_LENGTH)) for _ in range(GROUPS))


def password_hash(password: str) -> str:
    """Hash a password by bcrypt at cost 10, Go's default. Other threads run meanwhile."""
    import bcrypt

    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)).decode()


def is_password(password: str, hashed: str) -> bool:
    """Check that both have the form of kubeadmin's; that they match would take a tenth of a second to check."""
    return bool(_PASSWORD.fullmatch(password) and _HASH.fullmatch(hashed))


def is_kubeconfig(text: str) -> bool:
    """Check whether it is a kubeconfig with a cluster and a user."""
    try:
        document = load(text)
        return bool(document["clusters"][0]["cluster"]["server"] and document["users"][0]["user"])
    except (YamlError, TypeError, KeyError, IndexError):
        return False


def kubeconfig(cluster_name: str, base_domain: str, signers: Mapping[str, Pair]) -> str:
    """Make the user's auth/kubeconfig: system:admin for https://api.<name>.<domain>:6443."""
    client = leaf(signers["admin-kubeconfig-signer"], "system:admin", organizations=("system:masters",))
    bundle = "".join(signers[name].certificate for name in SERVING_SIGNERS)

    def inline(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    server = f"https://api.{cluster_name}.{base_domain.rstrip('.')}:6443"
    config: dict[str, Any] = {
        "clusters": [
            {"cluster": {"certificate-authority-data": inline(bundle), "server": server}, "name": cluster_name}
        ],
        "contexts": [{"context": {"cluster": cluster_name, "user": "admin"}, "name": "admin"}],
        "current-context": "admin",
        "users": [
            {
                "name": "admin",
                "user": {"client-certificate-data": inline(client.certificate), "client-key-data": inline(client.key)},
            }
        ],
    }
    return yaml.safe_dump(config, sort_keys=False)


def host_tls_files(signers: Mapping[str, Pair], service_ca: Pair, service: Pair, admin_hash: str) -> dict[str, bytes]:
    """Return the content of /opt/agent/tls by file name, without the service CA's key: nobody needs it again."""
    files: dict[str, str] = {}
    for name, pair in signers.items():
        files |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    files |= {"ca.crt": service_ca.certificate, "service.crt": service.certificate, "service.key": service.key}
    files["kubeadmin-password.hash"] = admin_hash
    return {name: text.encode() for name, text in files.items()}
