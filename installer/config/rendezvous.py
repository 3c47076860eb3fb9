"""Choosing the rendezvous IP (reference/installer.md §1.5)."""

from __future__ import annotations

from collections.abc import Sequence

from installer.config.rules.agent import static_addresses
from installer.config.types.agent import AgentConfig, Host
from installer.config.values import check
from installer.errors import ConfigError


def choose(agent: AgentConfig, hosts: Sequence[Host], *, needed: bool = True) -> str:
    """agent-config's rendezvousIP, else the first static address of a master, else of a host without a role.

    Canonical, since hosts compare it as text with their own addresses. Without one: empty, or ConfigError if `needed`.
    """
    if agent.rendezvous_ip:
        return str(check.address(agent.rendezvous_ip) or agent.rendezvous_ip)
    for roles in (("master", "arbiter"), ("",)):
        for host in hosts:
            if host.role in roles:
                for address in static_addresses(host):
                    return address
    if not needed:
        return ""
    raise ConfigError(
        "missing rendezvousIP in agent-config.yaml, at least one host networkConfig, or at least one NMStateConfig "
        "manifest: one of them must give the rendezvous host's static IP"
    )
