"""Rules for agent-config.yaml and its hosts (reference/installer.md §1.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from installer.config import check
from installer.config.agent_types import AgentConfig, Host, Interface
from installer.config.fielderror import FieldError, forbidden, invalid, required, unsupported
from installer.config.platform_types import BareMetalPlatform, RootDeviceHints
from installer.errors import ConfigError

API_VERSION = "v1beta1"
ROLES = ("master", "worker", "arbiter")


def agent_config(config: AgentConfig) -> Iterator[FieldError]:
    """What is wrong with agent-config.yaml, its hosts apart."""
    if not config.api_version:
        yield required("apiVersion", f"install-config version required, e.g. {API_VERSION}".replace("install", "agent"))
    elif config.api_version not in (API_VERSION, "v1alpha1"):
        yield invalid("apiVersion", config.api_version, f"cannot upconvert from version {config.api_version}")
    if config.rendezvous_ip and check.address(config.rendezvous_ip) is None:
        yield invalid("rendezvousIP", config.rendezvous_ip, f'"{config.rendezvous_ip}" is not a valid IP')
    for source in config.additional_ntp_sources:
        if check.address(source) is None and check.domain(source):
            yield invalid("additionalNTPSources", source, "NTP source is not a valid domain name nor a valid IP")
    url = config.boot_artifacts_base_url
    if url and (problem := check.uri(url, ("http", "https"))):
        yield invalid("bootArtifactsBaseURL", url, f'invalid URI "{url}" ({problem})')


def hosts(config: AgentConfig, all_hosts: Iterable[Host]) -> Iterator[FieldError]:
    """What is wrong with hosts, from whichever file they came."""
    seen: set[str] = set()
    for index, host in enumerate(all_hosts):
        path = f"hosts[{index}]"
        if not host.interfaces:
            yield required(f"{path}.interfaces", "at least one interface must be defined for each node")
        for number, interface in enumerate(host.interfaces):
            yield from _interface(f"{path}.interfaces[{number}]", interface, seen)
        if host.root_device_hints is not None:
            yield from _hints(f"{path}.rootDeviceHints", host.root_device_hints)
        if host.role and host.role not in ROLES:
            yield unsupported(f"{path}.role", host.role, ROLES)
        yield from _names(path, host)
        if host.role == "worker" and _canonical(config.rendezvous_ip) in static_addresses(host):
            yield forbidden(f"{path}.role", "role worker cannot be used for the host with the rendezvousIP")


def _canonical(value: str) -> str:
    found = check.address(value)
    return str(found) if found is not None else value


def _names(path: str, host: Host) -> Iterator[FieldError]:
    """A logical name that networkConfig never uses would be put nowhere, and its NIC get no network (§10 no. 1)."""
    if not isinstance(host.network_config, dict):
        return
    words = set(_scalars(host.network_config))
    for number, interface in enumerate(host.interfaces):
        by_mac = {word.lower() for word in words}
        if interface.name and interface.name not in words and interface.mac_address.lower() not in by_mac:
            yield invalid(
                f"{path}.interfaces[{number}].name", interface.name, "no interface of networkConfig has this name"
            )


def _scalars(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from _scalars(item)
    else:
        yield str(data)


def _interface(path: str, interface: Interface, seen: set[str]) -> Iterator[FieldError]:
    value = interface.mac_address
    if not value:
        yield required(f"{path}.macAddress", "each interface must have a MAC address defined")
        return
    if problem := check.mac(value):
        yield invalid(f"{path}.macAddress", value, problem)
    # Without regard to case, unlike upstream: AA and aa are one NIC, and two hosts with it fail only much later.
    if value.lower() in seen:
        yield invalid(f"{path}.macAddress", value, "duplicate MAC address found")
    seen.add(value.lower())


def _hints(path: str, hints: RootDeviceHints) -> Iterator[FieldError]:
    name = hints.device_name
    if name:
        rest = name.removeprefix("/dev/")
        if rest == name or not rest:
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


def static_addresses(host: Host) -> list[str]:
    """The static addresses in a host's networkConfig, each interface's IPv4 first, canonical."""
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
    """The hosts of install-config's bare metal platform, for when agent-config has none."""
    platform_hosts = []
    for host in platform.hosts:
        if not host.boot_mac_address:
            raise ConfigError(
                "invalid Hosts configuration: failed to create NMStateConfig: bootMACAddress is required for "
                f"host {host.name or '(without a name)'}"
            )
        platform_hosts.append(
            Host(
                hostname=host.name,
                role=host.role if host.role in ROLES else "",
                interfaces=(Interface("boot", host.boot_mac_address),),
                network_config=host.network_config,
                root_device_hints=host.root_device_hints,
                bmc=replace(host.bmc) if host.bmc else None,
            )
        )
    return tuple(platform_hosts)


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
            warnings.append(f"{text} is less than the configured {names[role]} replicas ({replicas[role]})")
    return errors, warnings
