"""Takes secrets out of whatever is logged, gathered, uploaded or shown. The only place where that is done.

A secret is found by what stands before it (a key, an option, a header's name), by its own look (tokens, private keys,
hashes, logins in URLs, base64 and data URLs with any of these inside), or because it is known by its value. It may stand
in JSON (escaped any number of times), YAML, INI, environments, command lines, URLs, XML, and what Python and Go print.
What is around a secret, and lines of other things, stay as they are. Redacting twice changes nothing more.

Streams are read in pieces, so memory is bounded; every expression is linear in its input. The package needs Python 3.11
and nothing else: it is a module here, a program on the live host (``agent-redact``), and the lab's own by a link.
"""

from .names import MARK
from .redactor import Redactor, redact

__all__ = ["MARK", "Redactor", "redact"]
