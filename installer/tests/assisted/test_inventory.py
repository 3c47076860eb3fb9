"""Inventories as upstream's agent writes them: null for each list that is empty, as Go's encoder does."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted import inventory as inv
from installer.testing.service.rendezvous_kit import inventory

LISTS = ("interfaces", "disks", "gpus", "routes")


def with_nulls(value: Any) -> Any:
    """Return the same inventory, with null where Go has no value."""
    if isinstance(value, dict):
        return {key: with_nulls(item) for key, item in value.items()}
    return [with_nulls(item) for item in value] or None if isinstance(value, list) else value


def test_null_is_what_is_not_there() -> None:
    whole = json.loads(inv.encode(inv.decode(json.dumps(inventory()))))
    assert None in with_nulls(whole).values()
    assert inv.decode(json.dumps(with_nulls(whole))) == inv.decode(json.dumps(whole))


@pytest.mark.parametrize("name", LISTS)
def test_each_list_may_be_null(name: str) -> None:
    assert getattr(inv.decode(json.dumps({**inventory(), name: None})), name) == []


def test_nulls_within_a_disk_and_a_nic() -> None:
    sent = inventory()
    sent["disks"][0]["installation_eligibility"]["not_eligible_reasons"] = None
    sent["disks"][0].update(io_perf=None, hctl=None)
    sent["interfaces"][0].update(ipv6_addresses=None, flags=None)
    sent["cpu"]["flags"] = None
    assert inv.decode(json.dumps(sent)) == inv.decode(json.dumps(inventory()))


@pytest.mark.parametrize("part", ["boot", "cpu", "memory", "system_vendor"])
def test_a_host_has_all_of_its_parts(part: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=part):
        inv.decode(json.dumps({**inventory(), part: None}))


@pytest.mark.parametrize("bad", [{"disks": [None]}, {"disks": None, "hostname": 7}, {"routes": {"a": None}}])
def test_what_is_wrong_besides_is_told(bad: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        inv.decode(json.dumps({**inventory(), **bad}))


def test_null_does_not_hide_that_it_is_nested_too_deep() -> None:
    text = json.dumps({**inventory(), "disks": None, "x": None})
    deep = text[:-1] + ', "y": ' + "[" * 100 + "]" * 100 + "}"
    with pytest.raises(msgspec.ValidationError, match="nested deeper"):
        inv.decode(deep)


@given(st.sets(st.sampled_from([*LISTS, "hostname", "bmc_address", "tpm_version", "truncation"])))
def test_null_and_absent_are_one(names: set[str]) -> None:
    sent = inventory()
    without = {key: value for key, value in sent.items() if key not in names}
    assert inv.decode(json.dumps({**sent, **dict.fromkeys(names)})) == inv.decode(json.dumps(without))
