"""The feeder of a node's DNS server: the cluster's objects in, unbound's files and orders to it out.

Tried of Debian 12's servers, with one zone of 300 records:

- unbound (17 MB; 25 with Python, which names of pods need): the zone as an auth-zone is replaced at once in 8 ms,
  answers large ones over TCP, follows CNAMEs out of the zone, and forwards the rest. The other way to give it records,
  `local_data`, does not follow CNAMEs, and replaces a name's records only by removing all of them first.
- knot (9 MB): the best authority, but it follows no CNAME out of its zones, and forwards without a cache.
- PowerDNS: its authority did not start here, and forwards nothing by its documentation, so there would be two servers;
  its recursor alone (29 MB) does all with Lua, but its reload failed here.

Unbound reads the same files when it starts, so that it serves the last known zone while this program is away; when this
program starts, it writes all of them anew.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from lab.release.cluster.errors import ClusterError
from lab.release.cluster.kube.client import Kube, Objects
from lab.release.cluster.network import records
from lab.release.cluster.network.records import DNS_SERVICE, TTL, ZONE, Record

log = logging.getLogger(__name__)

#: Where unbound's container sees the files, too.
DIRECTORY = Path("/run/openshift-dns")
#: The node's own, in this program's container.
RESOLV_CONF = Path("/host/etc/resolv.conf")
#: What is watched: the kinds whose objects have names.
KINDS = {"Service": "v1", "EndpointSlice": "discovery.k8s.io/v1beta1", "Namespace": "v1"}
#: Seconds: for changes that come together; until unbound is asked again that did not answer; between two looks at
#: resolv.conf; for one order to unbound.
TOGETHER_SECONDS = 0.1
RETRY_SECONDS = 1.0
LOOK_SECONDS = 10.0
ORDER_SECONDS = 10.0
#: In place of forwarders where there are none: nothing answers there, so other names fail at once.
NOBODY = "127.0.0.1@1"


class ServerError(ClusterError):
    """unbound refused an order, or does not run."""


def forwarders(resolv_conf: str, own: Iterable[str]) -> list[str]:
    """Return the resolvers of a resolv.conf, without those that would lead back to a pod or to the cluster's own
    addresses ``own``."""
    found = []
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            address = ip_address(words[1])
        except ValueError:
            continue
        # A link-local one is reached by the node only, a loopback one would be the pod's own.
        if not (address.is_loopback or address.is_link_local or address.is_unspecified or str(address) in set(own)):
            found.append(str(address))
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Content:
    """All that a server is to know."""

    records: frozenset[Record] = frozenset()
    namespaces: tuple[str, ...] = ()
    forwarders: tuple[str, ...] = ()

    @property
    def pointers(self) -> frozenset[Record]:
        """The records for reverse look-ups, which belong to no zone of the cluster's own."""
        return frozenset(record for record in self.records if record.type == "PTR")

    def files(self, serial: int) -> Iterator[tuple[str, str]]:
        """Name and text of each file; the zone, which the server waits for when it starts, comes last."""
        pointers = sorted(f'local-data: "{name} {TTL} IN {kind} {data}"\n' for name, kind, data in self.pointers)
        yield "reverse.conf", "".join(pointers)
        addresses = "".join(f"    forward-addr: {address}\n" for address in self.forwarders or (NOBODY,))
        yield "upstream.conf", f'forward-zone:\n    name: "."\n{addresses}'
        yield "namespaces", "".join(f"{name}\n" for name in self.namespaces)
        yield f"{ZONE}.zone", records.zone_file(self.records, serial)


def content(objects: dict[str, Objects], resolv_conf: str) -> Content:
    """Return what a server is to know of a cluster with these objects, by kind, on a node with this resolv.conf."""
    services, slices = objects["Service"].values(), objects["EndpointSlice"].values()
    namespaces = tuple(sorted(name for _, name in objects["Namespace"]))
    service = objects["Service"].get(DNS_SERVICE) or {"spec": {}}
    own = [*service["spec"].get("clusterIPs", []), str(service["spec"].get("clusterIP"))]
    found = records.records(services, slices, namespaces)
    return Content(found, namespaces, tuple(forwarders(resolv_conf, own)))


