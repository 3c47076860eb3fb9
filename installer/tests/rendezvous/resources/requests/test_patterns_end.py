"""A pattern of a body's field means all of the text: no newline passes behind it."""

import pytest

from installer.assisted.errors import Unparsable
from installer.rendezvous.resources.requests.hosts import NicParams
from installer.rendezvous.resources.requests.params import decoded


def test_no_newline_passes_behind_a_mac_address():
    assert decoded({"mac_address": "52:54:00:00:00:01"}, NicParams).mac_address == "52:54:00:00:00:01"
    with pytest.raises(Unparsable, match="mac_address"):
        decoded({"mac_address": "52:54:00:00:00:01\n"}, NicParams)
