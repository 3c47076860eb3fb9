"""Checks of single values, shared by rules: each returns what is wrong, or None."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from installer import jsontext

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PEM_BEGIN = re.compile("-----BEGIN ([A-Z0-9 ]+)-----")
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|"
    r"\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?"
)


def subdomain(value: str, limit: int = 253) -> str | None:
    """DNS-1123 subdomain of at most `limit` characters; each label at most 63."""
    if not value:
        return "must not be empty"
    if len(value) > limit:
        return f"must be no more than {limit} characters"
    if not _SUBDOMAIN.fullmatch(value):
        return _SUBDOMAIN_RULE
    if any(len(label) > 63 for label in value.split(".")):
        return "each label must be no more than 63 characters"
    return None


def domain(value: str) -> str | None:
    """A DNS name; one trailing dot is fine."""
    return subdomain(value.removesuffix("."))


def address(value: str) -> Address | None:
    """The IP address that `value` spells, or None."""
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def network(value: str) -> Network | None:
    """The network that `value` spells, host bits allowed, or None."""
    if "/" not in value:
        return None
    try:
        return ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None


def cidr(value: str) -> str | None:
    """A CIDR without host bits, whose address is not unspecified."""
    parsed = network(value)
    if parsed is None:
        return f"invalid CIDR address: {value}"
    if ipaddress.ip_interface(value).ip != parsed.network_address:
        return f"invalid network address. got {value}, expecting {parsed}"
    if parsed.network_address.is_unspecified:
        return "address must be specified"
    return None


def overlap(a: Network, b: Network) -> bool:
    """True if two networks share an address."""
    return a.version == b.version and a.overlaps(b)


def pull_secret(value: str) -> str | None:
    """Rule 45."""
    try:
        data = jsontext.loads(value)
    except ValueError as error:
        return f"must be JSON: {error}"
    if not isinstance(data, dict) or not isinstance(data.get("auths"), dict) or not data["auths"]:
        return "auths required"
    for host, entry in data["auths"].items():
        if not isinstance(entry, dict) or not (entry.get("auth") or entry.get("credsStore")):
            return f'"{host}" requires either auth or credsStore'
    return None


def redacted_pull_secret(value: str) -> str:
    """What an error message may show of a pull secret: its hosts at most."""
    try:
        hosts = ", ".join(jsontext.loads(value)["auths"])
    except (ValueError, KeyError, TypeError):
        return "<not shown>"
    return f"<auths of {hosts}>" if hosts else "<no auths>"


def without_password(url: str) -> str:
    """A URL as an error message may show it."""
    return re.sub(r"(?<=//)([^/@:]*):[^/@]*@", r"\1:***@", url)


def without_private_key(text: str) -> str:
    """PEM text as an error message may show it: not at all if somebody put a key into it."""
    return "<not shown: it holds a private key>" if "PRIVATE KEY" in text else text


def ssh_key(line: str) -> str | None:
    """One line of authorized_keys, options allowed."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    match = re.search(r"(?:^|\s)((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+)\s+([A-Za-z0-9+/=]+)", line)
    if match is None:
        return "ssh: no key found"
    if match[1].startswith("sk-"):
        return None  # hardware keys, which the library does not parse
    try:
        load_ssh_public_key(f"{match[1]} {match[2]}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"ssh: {error}"
    return None


def _pem_labels(value: str) -> list[str]:
    """What each PEM block says that it is; nothing where one has no end. In a time that grows as the text does."""
    labels = []
    place = 0
    while (begin := value.find("-----BEGIN", place)) >= 0:
        label = _PEM_BEGIN.match(value, begin)
        end = f"-----END {label[1]}-----" if label else ""
        place = value.find(end, label.end()) + len(end) if label else -1
        if label is None or place < label.end() + len(end):
            return []
        labels.append(label[1])
    return labels


def pem_certificates(value: str) -> str | None:
    """PEM blocks that are all X.509 certificates."""
    from cryptography import x509

    blocks = _pem_labels(value)
    if not blocks:
        return "invalid block"
    if set(blocks) != {"CERTIFICATE"}:
        return f"invalid block: {next(block for block in blocks if block != 'CERTIFICATE')} is not a certificate"
    try:
        x509.load_pem_x509_certificates(value.encode())
    except ValueError as error:
        return f"x509: {error}"
    return None


def repository(value: str) -> str | None:
    """An image repository or a registry host, without tag and digest (rule 49)."""
    if "@" in value or (":" in value.rpartition("/")[2] and "/" in value):
        return "must be repository--not reference"
    host, slash, rest = value.partition("/")
    if not _HOST.fullmatch(host):
        return "the repository provided is invalid"
    if slash and not _REPOSITORY.fullmatch(rest):
        return "the repository provided is invalid"
    return None


def uri(value: str, schemes: tuple[str, ...]) -> str | None:
    """A URI with one of the schemes and a host; the caller reports a bad scheme as unsupported."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        return f"invalid URI: {error}"
    if not parts.scheme:
        return "no URI scheme: parse error"
    if parts.scheme in schemes and not parts.hostname:
        return "invalid URI: no host"
    return None


def mac(value: str) -> str | None:
    """A unicast Ethernet address with colons or dashes (reference §1.4)."""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2})+", value):
        return f"address {value}: invalid MAC address"
    octets = re.split("[:-]", value)
    if len(octets) != 6:
        return f"address {value}: must have 6 bytes, has {len(octets)}"
    if int(octets[0], 16) & 1:
        return "expected unicast mac address, found multicast"
    return None
