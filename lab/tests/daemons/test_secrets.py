"""What a lab's daemons read has secrets in it; only root reads these files."""

import json
import stat

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.layout import Layout
from lab.testing.topologies import SAN


def holds_secret(content: bytes, secrets: list[bytes]) -> bool:
    """Whether a file has a password, a hash of one (bcrypt) or a private key in it."""
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
