"""Takes secrets out of whatever is logged, gathered, uploaded or shown. The only place where that is done.

A secret is found by the name before it (a key, an option, a header's name), by its own form (tokens, private keys,
hashes, logins in URLs, base64 and data URLs with any of these inside), or because it is known by its value. It may
stand in JSON (escaped any number of times), YAML, INI, environments, command lines, URLs, XML, and what Python and Go
print. Whether words after a name are a secret, or a message about one, depends on the place: after a document's key all
is hidden, in a log's line the words of errors stay, and after the name of a password all is hidden in doubt (the rule
is in ``prose``). What is around a secret, and lines of other things, stay as they are. Redacting twice changes nothing
more.

Streams are read in pieces, so memory is bounded; every expression is linear in its input. The package needs Python 3.11
and nothing else: it is a module here, a program on the live host (``agent-redact``), and the lab's own by a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from .hint import MARK, promising

if TYPE_CHECKING:
    from .redactor import Redactor

__all__ = ["MARK", "NOT_SHOWN", "Redactor", "redact", "shortened", "shown_registry", "without_login"]

T = TypeVar("T")

#: In the place of a value that may be a secret, or hold one.
NOT_SHOWN = "<not shown>"

# Up to the last at sign, as passwords may have anything in them; a digest's is not one.
_LOGIN = re.compile(r"(?:(?<=//)|\A)([^/:@]*):(?!//).*@(?!sha\d+:)", re.DOTALL)
# A domain, an IP address, or a name with a port, and what may follow (`https://index.docker.io/v1/`); a token's last
# part is longer than a domain's.
_REGISTRY = re.compile(
    r"(?i)(?:https?://)?(?:localhost|(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{1,20}|\[[0-9a-f:.]+\]|[a-z][a-z0-9_-]*(?=:[0-9]))"
    r"(?::[0-9]{1,5})?(?:/[a-z0-9._/-]*)?"
)
# Characters after the part that is shown that are searched for secrets with it.
_BEYOND = 16 * 1024


def redact(value: T, known: Iterable[str] = ()) -> T:
    """Return a text or a JSON value without secrets, ``known`` ones included."""
    if isinstance(value, str) and not known and not promising(value):
        return value
    from .redactor import Redactor

    cleaned: T = Redactor(known).value(value)
    return cleaned


def shortened(text: str, most: int) -> str:
    """At most ``most`` characters of a text, without secrets. They are taken out before it is cut: half of one would
    not be found."""
    clean = redact(text[: most + _BEYOND])
    cut = len(text) > most + _BEYOND
    if cut:
        # A secret that the cut has broken is not shown either.
        clean = clean[: max(0, len(clean) - _BEYOND // 2)]
    return f"{clean[: most - 3]}..." if cut or len(clean) > most else clean


def without_login(address: str) -> str:
    """Return a URL, or an address without a scheme as registries have, without its login's password.

    For a value that is known to be an address: in a text this would be too much (``redact``).
    """
    return redact(_LOGIN.sub(rf"\1:{MARK}@", address))


def shown_registry(name: str) -> str:
    """Return a registry's name in a pull secret as an error shows it; not what looks like none: it may be a password in
    the place of a name."""
    return name if _REGISTRY.fullmatch(name) else NOT_SHOWN


def __getattr__(name: str) -> Any:
    # It takes a tenth of a second to load: commands that have nothing to hide do without it.
    if name == "Redactor":
        from .redactor import Redactor

        return Redactor
    raise AttributeError(name)
