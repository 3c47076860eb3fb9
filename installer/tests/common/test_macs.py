"""MAC addresses that differ by a slip of the hand: the stranger that each missing host may be."""

import pytest

from installer.common.macs import mistyped


def mac(end: int) -> list[str]:
    return [f"52:54:00:00:00:{end:02x}"]


@pytest.mark.parametrize(
    ("missing", "strangers", "pairs"),
    [
        ([0x11], [0x22, 0x12], {0: (1, "one digit differs")}),  # the nearest, whoever came first
        ([0x10, 0x11], [0x12, 0x13], {0: (0, "one digit differs"), 1: (1, "one digit differs")}),
        ([0x10, 0x11], [0x22], {0: (0, "two digits differ")}),  # a machine is one host at most
        ([0x10], [0x10], {}),
    ],
)
def test_each_missing_host_has_the_stranger_that_is_nearest(missing, strangers, pairs):
    found = mistyped([mac(end) for end in missing], [mac(end) for end in strangers])
    assert {index: (slip.stranger, slip.words) for index, slip in found.items()} == pairs
