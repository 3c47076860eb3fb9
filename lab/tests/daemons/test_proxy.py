"""The lab's HTTP proxy: what it lets through, and that hosts have no other way to the registry."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from installer.common.certificates import authority
from lab import topology
from lab.daemons import dns, services
from lab.daemons.pki import issue
from lab.inputs import configs
from lab.layout import REGISTRY_PORT, Layout
from lab.topology import Topology

ACCESS = configs.Access(pull_secret='{"auths": {}}', trust_bundle="", ssh_key="", mirrors=())


def proxied(stack: str = "") -> Topology:
    return msgspec.structs.replace(topology.PRESETS[f"sno{stack}"](), proxy=True)


def test_a_cluster_is_told_of_it_and_reaches_its_own_hosts_directly() -> None:
    assert "proxy" not in configs.install_config(topology.sno(), ACCESS)
    proxy = configs.install_config(proxied("-ipv6"), ACCESS)["proxy"]
    url = "http://[fd2e:6f44:5dd8:c956::1]:3128"
    assert proxy == {
        "httpProxy": url,
        "httpsProxy": url,
        "noProxy": ".ostest.test.node0.example,fd2e:6f44:5dd8:c956::/120",
    }


def test_hosts_do_not_know_the_registrys_name_and_the_lab_does(tmp_path: Path) -> None:
    names = {name for name, _ in dns.records(proxied())}
    assert "registry.test.node0.example" not in names
    assert "http.test.node0.example" in names
    assert "registry.test.node0.example" in {name for name, _ in dns.records(topology.sno())}
    layout = Layout(tmp_path / "lab", proxied())
    plan = services.prepare(layout, "sno-1", None, None).plan
    assert "127.0.0.1 registry.test.node0.example\n" in (layout.root / "etc/hosts").read_text()
    addresses = {service.name: service.ready.address for service in plan.services if service.ready is not None}
    assert addresses["registry"] == "127.0.0.1"
    assert addresses["proxy"] == "192.168.111.1"
    assert "addr: 127.0.0.1:5000" in (layout.root / "registry.yaml").read_text()


def _registry(place: Path) -> None:
    """Serve one TLS connection on the registry's port of this namespace's loopback."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(place / "server.crt", place / "server.key")
    server = socket.create_server(("127.0.0.1", REGISTRY_PORT))

    def serve() -> None:
        plain, _ = server.accept()
        with context.wrap_socket(plain, server_side=True) as secure:
            secure.recv(1024)
            secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    threading.Thread(target=serve, daemon=True).start()


def inside(place: str) -> None:
    """Run in a network namespace with the lab's address: the real proxy between curl and a registry on loopback."""
    _registry(Path(place))
    with subprocess.Popen(["tinyproxy", "-d", "-c", f"{place}/lab/proxy.conf"]) as proxy:
        try:
            curl = ["curl", "-sS", "--retry-connrefused", "--retry", "20", "--retry-delay", "1", "--max-time", "30"]
            curl += ["--cacert", f"{place}/ca.crt", "-x", "http://192.168.111.1:3128"]
            for port in (REGISTRY_PORT, 22):
                completed = subprocess.run(
                    [*curl, f"https://localhost:{port}/v2/"], capture_output=True, text=True, timeout=60, check=False
                )
                print(port, completed.returncode, completed.stdout, completed.stderr.strip())
        finally:
            proxy.terminate()


def test_it_lets_through_what_goes_to_the_registry_and_nothing_else(tmp_path: Path) -> None:
    services.prepare(Layout(tmp_path / "lab", proxied()), "sno-1", None, None)
    ca = authority("test")
    (tmp_path / "ca.crt").write_text(ca.certificate)
    issue(ca, ["localhost"], tmp_path)
    script = 'ip link set lo up && ip address add 192.168.111.1/24 dev lo && exec "$@"'
    code = f"from lab.tests.daemons.test_proxy import inside; inside({str(tmp_path)!r})"
    completed = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, "sh", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    lines = completed.stdout.splitlines()
    assert lines[0] == f"{REGISTRY_PORT} 0 ok ", completed.stdout + completed.stderr
    assert lines[1].startswith("22 56"), completed.stdout
    assert "CONNECT localhost:5000" in (tmp_path / "lab/log/proxy.log").read_text()
