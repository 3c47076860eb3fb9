"""The Ignition config of an infra-env's hosts: the agent, where it reports, and the user's own (installer.md §5.1)."""

from __future__ import annotations

import json
import logging
import re
from importlib import resources

from installer.assisted.errors import BadRequest, PrepareError
from installer.errors import InstallerError
from installer.ignition.config import File, Unit, User, render
from installer.ignition.live import NETWORK_UNIT, env_file
from installer.ignition.livesystem import CLIENT_ID, ntp_files, proxy_file
from installer.network import host_network_files
from installer.rendezvous.prepare.hostignition import overridden, overrides, parse
from installer.rendezvous.prepare.installconfig import trust_bundle
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import InfraEnv

log = logging.getLogger("assisted-service")

TLS_CA = "/opt/agent/tls/ca.crt"
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
# Names that systemd gives by a NIC's slot: they are the same at every boot.
_PREDICTABLE = re.compile(r"en[PsvxXbucaipod]")


def network(infra_env: InfraEnv) -> list[File]:
    """Keyfiles of every host with a static network. Raises PrepareError."""
    from installer.network.document import load

    files = []
    for index, item in enumerate(infra_env.static_network_config):
        nics = [{"name": nic.logical_nic_name, "macAddress": nic.mac_address} for nic in item.mac_interface_map]
        try:
            # Warnings come from `agent create`; of images that are made again and again there would be as many.
            keyfiles = host_network_files(nics, load(item.network_yaml) or {}, warn=log.debug)
        except InstallerError as error:
            raise PrepareError(f"static_network_config[{index}]", str(error)) from None
        files += [
            File.text(f"/etc/assisted/network/host{index}/{name}", text, 0o600) for name, text in keyfiles.items()
        ]
    return files


def check_mapped(infra_env: InfraEnv) -> None:
    """Raise BadRequest for NICs and ports of bonds that no MAC address stands for, as upstream's service does.

    At boot another NIC may have such a name, or none. Where hosts have booted already, it is too late to say so.
    """
    from installer.network.document import load

    for index, item in enumerate(infra_env.static_network_config):
        interfaces = (load(item.network_yaml) or {}).get("interfaces") or []
        nics = [interface for interface in interfaces if interface.get("type") in ("ethernet", "802-3-ethernet")]
        bonds = [interface.get("link-aggregation") or {} for interface in interfaces]
        names = [nic["name"] for nic in nics if nic.get("identifier") != "mac-address"]
        names += [name for bond in bonds for name in bond.get("port") or bond.get("ports") or bond.get("slaves") or ()]
        known = {nic.logical_nic_name for nic in item.mac_interface_map}
        known |= {nic["name"] for nic in nics if nic.get("identifier") == "mac-address"}
        known |= {interface["name"] for interface in interfaces if interface not in nics}
        lost = [name for name in dict.fromkeys(names) if name not in known and not _PREDICTABLE.match(name)]
        if lost:
            raise BadRequest(
                f"static_network_config[{index}]: mac-interface mapping for interface {', '.join(lost)} is missing and "
                "not a physical interface"
            )


def ignition(infra_env: InfraEnv, settings: Settings, agent_token: str, agent_image: str) -> bytes:
    """Return the Ignition config of an infra-env's hosts, the user's overrides merged in. Raises PrepareError."""
    live, own = resources.files("installer.ignition") / "data", resources.files("installer.rendezvous") / "data"
    environment = {
        "SERVICE_BASE_URL": settings.base_url,
        "INFRA_ENV_ID": infra_env.id,
        "AGENT_DOCKER_IMAGE": agent_image,
        "PULL_SECRET_TOKEN": agent_token,
    }
    keyfiles = network(infra_env)
    scripts = [live / "bin/common.sh", own / "start-discovery-agent.sh"]
    scripts += [live / "bin/pre-network-manager-config.sh"] if keyfiles else []
    files = [File(f"/usr/local/bin/{script.name}", script.read_bytes(), 0o555) for script in scripts]
    files += [
        File.text("/etc/assisted/discovery.env", env_file(environment), 0o600),
        File(TLS_CA, settings.ca_file.read_bytes() if settings.ca_file else b"", 0o600),
        File.text("/root/.docker/config.json", infra_env.pull_secret, 0o600),
        File.text("/etc/containers/auth.json", infra_env.pull_secret, 0o600),
        proxy_file({key.upper(): str(value) for key, value in infra_env.proxy.items() if key in PROXIES and value}),
        CLIENT_ID,
        # Additional ones are the agent's to add (steps/instructions.py).
        *ntp_files(infra_env.ntp_sources.split(",") if infra_env.ntp_sources else ()),
        *keyfiles,
    ]
    if settings.registries_conf.is_file():
        files.append(File("/etc/containers/registries.conf", settings.registries_conf.read_bytes()))
    if bundle := trust_bundle([infra_env], settings):
        files.append(File.text("/etc/pki/ca-trust/source/anchors/domain.crt", bundle))
    units = [Unit("agent.service", (own / "agent.service").read_text())]
    if keyfiles:
        units.append(Unit(NETWORK_UNIT, (live / "systemd" / NETWORK_UNIT).read_text()))
    keys = tuple(line.strip() for line in infra_env.ssh_authorized_key.splitlines() if line.strip())
    config = render(files, units, [User("core", keys)])
    if not infra_env.ignition_config_override:
        return config
    name = "ignition_config_override"
    wanted = overrides(infra_env.ignition_config_override, name)
    return json.dumps(overridden(parse(config, "discovery image"), wanted, name), separators=(",", ":")).encode()
