"""The table of what breaks in an installed cluster (clusterfaults.yaml)."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from installer.common.formats import yamltext

TABLE = Path(__file__).with_name("clusterfaults.yaml")


class Says(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An object (KIND/NAME) that says what is wrong: by a `condition` (TYPE=STATUS), or by an `event` of that reason;
    `message` is a regular expression on words of it."""

    object: str
    message: str
    condition: str = ""
    event: str = ""

    def __post_init__(self) -> None:
        if bool(self.condition) == bool(self.event):
            raise ValueError("want one of condition and event")
        if not re.fullmatch(r"|[A-Z]\w+=(True|False)", self.condition):
            raise ValueError(f"condition {self.condition!r}: want TYPE=True or TYPE=False")
        if re.search(self.message, ""):
            raise ValueError(f"message {self.message!r}: any message has it")


class ClusterFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"do": "break"}):
    """One row: objects to `apply`, or a script to `do` on `nodes` and another to `mend` it; `why` is for readers."""

    name: str
    why: str
    says: Says
    apply: tuple[dict[str, Any], ...] = ()
    do: str = ""
    mend: str = ""
    nodes: Literal["one", "all"] = "one"
    seconds: Annotated[int, Meta(ge=10, le=600)] = 60

    def __post_init__(self) -> None:
        if bool(self.apply) == bool(self.do):
            raise ValueError("want one of apply and break")
        if bool(self.do) != bool(self.mend):
            raise ValueError("break and mend come together")

    def filled(self, **values: str) -> ClusterFault:
        """Return the row with its placeholders filled; scripts keep their own variables."""
        return msgspec.convert(_filled(msgspec.to_builtins(self), values), ClusterFault)


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(values)
    if isinstance(value, dict):
        return {key: _filled(inner, values) for key, inner in value.items()}
    return [_filled(inner, values) for inner in value] if isinstance(value, (list, tuple)) else value


ROWS = msgspec.convert(yamltext.load(TABLE.read_bytes(), alone=True), tuple[ClusterFault, ...])
