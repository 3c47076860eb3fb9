"""Values that are secrets, and the texts that they stand in. They are made up, and nobody's."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

# By kind: what it is called where, and its value.
AUTH = base64.b64encode(b"svc-account:pu11-Secret/Word").decode()
PULL_SECRET = json.dumps({"auths": {"registry.example:5000": {"auth": AUTH, "email": "a@registry.example"}}})
TOKEN = "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJhdXRoX3NjaGVtZSI6ImFnZW50QXV0aCJ9.MEUCIQDx9Zk-kq_R2mJcVbLrA0tQ"
CRYPTED = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
UNIX_CRYPTED = "$6$rounds=4096$Zs1mQpaT$kq0JrqkE3vHn9xwLwF8mR2bTYc4uVhX6eA1sD5gKz7iOpN0MlQyCtWjUrBfEoPxS"
KEY_LINES = (
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgT3nmYJ6yUYkQxE2t",
    "kmZ0v8bW5rLhQd1uXoSAzPfcV7GhRANCAATq4n1yMCKYpLwJeoDi6FsTBgRX9uHa",
    "WxZk3mQvNd0Er5OyLIc2SPAj7tVfUo8bGi1CqYnKMhTxe6JzDwRa",
)
SSH_LINES = (
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACBvT7uW4xR9yKq0JdLm2FhEwPpZ8nVb3sXc6GtA1oIeUQAAAJh5Yk0reWJNK",
    "wAAAAtzc2gtZWQyNTUxOQ==",
)


def pem(kind: str, lines: tuple[str, ...]) -> str:
    """Return a private key's text."""
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


KEYS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    kind: (pem(kind, lines), lines)
    for kind, lines in {
        "PRIVATE KEY": KEY_LINES,
        "EC PRIVATE KEY": KEY_LINES,
        "RSA PRIVATE KEY": KEY_LINES,
        "ENCRYPTED PRIVATE KEY": KEY_LINES,
        "OPENSSH PRIVATE KEY": SSH_LINES,
    }.items()
}
# Under a name of its own: field, and value.
NAMED: Mapping[str, tuple[str, str]] = {
    "BMC password": ("password", "c4lvin!Rack7"),
    "kubeadmin password": ("kubeadminPassword", "GhTy7-Wq2Zx-9LmNp-4RsVb"),
    "vSphere password": ("password", "VMware1!-nested"),
    "Nutanix password": ("password", "nutanix/4u+x"),
    "token": ("token", TOKEN),
    "opaque token": ("PULL_SECRET_TOKEN", "q8Zr2LmW0xTt5YvB"),
    "OAuth token": ("access_token", "sha256~Jk3lqf0aVw9uTzXyS8mNcRbE2iHgP5oD7tLkUvA1xQM"),
    "registry auth": ("auth", AUTH),
    "kubeconfig key": ("client-key-data", base64.b64encode(KEYS["EC PRIVATE KEY"][0].encode()).decode()),
    "etcd encryption key": ("secret", "rS3x0hQ1nB8tYp6uKzWm4vJdL7aEoCfGi2TqNbXcVl0="),
    "LUKS passphrase": ("passphrase", "open-Sesame-42"),
    "password hash": ("passwordHash", UNIX_CRYPTED),
    "Wi-Fi key": ("psk", "corp-Wlan-0815"),
    "cloud key": ("aws_secret_access_key", "wJalrXUtnFEMIK7MDENGbPxRfiCYzzTESTKEYq0a"),
}


@dataclass(frozen=True)
class Vector:
    """One text with secrets in it: which, and what has to stay."""

    name: str
    text: str
    secrets: tuple[str, ...]
    stays: tuple[str, ...] = ()
