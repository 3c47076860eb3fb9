"""Values in bodies that are of the right type and still cannot be used: refused at the edge, each with its field.

Otherwise they would break an installation halfway. The rules are upstream's
(assisted-service: pkg/validations, internal/cluster/validations, internal/network/cidr_validations.go); wider where
upstream refuses what OpenShift's installer takes: options before an SSH key, capital letters in an NTP source's name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from installer.assisted.errors import BadRequest
from installer.assisted.validation_ids import OPERATORS
from installer.common.formats import YamlError, jsontext, yamltext
from installer.common.redact import shortened, shown_registry, without_login

Check = Callable[[str], str | None]

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}\.?")
# Upstream's expressions without nested repetitions, on which Python's engine takes exponential time.
_LAST = r"[a-z\d](?:[-a-z\d]*[a-z\d])"
_SINGLE = re.compile(_LAST)
_DOMAIN = re.compile(rf"(?:{_LAST}?\.)+{_LAST}")
_DOTTED_DECIMAL = re.compile(r"([\d]+\.){3}[\d]+")
_DNS_NAME = re.compile(r"(?=.{1,255}\Z)[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62}(\.[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62})*[._]?")
_TAG = re.compile(r"\w+( \w+)*", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._+]{0,127}")
_IMAGE = re.compile(r"[^\s'\"\\]{1,1024}")
_KEY = re.compile(r"(?:^|\s)((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+)\s+([A-Za-z0-9+/=]+)")
# RFC 6750 §2.1, RFC 9110 §5.1 and §5.5.
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
VIPS_OF_A_KIND = 2
INSTALLER_FLAGS = (
    *("--append-karg", "--delete-karg", "-n", "--copy-network", "--network-dir", "--save-partlabel"),
    *("--save-partindex", "--image-url", "--image-file"),
)
WITH_VALUE = frozenset(INSTALLER_FLAGS) - {"-n", "--copy-network"}
_INSTALLER_VALUE = re.compile(r"""[A-Za-z0-9@!#$%*()_+-=//.,";':{}\[\]]+""")


def pull_secret(value: str) -> str | None:
    """JSON with entries in ``auths``; an ``auth`` is base64 of user:password. Never repeats what it was given."""
    try:
        whole = jsontext.parsed(value.strip())
    except ValueError:
        return "must be a well-formed JSON"
    if not isinstance(whole, dict):
        return "must be a well-formed JSON object"
    # As Go decodes it, whatever the case of the key.
    auths = next((entries for key, entries in whole.items() if key.casefold() == "auths"), None)
    if not isinstance(auths, dict) or not auths:
        return "must contain 'auths' JSON-object field with an entry"
    for registry, entry in auths.items():
        if entry is None:
            continue
        if not isinstance(entry, dict):
            return f"must have an object as the entry of {shown_registry(registry)!r}"
        auth = entry.get("auth", "")
        if not isinstance(auth, str):
            return f"must be valid: 'auth' field of {shown_registry(registry)!r} should be a string"
        try:
            login = base64.b64decode(auth.replace("\r", "").replace("\n", ""), validate=True)
        except (ValueError, binascii.Error):
            return f"must be valid: 'auth' field of {shown_registry(registry)!r} is not base64-encoded"
        if auth and b":" not in login:
            return f"must be valid: 'auth' for {shown_registry(registry)!r} is not in 'user:password' format"
    return None


def _name(value: str) -> str | None:
    return None if _NAME.fullmatch(value) else f"{value[:80]!r} is no DNS name"


def domain(value: str) -> str | None:
    """Return a base domain as upstream takes it: lower case, no dot at its end, no address."""
    if any(len(label) > 63 for label in value.split(".")):
        return f"{value[:80]!r} has a DNS label that is longer than 63 bytes"
    single = _SINGLE.fullmatch(value) and 1 < len(value) < 63
    if single or (_DOMAIN.fullmatch(value) and len(value) <= 255 and not _DOTTED_DECIMAL.search(value)):
        return None
    return f"DNS format mismatch: {value[:80]!r} domain name is not valid"


def tags(value: str) -> str | None:
    """Tags separated by commas, each of words and single spaces."""
    if all(_TAG.fullmatch(part) for part in value.split(",")):
        return None
    return f"Invalid format for Tags: {value[:80]!r}: a comma-separated list of words of letters, digits and _"


def installer_args(args: Iterable[str]) -> None:
    """Arguments of coreos-installer that a user may give (upstream's ValidateInstallerArgs). Raises BadRequest.

    Refused as well: a flag without its value, which would take the disk for it, and a value without a flag, which would
    be taken for the disk.
    """
    problems, flag = [], ""
    for argument in args:
        if flag and argument.startswith("-"):
            problems.append(f"flag {flag} for installer needs a value")
        if not flag and not argument.startswith("-"):
            problems.append(f"value {shortened(argument, 80)} for installer belongs to no flag")
        flag = argument if argument in WITH_VALUE else ""
        if argument.startswith("-"):
            if argument not in INSTALLER_FLAGS:
                flags = " ".join(INSTALLER_FLAGS)
                problems.append(
                    f"found unexpected flag {shortened(argument, 80)} for installer - allowed flags are [{flags}]"
                )
        elif not _INSTALLER_VALUE.fullmatch(argument):
            problems.append(f"found unexpected chars in value {shortened(argument, 80)} for installer")
    if flag:
        problems.append(f"flag {flag} for installer needs a value")
    _refuse(problems)


def _version(value: str) -> str | None:
    return None if _VERSION.fullmatch(value) else f"{value[:80]!r} is no version"


def image(value: str) -> str | None:
    """Return why it is no image reference, None for one."""
    return None if _IMAGE.fullmatch(value) else f"{without_login(value)[:80]!r} is no image reference"


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
    """Names and addresses, separated by commas without blanks."""
    for source in value.split(","):
        if _address(source) is not None and (len(source) < 2 or _name(source) is not None):
            return f"{source[:80]!r} is neither a name nor an address"
    return None


def _address(value: str) -> str | None:
    try:
        address = ip_address(value)
    except ValueError:
        return f"{value[:80]!r} is no IP address"
    return f"{value[:80]!r} has a zone" if getattr(address, "scope_id", None) else None


def canonical(value: str) -> str:
    """Return the one spelling of an address, by which addresses are compared; what is no address stays as it is."""
    if _address(value) is not None:
        return value
    address = ip_address(value)
    return str(getattr(address, "ipv4_mapped", None) or address)


def vip(value: str) -> str | None:
    """Return an address that a node can have beside its own."""
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
            # Lower case, as upstream has it.
            good = (
                value.startswith(tuple(f"{scheme}://" for scheme in schemes)) and bool(url.hostname) and url.port != 0
            )
        except ValueError:
            good = False
        if not good or re.search(r"[\s\x00-\x1f]", value):
            return f"must be a URL of {' or '.join(schemes)} with a host"
        if _address(url.hostname or "") is not None and _name(url.hostname or "") is not None:
            return "its host is neither a name nor an address"
        return None

    return check


def ignition_url(value: str) -> str | None:
    """Return why hosts that are added cannot fetch their config there: a pool's name is put at the URL's end."""
    if problem := _proxy("http", "https")(value):
        return problem
    url = urlsplit(value)
    if url.username is not None or url.query or url.fragment:
        return "must have no login, query or fragment"
    return None


def ignition_endpoint(endpoint: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of an ignition-endpoint that are set. Raises BadRequest with all problems."""
    found: dict[str, str] = {key: text for key, text in endpoint.items() if text}
    if ca := found.get("ca_certificate"):
        found["ca_certificate"] = "".join(ca.split())  # base64 prints lines
    problems = []
    if (url := found.get("url")) and (problem := ignition_url(url)):
        problems.append(f"ignition_endpoint.url: {problem}")
    try:
        pem = base64.b64decode(found.get("ca_certificate", ""), validate=True).decode()
        problem = certificates(pem) if pem else None
    except ValueError:
        problem = "must be PEM certificates in base64"
    if problem:
        problems.append(f"ignition_endpoint.ca_certificate: {problem}")
    _refuse(problems)
    return found


def headers(token: str, others: Mapping[str, str]) -> None:
    """Refuse headers that no request can have, by their names: values may be secrets. Raises BadRequest."""
    problems = []
    if token and not _BEARER.fullmatch(token):
        problems.append("ignition_endpoint_token must be letters, digits and -._~+/ with = at its end")
    names = [*(name.lower() for name in others), *(["authorization"] if token else [])]
    for name, value in others.items():
        if not _HEADER.fullmatch(name):
            problems.append(f"ignition_endpoint_http_headers: {name[:80]!r} is no name of a header")
        if not _HEADER_VALUE.fullmatch(value):
            problems.append(
                f"ignition_endpoint_http_headers: the value of {name[:80]!r} must be visible ASCII characters"
            )
        if names.count(name.lower()) > 1:
            problems.append(f"ignition_endpoint_http_headers: {name[:80]!r} is there twice")
    _refuse(problems)


def no_proxy(value: str) -> str | None:
    """Addresses, networks and domains, separated by commas; with a ``*`` anything, as upstream has it."""
    if "*" in value:
        return None
    for entry in (part.strip() for part in value.split(",")):
        try:
            ip_network(entry, strict=False)
        except ValueError:
            if not _DNS_NAME.fullmatch(entry.removeprefix(".")):
                return f"{entry[:80]!r} is neither an address, a network nor a domain"
    return None


def network_yaml(value: str) -> str | None:
    """One YAML document that is a mapping, within the limits of the reader (aliases, depth)."""
    try:
        document = yamltext.load(value, yamltext.CORE)
    except YamlError as error:
        return f"is not YAML: {error}"
    return None if isinstance(document, dict) else "must be a mapping"


def _network(value: str) -> str | None:
    network = ip_network(value)
    if network.network_address.is_unspecified:
        return f"{value!r} is no network of its own: its address is unspecified"
    for kind in ("loopback", "multicast"):
        if getattr(network, f"is_{kind}"):
            return f"{value!r} is of {kind} addresses"
    return None


PROXY: Mapping[str, Check] = {
    "http_proxy": _proxy("http"),
    "https_proxy": _proxy("http", "https"),
    "no_proxy": no_proxy,
}
CLUSTER: Mapping[str, Check] = {
    "openshift_version": _version,
    "ocp_release_image": image,
    "base_dns_domain": domain,
    "ssh_public_key": ssh_keys,
    "pull_secret": pull_secret,
    "additional_ntp_source": ntp_sources,
    "ntp_sources": ntp_sources,
    "tags": tags,
    **PROXY,
}
INFRA_ENV: Mapping[str, Check] = {
    "openshift_version": _version,
    "ssh_authorized_key": ssh_keys,
    "pull_secret": pull_secret,
    "additional_ntp_sources": ntp_sources,
    "ntp_sources": ntp_sources,
    "additional_trust_bundle": certificates,
}


def _problems_of(checks: Mapping[str, Check], fields: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Take an empty text for no value: it takes away what was there."""
    verdicts = ((key, check(fields[key])) for key, check in checks.items() if fields.get(key))
    return [f"{prefix}{key}: {problem}" for key, problem in verdicts if problem]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise BadRequest("; ".join(problems))


def check_offered(fields: Mapping[str, Any], not_offered: Iterable[str]) -> None:
    """Refuse what the specification has and this service has not, unless it is empty. Raises BadRequest."""
    _refuse([f"{key} is not supported by this service" for key in not_offered if fields.get(key)])


def check_time_sources(only: str, additional: str, name: str) -> None:
    """Refuse sources that are to be the only ones beside additional ones (`name`). Raises BadRequest."""
    if only and additional:
        raise BadRequest(f"ntp_sources and {name} are mutually exclusive")


def check_cluster(fields: Mapping[str, Any], networks: Mapping[str, Any]) -> None:
    """Check the fields of a cluster from a body. Raises BadRequest with all problems."""
    problems = _problems_of(CLUSTER, fields)
    for key in ("api_vips", "ingress_vips"):
        vips = [str(item.get("ip")) for item in fields.get(key) or []]
        problems += [f"{key}: {problem}" for problem in map(vip, vips) if problem]
        if len(vips) > VIPS_OF_A_KIND:
            problems.append(f"{key}: {len(vips)} addresses, at most {VIPS_OF_A_KIND} are allowed")
    for key, items in networks.items():
        problems += [f"{key}: {problem}" for item in items if (problem := _network(str(item.get("cidr"))))]
    for item in fields.get("olm_operators") or []:
        if item.get("name") not in OPERATORS:
            problems.append(f"olm_operators: there is no operator {str(item.get('name') or '')[:80]!r}")
    _refuse(problems)


def check_infra_env(fields: Mapping[str, Any], static: list[Any]) -> None:
    """Fields of an infra-env from a body, and its static networks. Raises BadRequest with all problems."""
    problems = _problems_of(INFRA_ENV, fields) + _problems_of(PROXY, fields.get("proxy") or {}, "proxy.")
    for index, item in enumerate(static):
        problem = network_yaml(item["network_yaml"])
        problems += [f"static_network_config[{index}].network_yaml: {problem}"] if problem else []
    _refuse(problems)
