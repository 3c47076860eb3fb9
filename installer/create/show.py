"""`agent show inputs`: what a directory's inputs say, decoded, defaulted and checked, without secrets."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from installer.common.formats.yamltext import dump
from installer.common.redact import redact, without_login
from installer.config import defaults
from installer.config.decode import camel
from installer.config.load import AGENT_CONFIG_FILE, INSTALL_CONFIG_FILE, as_written, decoded_text
from installer.config.state import AGENT_CONFIG, INSTALL_CONFIG
from installer.config.types.agent import Host
from installer.config.types.install import InstallConfig
from installer.config.values import check as values
from installer.create.stages.check import Inputs, check
from installer.create.stages.hosts import hints_fields
from installer.create.stages.read import InputFiles, read
from installer.create.stages.render import manifest_files
from installer.create.stages.resolve import TARGET, ResolvedRelease, expected_release
from installer.manifests import files as names
from installer.network.generate import planned
from installer.network.profiles.plan import Plan
from installer.network.reading.model import Interface, IpConfig, Port

#: Raised when a field changes its meaning or goes; new fields may come at any time.
VERSION = 1
OUTPUTS = ("text", "json", "yaml")
_ARCHITECTURE = "amd64"
# An OVS bond without a mode of OVS's own only has LACP.
_LACP = "lacp"


def show_inputs(directory: Path, output: str) -> str:
    """Describe the directory's inputs in one of OUTPUTS. Raises what `create image` raises for them."""
    document = described(directory)
    if output == "json":
        return f"{json.dumps(document, indent=2)}\n"
    return dump(document) if output == "yaml" else _text(document)


def described(directory: Path) -> dict[str, Any]:
    """Return the directory's inputs as plain data (docs/inputs.md)."""
    files = read(directory, TARGET)
    # Without an agent-config, machines may be the user's own to boot (docs/upi.md): then no host leads.
    inputs = check(files, TARGET, for_image=files.from_manifests or bool(files.of(AGENT_CONFIG)))
    # For the errors: what the rendezvous service would refuse.
    manifest_files(inputs, ResolvedRelease(expected_release(), version("node0"), {}))
    install, agent = inputs.install, inputs.agent
    networking, platform = install.networking, install.platform
    vips = platform.with_vips
    balancer = getattr(vips, "load_balancer", None)
    return {
        "version": VERSION,
        "source": "configs" if inputs.manifests is None else "manifests",
        "node0Version": version("node0"),
        "releaseImage": expected_release(),
        "clusterName": install.metadata.name,
        "baseDomain": install.base_domain,
        "platform": platform.name,
        "architecture": install.control_plane.architecture if install.control_plane else _ARCHITECTURE,
        "replicas": {"master": install.masters, "arbiter": install.arbiters, "worker": install.workers},
        "fips": install.fips,
        "networkType": networking.network_type if networking else "",
        "machineNetworks": [_network(entry.cidr) for entry in networking.machine_network] if networking else [],
        "clusterNetworks": [
            {"cidr": _network(entry.cidr), "hostPrefix": entry.host_prefix}
            for entry in (networking.cluster_network if networking else ())
        ],
        "serviceNetworks": [_network(cidr) for cidr in networking.service_network] if networking else [],
        "apiVIPs": [_address(text) for text in vips.api_vips] if vips else [],
        "ingressVIPs": [_address(text) for text in vips.ingress_vips] if vips else [],
        "userManagedLoadBalancer": balancer is not None and balancer.type == "UserManaged",
        "rendezvousIP": inputs.rendezvous_ip,
        "ntpSources": list(inputs.ntp_sources),
        "minimalISO": agent.minimal_iso,
        "bootArtifactsBaseURL": without_login(agent.boot_artifacts_base_url),
        "proxy": _proxy(install),
        "mirrors": [{"source": entry.source, "mirrors": list(entry.mirrors)} for entry in install.sources],
        "diskEncryption": _disk_encryption(inputs),
        "fencing": _fencing(install),
        "hosts": [_host(host, *inputs.host_place(index)) for index, host in enumerate(inputs.hosts)],
        "defaulted": [*_defaulted(files, inputs)],
        "contradictions": [redact(line) for line in inputs.contradictions],
    }


def _network(cidr: str) -> str:
    return str(values.network(cidr) or cidr)


def _address(text: str) -> str:
    return str(values.address(text) or text)


