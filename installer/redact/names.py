"""Which names promise a secret, and which values are none whatever their name."""

from __future__ import annotations

import re
from functools import lru_cache

# How the name of a secret ends. One that goes on (secretRef, tokenReview, password_file) tells of a secret and is none.
_SECRET = re.compile(
    r"(?:passwords?|passwd|passphrase|passcode|passwordhash|secret|tokens?|authorization|credentials?|creds|privatekey"
    r"|keydata|apikey|encryptionkey|secretkey|accesskey|psk|presharedkey|cookie|tlskey|wepkey|sharedkey|hmackey"
    r"|signingkey|sessionkey|masterkey|dockerconfigjson|dockercfg|userpwd)$"
)
_SHORT = re.compile(r"[-_.](?:pass|Pass)$|(?:^|[-_.])PASS$|[a-z]Pass$|[-_](?:pwd|PWD)$")
_NO_SECRETS = frozenset(("loadcredential", "conditioncredential", "importcredential", "nopasswd"))  # systemd's, sudo's
_AUTH = frozenset(("auth", "basicauth", "registryauth", "httpauth", "proxyauth", "dockerauth"))
_HARMLESS = re.compile(
    r"(?i:null|none|nil|<nil>|true|false|yes|no|~|-+|undefined|redacted|\*+|x{4,}|<[^<>]*>?|file|path|%[a-z]|%\(\w+\)s|\{\{.*\}\})"
    r"|[\[\s\"'\\]*\[redacted\][\]\s\"'\\]*|\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)"
    r"|/(?:etc|var|run|opt|usr|root|home|tmp|host|data|dev|proc|sys|mnt)/[\w./@:-]*"
)
# Words that follow "password:" where somebody tells of one.
_PROSE = re.compile(
    r"a|access|accepted|all|already|an|and|any|are|as|at|authentication|authorization|be|been|by|can|cannot"
    r"|changed|compat|could|denied|did|does|duplicate|empty|error|expired|failed|failure|files|for|forbidden"
    r"|found|from|generated|had|has|have|if|in|incorrect|invalid|is|it|its|lookup|may|mismatch|missing|must|not"
    r"|of|on|only|optional|or|refused|rejected|requested|required|rotated|set|should|sss|systemd|that|the|this"
    r"|to|too|unable|unauthorized|unknown|unset|unsupported|updated|use|used|using|valid|value|verification"
    r"|verified|was|were|when|will|with|wrong"
)
_OBJECT_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|[a-z0-9-]+/[a-z0-9.-]+")
_CLASSES = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]", r"[^\w]"))


@lru_cache(8192)
def sensitive(name: str) -> str:
    """What a name promises its value to be: "secret", "header", "auth" (a registry's), "object?" (a Secret's content or
    its name), "quoted?" (an everyday word, unless in quotes), or an empty text for nothing."""
    bare = name.strip("-_.").rstrip("0123456789")
    if _SHORT.search(bare):
        return "secret"
    if bare == "pass":
        return "quoted?"
    plain = re.sub(r"[-_.]", "", bare.lower())
    if plain in _AUTH:
        return "auth"
    found = _SECRET.search(plain)
    if found is None or plain in (
        "loadcredential",
        "conditioncredential",
        "importcredential",
        "nopasswd",
    ):  # systemd's and sudo's
        return ""
    if found[0] in ("authorization", "cookie"):
        return "header"
    return "object?" if plain == "secret" else "secret"


def harmless(value: str, kind: str = "secret") -> bool:
    """Whether a value is none: nothing, a mark, a placeholder, a variable, a path, an object's name."""
    if not value or _HARMLESS.fullmatch(value):
        return True
    if kind == "object?":
        return _OBJECT_NAME.fullmatch(value) is not None
    return False


def prose(value: str) -> bool:
    """Whether a value without quotes goes on as a sentence does."""
    words = value.split(None, 1)
    return not words or _PROSE.fullmatch(words[0].strip(",.;:()").lower()) is not None


def telling(value: str) -> bool:
    """Whether a value is so much its own that it may be looked for everywhere: no everyday word is."""
    if len(value) < 6 or harmless(value) or prose(value):
        return False
    return len(value) >= 16 or sum(bool(kind.search(value)) for kind in _CLASSES) >= 2
