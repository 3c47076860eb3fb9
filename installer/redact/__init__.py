"""Takes secrets out of whatever is logged, gathered, uploaded or shown. The only place where that is done.

A secret is found by what stands before it (a key, an option, a header's name), by its own look (tokens, private keys,
hashes, logins in URLs, base64 and data URLs with any of these inside), or because it is known by its value. It may
stand in JSON (escaped any number of times), YAML, INI, environments, command lines, URLs, XML, and what Python and Go
print. Whether words behind a name are a secret or tell of one is said by the place: a document's key hides whatever it
has, a log's line keeps what errors are told with, and names of passwords hide in doubt (the rule is in ``prose``).
What is around a secret, and lines of other things, stay as they are. Redacting twice changes nothing more.

Streams are read in pieces, so memory is bounded; every expression is linear in its input. The package needs Python 3.11
and nothing else: it is a module here, a program on the live host (``agent-redact``), and the lab's own by a link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from .hint import MARK, promising

if TYPE_CHECKING:
    from .redactor import Redactor

__all__ = ["MARK", "Redactor", "redact", "shortened"]

T = TypeVar("T")

# Characters behind what is shown that are looked at with it.
_BEYOND = 16 * 1024


def redact(value: T, known: Iterable[str] = ()) -> T:
    """A text or a JSON value without secrets, ``known`` ones included."""
    if isinstance(value, str) and not known and not promising(value):
        return value
    from .redactor import Redactor

    cleaned: T = Redactor(known).value(value)
    return cleaned


def shortened(text: str, most: int) -> str:
    """At most ``most`` characters of a text, without secrets: taken out first, as half of one has lost its look."""
    clean = redact(text[: most + _BEYOND])
    cut = len(text) > most + _BEYOND
    if cut:
        # What this has broken is not shown either.
        clean = clean[: max(0, len(clean) - _BEYOND // 2)]
    return f"{clean[: most - 3]}..." if cut or len(clean) > most else clean


def __getattr__(name: str) -> Any:
    # A tenth of a second is what it takes to load: commands that have nothing to hide do without.
    if name == "Redactor":
        from .redactor import Redactor

        return Redactor
    raise AttributeError(name)
