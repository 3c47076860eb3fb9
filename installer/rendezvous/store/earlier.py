"""Rows that an earlier version of the service wrote, in which lists were texts."""

from __future__ import annotations

from typing import Any

import msgspec

from installer.rendezvous.store.diskidentity import DiskIdentity

_LISTS = ("static_network_config", "kernel_arguments")


def upgraded(text: bytes) -> bytes:
    """A row's document as this version stores it. Raises msgspec.MsgspecError for what no version wrote."""
    data: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    for name in _LISTS:
        if isinstance(value := data.get(name), str):
            data[name] = msgspec.json.decode(value or "[]")
    if isinstance(value := data.get("disks_to_be_formatted"), str):
        data["disks_to_be_formatted"] = _words(value)
    if isinstance(value := data.pop("skip_formatting_disks", ""), str):
        skipped = msgspec.convert(data.get("skipped_disks", []), list[DiskIdentity])
        ids = {disk.id for disk in skipped}
        # Nothing but the id is known of these.
        data["skipped_disks"] = [*skipped, *(DiskIdentity(id=name) for name in _words(value) if name not in ids)]
    return msgspec.json.encode(data)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
