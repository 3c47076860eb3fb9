"""The feeder of a node's DNS server, with real unbound, a resolver outside, and dnspython as the client."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.reversename
import pytest

from installer.common.ports import free_port
from lab.release.cluster import templates
from lab.release.cluster.network import zone
from lab.release.cluster.network.zone import KINDS, Content, Feeder, Server, content, forwarders
from lab.waiting import wait_until

SERVICE = "openshift-dns", "dns-default"
SECONDS = 20.0
#: Of this machine, it may ask the resolver outside alone.
LOCALHOST = "do-not-query-localhost: no\n    do-not-query-address: 127.0.0.1"


def meta(namespace: str, name: str, **labels: str) -> dict[str, object]:
    return {"namespace": namespace, "name": name, "labels": labels}


def service(name: str, **spec: object) -> tuple[tuple[str, str], dict[str, object]]:
    return ("ns", name), {"metadata": meta("ns", name), "spec": spec}


def endpoints(name: str, addresses: list[str], **more: object) -> tuple[tuple[str, str], dict[str, object]]:
    return ("ns", f"{name}-x"), {
        "metadata": meta("ns", f"{name}-x", **{"kubernetes.io/service-name": name}),
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, **more} for address in addresses],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


@dataclass
class Node:
    """A node's server, what feeds it, and its resolver outside."""

    directory: Path
    port: int
    feeder: Feeder
    outside: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = ["unbound", "-d", "-c", str(self.directory / "unbound.conf")]
        with (self.directory / "log").open("ab") as output:
            env = {"PATH": "/usr/sbin:/usr/bin", "PYTHONPATH": "/usr/lib/python3/dist-packages"}
            self.process = subprocess.Popen(argv, stdout=output, stderr=output, env=env)
        wait_until(lambda: self.feeder._server.order("status"), SECONDS, "unbound runs", poll=0.05)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def feed(self, services: dict, slices: dict, namespaces: tuple[str, ...] = ("ns",)) -> None:
        objects: dict = {("", name): {} for name in namespaces}
        for kind, seen in zip(KINDS, (services, slices, objects), strict=True):
            self.feeder.note(kind, seen)

    def ask(self, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
        query = dns.message.make_query(name, kind, use_edns=False)
        if tcp:
            return dns.query.tcp(query, "127.0.0.1", SECONDS, self.port)
        return dns.query.udp(query, "127.0.0.1", SECONDS, self.port)

    def answers(self, name: str, kind: str = "A") -> set[str]:
        return {str(item) for rrset in self.ask(name, kind).answer for item in rrset}

    def code(self, name: str, kind: str = "A") -> str:
        return dns.rcode.to_text(self.ask(name, kind).rcode())


@pytest.fixture(scope="module")
def outside() -> Iterator[int]:
    """Run a resolver outside of the cluster, which knows one name."""
    port = free_port()
    argv = ["dnsmasq", "--no-daemon", "--conf-file=/dev/null", f"--port={port}", "--listen-address=127.0.0.2"]
    argv += ["--bind-interfaces", "--no-resolv", "--no-hosts", "--address=/www.example.lab/192.0.2.7"]
    argv += ["--local=/example.lab/", "--ptr-record=9.2.0.192.in-addr.arpa,nine.example.lab"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield port
    process.kill()
    process.wait()


@pytest.fixture
def node(tmp_path: Path, outside: int) -> Iterator[Node]:
    port = free_port()
    conf = templates.text("unbound/unbound.conf").replace("port: 5353", f"port: {port}\n    {LOCALHOST}")
    conf = (
        conf.replace("0.0.0.0\n", "127.0.0.1\n").replace("    interface: ::0\n", "").replace("/etc/unbound", "/run/x")
    )
    script = templates.text("unbound/pods.py").replace("/run/openshift-dns", str(tmp_path))
    (tmp_path / "pods.py").write_text(script)
    conf = conf.replace("/run/x", str(tmp_path)).replace("/run/openshift-dns", str(tmp_path))
    (tmp_path / "unbound.conf").write_text(conf)
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("search lab\n")
    made = Node(tmp_path, port, Feeder(Server(tmp_path), resolv_conf), outside)
    yield made
    made.end()


def test_names_of_all_kinds_and_names_that_are_not_there(node):
    many = [f"10.128.{i // 200}.{i % 200 + 1}" for i in range(150)]
    services = dict(
        [
            service("web", clusterIP="172.30.0.9", ports=[{"name": "http", "port": 80, "protocol": "TCP"}]),
            service("six", clusterIP="fd02::9"),
            service("db", clusterIP="None"),
            service("out", type="ExternalName", externalName="www.example.lab"),
            service("nowhere", type="ExternalName", externalName="no.example.lab"),
            # Names that Kubernetes allows and DNS does not.
            service("long", clusterIP="172.30.0.8", ports=[{"name": "p" * 63, "port": 80, "protocol": "TCP"}]),
            service("longer", type="ExternalName", externalName="l" * 64),
        ]
    )
    node.feed(services, dict([endpoints("db", many)]), ("ns", "empty"))
    assert not node.feeder.step()  # the server is not there yet, and reads all when it starts
    (node.directory / "upstream.conf").write_text(
        f'forward-zone:\n    name: "."\n    forward-addr: 127.0.0.2@{node.outside}\n'
    )
    node.start()
    assert node.answers("web.ns.svc.cluster.local") == {"172.30.0.9"}
    assert node.answers("WEB.ns.svc.CLUSTER.local") == {"172.30.0.9"}
    assert node.answers("six.ns.svc.cluster.local", "AAAA") == {"fd02::9"}
    assert node.answers("_http._tcp.web.ns.svc.cluster.local", "SRV") == {"0 100 80 web.ns.svc.cluster.local."}
    assert node.answers("9.0.30.172.in-addr.arpa", "PTR") == {"web.ns.svc.cluster.local."}
    assert node.answers(str(dns.reversename.from_address("fd02::9")), "PTR") == {"six.ns.svc.cluster.local."}
    # An answer that is too large for a datagram is had over TCP.
    assert node.ask("db.ns.svc.cluster.local").flags & dns.flags.TC
    (rrset,) = node.ask("db.ns.svc.cluster.local", tcp=True).answer
    assert {str(item) for item in rrset} == set(many)
    assert node.answers("long.ns.svc.cluster.local") == {"172.30.0.8"}
    # Aliases lead out of the zone.
    assert node.answers("out.ns.svc.cluster.local") == {"www.example.lab.", "192.0.2.7"}
    assert node.code("nowhere.ns.svc.cluster.local") == "NXDOMAIN"
    assert node.answers("www.example.lab") == {"192.0.2.7"}
    assert node.answers("9.2.0.192.in-addr.arpa", "PTR") == {"nine.example.lab."}
    # Pods.
    assert node.answers("10-128-0-7.ns.pod.cluster.local") == {"10.128.0.7"}
    assert node.answers("fd01-0-0-1--7.empty.pod.cluster.local", "AAAA") == {"fd01:0:0:1::7"}
    found = {name: (node.code(name), node.answers(name)) for name in ("10-128-0-7.no.pod.cluster.local",)}
    assert found == {"10-128-0-7.no.pod.cluster.local": ("NXDOMAIN", set())}
    for name, kind, code in (
        ("web.ns.svc.cluster.local", "AAAA", "NOERROR"),
        ("10-128-0-7.ns.pod.cluster.local", "AAAA", "NOERROR"),
        ("empty.svc.cluster.local", "A", "NOERROR"),
        ("no.ns.svc.cluster.local", "A", "NXDOMAIN"),
        ("web.no.svc.cluster.local", "A", "NXDOMAIN"),
        ("no.svc.cluster.local", "A", "NXDOMAIN"),
        ("10-128-0-300.ns.pod.cluster.local", "A", "NXDOMAIN"),
        ("www.example.lab.ns.svc.cluster.local", "A", "NXDOMAIN"),
    ):
        answer = node.ask(name, kind)
        assert (name, dns.rcode.to_text(answer.rcode()), answer.answer) == (name, code, [])
        assert answer.authority, name  # by which a client knows how long to believe it


def test_changes_are_there_at_once_and_nothing_else_is_lost(node):
    both = dict([service("web", clusterIP="172.30.0.9"), service("db", clusterIP="None")])
    node.feed(both, dict([endpoints("db", ["10.128.0.1", "10.128.0.2"])]))
    node.feeder.step()
    node.start()
    assert node.feeder.step()  # told again, since it did not answer
    node.feed(both, dict([endpoints("db", ["10.128.0.2", "10.128.0.3"])]))
    assert node.feeder.step()
    assert node.answers("db.ns.svc.cluster.local") == {"10.128.0.2", "10.128.0.3"}
    assert node.answers("2.0.128.10.in-addr.arpa", "PTR") == {"10-128-0-2.db.ns.svc.cluster.local."}
    assert node.answers("1.0.128.10.in-addr.arpa", "PTR") == set()
    # Another alias of the same address, and back.
    node.feed({**both, **dict([service("db2", clusterIP="None")])}, dict([endpoints("db", ["10.128.0.2"])]))
    node.feed(both, dict([endpoints("db", ["10.128.0.2"], hostname="two")]))
    assert node.feeder.step()
    assert node.answers("2.0.128.10.in-addr.arpa", "PTR") == {"two.db.ns.svc.cluster.local."}
    assert node.answers("two.db.ns.svc.cluster.local") == {"10.128.0.2"}
    # The server starts anew, without the feeder.
    node.end()
    node.start()
    assert node.answers("web.ns.svc.cluster.local") == {"172.30.0.9"}
    assert node.answers("2.0.128.10.in-addr.arpa", "PTR") == {"two.db.ns.svc.cluster.local."}
    # The feeder starts anew, after a change that it has not seen.
    again = node.feeder = Feeder(Server(node.directory), node.directory / "resolv.conf")
    node.feed(dict([service("web", clusterIP="172.30.0.8")]), {})
    assert again.step()
    assert node.answers("web.ns.svc.cluster.local") == {"172.30.0.8"}
    assert node.answers("8.0.30.172.in-addr.arpa", "PTR") == {"web.ns.svc.cluster.local."}
    assert node.answers("2.0.128.10.in-addr.arpa", "PTR") == set()


def test_resolvers_are_followed(node):
    node.feed({}, {})
    node.feeder.step()
    node.start()
    node.feeder.step()
    # Port and all, which no resolv.conf has: nothing of this machine answers at port 53.
    Server(node.directory).tell(Content(forwarders=(f"127.0.0.2@{node.outside}",)))
    assert node.answers("www.example.lab") == {"192.0.2.7"}
    (node.directory / "resolv.conf").write_text("nameserver 192.0.2.5\nnameserver 192.0.2.6\n")
    assert node.feeder.step()
    assert set(node.feeder._server.order("list_forwards").split()[3:]) == {"192.0.2.5", "192.0.2.6"}
    (node.directory / "resolv.conf").write_text("nameserver 127.0.0.53\n")
    assert node.feeder.step()
    assert node.code("other.example.lab") == "SERVFAIL"  # at once, since nobody can be asked


def test_nothing_is_written_before_all_kinds_are_known(node):
    node.feeder.note("Service", {})
    node.feeder.note("Namespace", {})
    assert node.feeder.step()
    assert not (node.directory / "cluster.local.zone").exists()


def test_resolvers_that_would_lead_back_are_left_out():
    words = ("172.30.0.10", "127.0.0.1", "fe80::1%eth0", "192.0.2.1 # lab", "x", "192.0.2.1")
    assert forwarders("".join(f"nameserver {word}\n" for word in words), ["172.30.0.10"]) == ["192.0.2.1"]
    own = {"metadata": {"namespace": SERVICE[0], "name": SERVICE[1]}, "spec": {"clusterIP": "172.30.0.10"}}
    seen = content({"Service": {SERVICE: own}, "EndpointSlice": {}, "Namespace": {}}, "nameserver 172.30.0.10\n")
    assert seen.forwarders == ()


def test_a_watch_that_fails_ends_all_so_that_the_process_starts_anew(tmp_path, monkeypatch):
    class Kube:
        def watch(self, _version, kind, stop):
            yield {}
            if kind == "Namespace":
                raise KeyError("metadata")
            stop.wait(SECONDS)

    monkeypatch.setattr(threading, "excepthook", lambda _arguments: None)
    stop = threading.Event()
    began = time.monotonic()
    zone.run(Kube(), stop, tmp_path / "run", tmp_path / "resolv.conf")
    assert time.monotonic() - began < SECONDS / 2
    stop.set()
