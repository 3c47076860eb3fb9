"""The lab's load balancer: which addresses it has, and what haproxy makes of its configuration."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab import topology
from lab.daemons import balancer, dns
from lab.inputs.configs import Access, install_config
from lab.topology import FieldsError, Topology

ACCESS = Access("{}", "", "", ())


def behind(name: str, **more: Any) -> Topology:
    return msgspec.structs.replace(topology.load(name), load_balancer=True, **more)


def bare(name: str) -> Topology:
    return behind(name, platform="none", api_vip=None, ingress_vip=None, api_vips=(), ingress_vips=())


def sections(shape: Topology) -> dict[str, list[str]]:
    """Return the sections of the configuration, each with its lines."""
    by_section: dict[str, list[str]] = {}
    name = ""
    for line in balancer.haproxy_config(shape).splitlines():
        if not line.startswith(" "):
            name = line
        by_section.setdefault(name, []).append(line.strip())
    return by_section


@pytest.mark.parametrize("name", ["compact", "ha-ipv6", "ha-dual-dhcp"])
@pytest.mark.parametrize("make", [bare, behind])
def test_haproxy_takes_it(name: str, make: Callable[[str], Topology], tmp_path: Path) -> None:
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    assert program, "haproxy is missing: run ci/setup"
    (tmp_path / "cfg").write_text(balancer.haproxy_config(make(name)))
    completed = subprocess.run([program, "-c", "-f", str(tmp_path / "cfg")], capture_output=True, text=True, timeout=30)
    assert completed.returncode == 0, completed.stderr


def test_without_virtual_addresses_names_lead_to_the_labs_own() -> None:
    shape = bare("ha")
    by_name = dict(dns.records(shape))
    assert by_name[f"api.{shape.cluster_domain}"] == by_name[f"api-int.{shape.cluster_domain}"] == shape.gateway
    assert shape.ingress_addresses == (shape.gateway,)
    rows = sections(shape)
    assert f"bind {shape.gateway}:6443" in rows["listen api"]
    assert f"bind {shape.gateway}:22623" in rows["listen machine-config"]
    for row, nodes in (("api", shape.masters), ("machine-config", shape.masters), ("https", shape.workers)):
        servers = [line.split()[1] for line in rows[f"listen {row}"] if line.startswith("server ")]
        assert servers == [node.name for node in nodes]
    assert install_config(shape, ACCESS)["platform"] == {"none": {}}


def test_virtual_addresses_are_the_labs() -> None:
    shape = behind("compact")
    assert {f"{shape.api_vip}/32", f"{shape.ingress_vip}/32"} <= set(shape.lab_addresses(shape.home))
    plain = topology.load("compact")
    assert plain.lab_addresses(plain.home) == plain.home.lab_addresses
    assert f"bind {shape.ingress_vip}:443" in sections(shape)["listen https"]
    platform = install_config(shape, ACCESS)["platform"]["baremetal"]
    assert platform["loadBalancer"] == {"type": "UserManaged"}
    assert "loadBalancer" not in install_config(plain, ACCESS)["platform"]["baremetal"]


def test_one_address_for_both_services_is_a_balancers_alone() -> None:
    api = topology.load("compact").api_vip
    assert behind("compact", ingress_vip=api, ingress_vips=(api,)).ingress_addresses == (api,)
    with pytest.raises(FieldsError, match="ingress_vips"):
        msgspec.structs.replace(topology.load("compact"), ingress_vip=api, ingress_vips=(api,))
