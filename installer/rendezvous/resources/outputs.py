"""What agents' steps print, as far as this service reads it (installer.md §6.3); what else is there is passed over."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from installer.assisted.errors import BadRequest
from installer.common.formats import jsontext
from installer.rendezvous.store.documents import FreeNetwork, Image, NtpSource, Report
from installer.rendezvous.validations.networks import network_of


class NtpSources(Report, frozen=True, gc=False):
    """What ntp-synchronizer answers."""

    ntp_sources: list[NtpSource] | None = None


class DiskSpeed(Report, frozen=True, gc=False):
    """What installation-disk-speed-check answers: the worst synced write, ms."""

    path: str = ""
    io_sync_duration: int = 0


class Images(Report, frozen=True, gc=False):
    """What container-image-availability answers."""

    images: list[Image] | None = None


T = TypeVar("T")


def read(output: str, step: str, kind: type[T]) -> tuple[T, Any]:
    """What a step printed, and the same as it was sent. Raises BadRequest."""
    try:
        value = jsontext.parsed(output)
    except ValueError:
        value = None
    if value is None:
        raise BadRequest(f"the output of step {step} is not JSON")
    try:
        return msgspec.convert(value, kind), value
    except msgspec.ValidationError as error:
        raise BadRequest(f"the output of step {step} cannot be understood: {jsontext.in_words(error, 'it')}") from None


def unreadable(what: str, error: msgspec.MsgspecError) -> BadRequest:
    """The BadRequest for a document that the store cannot decode."""
    words = jsontext.in_words(error, "it") if isinstance(error, msgspec.ValidationError) else str(error)
    return BadRequest(f"{what} cannot be read: {words}")


def check_networks(networks: list[FreeNetwork], step: str) -> None:
    """Raise BadRequest for a text that is not a network."""
    for index, item in enumerate(networks):
        try:
            network_of(item.network or "0.0.0.0/0")
        except ValueError as error:
            raise BadRequest(f"the output of step {step} cannot be understood: [{index}].network: {error}") from None
