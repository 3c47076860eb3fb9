"""Whatever comes in, keyfiles or documented errors come out (hypothesis)."""

import copy
import functools
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from installer.network import InvalidNetworkConfig, UnreadableDocument, host_network_files, keyfiles
from installer.network.document import load
from installer.testing.network.network_documents import DOCUMENTS

WORDS = [
    *(
        "eno1",
        "bond0",
        "br-lan",
        "lo",
        "vlan",
        "bond",
        "ovs-bridge",
        "up",
        "absent",
        "ignore",
        "802.3ad",
        "0x10",
        "yes",
    ),
    *("10.0.0.1", "fd00::1", "fe80::1%eno1", "0.0.0.0/0", "::/0", "10.0.0.0/8", "02:00:00:00:00:01", "access", "trunk"),
    *("[ipv4]", "a\nb=c", "\\", ";", "", " ", "\ud800", "\u2028", "x" * 300, "/", "..", "%", "99999999999999999999999"),
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5000),
    st.sampled_from([-(2**31), 2**31, 2**32, 2**64, 10**4000]),
    st.floats(allow_nan=True),
    st.sampled_from(WORDS),
    st.text(max_size=20),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=8), inner),
    max_leaves=8,
)
LINE = re.compile(r"\[[a-z0-9-]+\]|[A-Za-z0-9_.:-]+=[^\n]+|")


def places(value, path=()):
    """Return the path of every value inside a document, at any depth."""
    paths = [path]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        paths += places(inner, (*path, key))
    return paths


def at(value, path):
    for step in path:
        value = value[step]
    return value


GOOD = [load(text) for _name, text in sorted(DOCUMENTS.items())]
PARTS = st.one_of(
    [st.sampled_from(places(document)).map(functools.partial(at, document)).map(copy.deepcopy) for document in GOOD]
)


@st.composite
def damaged_documents(draw):
    """Draw a good document of which a few values are replaced, by any others or by parts of good documents."""
    document = copy.deepcopy(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(document) if path] or [("interfaces",)]))
        at(document, path[:-1])[path[-1]] = draw(VALUES | PARTS)
    return document


def judge(config):
    """Keyfiles that hold together, or an error that names what is wrong."""
    try:
        files = keyfiles(config)
    except InvalidNetworkConfig as refusal:
        problems = [str(problem) for problem in refusal.problems]
        if not problems or "\n" in "".join(problems):
            raise
        return None
    for name, text in files.items():
        assert "/" not in name
        assert not name.startswith(".")
        assert name.endswith(".nmconnection")
        text.encode()
        lines = text.split("\n")
        assert all(LINE.fullmatch(line) for line in lines)
        headers = [line for line in lines if line.startswith("[")]
        assert len(headers) == len(set(headers))
        assert headers[0] == "[connection]"
    return files


@settings(max_examples=100, deadline=None)
@given(damaged_documents())
def test_damaged_documents(document):
    judge(document)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_any_value_is_rendered_or_refused(value):
    judge(value)
    judge({"interfaces": value})
    judge({"interfaces": [{"name": "eno1", "type": "ethernet", "ipv4": value}], "routes": {"config": value}})


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        document = load(text)
    except UnreadableDocument as refusal:
        document = str(refusal)
        if "\n" in document:
            raise
    judge(document)


@settings(max_examples=40, deadline=None)
@given(VALUES, damaged_documents())
def test_host_files(interfaces, document):
    try:
        files = host_network_files(interfaces, document)
    except InvalidNetworkConfig:
        return
    assert len(files) > 1


@settings(max_examples=60, deadline=None)
@given(damaged_documents())
def test_the_document_is_left_as_it_was_and_the_answer_does_not_vary(document):
    before = repr(document)
    first, second = judge(document), judge(document)
    assert (first, repr(document)) == (second, before)


def test_deep_and_long_documents():
    chain: list[dict[str, Any]] = [{"name": "v0", "type": "dummy"}]
    chain += [
        {"name": f"v{n}", "type": "vlan", "vlan": {"base-iface": f"v{n - 1}", "id": 1 + n % 4000}}
        for n in range(1, 2000)
    ]
    assert len(judge({"interfaces": chain[::-1]})) == 2000
    loop: dict[str, Any] = {}
    loop["interfaces"] = [loop]
    assert judge(loop) is None
