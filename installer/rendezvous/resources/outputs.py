"""What agents' steps print, as far as this service reads it (installer.md §6.3); what else is there is passed over."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from installer.assisted import plainjson
from installer.assisted.errors import BadRequest
from installer.rendezvous.resources.params import told
from installer.rendezvous.validations.networks import network_of


class Output(msgspec.Struct, frozen=True, gc=False):
    """An object within what a step printed."""


class NtpSource(Output, frozen=True, gc=False):
    """One time source."""

    source_name: str | None = None
    source_state: str | None = None


class NtpSources(Output, frozen=True, gc=False):
    """Of ntp-synchronizer."""

    ntp_sources: list[NtpSource] | None = None


class Resolution(Output, frozen=True, gc=False):
    """One name and its addresses."""

    domain_name: str | None = None
    ipv4_addresses: list[str] | None = None
    ipv6_addresses: list[str] | None = None


class Resolutions(Output, frozen=True, gc=False):
    """Of domain-resolution."""

    resolutions: list[Resolution] | None = None


class FreeAddresses(Output, frozen=True, gc=False):
    """Of free-network-addresses, one of a list: a network as a CIDR, and what nobody answers at."""

    network: str | None = None
    free_addresses: list[str] | None = None


class VerifiedVip(Output, frozen=True, gc=False):
    """Of verify-vips, one of a list."""

    vip: str | None = None
    verification: str | None = None


class Tang(Output, frozen=True, gc=False):
    """Of tang-connectivity-check."""

    is_success: bool | None = None


class ApiVip(Output, frozen=True, gc=False):
    """Of api-vip-connectivity-check."""

    is_success: bool | None = None
    url: str | None = None
    download_error: str | None = None


class DiskSpeed(Output, frozen=True, gc=False):
    """Of installation-disk-speed-check: the worst synced write, ms."""

    path: str = ""
    io_sync_duration: int = 0


class Image(Output, frozen=True, gc=False):
    """One image as it was pulled: bytes and seconds."""

    name: str | None = None
    result: str | None = None
    size_bytes: float | None = None
    time: float | None = None
    error: str | None = None


class Images(Output, frozen=True, gc=False):
    """Of container-image-availability."""

    images: list[Image] | None = None


T = TypeVar("T")


def read(output: str, step: str, kind: type[T]) -> tuple[T, Any]:
    """What a step printed, and the same as it was sent. Raises BadRequest."""
    try:
        value = plainjson.parsed(output)
    except ValueError:
        value = None
    if value is None:
        raise BadRequest(f"the output of step {step} is not JSON")
    try:
        return msgspec.convert(value, kind), value
    except msgspec.ValidationError as error:
        raise BadRequest(f"the output of step {step} cannot be understood: {told(error, 'it')}") from None


def check_networks(found: list[FreeAddresses], step: str) -> None:
    """Raise BadRequest for a network that is none."""
    for index, item in enumerate(found):
        try:
            network_of(item.network or "0.0.0.0/0")
        except ValueError as error:
            raise BadRequest(f"the output of step {step} cannot be understood: [{index}].network: {error}") from None
