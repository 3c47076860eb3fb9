"""Rule 44: fencing of two control plane nodes."""

from __future__ import annotations

from collections.abc import Iterator

from installer.common.redact import without_login
from installer.config import gates
from installer.config.fielderror import FieldError, duplicate, forbidden, invalid, required
from installer.config.rules.catalogue import rule
from installer.config.types.install import FencingCredential, InstallConfig
from installer.config.values import check, urls

_PATH = "controlPlane.fencing"
_LIST = f"{_PATH}.credentials"
_NODES = 2
# Schemes whose port is known; vendors' own (idrac-redfish) speak HTTPS too.
_WITH_PORT = ("http", "redfish")


@rule("44", _PATH)
def fencing(config: InstallConfig) -> Iterator[FieldError]:
    """Two control plane nodes without an arbiter have two credentials, complete and different; others have none."""
    pool = config.control_plane
    if pool is None:
        return
    credentials = pool.fencing.credentials if pool.fencing else ()
    if config.arbiters <= 0:
        if config.masters == _NODES and len(credentials) != _NODES:
            text = "there should be exactly two fencing credentials to support the two node cluster"
            yield forbidden(_LIST, f"{text}, instead {len(credentials)} credentials were found")
        elif config.masters != _NODES and credentials:
            text = "there should not be any fencing credentials configured for a non dual replica control plane"
            yield forbidden(_LIST, f"{text} (Two Nodes Fencing) cluster, instead {len(credentials)} were found")
    if pool.fencing is None:
        return
    if gates.are_valid(config) and not gates.enabled(config, gates.FENCING):
        yield forbidden("platform.none.fencingCredentials", gates.forbidden_text(gates.FENCING))
    if config.masters == _NODES and credentials:
        if not gates.enabled(config, gates.FENCING):
            text = "fencing configuration requires FeatureGateDualReplica to be enabled"
            yield invalid(_PATH, "configured", text)
        if len(credentials) != _NODES:
            text = "must provide exactly 2 fencing credentials for 2 control plane replicas"
            yield invalid(_LIST, len(credentials), text)
    name = config.platform.name
    if name not in ("none", "external", "baremetal"):
        text = "fencing is only supported on baremetal, external or none platforms"
        yield forbidden(_PATH, f"{text}, instead {name} platform was found")
    seen: set[tuple[str, str]] = set()
    for index, entry in enumerate(credentials):
        yield from credential(f"{_LIST}[{index}]", entry, seen)


def credential(path: str, entry: FencingCredential, seen: set[tuple[str, str]]) -> Iterator[FieldError]:
    """Judge one host's credentials; `seen` are names and addresses of the hosts before it."""
    who, mac = ("hostName", entry.host_name), entry.mac_address
    if not (entry.host_name or mac):
        yield required(f"{path}.hostName", "missing hostName, or macAddress in its place")
    for name, value in (("username", entry.username), ("password", entry.password), ("address", entry.address)):
        if not value:
            yield required(f"{path}.{name}", f"missing {name}")
    if mac and (problem := check.mac(mac)):
        yield invalid(f"{path}.macAddress", mac, problem)
    for name, value in (who, ("macAddress", check.canonical_mac(mac)), ("address", entry.address)):
        if value and (name, value) in seen:
            yield duplicate(f"{path}.{name}", without_login(value))
        seen.add((name, value))
    verification = entry.certificate_verification
    if verification not in ("", "Enabled", "Disabled"):
        text = f"invalid certificate verification; \"{verification}\" should be one of 'Enabled' (default), 'Disabled'"
        yield invalid(f"{path}[CertificateVerification]", verification, text)
    if entry.address:
        yield from _address(f"{path}.address", entry.address)


def _address(path: str, address: str) -> Iterator[FieldError]:
    safe_address = without_login(address)
    try:
        url = urls.parse(address)
    except ValueError as error:
        yield invalid(path, safe_address, f'invalid URL format: parse "{safe_address}": {error}')
        return
    if "redfish" not in address:
        text = "fencing only supports redfish-compatible BMC addresses, IPMI is not supported"
        yield invalid(path, safe_address, text)
    if not url.port and not any(word in url.scheme for word in _WITH_PORT):
        yield invalid(path, safe_address, "failed to parse redfish address, no port number found")
