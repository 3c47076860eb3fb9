"""The live system's own files: names on its console, proxies, clocks, and disks on iSCSI or several paths.

Paths and modes are those of reference/installer.md §4.2, for the sake of scripts and people that know them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from installer.ignition.config import File

# Most hosts need none of these: each unit checks for the hardware or platform that it serves.
SYSTEM_UNITS = ("iscsistart.service", "iscsiadm.service", "oci-eval-user-data.service", "selinux.service")

# A DUID from the link-layer address: the lease stays the same after the disk has been written.
CLIENT_ID = File.text(
    "/etc/NetworkManager/conf.d/clientid.conf",
    "[connection]\nipv6.dhcp-duid=ll\nipv6.dhcp-iaid=mac\nipv4.dhcp-client-id=mac\n",
    0o600,
)

# The OS starts multipathd where this file is: a disk that is seen through several ports is then one disk.
_MULTIPATH = """\
defaults {
    find_multipaths yes
    user_friendly_names yes
    enable_foreign "^$"
}
blacklist {
}
blacklist_exceptions {
    property "(SCSI_IDENT_|ID_WWN)"
}
"""

# chronyd answers chronyc, which the agent runs in its container, at a socket in that container.
_SELINUX = """\
module assisted 1.0;
require {
    type chronyd_t;
    type container_file_t;
    type spc_t;
    class dir search;
    class sock_file write;
    class unix_dgram_socket sendto;
}
allow chronyd_t container_file_t:dir search;
allow chronyd_t container_file_t:sock_file write;
allow chronyd_t spc_t:unix_dgram_socket sendto;
"""

_MOTD = """\

This host is being installed: what is on its disk will be replaced, and it will restart.
For a report of what goes wrong run:

  agent-gather

"""


def system_files(cluster_name: str, proxy: Mapping[str, str]) -> list[File]:
    """Make every live host's files. `cluster_name`: empty where it is not known yet; `proxy`: as in `proxy_file`."""
    title = "node0 agent installer image" + (f" for {cluster_name}" if cluster_name else "")
    return [
        proxy_file(proxy),
        CLIENT_ID,
        File.text("/etc/issue", f"\\S\n{title}\n", 0o600),  # \S: agetty puts the OS's name there
        File.text("/etc/motd.d/10-agent-installer", _MOTD, 0o600),
        File.text("/etc/multipath.conf", _MULTIPATH, 0o600),
        File.text("/root/assisted.te", _SELINUX, 0o600),
    ]


def proxy_file(proxy: Mapping[str, str]) -> File:
    """Return the proxies (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) for all that systemd starts; empty when there are none.

    It is there nevertheless: an OpenShift appliance refuses a config image without it.
    """
    # systemd expands %, so a literal one is doubled (reference §4.2). The letters are upstream's, for scripts.
    lines = [
        f"DefaultEnvironment={k}={json.dumps(v.replace('%', '%%'))}\n"
        for k in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
        if (v := proxy.get(k))
    ]
    text = "[Manager]\n" + "".join(lines) if lines else ""
    return File.text("/etc/systemd/system.conf.d/10-default-env.conf", text, 0o600)


def ntp_files(sources: Sequence[str]) -> list[File]:
    """chronyd's servers; nothing when there are none, and the OS has its own."""
    if not sources:
        return []
    servers = "".join(f"server {source} iburst\n" for source in sources)
    rest = "makestep 1.0 3\nrtcsync\n"
    return [
        File.text("/etc/chrony.conf", f"{servers}{rest}logdir /var/log/chrony\n"),
        # Debian's chronyd reads its configuration from a path of its own.
        File.text("/etc/chrony/chrony.conf", f"{servers}driftfile /var/lib/chrony/drift\n{rest}"),
    ]
