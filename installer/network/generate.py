"""All of it in one call: an nmstate document in, NetworkManager keyfiles or a list of problems out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from installer.network.document import read_document
from installer.network.errors import InvalidNetworkConfig
from installer.network.keyfile import render
from installer.network.profiles.place import place
from installer.network.profiles.plan import Plan, make_plan
from installer.network.profiles.sections import Sections, interface_profiles
from installer.network.reading.dns import Extra
from installer.network.reading.model import Document
from installer.network.reading.reader import Problems

SUFFIX = ".nmconnection"


def planned(config: Any) -> tuple[Document, Plan, Extra]:
    """What a document says, and what comes of it; one that is None is empty. Raises InvalidNetworkConfig."""
    problems = Problems()
    document = read_document({} if config is None else config, problems)
    plan, extra = place(document, make_plan(document, problems), problems)
    if problems.all:
        raise InvalidNetworkConfig(problems.all)
    return document, plan, extra


def profiles(plan: Plan, extra: Extra) -> list[tuple[str, Sections]]:
    """(profile id, sections) of every profile, in upstream's order."""
    return [profile for one in plan.ordered() for profile in interface_profiles(one, plan, extra)]


def keyfiles(config: Mapping[str, Any]) -> dict[str, str]:
    """File name (ending in .nmconnection) to keyfile text, as `nmstatectl gc` makes them (reference/nmstate.md).

    `config` is an nmstate document as parsed from YAML. Raises InvalidNetworkConfig, which carries every problem of
    the document, each with the field's path, its value, and the rule. An empty document gives no files.
    """
    _, plan, extra = planned(config)
    return {f"{name}{SUFFIX}": render(sections) for name, sections in profiles(plan, extra)}
