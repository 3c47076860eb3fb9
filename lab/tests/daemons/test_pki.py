"""Keys of a lab, and the modes of the files in which its daemons have secrets."""

import json
import os
import stat

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from installer.common.certificates import authority
from lab import topology
from lab.daemons import services
from lab.daemons.pki import issue, make_ssh_key
from lab.layout import Layout
from lab.testing.topologies import SAN


def test_keys_are_secret(tmp_path):
    issue(authority("lab"), ["registry.lab", "127.0.0.1"], tmp_path)
    public = make_ssh_key(tmp_path / "id")
    load_ssh_private_key((tmp_path / "id").read_bytes(), None)
    assert public.startswith("ecdsa-sha2-nistp256 ")
    assert [stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("server.key", "id")] == [0o600, 0o600]


def holds_secret(content: bytes, secrets: list[bytes]) -> bool:
    """Tell whether a file has a password, a hash of one (bcrypt) or a private key in it."""
    return any(secret in content for secret in (*secrets, b"$2b$", b"PRIVATE KEY"))


@pytest.mark.parametrize("machine", ["vm", "container"])
def test_files_with_secrets_are_their_owners(tmp_path, machine):
    shape = msgspec.structs.replace(topology.load_text(SAN).with_machines(machine), ipmi=True)
    layout = Layout(tmp_path / "lab", shape)
    services.prepare(layout, "san-1", None, None)
    known = json.loads(layout.secrets.read_text())
    secrets = [value.encode() for name, value in known.items() if name.endswith("password")]
    assert len(secrets) >= 2
    files = {path for path in layout.root.rglob("*") if path.is_file() and not path.is_symlink()}
    secret = {path for path in files if holds_secret(path.read_bytes(), secrets)}
    names = {str(path.relative_to(layout.root)) for path in secret}
    assert {"bmc/htpasswd", "registry.htpasswd", "ipmi.json", "server.key"} <= names
    assert {path for path in secret if stat.S_IMODE(path.stat().st_mode) & 0o077} == set()
