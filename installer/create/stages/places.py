"""Fields of the user's files by the values in them: what wait-for names when a value turns out to be wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE
from installer.config.rules.agent import static_addresses
from installer.config.types.agent import Host
from installer.config.values import check
from installer.create.stages.check import Inputs
from installer.errors import AssetError
from installer.manifests import files as names
from installer.observe.state import Places
from installer.waitfor import remedies

log = logging.getLogger(__name__)


def places(inputs: Inputs) -> dict[str, Any]:
    """Return each field as FILE: PATH, in the form of `observe.state.Places`."""
    hosts = [": ".join(inputs.host_place(index)) for index in range(len(inputs.hosts))]
    # Networks of manifests are in documents of their own.
    networks = [f"{place}.networkConfig" for place in hosts]
    if Path(names.NMSTATE).name in (inputs.manifests or {}):
        networks = [f"{names.NMSTATE}: spec.config"] * len(hosts)
    servers: dict[str, list[str]] = {}
    addresses: dict[str, list[str]] = {}
    for place, network, host in zip(hosts, networks, inputs.hosts, strict=True):
        for server in dict.fromkeys(_dns_servers(host)):
            servers.setdefault(server, []).append(f"{network}.dns-resolver")
        for address in static_addresses(host):
            addresses.setdefault(address, []).append(place)
    configs = inputs.manifests is None
    return {
        "hosts": hosts,
        "rendezvousIP": f"{AGENT_CONFIG_FILE}: rendezvousIP" if inputs.agent.rendezvous_ip else "",
        "dnsServers": servers,
        "addresses": addresses,
        "mirrors": dict(_mirrors(inputs, configs=configs)),
        "pullSecret": f"{INSTALL_CONFIG_FILE}: pullSecret" if configs else names.PULL_SECRET,
        "trustBundle": f"{INSTALL_CONFIG_FILE}: additionalTrustBundle" if configs else names.CA_BUNDLE,
        "proxy": f"{INSTALL_CONFIG_FILE}: proxy" if configs else names.INFRA_ENV,
    }


@contextmanager
def cause_first(inputs: Inputs) -> Iterator[None]:
    """Warn of the cause of a release that cannot be read, with its field and remedy, before the error is raised on:
    there it stands at the end."""
    try:
        yield
    except AssetError as error:
        if cause := remedies.remedy(str(error.__cause__), msgspec.convert(places(inputs), Places)):
            log.warning("%s", cause)
        raise


def _dns_servers(host: Host) -> Iterator[str]:
    """Yield the name servers of a host's NMState document, which is valid by now, as resolvers write them."""
    document = host.network_config
    resolver = document.get("dns-resolver") if isinstance(document, dict) else None
    config = resolver.get("config") if isinstance(resolver, dict) else None
    servers = config.get("server") if isinstance(config, dict) else None
    for server in servers if isinstance(servers, list) else ():
        yield str(check.address(str(server)) or server)


def _mirrors(inputs: Inputs, *, configs: bool) -> Iterator[tuple[str, str]]:
    """Yield registries that mirror something, the first field of each."""
    field = "imageDigestSources" if inputs.install.image_digest_sources else "imageContentSources"
    seen = set()
    for index, source in enumerate(inputs.install.sources):
        for number, mirror in enumerate(source.mirrors):
            registry = mirror.partition("/")[0]
            if registry not in seen:
                seen.add(registry)
                place = f"{INSTALL_CONFIG_FILE}: {field}[{index}].mirrors[{number}]"
                yield registry, place if configs else names.REGISTRIES
