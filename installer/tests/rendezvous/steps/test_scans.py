"""Which networks the service asks agents to scan: those that an agent can."""

from __future__ import annotations

import json

import pytest

from installer.assisted.enums import StepType
from installer.rendezvous.steps import instructions
from installer.testing.engine.verdict_kit import host_view


@pytest.mark.parametrize(
    ("cidrs", "own", "asked"),
    [
        (["192.168.111.0/24"], "192.168.111.80/24", ["192.168.111.0/24"]),
        (["192.168.108.0/22"], "192.168.111.80/22", ["192.168.108.0/22"]),
        (["192.168.104.0/21"], "192.168.111.80/21", None),
        (["10.0.0.0/8", "192.168.111.0/24"], "192.168.111.80/24", ["192.168.111.0/24"]),
        # Alone on its link, as far as it knows.
        (["192.168.111.0/24"], "192.168.111.80/32", None),
        (["fd00::/120"], "fd00::5/120", None),
    ],
)
def test_only_what_the_agent_scans(cidrs: list[str], own: str, asked: list[str] | None) -> None:
    nic = {"name": "eno1", f"ipv{6 if ':' in own else 4}_addresses": [own]}
    view = host_view(None, {"machine_networks": [{"cidr": cidr} for cidr in cidrs]}, {"interfaces": [nic]})
    args = instructions.MAKERS[StepType.FREE_ADDRESSES](view)
    assert (json.loads(args[0]) if args else None) == asked