def _proxy(install: InstallConfig) -> dict[str, str] | None:
    if install.proxy is None:
        return None
    urls = {"httpProxy": install.proxy.http_proxy, "httpsProxy": install.proxy.https_proxy}
    return {**{name: without_login(url) for name, url in urls.items()}, "noProxy": install.proxy.no_proxy}


def _disk_encryption(inputs: Inputs) -> dict[str, str] | None:
    """Return the encryption of disks, which AgentClusterInstall alone can ask for."""
    data = {**inputs.kept, **(inputs.manifests or {})}.get(Path(names.INSTALL).name)
    if data is None:
        return None
    from installer.manifests.read import read_install

    encryption = read_install({names.INSTALL: data}).spec.disk_encryption
    return None if encryption is None else {"enableOn": encryption.enable_on, "mode": encryption.mode}


def _fencing(install: InstallConfig) -> list[dict[str, str]]:
    pool = install.control_plane
    return [
        {
            "hostName": credential.host_name,
            "macAddress": values.canonical_mac(credential.mac_address),
            "address": without_login(credential.address),
        }
        for credential in (pool.fencing.credentials if pool and pool.fencing else ())
    ]


def _host(host: Host, file: str, path: str) -> dict[str, Any]:
    return {
        "file": file,
        "path": path,
        "name": host.hostname,
        "role": host.role,
        "interfaces": [
            {"name": nic.name, "macAddress": values.canonical_mac(nic.mac_address)} for nic in host.interfaces
        ],
        "rootDeviceHints": hints_fields(host.root_device_hints),
        "bmc": without_login(host.bmc.address) if host.bmc else "",
        "networkConfig": _network_config(host),
    }


def _network_config(host: Host) -> dict[str, Any] | None:
    """Return the topology that an NMState document asks for; it has none of the document's settings and secrets."""
    if host.network_config is None:
        return None
    macs = {nic.name: values.canonical_mac(nic.mac_address).upper() for nic in host.interfaces}
    document, plan, _ = planned(host.network_config, macs)
    servers = document.dns.servers if document.dns else ()
    return {
        "interfaces": [entry for interface in plan.interfaces for entry in _interfaces(interface, plan)],
        "routes": [
            {
                "destination": str(route.destination),
                "nextHop": route.next_hop or "",
                "interface": route.interface or "",
                "table": route.table,
            }
            for route in document.routes
            if route.kind is None
        ],
        "dnsServers": [str(address) for address, _ in servers],
    }


