"""Faults of the data centre around the machines: the lab's DNS, DHCP, NTP, registry and BMCs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

import bcrypt
import msgspec
import yaml

from installer.common.formats import yamltext
from installer.common.secretfiles import write_private
from lab.cleanup import finish
from lab.daemons.switch import rogue
from lab.errors import LabError
from lab.faults.values import check_address
from lab.running import RunningLab
from lab.subject.contents import manifest
from lab.subject.stores import RegistryStorage

_STORAGE = "docker/registry/v2"
_CONFIGURATIONS = {"dnsmasq": "dnsmasq.conf", "proxy": "proxy.conf", "registry": "registry.yaml"}
# The lab's daemons that no machine asks, and what they do. Without `impair` nothing would pass where such faults last;
# with machined container machines end, and each question of their power waits for it.
_OWN = {
    "impair": "serves other faults of this lab",
    "libvirtd": "runs the lab's machines",
    "machined": "runs the lab's machines",
}
How = Literal["absent", "truncated", "wrong", "error"]
# The second DHCP server, and how many seconds the offers of one of two come after the other's.
_ROGUE, _LATE_SECONDS = "rogue-dhcp", 3


class Outage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab (dnsmasq, registry, chronyd, bmc, http, proxy) is down: connections are refused."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Kill it. Raises LabError for a daemon that is the lab's own."""
        _refuse_own(self.service)
        lab.services.stop(self.service)

    def end(self, lab: RunningLab) -> None:
        """Start it again."""
        lab.services.start(self.service)


