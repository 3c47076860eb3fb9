"""The table of rules: each has the number of reference/installer.md §1.2 and yields what is wrong with a config.

    @rule("7", "baseDomain")
    def base_domain(config: InstallConfig) -> Iterator[FieldError]: ...

Rules see a config with its defaults filled in, do not depend on each other, and must not fail on values that other
rules refuse. They run in the order in which their modules are listed below, which is the order of the report. Rules of
the page that are not in the table are in ELSEWHERE.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from installer.config.fielderror import FieldError
from installer.config.types.install import InstallConfig

Check = Callable[[InstallConfig], Iterator[FieldError]]

_MODULES = (
    "general",
    "networking",
    "vips",
    "platforms.platform",
    "platforms.baremetal",
    "platforms.vsphere",
    "platforms.nutanix",
    "pools",
    "fencing",
    "sources",
    "features",
)
ELSEWHERE = {
    "1": "defaults.upconvert: alone, since nothing else means anything in another version",
    "8": "defaults.apply: there always is a networking",
    "10": "defaults.apply: no list of networks is ever empty",
    "14": "networking.cluster_network: where nothing speaks against the network itself",
    "30": "platforms.vsphere.failure_domains: with the rest of the failure domain",
    "32": "defaults.apply: there always is a controlPlane",
    "33": "defaults.apply: it is called master, whatever it was called",
    "36": "create.stages.resolve: needs the release image",
    "57": "notes.missing_credentials: a warning only",
}


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    number: str
    path: str
    check: Check


TABLE: list[Rule] = []


def rule(number: str, path: str) -> Callable[[Check], Check]:
    """Put a check into the table."""

    def register(check: Check) -> Check:
        TABLE.append(Rule(number, path, check))
        return check

    return register


def table() -> list[Rule]:
    """Return the whole table."""
    for module in _MODULES:
        importlib.import_module(f"installer.config.rules.{module}")
    return TABLE


def run(config: InstallConfig) -> list[FieldError]:
    """All that is wrong with an install-config."""
    return [error for entry in table() for error in entry.check(config)]
