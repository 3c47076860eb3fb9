"""Rules for agent-config.yaml and its hosts (reference/installer.md §1.4)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from installer.common.redact import NOT_SHOWN, without_login
from installer.config.fielderror import FieldError, forbidden, invalid, required, unsupported
from installer.config.types.agent import AgentConfig, Host, Interface
from installer.config.types.platform import BareMetalHost, BareMetalPlatform, RootDeviceHints
from installer.config.values import check, urls
from installer.errors import ConfigError

log = logging.getLogger(__name__)

API_VERSION = "v1beta1"
ROLES = ("master", "worker", "arbiter")


def version(config: AgentConfig) -> FieldError | None:
    """Return the problem with agent-config.yaml's version, which is reported alone: no other rule applies then."""
    if not config.api_version:
        return required("apiVersion", "no version was provided")
    if config.api_version not in (API_VERSION, "v1alpha1"):
        return invalid("apiVersion", config.api_version, f"cannot upconvert from version {config.api_version}")
    return None


def agent_config(config: AgentConfig) -> Iterator[FieldError]:
    """List the problems of agent-config.yaml, its version and its hosts apart."""
    if config.rendezvous_ip and check.address(config.rendezvous_ip) is None:
        yield invalid("rendezvousIP", config.rendezvous_ip, f'"{config.rendezvous_ip}" is not a valid IP')
    for source in config.additional_ntp_sources:
        if check.address(source) is None and check.domain(source):
            yield invalid("additionalNTPSources", source, "NTP server is not a valid IP or domain name")
    url = config.boot_artifacts_base_url
    if url and (problem := check.url(url)):
        yield invalid("bootArtifactsBaseURL", without_login(url), problem)
    elif url and not urls.parse(url).scheme:
        shown = without_login(url)
        yield invalid("bootArtifactsBaseURL", shown, f'invalid URI "{shown}" (no scheme)')


def hosts(config: AgentConfig, all_hosts: Iterable[Host]) -> Iterator[FieldError]:
    """Yield the problems of the hosts, whether agent-config or install-config describes them."""
    seen: dict[str, str] = {}
    for index, host in enumerate(all_hosts):
        path = f"hosts[{index}]"
        if not host.interfaces:
            yield required(f"{path}.interfaces", "at least one interface must be defined for each node")
        for number, interface in enumerate(host.interfaces):
            yield from _interface(f"{path}.interfaces[{number}]", interface, seen)
            if host.network_config and not interface.name:
                yield required(f"{path}.interfaces[{number}].name", "the name that networkConfig has for this NIC")
        if host.root_device_hints is not None:
            yield from _hints(f"{path}.rootDeviceHints", host.root_device_hints)
        if host.role and host.role not in ROLES:
            yield unsupported(f"{path}.role", host.role, ROLES)
        if host.role == "worker" and config.rendezvous_ip and (problem := _unreadable(host.network_config)):
            yield invalid(path, NOT_SHOWN, f"error unmarshalling NMStateConfig: {problem}")
        elif host.role == "worker" and _canonical(config.rendezvous_ip) in static_addresses(host):
            yield forbidden(f"{path}.role", "role worker cannot be used for the host with the rendezvousIP")


def _canonical(value: str) -> str:
    address = check.address(value)
    return str(address) if address is not None else value


def _interface(path: str, interface: Interface, seen: dict[str, str]) -> Iterator[FieldError]:
    value = interface.mac_address
    if not value:
        yield required(f"{path}.macAddress", "each interface must have a MAC address defined")
        return
    if problem := check.mac(value):
        yield invalid(f"{path}.macAddress", value, problem)
    # AA and aa are one NIC, and two hosts with it fail only much later; upstream compares the texts.
    mac = check.canonical_mac(value)
    first = seen.get(mac)
    seen.setdefault(mac, value)
    if first is not None:
        spelling = "" if first == value else ", in another spelling"
        yield invalid(f"{path}.macAddress", value, f"duplicate MAC address found{spelling}")


def _hints(path: str, hints: RootDeviceHints) -> Iterator[FieldError]:
    name = hints.device_name
    if name:
        rest = name.removeprefix("/dev/")
        if rest == name:
            yield invalid(
                f"{path}.deviceName", name, 'Device Name of root device hint must be a path beginning with "/dev/"'
            )
        elif "/" in rest and not (rest.startswith("disk/by-path/") and rest.count("/") == 2):
            yield invalid(
                f"{path}.deviceName",
                name,
                "Device Name of root device hint must be either a path in /dev or a by-path link in /dev/disk/by-path/",
            )
    if hints.wwn_with_extension:
        yield forbidden(f"{path}.wwnWithExtension", "WWN extensions are not supported in root device hints")
    if hints.wwn_vendor_extension:
        yield forbidden(f"{path}.wwnVendorExtension", "WWN vendor extensions are not supported in root device hints")


