"""The lab's Tang server: Debian's tangd, which systemd's socket activation starts for each request.

Its keys are made here and live as long as the lab: one signs what the server says of itself, and by its thumbprint
(RFC 7638) clients know the server; the other gives them their part of a volume's key.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from lab.layout import TANG_PORT, Layout, bracketed
from lab.release.cluster.private import write_private

TANGD = "/usr/libexec/tangd"
# P-521's coordinates in bytes (RFC 7518 §6.2.1.2).
_LENGTH = 66
_SIGNS, _EXCHANGES = "ES512", "ECMR"
_USES = {_SIGNS: ["sign", "verify"], _EXCHANGES: ["deriveKey"]}


def _number(value: int) -> str:
    """A coordinate as JWK has it."""
    return urlsafe_b64encode(value.to_bytes(_LENGTH, "big")).rstrip(b"=").decode()


def make_keys(folder: Path) -> None:
    """Make the directory with a fresh pair of keys, each in a file that is named by its thumbprint."""
    folder.mkdir(mode=0o700)
    for algorithm, uses in _USES.items():
        private = ec.generate_private_key(ec.SECP521R1()).private_numbers()
        public = {"x": _number(private.public_numbers.x), "y": _number(private.public_numbers.y)}
        named = {"crv": "P-521", "kty": "EC", **public}
        key = {"alg": algorithm, "key_ops": uses, **named, "d": _number(private.private_value)}
        write_private(folder / f"{_thumbprint(named)}.jwk", json.dumps(key))


def _thumbprint(named: dict[str, str]) -> str:
    """RFC 7638 §3: of what makes the key this one, in the order of the names."""
    text = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def server(layout: Layout) -> dict[str, str]:
    """The lab's server as Ignition and `diskEncryption` name it. Raises FileNotFoundError where the lab has none."""
    for path in layout.tang.iterdir():
        if json.loads(path.read_bytes())["alg"] == _SIGNS:
            return {"url": layout.tang_url, "thumbprint": path.stem}
    raise FileNotFoundError(f"{layout.tang}: no key that signs")


def command(layout: Layout) -> tuple[str, ...]:
    """What runs the server."""
    place = f"{bracketed(layout.topology.gateway)}:{TANG_PORT}"
    return ("systemd-socket-activate", f"--listen={place}", "--accept", "--inetd", TANGD, str(layout.tang))
