"""`agentconfig.noarch.iso`: the files of one cluster, for hosts that boot an unconfigured image (reference §2.2)."""

from __future__ import annotations

import base64
import io
import json

from installer.common import cpio

FILE = "agentconfig.noarch.iso"
LABEL = "agent_configimage"
ARCHIVE = "config.gz"
RENDEZVOUS_ENV = "/etc/assisted/rendezvous-host.env"

# Paths, or folders, of which the config image has what the Ignition config has. Those of upstream, and what node0's
# service needs besides: its certificate is for the rendezvous IP, which only the config image knows.
PATHS = (
    "/etc/assisted/manifests",
    "/etc/assisted/extra-manifests",
    "/etc/assisted/hostconfig",
    "/etc/assisted/hostnames",
    "/etc/assisted/network",
    "/etc/NetworkManager/conf.d/clientid.conf",
    "/etc/issue",
    "/etc/chrony.conf",
    "/etc/chrony/chrony.conf",
    "/etc/systemd/system.conf.d/10-default-env.conf",
    "/root/.docker/config.json",
    "/etc/containers/auth.json",
    "/usr/local/share/start-cluster/start-cluster.env",
    "/usr/local/share/assisted-service/assisted-service.env",
    "/opt/agent/tls",
    RENDEZVOUS_ENV,
)


def belongs(path: str) -> bool:
    """Tell whether the config image brings this file of the live host."""
    return any(path == listed or path.startswith(f"{listed}/") for listed in PATHS)


def config_archive(ignition: bytes) -> bytes:
    """Make config.gz: the cluster's files out of a live Ignition config, as a compressed cpio archive.

    The rendezvous host's file is last: its arrival is what the unconfigured host waits for. Names are absolute: by
    these an OpenShift appliance takes single files out of it.
    """
    members: list[tuple[str, int, bytes]] = []
    for entry in json.loads(ignition)["storage"]["files"]:
        if belongs(entry["path"]):
            content = base64.b64decode(entry["contents"]["source"].partition(",")[2])
            members.append((entry["path"], 0o100000 | int(entry["mode"]), content))
    members.sort(key=lambda member: (member[0] == RENDEZVOUS_ENV, member[0]))
    return cpio.compress(b"".join(cpio.pieces(members)))


def config_iso(ignition: bytes) -> bytes:
    """Make the config image. It holds secrets."""
    import pycdlib

    archive = config_archive(ignition)
    iso = pycdlib.PyCdlib()
    # No Joliet volume: its label would be cut to 16 characters, and udev would read it in place of the primary one.
    iso.new(vol_ident=LABEL, rock_ridge="1.09")
    iso.add_fp(io.BytesIO(archive), len(archive), "/CONFIG.GZ;1", rr_name=ARCHIVE, file_mode=0o100400)
    out = io.BytesIO()
    iso.write_fp(out)
    iso.close()
    return out.getvalue()