@dataclass
class Server:
    """unbound, as its files and its control socket."""

    directory: Path

    def order(self, words: str) -> str:
        """Give unbound an order as `unbound-control` does, and return the answer. Raises ServerError."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(ORDER_SECONDS)
                stream.connect(str(self.directory / "control.sock"))
                stream.sendall(f"UBCT1 {words}\n".encode())
                answer = b"".join(iter(lambda: stream.recv(65536), b"")).decode()
        except OSError as error:
            raise ServerError(f"{words.split()[0]}: {error}") from error
        if answer.startswith("error"):
            raise ServerError(f"{words.split()[0]}: {answer.strip()}")
        return answer

    def write(self, wanted: Content) -> None:
        """Write the files, each at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.files(int(time.time())):
            path = self.directory / name
            new = path.with_name(f".{name}")
            new.write_text(text)
            os.replace(new, path)

    def tell(self, wanted: Content) -> None:
        """Have a running server use what the files say. Raises ServerError."""
        self.order(f"forward_add . {' '.join(wanted.forwarders or (NOBODY,))}")
        self.order(f"auth_zone_reload {ZONE}")
        had = set()
        for line in self.order("list_local_data").splitlines():
            words = line.split()
            if len(words) == 5 and words[3] == "PTR" and words[4] != "localhost.":
                had.add(Record(words[0], words[3], words[4]))
        stale = {record.name for record in had - wanted.pointers}
        for name in sorted(stale):
            self.order(f"local_data_remove {name}")
        for record in sorted(wanted.pointers):
            if record not in had or record.name in stale:
                self.order(f"local_data {record.name} {TTL} IN PTR {record.data}")


class Feeder:
    """The loop: `note` takes what a watch saw, `step` brings the server to it."""

    def __init__(self, server: Server, resolv_conf: Path) -> None:
        self._server = server
        self._resolv_conf = resolv_conf
        self._objects: dict[str, Objects] = {}
        self._changed = threading.Event()
        self._known: Content | None = None
        self._failed = ""
        self._ended = False

    def end(self) -> None:
        """End the loop: what it knows grows old."""
        self._ended = True
        self._changed.set()

    def note(self, kind: str, objects: Objects) -> None:
        """Take all objects of a kind as they are now."""
        self._objects[kind] = objects
        self._changed.set()

    def step(self) -> bool:
        """Write what has changed and tell the server; False while it is to be told again. Nothing is written before
        each kind has been seen."""
        if set(self._objects) != set(KINDS):
            return True
        try:
            resolv_conf = self._resolv_conf.read_text()
        except OSError as error:
            log.warning("cluster DNS: no forwarders: %s", error)
            resolv_conf = ""
        wanted = content(dict(self._objects), resolv_conf)
        if wanted != self._known:
            self._server.write(wanted)
            if self._known is None or wanted.forwarders != self._known.forwarders:
                log.info("cluster DNS: other names are asked of %s", ", ".join(wanted.forwarders) or "nobody")
        elif not self._failed:
            return True
        self._known = wanted
        try:
            self._server.tell(wanted)
        except ServerError as error:
            if str(error) != self._failed:
                log.warning("cluster DNS: %s", error)
            self._failed = str(error)
            return False
        if self._failed:
            log.info("cluster DNS: the server has the zone of %d records", len(wanted.records))
        self._failed = ""
        return True

    def run(self, stop: threading.Event) -> None:
        """Repeat steps until ``stop`` or `end`: with each change, and in between for resolv.conf."""
        good = True
        while not (stop.is_set() or self._ended):
            if self._changed.wait(LOOK_SECONDS if good else RETRY_SECONDS):
                stop.wait(TOGETHER_SECONDS)
                self._changed.clear()
            try:
                good = self.step()
            except OSError as error:
                log.warning("cluster DNS: %s", error)
                good = False


def run(kube: Kube, stop: threading.Event, directory: Path = DIRECTORY, resolv_conf: Path = RESOLV_CONF) -> None:
    """Keep this node's DNS server up to date until ``stop``; ends sooner when one of the watches has failed."""
    feeder = Feeder(Server(directory), resolv_conf)

    def follow(kind: str) -> None:
        try:
            for objects in kube.watch(KINDS[kind], kind, stop):
                feeder.note(kind, objects)
        finally:
            feeder.end()

    for kind in KINDS:
        threading.Thread(target=follow, args=(kind,), name=f"watch {kind}", daemon=True).start()
    feeder.run(stop)
