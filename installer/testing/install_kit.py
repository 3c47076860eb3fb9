"""The request to install a host, as the service sends it, and the agent that gets it."""

from __future__ import annotations

from msgspec.structs import replace

from installer.agent.containers import AgentContext
from installer.assisted.enums import Role
from installer.assisted.steparguments import InstallRequest, ProxyRequest

TOKEN = "T0KEN"
CA_FILE = "/opt/ca.crt"
DISK = "/dev/disk/by-id/wanted"
IMAGE = "registry.example/installer@sha256:1"
AGENT = AgentContext(
    url="https://192.0.2.1:8090",
    infra_env_id="i",
    host_id="h",
    token=TOKEN,
    ca_file=CA_FILE,
    insecure=False,
    agent_image="agent-image",
)
#: What no request lacks.
REQUEST = InstallRequest(
    role=Role.MASTER, infra_env_id="i", cluster_id="c", host_id="h", boot_device=DISK, installer_image=IMAGE
)
#: All that one may have, but for an HTTPS proxy.
FULL_REQUEST = replace(
    REQUEST,
    controller_image="controller",
    control_plane_count=1,
    openshift_version="4.18",
    check_cvo=True,
    disks_to_format=["/dev/vdx", "/dev/vdy"],
    mco_image="mco",
    must_gather_image="gather",
    coreos_image="coreos",
    service_ips=["192.0.2.1", "192.0.2.2"],
    installer_args='["-a"]',
    proxy=ProxyRequest(http_proxy="http://p", https_proxy="", no_proxy="x"),
    skip_installation_disk_cleanup=True,
    enable_skip_mco_reboot=True,
    notify_num_reboots=True,
)
