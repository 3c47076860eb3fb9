"""A cluster's inputs as `node0 agent show inputs` describes them (docs/inputs.md)."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import TopologyError

VERSION = 1
#: The command takes less than a second, and this machine may be busy.
ANSWER_SECONDS = 120.0
_MESSAGE, _WARNING = " msg=", "level=warning"

log = logging.getLogger(__name__)


class Family(msgspec.Struct, frozen=True):
    """IPv4 or IPv6 of an interface; `addresses` are ADDRESS/LENGTH."""

    dhcp: bool
    autoconf: bool
    addresses: tuple[str, ...]


class Port(msgspec.Struct, frozen=True):
    """A port of a bond or bridge, with the tag by which it sends in an OVS bridge (0: none)."""

    name: str
    vlan: int


class Interface(msgspec.Struct, frozen=True, rename="camel"):
    """An interface of an NMState document."""

    name: str
    type: str
    mac_address: str = ""
    mtu: int = 0
    base: str = ""
    vlan: int = 0
    mode: str = ""
    patch: str = ""
    ports: tuple[Port, ...] = ()
    ipv4: Family | None = None
    ipv6: Family | None = None


class Route(msgspec.Struct, frozen=True, rename="camel"):
    """A static route."""

    destination: str
    next_hop: str


class NetworkConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The topology that an NMState document asks for."""

    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...]
    dns_servers: tuple[str, ...]


class ListedNic(msgspec.Struct, frozen=True, rename="camel"):
    """A NIC by which a host is known; its name may be empty."""

    name: str
    mac_address: str


class ListedHost(msgspec.Struct, frozen=True, rename="camel"):
    """A host that the files list."""

    file: str
    path: str
    name: str
    role: str
    interfaces: tuple[ListedNic, ...]
    root_device_hints: dict[str, Any]
    network_config: NetworkConfig | None


class Cidr(msgspec.Struct, frozen=True):
    """A network of pods."""

    cidr: str


class Proxy(msgspec.Struct, frozen=True, rename="camel"):
    """The proxy of a cluster."""

    http_proxy: str
    https_proxy: str


class Encryption(msgspec.Struct, frozen=True, rename="camel"):
    """The encryption of root disks."""

    enable_on: str
    mode: str


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """A control plane node that another one fences."""

    host_name: str


class _Versioned(msgspec.Struct, frozen=True):
    """A description of inputs of any version."""

    version: int


class Inputs(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The inputs of a cluster, as far as a lab depends on them."""

    source: str
    cluster_name: str
    base_domain: str
    platform: str
    architecture: str
    replicas: dict[str, int]
    machine_networks: tuple[str, ...]
    cluster_networks: tuple[Cidr, ...]
    service_networks: tuple[str, ...]
    api_vips: tuple[str, ...] = msgspec.field(name="apiVIPs")
    ingress_vips: tuple[str, ...] = msgspec.field(name="ingressVIPs")
    user_managed_load_balancer: bool
    rendezvous_ip: str = msgspec.field(name="rendezvousIP")
    ntp_sources: tuple[str, ...]
    minimal_iso: bool = msgspec.field(name="minimalISO")
    proxy: Proxy | None
    disk_encryption: Encryption | None
    fencing: tuple[Credential, ...]
    hosts: tuple[ListedHost, ...]
    contradictions: tuple[str, ...]


def ask(installer: Sequence[str], directory: Path, variables: Mapping[str, str]) -> Inputs:
    """Have node0 read the inputs of a directory; `variables` are added to its environment. Its warnings are logged.
    Raises TopologyError with what it says of them."""
    command = [*installer, "agent", "show", "inputs", "--dir", str(directory), "-o", "json", "--log-level", "warning"]
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **variables},
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except OSError as error:
        raise TopologyError(installer[0], str(error.strerror)) from error
    except subprocess.TimeoutExpired as error:
        raise TopologyError(
            str(directory), f"{installer[-1]} did not describe it within {error.timeout:g} s"
        ) from error
    said = [line.partition(_MESSAGE) for line in result.stderr.splitlines() if _MESSAGE in line]
    for _, _, text in (words for words in said if words[0].endswith(_WARNING)):
        log.warning("%s: %s", directory, text)
    if result.returncode:
        lines = [text for level, _, text in said if not level.endswith(_WARNING)]
        reason = lines or f"{installer[-1]} ended with {result.returncode}"
        raise TopologyError(str(directory), reason, max(result.returncode, 1))
    return decoded(result.stdout)


def decoded(text: str | bytes) -> Inputs:
    """Decode a description. Raises TopologyError for another version of it."""
    try:
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise TopologyError("agent show inputs", f"version {version}, want {VERSION}")
        return msgspec.json.decode(text, type=Inputs)
    except msgspec.DecodeError as error:
        raise TopologyError("agent show inputs", str(error)) from error