class Crash(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab dies, which is the lab's own failure: whatever is tested in it then is void."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Kill it where nobody expects it."""
        lab.services.kill(self.service)

    def end(self, lab: RunningLab) -> None:
        """Start it again; what was tested stays void."""
        lab.services.start(self.service)


class Hang(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A service of the lab accepts requests and never answers; for dnsmasq, a DNS black hole."""

    service: str

    def begin(self, lab: RunningLab) -> None:
        """Suspend its process. Raises LabError for a daemon that is the lab's own."""
        _refuse_own(self.service)
        lab.services.pause(self.service)

    def end(self, lab: RunningLab) -> None:
        """Resume it; it then answers the requests that have queued up."""
        lab.services.resume(self.service)


class NameMissing(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """DNS has no such name; api, api-int and registry stand for the cluster's and the lab's."""

    name: str

    def begin(self, lab: RunningLab) -> None:
        """Take its records away."""
        _edit(lab, "dnsmasq", lambda text: _without(text, _full(lab, self.name)))

    def end(self, lab: RunningLab) -> None:
        """Give them back."""
        _restore(lab, "dnsmasq")


class NameWrong(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """DNS answers another address for this name (api, api-int, registry, or a full one)."""

    name: str
    address: str

    def __post_init__(self) -> None:
        check_address("address", self.address)

    def begin(self, lab: RunningLab) -> None:
        """Answer with the wrong address."""
        name = _full(lab, self.name)
        _edit(lab, "dnsmasq", lambda text: f"{_without(text, name)}host-record={name},{self.address}\n")

    def end(self, lab: RunningLab) -> None:
        """Answer with the right one again."""
        _restore(lab, "dnsmasq")


class DhcpWrong(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Leases name another gateway and another DNS server: those of a second DHCP server that is quicker."""

    gateway: str
    dns: str

    def __post_init__(self) -> None:
        for field in ("gateway", "dns"):
            check_address(field, getattr(self, field), 4)

    def begin(self, lab: RunningLab) -> None:
        """Lease with the other gateway and DNS server. Raises LabError where the lab leases nothing."""

        def change(text: str) -> str:
            for option, value in (("router", self.gateway), ("dns-server", self.dns)):
                text, count = re.subn(rf"(?m)(?<=,option:{option})(,.*)?$", f",{value}", text)
                if not count:
                    raise LabError("dnsmasq leases no IPv4 addresses in this lab: a second DHCP server changes nothing")
            return text

        _edit(lab, "dnsmasq", change)

    def end(self, lab: RunningLab) -> None:
        """Lease with the right settings again."""
        _restore(lab, "dnsmasq")


class RogueDhcp(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Somebody has plugged in a router: a second DHCP server, which leases addresses of its own `network` and names
    itself as gateway and DNS server, though nobody is behind it. Its offers come first, or last, by seconds."""

    network: str = "192.168.1.0/24"
    comes: Literal["first", "last"] = "first"

    def __post_init__(self) -> None:
        try:
            small = IPv4Network(self.network).num_addresses < 16
        except ValueError as error:
            raise ValueError(f"network: {error}") from error
        if small:
            raise ValueError(f"network: {self.network} has no room for leases: want a /28 at least")

    def begin(self, lab: RunningLab) -> None:
        """Plug it in. Raises LabError where the lab leases nothing."""
        leasing = re.search(r"(?m)^dhcp-range=set:([^,]+),\d+\.", _configuration(lab, "dnsmasq").read_text())
        if leasing is None:
            raise LabError("dnsmasq leases no IPv4 addresses in this lab: nobody asks a second DHCP server")
        late = _LATE_SECONDS if self.comes == "last" else 0
        leases, sock = lab.layout.root / "rogue-dhcp.leases", lab.layout.rogue_socket
        config = rogue.Config(
            bridge=leasing[1], network=self.network, seconds=late, leases=str(leases), socket=str(sock)
        )
        lab.layout.rogue.write_bytes(msgspec.json.encode(config))
        with ExitStack() as begun:
            lab.services.start(_ROGUE)
            begun.callback(lab.services.stop, _ROGUE)
            if self.comes == "first":
                _edit(lab, "dnsmasq", lambda text: f"{text}dhcp-reply-delay={_LATE_SECONDS}\n")
            begun.pop_all()

    def end(self, lab: RunningLab) -> None:
        """Unplug it; who has one of its leases keeps that for an hour."""
        lab.services.stop(_ROGUE)
        if self.comes == "first":
            _restore(lab, "dnsmasq")


class ProxyRefuses(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The lab's HTTP proxy lets nobody through: it answers 403."""

    def begin(self, lab: RunningLab) -> None:
        """Allow only a port that nobody uses. Raises LabError where the lab has no proxy."""
        if not _configuration(lab, "proxy").exists():
            raise LabError("this lab has no proxy (`proxy: true` in a topology)")
        _edit(lab, "proxy", lambda text: re.sub(r"(?m)^ConnectPort .*$", "ConnectPort 1", text))

    def end(self, lab: RunningLab) -> None:
        """Allow the registry's port again."""
        _restore(lab, "proxy")


class BmcUnready(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Every BMC answers 503 to every request, as one does that is starting or overloaded."""

    def begin(self, lab: RunningLab) -> None:
        """Have them refuse."""
        lab.layout.bmc_unready.touch()

    def end(self, lab: RunningLab) -> None:
        """Have them answer again."""
        lab.layout.bmc_unready.unlink(missing_ok=True)


class RegistryRefuses(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The registry answers 401: it does not know the pull secret's user any more."""

    def begin(self, lab: RunningLab) -> None:
        """Accept another user's password only."""
        path = lab.layout.root / "registry.htpasswd"
        _refuse_second("registry", path)
        shutil.copy2(path, _original(path))
        hashed = bcrypt.hashpw(os.urandom(8).hex().encode(), bcrypt.gensalt(rounds=4)).decode()
        write_private(path, f"nobody:{hashed}\n".encode())

    def end(self, lab: RunningLab) -> None:
        """Accept the pull secret's user again."""
        path = lab.layout.root / "registry.htpasswd"
        _put_back(path)
        # docker-registry reads the file anew when its date is another one.
        os.utime(path)


class RegistryCertificate(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The registry's certificate has expired."""

    def begin(self, lab: RunningLab) -> None:
        """Serve with one that was valid until yesterday."""

        def change(text: str) -> str:
            config = yamltext.load(text)
            tls = config["http"]["tls"]
            tls["certificate"], tls["key"] = (str(lab.layout.root / f"expired.{end}") for end in ("crt", "key"))
            return yaml.safe_dump(config)

        _edit(lab, "registry", change)

    def end(self, lab: RunningLab) -> None:
        """Serve with the good one."""
        _restore(lab, "registry")


class RegistryImage(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The registry has one image of the release (by its tag) not as it should be.

    `how`: absent (404), truncated or wrong (its uppermost layer), error (500 for its manifest).
    """

    image: str
    how: How = "absent"

    def begin(self, lab: RunningLab) -> None:
        """Serve a copy of the storage in which all is a link but this."""
        if not lab.components:
            raise LabError("this lab's registry serves no release")
        if self.image not in lab.components:
            raise LabError(f"image: {self.image!r}: the release has {', '.join(sorted(lab.components))}")
        path = _configuration(lab, "registry")
        # It would take away the storage that the other one has the registry serve.
        _refuse_second("registry", path)
        storage = Path(yamltext.load(path.read_text())["storage"]["filesystem"]["rootdirectory"])
        digest = lab.components[self.image].rpartition("@")[2]
        view = lab.layout.root / "registry-fault"
        shutil.rmtree(view, ignore_errors=True)
        _view(RegistryStorage(storage), digest, self.how, view)

        def change(text: str) -> str:
            config = yamltext.load(text)
            config["storage"]["filesystem"]["rootdirectory"] = str(view)
            # What it remembers of blobs is right no more.
            config["storage"].pop("cache", None)
            return yaml.safe_dump(config)

        _edit(lab, "registry", change)

    def end(self, lab: RunningLab) -> None:
        """Serve the storage itself."""
        _restore(lab, "registry")


def _refuse_own(service: str) -> None:
    if service in _OWN:
        raise LabError(f"{service} {_OWN[service]}, and nobody that is tested asks it; `crash` has the lab fail by it")


def _view(storage: RegistryStorage, digest: str, how: How, view: Path) -> None:
    """Make a storage directory like that one, with one blob changed."""
    changed = digest if how in ("absent", "error") else manifest(storage, digest)["layers"][-1]["digest"]
    name = changed.partition(":")[2]
    source, target = storage.root / _STORAGE, view / _STORAGE
    (target / "blobs/sha256").mkdir(parents=True)
    (target / "repositories").symlink_to(source / "repositories")
    for folder in (source / "blobs/sha256").iterdir():
        here = target / "blobs/sha256" / folder.name
        if folder.name != name[:2]:
            here.symlink_to(folder)
            continue
        here.mkdir()
        for blob in folder.iterdir():
            if blob.name != name:
                (here / blob.name).symlink_to(blob)
    data = target / "blobs/sha256" / name[:2] / name / "data"
    if how == "error":
        # A link to itself: it is there, and cannot be read.
        data.parent.mkdir()
        data.symlink_to(data.name)
    elif how != "absent":
        data.parent.mkdir()
        content = (source / "blobs/sha256" / name[:2] / name / "data").read_bytes()
        data.write_bytes(
            content[: len(content) // 2] if how == "truncated" else content[:-1] + bytes([content[-1] ^ 1])
        )


def _full(lab: RunningLab, name: str) -> str:
    topology = lab.layout.topology
    if "." in name:
        return name
    return f"{name}.{topology.cluster_domain if name in ('api', 'api-int') else topology.base_domain}"


def _without(text: str, name: str) -> str:
    left, count = re.subn(rf"(?m)^host-record={re.escape(name)},.*\n", "", text)
    if not count:
        raise LabError(f"name: {name!r}: the lab's DNS has no such record")
    return left


def _configuration(lab: RunningLab, service: str) -> Path:
    return lab.layout.root / _CONFIGURATIONS[service]


def _original(path: Path) -> Path:
    """Return the path where a configuration's original is kept while a fault has changed it."""
    return path.with_name(f"{path.name}.whole")


def _refuse_second(service: str, path: Path) -> None:
    if _original(path).exists():
        raise LabError(f"{service} has a fault already: end that first")


def _edit(lab: RunningLab, service: str, change: Callable[[str], str]) -> None:
    """Change a service's configuration and start it anew. Raises LabError when a fault has changed it already."""
    path = _configuration(lab, service)
    _refuse_second(service, path)
    text = path.read_text()
    changed = change(text)
    write_private(_original(path), text.encode())
    write_private(path, changed.encode())
    try:
        _restart(lab, service)
    except LabError as error:
        # A fault that has not begun cannot be ended, so nothing of it may stay.
        _original(path).replace(path)
        finish((f"start {service} as it was", lambda: lab.services.start(service)), cause=error)
        raise


def _restore(lab: RunningLab, service: str) -> None:
    _put_back(_configuration(lab, service))
    _restart(lab, service)


def _put_back(path: Path) -> None:
    """Put the original back, if there is one: a fault may have been interrupted before it changed anything."""
    if _original(path).exists():
        _original(path).replace(path)


def _restart(lab: RunningLab, service: str) -> None:
    """Have a daemon read its configuration; one that another fault has stopped reads it when that fault ends."""
    if lab.services.running()[service]:
        lab.services.stop(service)
        lab.services.start(service)
