"""The names that promise a secret, and the values that are harmless whatever their name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from .prose import everyday

# How the name of a secret ends. One that goes on (secretRef, tokenReview, password_file) tells of a secret and is none,
# unless it says no more than how the secret is written.
_PASSWORD = re.compile(
    r"(?:passwords?|passwd|passphrase|passcode|psk|presharedkey|userpwd)"
    r"(?:base(?:64)?|b(?:64)?|raw|plain|plaintext|cleartext|clear|text|value|hash|string|str|encoded|encrypted|enc"
    r"|confirm|confirmation|new|old|in)?$"
)
_SECRET = re.compile(
    r"(?:(?:secret|token|apikey|privatekey)(?:base(?:64)?|b(?:64)?|raw|plain|plaintext|value|keybase)?|tokens"
    r"|authorization|credentials?|creds|keydata|encryptionkey|secretkey|accesskey|accountkey|storagekey"
    r"|subscriptionkey|functionkey|cookie|tlskey|wepkey|sharedkey|hmackey|signingkey|sessionkey|masterkey"
    r"|dockerconfigjson|dockercfg)$"
)
_SHORT = re.compile(r"[-_.](?:pass|Pass|pw|Pw|pwd|Pwd)$|[-_.](?:PASS|PW|PWD)$|[a-z](?:Pass|Pw|Pwd)$|[A-Z](?<!^OLD)PWD$")
_BARE = frozenset(("pass", "pw", "pwd"))  # everyday words too
_NO_SECRETS = frozenset(
    # settings of systemd and sudo, and a reference
    ("loadcredential", "conditioncredential", "importcredential", "nopasswd", "imagepullsecret")
)
_AUTH = frozenset(("auth", "basicauth", "registryauth", "httpauth", "proxyauth", "dockerauth"))
_SIGNATURES = frozenset(("sig", "signature"))
_HARMLESS = re.compile(
    r"(?i:null|none|nil|<nil>|true|false|yes|no|~|-+|undefined|redacted|\*+|x{4,}|<[^<>]*>?|file|path|%[a-z]|%\(\w+\)s|\{\{.*\}\})"
    r"|[\[\s\"'\\]*\[redacted\][\]\s\"'\\]*|\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)"
    r"|/(?:etc|var|run|opt|usr|root|home|tmp|host|data|dev|proc|sys|mnt)/[\w./@:-]*"
)
_OBJECT_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|[a-z0-9-]+/[a-z0-9.-]+")
_CLASSES = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]", r"[^\w]"))

#: What a name promises its value to be (`sensitive`).
Promise = Literal["", "password", "secret", "header", "auth", "object?", "counts?", "word?", "signed?"]


@lru_cache(8192)
def sensitive(name: str) -> Promise:
    """Tell what a name promises its value to be: "password", "secret", "header", "auth" (a registry's), "object?" (a
    Secret's content or its name), "counts?" (tokens, or how many there are), "word?" (an everyday word, unless it is
    seen to be a name), "signed?" (a URL's, if it stands in one), or an empty text for nothing."""
    bare = name.strip("-_.").rstrip("0123456789")
    if bare.lower() in _BARE:
        return "word?"
    if _SHORT.search(bare):
        return "password"
    plain = re.sub(r"[-_.]", "", bare.lower())
    if plain in _AUTH:
        return "auth"
    if plain in _SIGNATURES:
        return "signed?"
    if plain in _NO_SECRETS:
        return ""
    if _PASSWORD.search(plain):
        return "password"
    if plain in ("xamzsignature", "xgoogsignature"):
        return "secret"
    match = _SECRET.search(plain)
    if match is None:
        return ""
    if match[0] in ("authorization", "cookie"):
        return "header"
    if match[0] == "tokens":
        return "counts?"
    return "object?" if plain == "secret" else "secret"


def harmless(value: str, kind: Promise = "secret") -> bool:
    """Tell whether a value is no secret: nothing, our mark, a placeholder, a variable, a path, an object's name, or a
    number of tokens."""
    if not value or _HARMLESS.fullmatch(value):
        return True
    if kind == "object?":
        return _OBJECT_NAME.fullmatch(value) is not None
    return kind == "counts?" and value.replace(",", "").replace(" ", "").isdigit()


def distinctive(value: str) -> bool:
    """Tell whether a value is distinctive enough to be looked for everywhere: everyday words are not."""
    if len(value) < 6 or harmless(value) or everyday(value):
        return False
    return len(value) >= 16 or sum(bool(kind.search(value)) for kind in _CLASSES) >= 2
