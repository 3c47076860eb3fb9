"""From YAML text, or from a mapping that is loaded already, to a `Document`."""

from __future__ import annotations

from typing import Any

from installer.common.formats import YamlError, yamltext
from installer.network.errors import UnreadableDocument
from installer.network.interfaces.interface import read_interface
from installer.network.reading.dns import read_dns
from installer.network.reading.model import Document
from installer.network.reading.reader import Fields, Problems
from installer.network.reading.routes import read_routes, read_rules


def load(text: str | bytes) -> Any:
    """Parse one YAML (or JSON) document; raises UnreadableDocument when it is neither. Empty text is None."""
    try:
        return yamltext.load(text, yamltext.CORE)
    except YamlError as err:
        raise UnreadableDocument("", f"not YAML: {err}") from err


def read_document(config: Any, problems: Problems) -> Document:
    """Read the desired state; what is wrong is added to `problems`, and what was readable is returned."""
    fields = Fields(config, "", problems)
    fields.remark("description")
    fields.refuse_null("interfaces", "routes", "route-rules")
    interfaces = [
        interface for entry in fields.tables("interfaces") if (interface := read_interface(entry)) is not None
    ]
    document = Document(
        interfaces=tuple(interfaces), routes=read_routes(fields), rules=read_rules(fields), dns=read_dns(fields)
    )
    hostname = fields.table("hostname")
    if hostname is not None:
        hostname.text("running")
        if hostname.text("config") is not None:
            hostname.without_effect("config", "a host name is no part of a profile; say it in the host's hostname")
        hostname.close()
    for name in ("ovs-db", "ovn"):
        switch = fields.table(name)
        if switch is not None and name == "ovs-db":
            for kind in ("external_ids", "other_config"):
                switch.table(kind)
            switch.close()
        fields.without_effect(name, "settings of the whole switch are no part of a profile")
    fields.close()
    return document
