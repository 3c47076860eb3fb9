"""A BMC's profile, its name in topologies and its rows in the docs are held equal."""

import re
from pathlib import Path
from typing import get_args

from lab.bmcs.profile import profiles, working
from lab.topology import Bmc

PAGE = (Path(__file__).parents[3] / "docs/bmcs.md").read_text()


def test_a_topology_can_name_every_profile_and_no_other():
    assert list(get_args(Bmc)) == list(profiles())


def test_the_page_says_what_each_does():
    described = re.findall(r"^\| `(\w+)`", PAGE.partition("## DMTF's validators")[0], re.M)
    assert described == [name for name in profiles() if name != "lab"]


def test_those_that_machines_are_installed_through():
    assert working() == ("idrac", "idrac10", "ilo", "xcc", "supermicro", "fujitsu", "openbmc", "nobody")
