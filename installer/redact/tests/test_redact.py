"""The redactor against the corpus, and its promises: gone, unchanged, once is enough, streams as texts, and in time."""

from __future__ import annotations

import base64
import io
import re
import string
import urllib.parse
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.redact import MARK, Redactor, redact, redactor
from installer.redact.tests import corpus

VECTORS = {vector.name: vector for vector in corpus.vectors()}


def around(text: str) -> str:
    return f"{corpus.BEFORE}\n{text}\n{corpus.AFTER}\n"


def through(data: bytes, size: int = 1 << 20) -> bytes:
    class Slow(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            return super().read(size)

    return b"".join(Redactor().stream(Slow(data)))


def opened(text: str, depth: int = 3) -> str:
    """The text and whatever is encoded in it: by means of its own, as the redactor's are what is in question."""
    found = [text, urllib.parse.unquote(text)]
    for run in re.findall(r"[A-Za-z0-9+/]{12,}", found[1]) if depth else ():
        run = run[: len(run) - (len(run) % 4 == 1)]
        raw = base64.b64decode(run + "=" * (-len(run) % 4))
        raw = zlib.decompressobj(31).decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        found.append(opened(raw.decode(errors="replace"), depth - 1))
    return "\n".join(found)


@pytest.mark.parametrize("name", VECTORS)
def test_no_secret_of_the_corpus_is_left_and_nothing_else_is_gone(name: str) -> None:
    vector = VECTORS[name]
    clean = redact(around(vector.text))
    everything = opened(clean)
    for secret in vector.secrets:
        assert secret not in everything
    for text in (*vector.stays, corpus.BEFORE, corpus.AFTER):
        assert text in clean
    assert MARK in everything
    assert redact(clean) == clean


@pytest.mark.parametrize("head", ["Nov 21 10:00:01.012345 master-0 cat[7]: ", "2024-11-21T10:00:01.5Z stdout F "])
def test_nothing_of_the_corpus_is_left_when_each_line_is_one_of_a_journal(head: str) -> None:
    left = []
    for vector in VECTORS.values():
        text = "".join(f"{head}{line}\n" for line in vector.text.splitlines())
        clean = redact(around(text))
        everything = opened(clean)
        left += [f"{vector.name}: {secret}" for secret in vector.secrets if secret in everything]
        left += [f"{vector.name}: lost {text}" for text in (*vector.stays, corpus.AFTER) if text not in clean]
        left += [f"{vector.name}: changes again"] if redact(clean) != clean else []
    assert left == []


@pytest.mark.parametrize("text", corpus.HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(around(text)) == around(text)
    assert redact(text) == text


# A secret as people and programs make them; "0" keeps everyday words and object names out.
PASSWORDS = st.text(string.ascii_letters + string.digits + "!#%*+,-./:=?@^_~()$&;", min_size=6, max_size=40).map(
    lambda text: f"Sy{text}z0x"
)
WORDS = st.text(string.ascii_letters + string.digits + string.punctuation + " \t\u00e9\u4e2d", max_size=60).map(
    lambda text: text.replace('"', "").replace("'", "")
)


@settings(max_examples=400, deadline=None)
@given(PASSWORDS, st.sampled_from(sorted(corpus.SYNTAXES)), st.sampled_from(["password", "pullSecret", "agentToken"]))
def test_any_secret_in_any_syntax_is_gone(secret: str, syntax: str, field: str) -> None:
    write, stays = corpus.SYNTAXES[syntax]
    if set(secret) & set(corpus.SPECIAL.get(syntax, "")):
        return
    clean = redact(around(write(field, secret)))
    everything = opened(clean)
    assert secret not in everything
    # Neither is a piece of it that would tell the rest.
    assert secret[:-2] not in everything
    assert secret[2:] not in everything
    for text in (*stays, corpus.BEFORE, corpus.AFTER):
        assert text in clean
    assert redact(clean) == clean


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=8), st.sampled_from(sorted(VECTORS)), st.lists(WORDS, max_size=8))
def test_once_is_enough_whatever_is_around(before: list[str], name: str, after: list[str]) -> None:
    text = "\n".join((*before, VECTORS[name].text, *after))
    once = redact("text: " + text)
    assert redact(once) == once


@settings(max_examples=300, deadline=None)
@given(st.text(string.ascii_lowercase + " .,()\n\t<>/[]{}", max_size=400))
def test_prose_stays(text: str) -> None:
    assert redact(f" {text}") == f" {text}"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(sorted(VECTORS)), max_size=6), st.integers(1, 1000), st.integers(400, 3000))
def test_a_stream_is_read_as_its_text_is(names: list[str], size: int, piece: int) -> None:
    text = "".join(around(VECTORS[name].text) for name in names)
    original, redactor.PIECE = redactor.PIECE, piece
    try:
        clean = through(text.encode(), size).decode()
    finally:
        redactor.PIECE = original
    for name in names:
        for secret in VECTORS[name].secrets:
            assert secret not in clean
    for line in (corpus.BEFORE, corpus.AFTER):
        assert clean.count(line) == len(names)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 50))
def test_bytes_that_are_no_text_pass(data: bytes, size: int) -> None:
    assert through(data, size) == through(data)
    assert through(data) in (data, redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
