"""The difference between a value after a name and a message about one.

``password: correct horse battery staple`` is a secret, ``token: unexpected end of JSON input`` is none. Where the name
stands decides, and what it is called:

- in a document (a line that the name begins and that is indented, an item of a list, behind ``export``, in braces, or
  with ``=``; or a quoted name): any value is hidden, whatever words it is of;
- at the very start of a line: after a password's name only words of errors stay, after others also a sentence that
  begins with one and has nothing but plain words in it, and what HTTP says of a status;
- inside of a line, behind the head of a log's or in a sentence: behind a password's name a sentence stays that begins
  with two words of errors and is plain; behind others any two plain words do.

So names of passwords hide in doubt, and ``token:`` and its like show. What Kubernetes says of a field stays, without
the value that it cites.
"""

from __future__ import annotations

import re
from enum import Enum, auto

MOST = 300  # characters of a sentence that are looked at

# Words of error messages.
_TEXT = """a access accepted after all allowed already an and any api are argument as at attempt auth authentication
    authorization bad be because been before but by byte can cannot changed character closed code compat config
    connection context contain contains corrupt could data deadline decode decoding decrypt decrypting default denied
    dial did differ differs disabled does doesn't duplicate empty enabled end eof error errors exceeded exit expected
    expired expires expiry failed failing failure fetch field file files for forbidden format found from generated get
    given had has have if illegal in incorrect input invalid is it its json key length line long lookup malformed match
    matched matches may mismatch missing must no none not null of off ok on only open operation optional or parse
    post put delete patch sha256 sha512 md5 hash
    parsing permission prohibited provided read reading received refused rejected request requested required reset
    response revoked rotated run self-signed service set should signature skipped specified sss stat status still string
    such supported supplied syntax system systemd temporary than that the this timed timeout tls to token too type
    unable unauthenticated unauthorized undefined unexpected unknown unreachable unreadable unset unsupported until
    updated usage use used user using valid value verification verified was were when while will with write wrong x509
    yaml yet"""
_WORDS = frozenset(_TEXT.split())
_OPENERS = _WORDS - {"default", "key", "service", "string", "system", "token", "user", "data", "status"}
_PLAIN = re.compile(
    r"[a-z]+(?:-[a-z]+)*|[A-Z][a-z]+|[A-Z]{2,6}s?|[a-z]+['\u2019][a-z]{1,2}|\w"
    r"|[+-]?\d+(?:[.:,/-]\d+)*%?|(?:\d+(?:\.\d+)?(?:ns|us|ms|s|m|h|d))+|\d+(?:st|nd|rd|th|[kKMG]i?B)"
    r"|\d{4}-\d\d-\d\d[Tt][\d:.]+(?:[Zz]|[+-]\d\d:?\d\d)?|/[\w./@:-]*|https?://[^\s@]*"
    r"|[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*:\d+|[a-z]+-\d{1,3}"
    r"|x509|x86_64|base64|sha(?:1|224|256|384|512)|md5|ed25519|utf-?8|ipv[46]|http2|v\d(?:\.\d+)*|-+|=+|&"
)
_AROUND = ".,;:()[]{}<>\"'`!?\\"
_STATUS = re.compile(r"[1-5]\d\d [A-Z][A-Za-z]+")
_SENTENCE = re.compile(r"[A-Z]?[a-z]{1,20},? [a-z]{1,20}(?![\w=:])")
_OF_FIELD = re.compile(r"(?:Required|Forbidden|Too (?:long|many|few))(?: value)?: |(?:Required|Forbidden)(?: value)?\Z")
CITED = re.compile(r"(?:Invalid|Unsupported|Duplicate) value: (?=\S)|Too long: (?=\S)")


class Place(Enum):
    """The place of a name."""

    DOCUMENT = auto()
    START = auto()
    INSIDE = auto()


def everyday(text: str) -> bool:
    """Tell whether a text has only words of error messages."""
    return all(word in _WORDS for word in _words(text))


def plain(word: str) -> bool:
    """Tell whether a word is a sentence's, a number, a path, a place in a file; nothing that somebody keeps secret."""
    word = word.strip(_AROUND)
    return not word or _PLAIN.fullmatch(word) is not None


def is_prose(text: str, kind: str, place: Place) -> bool:
    """Tell whether the text after a name of that kind is a message about a secret, not a secret."""
    text = text[:MOST]
    words = _words(text)
    if not words or _OF_FIELD.match(text):
        return True
    if place is Place.DOCUMENT:
        return False
    if kind == "password" and place is Place.START:
        return everyday(text)
    opened = words[0] in _OPENERS
    clear = all(map(plain, text.split()))
    sentence = clear and opened
    if kind == "password":
        return sentence and everyday(" ".join(words[:2]))
    if (clear and _STATUS.match(text)) or (len(words) == 1 and opened):
        return True
    if place is Place.START:
        return sentence
    return opened or _SENTENCE.match(text) is not None


def _words(text: str) -> list[str]:
    return [word for word in (word.strip(_AROUND).lower() for word in text.split()) if word]
