"""Hosts of the inputs: which there are, what is written for each, and which one is node0."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from installer.config.agent_types import AgentConfig, Host, Interface
from installer.config.types import InstallConfig, RootDeviceHints
from installer.errors import ConfigError, NetworkConfigError
from installer.ignition.live import HostFiles

log = logging.getLogger(__name__)

NO_RENDEZVOUS = (
    "invalid agent configuration: rendezvousIP is not set, and there is no host networkConfig and no NMStateConfig "
    "with a static IP address to choose it from"
)


def hosts_of(install_config: InstallConfig, agent_config: AgentConfig) -> tuple[Host, ...]:
    """agent-config's hosts, else platform.baremetal.hosts of install-config (reference/installer.md §1.4)."""
    baremetal = install_config.platform.baremetal
    given = baremetal.hosts if baremetal else ()
    if agent_config.hosts:
        if given:
            log.warning("hosts from install-config.yaml are ignored: agent-config.yaml has hosts")
        return agent_config.hosts
    converted = []
    for host in given:
        if not host.boot_mac_address:
            raise ConfigError(f"host {host.name}: bootMACAddress is required", file="install-config.yaml")
        converted.append(
            Host(
                hostname=host.name,
                role=host.role,
                interfaces=(Interface("boot", host.boot_mac_address),),
                network_config=host.network_config,
                root_device_hints=host.root_device_hints,
                bmc=host.bmc,
            )
        )
    return tuple(converted)


def _static_addresses(network_config: Any) -> Iterator[str]:
    """Static addresses of an nmstate document: of each interface its IPv4 before its IPv6."""
    if not isinstance(network_config, dict):
        return
    for interface in network_config.get("interfaces") or []:
        for family in ("ipv4", "ipv6"):
            stack = interface.get(family) if isinstance(interface, dict) else None
            if not isinstance(stack, dict) or stack.get("enabled") is False:
                continue
            for address in stack.get("address") or []:
                if isinstance(address, dict) and address.get("ip"):
                    yield str(address["ip"])


def rendezvous_ip(agent_config: AgentConfig, hosts: Sequence[Host]) -> str:
    """node0's address, canonical: as given, else the first static one of a master or arbiter, else of a host without a
    role (reference/installer.md §1.5). Raises ConfigError when there is none."""
    chosen = agent_config.rendezvous_ip
    if not chosen:
        ordered = [
            *(host for host in hosts if host.role in ("master", "arbiter")),
            *(host for host in hosts if not host.role),
        ]
        chosen = next((ip for host in ordered for ip in _static_addresses(host.network_config)), "")
    if not chosen:
        raise ConfigError(NO_RENDEZVOUS, file="agent-config.yaml")
    address = str(ipaddress.ip_address(chosen))
    log.info("The rendezvous host IP (node0 IP) is %s", address)
    return address


_HINT_NAMES = {
    "device_name": "deviceName",
    "serial_number": "serialNumber",
    "min_size_gigabytes": "minSizeGigabytes",
    "wwn_with_extension": "wwnWithExtension",
    "wwn_vendor_extension": "wwnVendorExtension",
}


def hints_yaml(hints: RootDeviceHints | None) -> str:
    """root-device-hints.yaml: the hints that are set, under their own names."""
    if hints is None:
        return ""
    given = {_HINT_NAMES.get(name, name): value for name, value in asdict(hints).items() if value not in ("", None)}
    return yaml.safe_dump(given, sort_keys=False) if given else ""


def host_files(hosts: Sequence[Host]) -> list[HostFiles]:
    """What is written to the live host for every host. Raises ConfigError with all faulty network configs."""
    from installer.network import host_network_files

    files, errors = [], []
    for index, host in enumerate(hosts):
        network: dict[str, str] = {}
        if host.network_config:
            nics = [{"name": nic.name, "macAddress": nic.mac_address} for nic in host.interfaces]
            try:
                network = host_network_files(nics, host.network_config)
            except NetworkConfigError as error:
                errors.append(f"hosts[{index}].networkConfig: {error}")
        files.append(
            HostFiles(
                hostname=host.hostname,
                role=host.role,
                macs=tuple(nic.mac_address for nic in host.interfaces),
                root_device_hints=hints_yaml(host.root_device_hints),
                network=network,
            )
        )
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ConfigError(f"staticNetwork configuration is not valid: {text}", file="agent-config.yaml")
    return files