def _unreadable(document: object) -> str:
    """Return the reason why a document's addresses cannot be read; empty if they can."""
    if not isinstance(document, dict | None):
        return "networkConfig must be a map"
    interfaces = (document or {}).get("interfaces")
    if not isinstance(interfaces, list | None) or not all(
        isinstance(interface, dict | None) for interface in interfaces or ()
    ):
        return "interfaces must be a list of maps"
    for index, interface in enumerate(interfaces or ()):
        for family in ("ipv4", "ipv6"):
            path, settings = f"interfaces[{index}].{family}", (interface or {}).get(family)
            if not isinstance(settings, dict | None):
                return f"{path} must be a map"
            entries = (settings or {}).get("address")
            if not isinstance(entries, list | None) or not all(isinstance(item, dict | None) for item in entries or ()):
                return f"{path}.address must be a list of maps"
            if any(isinstance((item or {}).get("ip"), list | dict) for item in entries or ()):
                return f"{path}.address: an ip must be a string"
    return ""


def static_addresses(host: Host) -> list[str]:
    """Return the static addresses in a host's networkConfig, each interface's IPv4 first, canonical."""
    addresses: list[str] = []
    document = host.network_config if isinstance(host.network_config, dict) else {}
    interfaces = document.get("interfaces")
    for interface in interfaces if isinstance(interfaces, list) else []:
        for family in ("ipv4", "ipv6"):
            settings = interface.get(family) if isinstance(interface, dict) else None
            entries = settings.get("address") if isinstance(settings, dict) else None
            for entry in entries if isinstance(entries, list) else []:
                ip = check.address(str(entry.get("ip", ""))) if isinstance(entry, dict) else None
                if ip is not None:
                    addresses.append(str(ip))
    return addresses


def install_config_hosts(platform: BareMetalPlatform) -> tuple[Host, ...]:
    """Return the hosts of install-config's bare metal platform, for when agent-config has none. Raises ConfigError."""
    return tuple(_platform_host(host) for host in platform.hosts)


def _platform_host(host: BareMetalHost) -> Host:
    if not host.boot_mac_address:
        raise ConfigError("invalid host definition in install-config.yaml: host bootMACAddress is required")
    interfaces = _interfaces_of(host)
    macs = [check.canonical_mac(item.mac_address) for item in interfaces]
    if host.network_config is not None and check.canonical_mac(host.boot_mac_address) not in macs:
        log.warning("For host %s, BootMACAddress %s is not in NetworkConfig", host.name, host.boot_mac_address)
    return Host(
        hostname=host.name,
        role=host.role,
        interfaces=interfaces or (Interface("boot", host.boot_mac_address),),
        network_config=host.network_config,
        root_device_hints=host.root_device_hints,
        bmc=replace(host.bmc) if host.bmc else None,
    )


def _interfaces_of(host: BareMetalHost) -> tuple[Interface, ...]:
    """Return the NICs of networkConfig that have a name and a MAC address there. Raises ConfigError."""
    document = host.network_config
    listed = document.get("interfaces") if isinstance(document, dict) else None
    wrong = document is not None and not isinstance(document, dict)
    if wrong or not isinstance(listed, list | None) or not all(isinstance(item, dict | None) for item in listed or ()):
        raise ConfigError(
            f"invalid host definition in install-config.yaml: error unmarshalling NMStateConfig: host {host.name}: "
            "networkConfig must be a map, and its interfaces a list of maps"
        )
    pairs = [(item.get("name"), item.get("mac-address")) for item in listed or () if item is not None]
    if any(isinstance(value, list | dict) for pair in pairs for value in pair):
        raise ConfigError(
            f"invalid host definition in install-config.yaml: error unmarshalling NMStateConfig: host {host.name}: "
            "an interface's name and mac-address must be strings"
        )
    return tuple(Interface(str(name), str(mac)) for name, mac in pairs if name and mac)


def host_counts(all_hosts: Iterable[Host], replicas: dict[str, int]) -> tuple[list[str], list[str]]:
    """(errors, warnings) when hosts do not fit the replicas: explicit roles first, the others fill up in order."""
    counts = dict.fromkeys(ROLES, 0)
    undefined = 0
    for host in all_hosts:
        if host.role in counts:
            counts[host.role] += 1
        else:
            undefined += 1
    if not undefined and not any(counts.values()):
        return [], []
    for role in ("master", "arbiter", "worker"):
        free = max(0, replicas[role] - counts[role])
        taken = undefined if role == "worker" else min(free, undefined)
        counts[role] += taken
        undefined -= taken
    names = {"master": "ControlPlane", "arbiter": "Arbiter", "worker": "Compute"}
    errors, warnings = [], []
    for role in ("master", "arbiter", "worker"):
        text = f"the number of {role} hosts defined ({counts[role]})"
        if counts[role] > replicas[role]:
            errors.append(f"{text} exceeds the configured {names[role]} replicas ({replicas[role]})")
        elif 0 < counts[role] < replicas[role]:
            few = f"not enough {role} hosts defined ({counts[role]}) to support all the configured"
            warnings.append(f"{few} {names[role]} replicas ({replicas[role]})")
    return errors, warnings
