"""Checks of single values, shared by rules: each returns what is wrong, or None."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from installer.common.formats import jsontext
from installer.common.redact import NOT_SHOWN, shown_registry, without_login
from installer.config.values import urls

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# One block, with headers or without, and the rest of its last line.
_PEM = re.compile(
    r"(?:^|(?<=\n))-----BEGIN ([A-Z0-9 ]+)-----[ \t\r]*\n(?:[^\n:]+:[^\n]*\n)*([A-Za-z0-9+/=\s]*?)\n?"
    r"-----END \1-----[ \t\r]*(?:\n|\Z)"
)
_BYTE = "[0-9A-Fa-f]{2}"
_MACS = (
    *(rf"{_BYTE}(?::{_BYTE}){{{more}}}" for more in (5, 7, 19)),
    *(rf"{_BYTE}(?:-{_BYTE}){{{more}}}" for more in (5, 7, 19)),
    *(rf"(?:{_BYTE}){{2}}(?:\.(?:{_BYTE}){{2}}){{{more}}}" for more in (2, 3, 9)),
    *(rf"(?:{_BYTE}){{{count}}}" for count in (6, 8, 20)),
)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
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
    """Return a DNS name; one trailing dot is fine."""
    return subdomain(value.removesuffix("."))


def address(value: str) -> Address | None:
    """Return the IP address that `value` spells, or None; an IPv4-mapped one counts as IPv4, one with a zone as no
    address."""
    try:
        ip = ipaddress.ip_address(value)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.ipv4_mapped or (None if ip.scope_id is not None else ip)
    return ip


def network(value: str) -> Network | None:
    """Return the network that `value` spells, host bits allowed, or None."""
    prefix = value.partition("/")[2]
    if not (prefix.isascii() and prefix.isdigit()) or "%" in value:
        return None
    try:
        net = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None
    if isinstance(net, ipaddress.IPv6Network) and net.prefixlen >= 96:
        mapped = net.network_address.ipv4_mapped
        return net if mapped is None else ipaddress.ip_network(f"{mapped}/{net.prefixlen - 96}")
    return net


def cidr_text(value: str) -> str:
    """Return a network as Go's net.ParseCIDR takes and prints it; host bits stay. Raises ValueError."""
    if network(value) is None:
        raise ValueError(f"failed to Parse cidr string to net.IPNet: invalid CIDR address: {value}")
    own = ipaddress.ip_interface(value)
    if isinstance(own, ipaddress.IPv6Interface) and own.ip.ipv4_mapped is not None and own.network.prefixlen >= 96:
        return f"{own.ip.ipv4_mapped}/{own.network.prefixlen - 96}"
    return str(own)


