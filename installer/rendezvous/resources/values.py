"""Values in bodies that are of the right type and can still not be used: refused at the door, each with its field.

What they would break otherwise breaks in the middle of an installation. The rules are upstream's
(assisted-service: pkg/validations, internal/cluster/validations, internal/network/cidr_validations.go); wider where
upstream refuses what OpenShift's installer takes: options before an SSH key, capital letters in an NTP source's name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from installer import yamltext
from installer.assisted import plainjson
from installer.assisted.errors import BadRequest

Check = Callable[[str], str | None]

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}\.?")
_VERSION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._+]{0,127}")
_IMAGE = re.compile(r"[^\s'\"\\]{1,1024}")
_KEY = re.compile(r"(?:^|\s)((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+)\s+([A-Za-z0-9+/=]+)")
VIPS_OF_A_KIND = 2


def pull_secret(value: str) -> str | None:
    """JSON with entries in ``auths``; an ``auth`` is base64 of user:password. Never repeats what it was given."""
    try:
        auths = plainjson.parsed(value.strip())["auths"]
    except (ValueError, TypeError, KeyError):
        return "must be a JSON object with auths"
    if not isinstance(auths, dict) or not auths:
        return "auths must have an entry"
    for registry, entry in auths.items():
        if not isinstance(entry, dict):
            return f"auths: the entry of {registry!r} must be an object"
        auth = entry.get("auth") or ""
        try:
            user, colon, _ = base64.b64decode(auth, validate=True).partition(b":")
        except (ValueError, TypeError, binascii.Error):
            return f"auths: auth of {registry!r} is not base64"
        if auth and not (user and colon):
            return f"auths: auth of {registry!r} is not base64 of user:password"
    return None


def _name(value: str) -> str | None:
    return None if _NAME.fullmatch(value) else f"{value[:80]!r} is no DNS name"


def _version(value: str) -> str | None:
    return None if _VERSION.fullmatch(value) else f"{value[:80]!r} is no version"


def _image(value: str) -> str | None:
    return None if _IMAGE.fullmatch(value) else f"{value[:80]!r} is no image reference"


def ssh_keys(value: str) -> str | None:
    """Lines as authorized_keys has them; blank lines and comments count for nothing."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    for number, line in enumerate(value.strip().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.search(line)
        if match is None:
            return f"line {number} is no SSH public key"
        if match[1].startswith("sk-"):
            continue  # hardware keys, which the library does not parse
        try:
            load_ssh_public_key(f"{match[1]} {match[2]}".encode())
        except (ValueError, UnsupportedAlgorithm):
            return f"line {number} is no SSH public key"
    return None


def certificates(value: str) -> str | None:
    """PEM certificates, nothing else among them."""
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(value.encode())
    except ValueError:
        return "must be PEM certificates"
    kinds = set(re.findall(r"-----BEGIN ([^-]*)-----", value))
    return None if kinds == {"CERTIFICATE"} else "must be PEM certificates and nothing else"


def ntp_sources(value: str) -> str | None:
    """Names and addresses, divided by commas."""
    for source in value.split(","):
        if _address(source.strip()) is not None and _name(source.strip()) is not None:
            return f"{source[:80]!r} is neither a name nor an address"
    return None


def _address(value: str) -> str | None:
    try:
        address = ip_address(value)
    except ValueError:
        return f"{value[:80]!r} is no IP address"
    return f"{value[:80]!r} has a zone" if getattr(address, "scope_id", None) else None


def vip(value: str) -> str | None:
    """An address that a node can have beside its own."""
    if problem := _address(value):
        return problem
    address = ip_address(value)
    for kind in ("unspecified", "loopback", "multicast", "link_local"):
        if getattr(address, f"is_{kind}"):
            return f"{value!r} is {kind.replace('_', '-')}"
    return None


