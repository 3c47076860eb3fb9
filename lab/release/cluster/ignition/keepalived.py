"""keepalived's configuration: which host holds the API and ingress addresses (reference/cluster.md §6.1).

The priorities are OpenShift's: the bootstrap host 70, a control plane node 40 and 25 more while its API server is
ready, so the API address stays with the bootstrap host until that releases it. Three deliberate differences: peers are
found by multicast, since all hosts share a segment; there is no haproxy in front of the API servers, so OpenShift's two
checks, of haproxy and of the server, are one; and adverts go out every 2 s, as an emulated CPU may stall for one.
"""

from __future__ import annotations

import ipaddress

from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.pods.pod import RESOURCES

#: Replaced on the host by its interface in the machine network.
INTERFACE = "@INTERFACE@"
BOOTSTRAP_PRIORITY = 70
API_PRIORITY = 40
API_READY_WEIGHT = 25
INGRESS_PRIORITY = 20
INGRESS_READY_WEIGHT = 10
ADVERT_SECONDS = 2
#: The script by which it asks the router, beside its configuration.
CHECK_ROUTER = f"{RESOURCES}/keepalived/check-router.sh"

_GLOBAL = """global_defs {
    enable_script_security
    script_user root
    max_auto_priority -1
    vrrp_garp_master_refresh 60
}
"""


def fletcher8(text: str) -> int:
    """Return the checksum that picks virtual router ids: two four-bit sums modulo 15."""
    low = high = 0
    for byte in text.encode():
        low = (low + byte) % 15
        high = (high + low) % 15
    return (high << 4) | low


def router_ids(cluster: str) -> tuple[int, int]:
    """Virtual router ids of the API's and the ingress' addresses, in 1 to 255 and not equal."""
    api, ingress = fletcher8(f"{cluster}-api") + 1, fletcher8(f"{cluster}-ingress") + 1
    return api, ingress + 1 if ingress == api else ingress


def _script(name: str, command: str, seconds: int, weight: int = 0) -> str:
    weighted = f"    weight {weight}\n" if weight else ""
    return (
        f'vrrp_script {name} {{\n    script "{command}"\n    interval {seconds}\n    timeout {2 * seconds}\n'
        f"    rise 2\n    fall 3\n{weighted}}}\n"
    )


def _instance(kind: str, config: InstallConfig, vip: str, index: int, *, priority: int, checks: tuple[str, ...]) -> str:
    router_id = router_ids(config.name)[0 if kind == "API" else 1]
    address = ipaddress.ip_address(vip)
    # The VRRP of IPv6 is version 3, which knows no passwords (RFC 5798 §9).
    password = f"""    authentication {{
        auth_type PASS
        auth_pass {config.name}_{kind.lower()}_vip
    }}
"""
    authentication = password if address.version == 4 else ""
    tracked = "".join(f"        {check}\n" for check in checks)
    scripts = f"    track_script {{\n{tracked}    }}\n" if checks else ""
    return f"""vrrp_instance {config.name}_{kind}_{index} {{
    state BACKUP
    interface {INTERFACE}
    virtual_router_id {(router_id + index - 1) % 255 + 1}
    priority {priority}
    advert_int {ADVERT_SECONDS}
{authentication}    virtual_ipaddress {{
        {vip}/{address.max_prefixlen} dev {INTERFACE}
    }}
{scripts}}}
"""


def bootstrap(config: InstallConfig) -> str:
    """Return the bootstrap host's configuration: the API's addresses, without a check."""
    parts = [
        _instance("API", config, vip, i, priority=BOOTSTRAP_PRIORITY, checks=())
        for i, vip in enumerate(config.api_vips)
    ]
    return _GLOBAL + "".join(parts)


def node(config: InstallConfig, role: str) -> str:
    """Return a node's configuration: the API's addresses on control plane nodes, the ingress' where the router runs."""
    parts = [_GLOBAL]
    if role == "master":
        ready = "/usr/bin/curl -o /dev/null -kfs --max-time 8 https://localhost:6443/readyz"
        parts.append(_script("chk_ocp_both", ready, 5, API_READY_WEIGHT))
        parts += [
            _instance("API", config, vip, i, priority=API_PRIORITY, checks=("chk_ocp_both",))
            for i, vip in enumerate(config.api_vips)
        ]
    if role == "worker" or config.schedulable_masters:
        parts += [
            _script("chk_ingress", f"{CHECK_ROUTER} /healthz", 3),
            _script("chk_ingress_ready", f"{CHECK_ROUTER} /healthz/ready", 3, INGRESS_READY_WEIGHT),
        ]
        parts += [
            _instance("INGRESS", config, vip, i, priority=INGRESS_PRIORITY, checks=("chk_ingress", "chk_ingress_ready"))
            for i, vip in enumerate(config.ingress_vips)
        ]
    return "".join(parts)