def _interfaces(interface: Interface, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield an interface, after the bonds of an OVS bridge as interfaces of their own."""
    sections, ports = interface.shape.sections, interface.shape.ports or ()
    bonds = [port for port in ports if "lacp" in port.sections.get("ovs-port", {})]
    for port in bonds:
        mode = port.sections["ovs-port"]["bond-mode"] or _LACP
        members = [{"name": name, "vlan": 0} for name in port.members]
        yield _interface(port.name, "ovs-bond", mode=mode, ports=members)
    has_ip = plan.has_ip(interface)
    yield _interface(
        interface.name,
        interface.kind,
        macAddress=(interface.mac or "").lower(),
        mtu=interface.mtu or 0,
        base=interface.shape.parent or "",
        vlan=int(sections.get("vlan", {}).get("id", 0)),
        mode=sections.get("bond", {}).get("mode", ""),
        patch=sections.get("ovs-patch", {}).get("peer", ""),
        ports=[{"name": port.name, "vlan": _access_tag(port)} for port in ports],
        ipv4=_family(interface.ipv4) if has_ip else None,
        ipv6=_family(interface.ipv6) if has_ip else None,
    )


def _interface(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return an interface's name, type, and those of the other fields that say anything."""
    return {"name": name, "type": kind, **{key: value for key, value in fields.items() if value}}


def _access_tag(port: Port) -> int:
    """Return the tag that an OVS bridge gives what the port sends, 0 without one."""
    keys = port.sections.get("ovs-port", {})
    return int(keys.get("tag") or 0) if keys.get("vlan-mode") == "access" else 0


def _family(config: IpConfig | None) -> dict[str, Any] | None:
    if config is None or not config.enabled:
        return None
    return {"dhcp": config.dhcp, "autoconf": config.autoconf, "addresses": list(config.addresses)}


def _defaulted(files: InputFiles, inputs: Inputs) -> Iterator[dict[str, Any]]:
    """Yield the fields that the user left out, and what stands for them."""
    data = files.of(INSTALL_CONFIG).get(INSTALL_CONFIG_FILE)
    if inputs.manifests is None and data is not None:
        written, _ = defaults.upconvert(as_written(decoded_text(data, INSTALL_CONFIG_FILE)))
        for path, value in _filled(written, inputs.install):
            yield {"file": INSTALL_CONFIG_FILE, "path": path, "value": value}
    if not inputs.agent.rendezvous_ip:
        yield {"file": AGENT_CONFIG_FILE, "path": "rendezvousIP", "value": inputs.rendezvous_ip}


def _filled(written: Any, resolved: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and values of what `resolved` has and `written` has not, field by field."""
    # Hosts are sorted, and so no longer where they were written.
    if resolved in (None, "", (), written) or path.endswith(".hosts"):
        return
    if dataclasses.is_dataclass(resolved):
        kind: Any = type(resolved)
        empty = kind() if written is None else written
        for field in dataclasses.fields(resolved):
            name = str(field.metadata.get("key", camel(field.name)))
            if field.repr:
                yield from _filled(
                    getattr(empty, field.name), getattr(resolved, field.name), f"{path}.{name}" if path else name
                )
    elif isinstance(resolved, tuple):
        for index, item in enumerate(resolved):
            yield from _filled(written[index] if index < len(written or ()) else None, item, f"{path}[{index}]")
    elif written in (None, ""):
        yield path, resolved


def _text(document: dict[str, Any]) -> str:
    """Return the inputs as a page to read: the cluster, a block for each host, what was defaulted, what is odd."""
    replicas = ", ".join(f"{count} {role}" for role, count in document["replicas"].items() if count)
    rows = {
        "cluster": f"{document['clusterName']}.{document['baseDomain']}",
        "platform": f"{document['platform']}, {document['architecture']}",
        "nodes": replicas,
        "release": document["releaseImage"],
        "rendezvous IP": document["rendezvousIP"],
        "machine network": ", ".join(document["machineNetworks"]),
        "pod network": ", ".join(entry["cidr"] for entry in document["clusterNetworks"]),
        "service network": ", ".join(document["serviceNetworks"]),
        "API VIPs": ", ".join(document["apiVIPs"]),
        "ingress VIPs": ", ".join(document["ingressVIPs"]),
        "NTP": ", ".join(document["ntpSources"]),
        "proxy": ", ".join(value for value in (document["proxy"] or {}).values() if value),
        "mirrors": ", ".join(f"{entry['source']} -> {' '.join(entry['mirrors'])}" for entry in document["mirrors"]),
        "fenced by": ", ".join(entry["address"] for entry in document["fencing"]),
    }
    lines = [f"{name:16} {value}" for name, value in rows.items() if value]
    for host in document["hosts"]:
        lines += ["", f"{host['name'] or '(no name)'} ({host['role'] or 'any role'}), {host['file']}: {host['path']}"]
        lines += [f"  {nic['name'] or 'NIC':14} {nic['macAddress']}" for nic in host["interfaces"]]
        lines += [f"  {name:14} {value}" for name, value in host["rootDeviceHints"].items()]
        lines += [f"  {'BMC':14} {host['bmc']}"] if host["bmc"] else []
        for interface in (host["networkConfig"] or {}).get("interfaces", ()):
            lines.append(f"  {interface['name']:14} {_described_interface(interface)}")
    for title, entries in (
        ("defaulted", [f"{entry['file']}: {entry['path']}: {entry['value']}" for entry in document["defaulted"]]),
        ("contradictions", document["contradictions"]),
    ):
        lines += ["", title, *(f"  {entry}" for entry in entries)] if entries else []
    return "\n".join(lines) + "\n"


def _described_interface(interface: dict[str, Any]) -> str:
    ports = ", ".join(port["name"] for port in interface.get("ports", ()))
    families = [interface[name] for name in ("ipv4", "ipv6") if name in interface]
    addresses = [text for family in families for text in family["addresses"]]
    addresses += ["DHCP"] if any(family["dhcp"] for family in families) else []
    parts = (
        interface["type"],
        interface.get("mode", ""),
        f"of {ports}" if ports else "",
        f"over {interface['base']}" if "base" in interface else "",
        f"tag {interface['vlan']}" if "vlan" in interface else "",
        f"with {', '.join(addresses)}" if addresses else "",
    )
    return " ".join(filter(None, parts))