def _proxy(*schemes: str) -> Check:
    def check(value: str) -> str | None:
        # Never repeated: it may hold a password.
        try:
            url = urlsplit(value)
            good = url.scheme in schemes and bool(url.hostname) and url.port != 0
        except ValueError:
            good = False
        if not good or re.search(r"[\s\x00-\x1f]", value):
            return f"must be a URL of {' or '.join(schemes)} with a host"
        if _address(url.hostname or "") is not None and _name(url.hostname or "") is not None:
            return "its host is neither a name nor an address"
        return None

    return check


def no_proxy(value: str) -> str | None:
    """Addresses, networks and domains, divided by commas; a single ``*`` for all."""
    if value.strip() == "*":
        return None
    for entry in (part.strip() for part in value.split(",")):
        try:
            ip_network(entry, strict=False)
        except ValueError:
            if _name(entry.removeprefix("*").removeprefix(".")) is not None:
                return f"{entry[:80]!r} is neither an address, a network nor a domain"
    return None


def network_yaml(value: str) -> str | None:
    """One YAML document that is a mapping, within the limits of the reader (aliases, depth)."""
    try:
        document = yamltext.load(value, yamltext.CORE)
    except yamltext.YamlError as error:
        return f"is not YAML: {error}"
    return None if isinstance(document, dict) else "must be a mapping"


def _network(value: str) -> str | None:
    network = ip_network(value)
    return f"{value!r} is no network of its own: its address is unspecified" if network.prefixlen == 0 else None


PROXY: Mapping[str, Check] = {
    "http_proxy": _proxy("http"),
    "https_proxy": _proxy("http", "https"),
    "no_proxy": no_proxy,
}
CLUSTER: Mapping[str, Check] = {
    "openshift_version": _version,
    "ocp_release_image": _image,
    "base_dns_domain": _name,
    "ssh_public_key": ssh_keys,
    "pull_secret": pull_secret,
    "additional_ntp_source": ntp_sources,
    **PROXY,
}
INFRA_ENV: Mapping[str, Check] = {
    "openshift_version": _version,
    "ssh_authorized_key": ssh_keys,
    "pull_secret": pull_secret,
    "additional_ntp_sources": ntp_sources,
    "additional_trust_bundle": certificates,
}


def _judged(checks: Mapping[str, Check], fields: Mapping[str, Any], prefix: str = "") -> list[str]:
    """An empty text is no value: it takes away what was there."""
    verdicts = ((key, check(fields[key])) for key, check in checks.items() if fields.get(key))
    return [f"{prefix}{key}: {problem}" for key, problem in verdicts if problem]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise BadRequest("; ".join(problems))


def check_cluster(fields: Mapping[str, Any], networks: Mapping[str, Any], operators: frozenset[str]) -> None:
    """Fields of a cluster from a body; ``operators`` are the names that a cluster can have.

    Raises BadRequest with all problems.
    """
    problems = _judged(CLUSTER, fields)
    for key in ("api_vips", "ingress_vips"):
        vips = [str(item.get("ip")) for item in fields.get(key) or []]
        problems += [f"{key}: {problem}" for problem in map(vip, vips) if problem]
        if len(vips) > VIPS_OF_A_KIND:
            problems.append(f"{key}: {len(vips)} addresses, at most {VIPS_OF_A_KIND} are allowed")
    for key, items in networks.items():
        problems += [f"{key}: {problem}" for item in items if (problem := _network(str(item.get("cidr"))))]
    for item in fields.get("olm_operators") or []:
        if item.get("name") not in operators:
            problems.append(f"olm_operators: there is no operator {str(item.get('name'))[:80]!r}")
    _refuse(problems)


def check_infra_env(fields: Mapping[str, Any], static: list[Any]) -> None:
    """Fields of an infra-env from a body, and its static networks. Raises BadRequest with all problems."""
    problems = _judged(INFRA_ENV, fields) + _judged(PROXY, fields.get("proxy") or {}, "proxy.")
    for index, item in enumerate(static):
        problem = network_yaml(item["network_yaml"])
        problems += [f"static_network_config[{index}].network_yaml: {problem}"] if problem else []
    _refuse(problems)
