"""Reports of a host's agent as they are stored: documents that keep their text and its decoded value.

The API shows these as JSON texts, members that nobody here reads included, so the text is kept and goes out as it came
in; what it means is a typed value, decoded once for each text.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import msgspec

from installer.assisted import inventory as inv
from installer.assisted.enums import Result, ValidationCategory
from installer.assisted.steparguments import PeerNic, text_of
from installer.common.formats import jsontext

T = TypeVar("T")
# Stands for "not decoded yet": any value may be a document's, None and an empty list included.
_UNREAD: Any = object()


class Document(Generic[T]):
    """A JSON text and its value; an empty text stands for no document. Immutable, like all that is stored."""

    __slots__ = ("_value", "text")
    kind: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        [base] = vars(cls)["__orig_bases__"]
        [cls.kind] = get_args(base)

    def __init__(self, text: str = "", value: T | None = _UNREAD) -> None:
        """``value``: the text decoded, where the caller has it already."""
        self.text = text
        self._value = value

    @classmethod
    def of(cls, value: T) -> Self:
        """Return the document with this value."""
        return cls(cls.encode(value), value)

    @classmethod
    def received(cls, text: str) -> Self:
        """Return a document as it was sent. Raises msgspec.MsgspecError when it cannot be read."""
        return cls(text, cls.decode(text))

    @classmethod
    def decode(cls, text: str) -> T:
        """Return the value of a text. Raises msgspec.MsgspecError."""
        value: T = jsontext.typed(text, cls.kind)
        return value

    @classmethod
    def encode(cls, value: T) -> str:
        """Return the text of a value."""
        return json.dumps(msgspec.to_builtins(value))

    @property
    def value(self) -> T | None:
        """The document's value; None when there is none, or what was stored cannot be read."""
        if self._value is _UNREAD:
            try:
                self._value = self.decode(self.text) if self.text else None
            except msgspec.MsgspecError:
                self._value = None
        return self._value

    def __bool__(self) -> bool:
        return bool(self.text)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.text)} characters)"


class Report(msgspec.Struct, frozen=True, gc=False):
    """An object within what a step printed, as far as this service reads it (installer.md §6.3)."""


class HostInventory(Document[inv.Inventory]):
    """The agent's inventory of its host."""

    __slots__ = ("_nics",)

    @classmethod
    def encode(cls, value: inv.Inventory) -> str:
        """As JSON, which is how the store has it."""
        return inv.encode(value)

    @property
    def nics(self) -> str:
        """JSON list of the NICs that have addresses, as connectivity-check takes a peer's."""
        try:
            return self._nics
        except AttributeError:
            nics = [
                PeerNic(
                    name=nic.name,
                    mac=nic.mac_address,
                    ip_addresses=[address.split("/")[0] for address in (*nic.ipv4_addresses, *nic.ipv6_addresses)],
                )
                for nic in (self.value.interfaces if self.value else ())
                if nic.ipv4_addresses or nic.ipv6_addresses
            ]
            self._nics: str = text_of(nics)
            return self._nics


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One verdict in ``validations_info``."""

    id: str
    status: Result
    message: str


# The shape of ``validations_info``: entries by category.
Info = dict[ValidationCategory, list[Entry]]


class Validations(Document[Info]):
    """The results of the validations."""

    __slots__ = ()

    @classmethod
    def encode(cls, value: Info) -> str:
        """As JSON, which is how the store has it."""
        return msgspec.json.encode(value).decode()

    def results(self) -> dict[str, Result]:
        """Results by the validation's id."""
        return {entry.id: entry.status for entries in (self.value or {}).values() for entry in entries}


class NtpSource(Report, frozen=True, gc=False):
    """One time source."""

    source_name: str | None = None
    source_state: str | None = None


class TimeSources(Document[list[NtpSource]]):
    """The host's time sources, as ntp-synchronizer reports them."""

    __slots__ = ()


class Resolution(Report, frozen=True, gc=False):
    """One name and its addresses."""

    domain_name: str | None = None
    ipv4_addresses: list[str] | None = None
    ipv6_addresses: list[str] | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses of both families."""
        return [*(self.ipv4_addresses or []), *(self.ipv6_addresses or [])]


class Resolutions(Report, frozen=True, gc=False):
    """The output of domain-resolution."""

    resolutions: list[Resolution] | None = None


class NameResolutions(Document[Resolutions]):
    """Names as they resolve on the host."""

    __slots__ = ()


class FreeNetwork(Report, frozen=True, gc=False):
    """A network as a CIDR, and those of its addresses at which nobody answers."""

    network: str | None = None
    free_addresses: list[str] | None = None


class FreeAddresses(Document[list[FreeNetwork]]):
    """Addresses that nobody uses, of free-network-addresses."""

    __slots__ = ()


class VerifiedVip(Report, frozen=True, gc=False):
    """A virtual address and the finding there."""

    vip: str | None = None
    verification: str | None = None


class VerifiedVips(Document[list[VerifiedVip]]):
    """The output of verify-vips."""

    __slots__ = ()


class TangAnswer(Report, frozen=True, gc=False):
    """One server's answer."""

    tang_url: str | None = None


class Tang(Report, frozen=True, gc=False):
    """The output of tang-connectivity-check."""

    is_success: bool | None = None
    tang_server_response: list[TangAnswer] | None = None


class TangConnectivity(Document[Tang]):
    """The answers of the Tang servers to this host."""

    __slots__ = ()


class ApiVip(Report, frozen=True, gc=False):
    """The output of api-vip-connectivity-check."""

    is_success: bool | None = None
    url: str | None = None
    download_error: str | None = None


class ApiVipConnectivity(Document[ApiVip]):
    """The host's attempt to fetch its ignition from the cluster."""

    __slots__ = ()


class DiskSpeed(Report, frozen=True, gc=False, omit_defaults=True):
    """A measurement: the worst synced write, ms, or the code and the words that it ended with."""

    tested: bool = False
    exit_code: int | None = None
    speed_ms: int | None = None
    error: str | None = None


class DiskInfo(Report, frozen=True, gc=False, omit_defaults=True):
    """The measurement of one disk."""

    path: str = ""
    disk_speed: DiskSpeed | None = None


class DisksInfo(Document[dict[str, DiskInfo]]):
    """Measurements of the host's disks, by path."""

    __slots__ = ()

    def speed(self, path: str) -> DiskSpeed:
        """Return the measurement of a disk; an untested one when there is none."""
        info = (self.value or {}).get(path)
        return (info and info.disk_speed) or DiskSpeed()


class Image(Report, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """One image as it was pulled: bytes and seconds."""

    name: str | None = None
    result: str | None = None
    size_bytes: float | None = None
    time: float | None = None
    error: str | None = None


class ImagesStatus(Document[list[Image]]):
    """Images as they were pulled, of container-image-availability."""

    __slots__ = ()


class InstallerArgs(Document[list[str]]):
    """The user's own arguments for coreos-installer."""

    __slots__ = ()


class ValidationIds(Document[list[str]]):
    """Ids of validations, or ``all``, that the user ignores."""

    __slots__ = ()


class MajorityGroups(Document[dict[str, list[str]]]):
    """Ids of the hosts that reach each other, by network or address family."""

    __slots__ = ()


class NodeLabels(Document[dict[str, str]]):
    """Labels that the node is to have."""

    __slots__ = ()


class FencingCredentials(Document[dict[str, Any]]):
    """The credentials with which another node switches this one off, as the user gave them."""

    __slots__ = ()
