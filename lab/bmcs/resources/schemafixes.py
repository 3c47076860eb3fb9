"""Corrects sushy-tools' documents where they break DMTF's schemas (docs/bmcs.md, "DMTF's validators").

Links to resources that the emulator does not have, or not for this kind of machine, are left out.
"""

from __future__ import annotations

from typing import Any

from lab.bmcs.state import ROOT
from lab.bmcs.web import Inner

# Property -> its name in the schema; empty: no schema has it.
_NAMES = {"@Redfish.Copyright": "", "HealthRollUp": "HealthRollup"}
# Of a processor: numbers, which are texts there.
_NUMBERS = ("TotalCores", "TotalThreads")
# Type -> properties that it does not have, or sushy-tools no value for.
_UNKNOWN = {
    "#Chassis.v1_5_0.Chassis": ("UUID", "Thermal"),
    "#Manager.v1_3_1.Manager": ("ServiceEntryPointUUID",),
}


class SchemaFixes:
    """The documents of one emulator."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner
        self._answered: dict[str, bool] = {}

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a document of the emulator's, in its own paths, without what is wrong."""
        kind = str(body.get("@odata.type"))
        valid = {key: value for key, value in body.items() if key not in _UNKNOWN.get(kind, ())}
        if kind.startswith("#Processor."):
            valid |= {name: int(valid[name]) for name in _NUMBERS if str(valid.get(name)).isdigit()}
        elif kind.startswith("#ProcessorCollection."):
            # Here it comes with the whole list in its place.
            valid["@odata.id"] = str(valid["@odata.id"]).partition("/Processors")[0] + "/Processors"
        return {key: self._value(value) for key, value in _named(valid) if self._leads_somewhere(value)}

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value if self._leads_somewhere(item)]
        if isinstance(value, dict):
            info = value.get("@Redfish.ActionInfo")
            dangling = info is not None and not self._leads_somewhere({"@odata.id": info})
            return {key: self._value(item) for key, item in _named(value) if not (dangling and item == info)}
        return value

    def _leads_somewhere(self, value: Any) -> bool:
        link = value.get("@odata.id") if isinstance(value, dict) and len(value) == 1 else None
        if not isinstance(link, str) or not link.startswith(f"{ROOT}/"):
            return True
        if link not in self._answered:
            status = self._inner.ask("GET", link.partition("#")[0]).status
            if status >= 500:
                return True
            self._answered[link] = status < 400
        return self._answered[link]


def _named(body: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(_NAMES.get(key, key), value) for key, value in body.items() if _NAMES.get(key, key)]