def timestamp(value: str) -> str:
    """RFC 3339, as Kubernetes writes times. Raises ValueError."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", value, re.ASCII):
        try:
            datetime.fromisoformat(value.upper().replace("Z", "+00:00"))
        except ValueError:
            pass
        else:
            return value
    raise ValueError(f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": not a time in this form')


def cidr(value: str) -> str | None:
    """Return a CIDR without host bits and with an address other than 0.0.0.0 or ::. Another rule reports a missing
    one."""
    parsed = network(value)
    if parsed is None:
        return f"invalid CIDR address: {value}" if value else None
    own = ipaddress.ip_interface(value).ip
    if own.is_unspecified:
        return "address must be specified"
    if own != parsed.network_address:
        return f"invalid network address. got {value}, expecting {parsed}"
    return None


def overlap(a: Network, b: Network) -> bool:
    """Return whether two networks share an address."""
    return a.version == b.version and a.overlaps(b)


def pull_secret(value: str) -> str | None:
    """Rule 45: the pull secret has auths, whose name may be written in any case, as Go reads it."""
    try:
        auths = _auths(_go_json(value))
    except ValueError as error:
        return f"must be JSON: {error}"
    if not auths:
        return "auths required"
    if not all(isinstance(entry, dict | None) for entry in auths.values()):
        return "auths must be a map of maps"
    missing = [host for host, entry in auths.items() if not {"auth", "credsStore"} & set(entry or ())]
    texts = [f'"{shown_registry(host)}" requires either auth or credsStore' for host in missing]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else None


def _go_json(text: str) -> Any:
    """Objects as tuples of (name, value): a name may come twice. ValueError also for numbers that Go does not have."""

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"{digits} is too large a number")
        return value

    def constant(name: str) -> float:
        raise ValueError(f"{name} is no number in JSON")

    return jsontext.loads(text, object_pairs_hook=tuple, parse_float=number, parse_constant=constant)


def _auths(data: object) -> dict[str, Any]:
    """Return the entries of each `auths`, written in any case: Go puts them all into one map."""
    auths: dict[str, Any] = {}
    for name, value in data if isinstance(data, tuple) else ():
        if name.casefold() == "auths":
            auths = {**auths, **dict(value)} if isinstance(value, tuple) else {}
    return {host: dict(entry) if isinstance(entry, tuple) else entry for host, entry in auths.items()}


def pull_secret_hosts(value: str) -> list[str]:
    """Return the registries that a pull secret names. Raises ValueError for one that is not JSON."""
    return list(_auths(_go_json(value)))


def redacted_pull_secret(value: str) -> str:
    """Return the part of a pull secret that an error message may show: its registries at most."""
    try:
        hosts = ", ".join(dict.fromkeys(map(shown_registry, pull_secret_hosts(value))))
    except ValueError:
        return NOT_SHOWN
    return f"<auths of {hosts}>" if hosts else "<no auths>"


def without_private_key(text: str) -> str:
    """PEM text as an error message may show it: not at all if somebody put a key into it."""
    return "<not shown: it holds a private key>" if "PRIVATE KEY" in text else text


def ssh_key(text: str) -> str | None:
    """Check lines of authorized_keys: the first line that holds a key must hold one of a known type."""
    return "ssh: no key found" if _first_key(text) is None else None


def ssh_key_type(text: str) -> str:
    """Return the kind of the first key in the text, by the key itself: ssh-ed25519, ecdsa-sha2-nistp256, ..."""
    return _first_key(text) or ""


def _first_key(text: str) -> str | None:
    for line in text.split("\n"):
        line = line.partition("\r")[0].strip()
        if line.startswith("#"):
            continue
        # The line may begin with options, in which blanks may be quoted; then the key comes one word later.
        for rest in (line, _behind_options(line)):
            words = re.split("[ \t]+", rest, maxsplit=2)
            if len(words) > 1 and (kind := _key_kind(words[1])):
                return kind
    return None


def _behind_options(line: str) -> str:
    quoted, before = False, ""
    for place, char in enumerate(line):
        if char in " \t" and not quoted:
            return line[place:].lstrip(" \t")
        if char == '"' and before != "\\":
            quoted = not quoted
        before = char
    return ""


def _key_kind(data: str) -> str:
    """Return the kind that a key names itself, empty if it is no key. What stands before it in its line does not
    count."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return ""
    size = int.from_bytes(raw[:4])
    kind = raw[4 : 4 + size].decode("latin-1")
    if kind.startswith("sk-"):
        return kind  # hardware keys, which the library does not parse
    try:
        load_ssh_public_key(f"{kind} {data}".encode())
    except (ValueError, UnsupportedAlgorithm):
        return ""
    return kind


def networks(cidrs: Iterable[str], between: str = ", ") -> str:
    """Networks as upstream writes them in a line: one that a list has an empty entry for is `<nil>`."""
    return between.join(cidr or "<nil>" for cidr in cidrs)


def pem_certificates(value: str) -> str | None:
    """PEM blocks that are all X.509 certificates, the last one with nothing behind it."""
    from cryptography import x509

    place = 0
    while place < len(value) or not place:
        block = _PEM.search(value, place)
        if block is None:
            return "invalid block"
        try:
            x509.load_der_x509_certificate(_der(block))
        except ValueError as error:
            # What the library says of a key's content would not tell anybody that it is one.
            return f"invalid block: {block[1]} is not a certificate" if "PRIVATE KEY" in block[1] else f"x509: {error}"
        place = block.end()
    return None


