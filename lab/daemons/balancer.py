"""haproxy's configuration as the load balancer that users bring: on platform none, or where they manage their own.

It hands TCP through, as OpenShift's documentation has it: the API (6443) and the machine-config server (22623) to the
control plane, and to the bootstrap machine while there is one, ports 80 and 443 to the nodes that run the router. A
server that is not ready gets no connection.
"""

from __future__ import annotations

from lab.layout import bracketed
from lab.topology import NodeSpec, Topology

API_PORT = 6443
MACHINE_CONFIG_PORT = 22623
HTTP_PORT, HTTPS_PORT = 80, 443
# The router's health, by HTTP.
ROUTER_PORT = 1936

_HEAD = """global
    maxconn 4000
    log stdout format raw local0 notice
defaults
    mode tcp
    log global
    option dontlognull
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout check 5s
    default-server inter 3s fastinter 1s downinter 2s fall 3 rise 1
"""


def _section(name: str, addresses: tuple[str, ...], port: int, check: str, *, servers: list[str], how: str) -> str:
    binds = "".join(f"    bind {bracketed(text)}:{port}\n" for text in addresses)
    lines = "".join(f"    server {server} {how}\n" for server in servers)
    return f"listen {name}\n{binds}    balance roundrobin\n    option httpchk GET {check}\n{lines}"


def haproxy_config(topology: Topology) -> str:
    """Return the text of haproxy.cfg."""
    first = (topology.bootstrap,) if topology.bootstrap else ()
    servers = (*first, *topology.masters)

    def at(nodes: tuple[NodeSpec, ...], port: int) -> list[str]:
        return [f"{node.name} {bracketed(node.ip)}:{port}" for node in nodes]

    tls = "check check-ssl verify none"
    routers = topology.workers or topology.masters
    api, ingress = topology.api_addresses, topology.ingress_addresses
    rows = (
        ("api", api, API_PORT, "/readyz", servers, tls),
        ("machine-config", api, MACHINE_CONFIG_PORT, "/healthz", servers, tls),
        ("http", ingress, HTTP_PORT, "/healthz/ready", routers, f"check port {ROUTER_PORT}"),
        ("https", ingress, HTTPS_PORT, "/healthz/ready", routers, f"check port {ROUTER_PORT}"),
    )
    sections = [
        _section(name, own, port, check, servers=at(nodes, port), how=how)
        for name, own, port, check, nodes, how in rows
    ]
    return _HEAD + "".join(sections)
