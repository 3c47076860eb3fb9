"""The leavings of `create image` in the asset directory, for `wait-for` to read."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from installer.common.formats import jsontext
from installer.common.inputs import LARGEST, LARGEST_STATE, read_text
from installer.errors import StateError
from installer.observe import foreign
from installer.release.access import NEVER_CONTACT, DigestSource

STATE_FILE = ".openshift_install_state.json"
STATE_KEY = "node0"
AGAIN = "run `agent create image` again"
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
MOST_HOSTS = 100_000


@dataclass(frozen=True)
class Expected:
    """Hosts that the configuration describes. ``names``: hostnames that the user gave, empty texts left out.

    ``macs``: the MAC addresses (lower case) of each host that the configuration describes, with its name or an empty
    text; ``count`` may be larger. ``fields``: the field of the user's files that describes each of these, where known.
    """

    names: tuple[str, ...]
    count: int
    macs: tuple[tuple[str, frozenset[str]], ...] = ()
    fields: tuple[str, ...] = ()

    def described(self) -> Iterator[tuple[str, frozenset[str], str]]:
        """Yield name, MAC addresses and field of each host that has MAC addresses, in the configuration's order."""
        for index, (name, macs) in enumerate(self.macs):
            if macs:
                yield name, macs, self.fields[index] if index < len(self.fields) else ""

    def rank(self, macs: frozenset[str]) -> int:
        """Return the place in the configuration of the host with one of these MAC addresses; else the last."""
        return next((index for index, (_, own) in enumerate(self.macs) if own & macs), len(self.macs))


class Places(msgspec.Struct, frozen=True, rename="camel"):
    """Fields of the user's files, each as FILE: PATH: of each described host, and of values that may be wrong."""

    hosts: list[str] = []
    rendezvous_ip: str = msgspec.field(default="", name="rendezvousIP")
    dns: dict[str, list[str]] = msgspec.field(default_factory=dict, name="dnsServers")
    # Hosts by their static addresses
    addresses: dict[str, list[str]] = {}
    # By HOST[:PORT]
    mirrors: dict[str, str] = {}
    pull_field: str = msgspec.field(default="", name="pullSecret")  # of the pull secret
    trust_bundle: str = ""
    proxy: str = ""


@dataclass(frozen=True)
class Images:
    """Images that hosts pull from the start (by digest, by tag), with pull secret, trusted certificates, mirrors."""

    names: Mapping[str, str]
    pull_secret: str = field(repr=False)
    trust_bundle: str
    sources: tuple[DigestSource, ...]


@dataclass(frozen=True)
class Inputs:
    """Everything that waiting needs. ``password`` is None when its file is not needed and not there; ``ca_pem`` is
    empty when the service has no TLS."""

    directory: Path
    rendezvous_ip: str
    ca_pem: str
    token: str = field(repr=False)
    _: KW_ONLY
    cluster_name: str
    base_domain: str
    platform: str
    expected: Expected
    password: str | None = field(repr=False)
    images: Images | None = field(default=None, repr=False)
    places: Places = field(default_factory=Places)

    @property
    def kubeconfig(self) -> Path:
        """The user's kubeconfig, absolute."""
        return self.directory / "auth" / "kubeconfig"

    @property
    def logs(self) -> Path:
        """Return the folder of a failure's evidence."""
        return self.directory / "logs"


def _text(part: dict[str, Any], key: str, *, needed: bool = True) -> str:
    value = part.get(key)
    if not isinstance(value, str) or (needed and not value):
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.{key} is missing or not a text: {AGAIN}")
    return value