def _der(block: re.Match[str]) -> bytes:
    return base64.b64decode("".join(block[2].split()), validate=True)


def certificates_only(value: str) -> str:
    """Return the PEM blocks of a text that pem_certificates has nothing against, without what is between them."""
    blocks = []
    for block in _PEM.finditer(value):
        text = base64.b64encode(_der(block)).decode()
        lines = [text[at : at + 64] for at in range(0, len(text), 64)]
        blocks.append("\n".join([f"-----BEGIN {block[1]}-----", *lines, f"-----END {block[1]}-----", ""]))
    return "".join(blocks)


def weak_certificates(value: str) -> list[str]:
    """Return a line for each certificate that cannot sign others: `Certificate <serial> ... is x509 v<version> ...`."""
    from cryptography import x509

    notes = []
    for block in _PEM.finditer(value):
        certificate = x509.load_der_x509_certificate(_der(block))
        version, text = (
            certificate.version.value + 1,
            f"Certificate {certificate.serial_number:X} from additionalTrustBundle",
        )
        if version < 3:
            notes.append(f"{text} is x509 v{version}")
        elif not _is_authority(certificate):
            notes.append(f"{text} is x509 v{version} but not a certificate authority")
    return notes


def _is_authority(certificate: Any) -> bool:
    from cryptography import x509

    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


# A component of a host name, the name of a repository and what comes behind it (github.com/distribution/reference).
_COMPONENT = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REPOSITORY_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"((?:{_COMPONENT}(?:\.{_COMPONENT})*(?::[0-9]+)?/)?{_REPOSITORY_PATH}(?:/{_REPOSITORY_PATH})*)"
    r"(:\w[\w.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_LONGEST_REPOSITORY = 255


def repository(value: str) -> str | None:
    """Return an image repository or a registry host, without tag and digest (rule 49)."""
    first, slash, rest = value.partition("/")
    with_host = bool(slash) and (any(char in first for char in ".:") or first == "localhost" or first.lower() != first)
    remote = rest if with_host else value
    if remote.partition(":")[0] != remote.partition(":")[0].lower():
        return "failed to parse: invalid reference format: repository name must be lowercase"
    match = _REFERENCE.fullmatch(value if with_host else f"docker.io/{value}")
    if match is None or re.fullmatch("[a-f0-9]{64}", value):
        return "failed to parse: invalid reference format"
    if len(match[1]) > _LONGEST_REPOSITORY:
        return f"failed to parse: repository name must not be more than {_LONGEST_REPOSITORY} characters"
    if not with_host:
        host = value.rpartition(":")[0] if value.count(":") == 1 else value
        problem = None if address(host) is not None else subdomain(host)
        return f"the repository provided is invalid: {problem}" if problem else None
    return "must be repository--not reference" if match[2] or match[3] else None


def url(value: str, *, request: bool = False) -> str | None:
    """Check a URL as Go's net/url does; `request`: it must be an absolute one, or a path."""
    try:
        urls.parse(value, request=request)
    except ValueError as error:
        return f'parse "{without_login(value)}": {error}'
    return None


def mac(value: str) -> str | None:
    """Return a unicast Ethernet address in one of the forms that Go's net.ParseMAC reads (reference §1.4)."""
    if not any(re.fullmatch(form, value) for form in _MACS):
        return f"address {value}: invalid MAC address"
    octets = bytes.fromhex(re.sub("[:.-]", "", value))
    if len(octets) != 6:
        return "invalid MAC address"
    if octets[0] & 1:
        return "expected unicast mac address, found multicast"
    return None


def canonical_mac(value: str) -> str:
    """Return a MAC address of any of these forms as the kernel writes it: small letters, a colon between octets."""
    return ":".join(re.findall("..", re.sub("[:.-]", "", value.lower())))