def _count(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or not 0 <= value <= MOST_HOSTS:
        raise ValueError(f"a number of hosts is not a whole number from 0 to {MOST_HOSTS}")
    return value


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("names and macAddresses must be lists")
    return value


def _expected(part: dict[str, Any]) -> Expected:
    hosts = part.get("expectedHosts")
    if not isinstance(hosts, dict):
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.expectedHosts is missing: {AGAIN}")
    try:
        control_plane, arbiters, workers = (_count(hosts.get(key)) for key in ("controlPlane", "arbiters", "workers"))
        names = [str(name or "") for name in _list(hosts.get("names"))]
        macs = [frozenset(str(mac).lower() for mac in _list(entry)) for entry in _list(hosts.get("macAddresses"))]
    except ValueError as error:
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.expectedHosts cannot be read: {error}: {AGAIN}") from error
    count = control_plane + arbiters + workers
    described = tuple(zip(names, macs, strict=False)) if len(macs) == len(names) else ()
    fields = tuple(_places(part).hosts)
    return Expected(tuple(name for name in names if name), count or len(names), described, fields)


def _images(part: dict[str, Any]) -> Images | None:
    """None if an older version or another installer made the image, or if it cannot be read: it only helps to explain
    why nothing comes up."""
    names, registry = part.get("images"), part.get("registry")
    try:
        if not names:
            return None
        sources = tuple(
            DigestSource(str(source["source"]), tuple(map(str, source["mirrors"])), source["policy"] == NEVER_CONTACT)
            for source in registry["sources"]  # type: ignore[index]
        )
        texts = {str(tag): str(name) for tag, name in names.items()}
        return Images(texts, str(registry["pullSecret"]), str(registry["trustBundle"]), sources)  # type: ignore[index]
    except (KeyError, TypeError, AttributeError):
        return None


def _places(part: dict[str, Any]) -> Places:
    """Return no fields if an older version or another installer made the image: they only help to mend a fault."""
    try:
        return msgspec.convert(part.get("places") or {}, Places)
    except (msgspec.ValidationError, UnicodeError):  # the latter for half a surrogate pair
        return Places()


def _read(path: Path, what: str, limit: int = LARGEST) -> str:
    try:
        return read_text(path, limit)
    except OSError as error:
        raise StateError(f"cannot read {what} {path}: {error.strerror or error}") from error


def load(directory: Path, *, with_password: bool) -> Inputs:
    """Read the state, check that auth/kubeconfig is there, and with ``with_password`` auth/kubeadmin-password.

    Raises StateError with one sentence on what is missing or damaged.
    """
    directory = directory.absolute()
    document = _document(directory, "agent create image")
    own = document.get(STATE_KEY)
    part = own or foreign.translated(document)
    if not isinstance(part, dict):
        raise StateError(f"{directory / STATE_FILE} has no part {STATE_KEY!r}: run `agent create image` first")
    if own and "rendezvousIP" not in part:
        raise StateError(
            f"{directory / STATE_FILE} was written by `node0 create`: its cluster is waited for by `node0 wait-for`;"
            " for an agent installation run `agent create image`"
        )
    address = _text(part, "rendezvousIP")
    try:
        ip_address(address)
    except ValueError as error:
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.rendezvousIP: {error}: {AGAIN}") from error
    # What openshift-install made has no TLS.
    ca_pem = _text(part, "serviceCACert") if own else ""
    try:
        if own:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=ca_pem)
    except (ssl.SSLError, ValueError, TypeError):  # the last one for what is not ASCII
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.serviceCACert is not a PEM certificate: {AGAIN}") from None
    token = _text(part, "watcherToken")
    if not TOKEN.fullmatch(token):
        raise StateError(f"{STATE_FILE}: {STATE_KEY}.watcherToken is not a token: {AGAIN}")
    found = _inputs(directory, part, with_password=with_password)
    return replace(found, rendezvous_ip=address, ca_pem=ca_pem, token=token)


def load_cluster(directory: Path, *, with_password: bool) -> Inputs:
    """Read what waiting for the cluster's API alone needs, whoever filled the directory. Raises StateError."""
    directory = directory.absolute()
    part = _document(directory, "create ignition-configs").get(STATE_KEY)
    if not isinstance(part, dict):
        raise StateError(
            f"{directory / STATE_FILE} has no part {STATE_KEY!r}: run `node0 create ignition-configs` first"
        )
    return _inputs(directory, part, with_password=with_password)


def _document(directory: Path, first: str) -> dict[str, Any]:
    try:
        text = _read(directory / STATE_FILE, f"the state of `{first}` in", LARGEST_STATE)
    except StateError as error:
        raise StateError(f"{error}: run `{first}` first") from error
    try:
        document = jsontext.loads(text)
    except ValueError as error:
        raise StateError(f"{directory / STATE_FILE} is not JSON: {error}: {AGAIN}") from error
    return document if isinstance(document, dict) else {}


def _inputs(directory: Path, part: dict[str, Any], *, with_password: bool) -> Inputs:
    _read(directory / "auth" / "kubeconfig", "the kubeconfig")
    password = _read(directory / "auth" / "kubeadmin-password", "the kubeadmin password") if with_password else None
    return Inputs(
        directory=directory,
        rendezvous_ip="",
        ca_pem="",
        token="",
        cluster_name=_text(part, "clusterName"),
        base_domain=_text(part, "baseDomain", needed=False),
        platform=_text(part, "platform", needed=False),
        expected=_expected(part),
        password=password,
        images=_images(part),
        places=_places(part),
    )
