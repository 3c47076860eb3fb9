"""YAML that wants to harm: cycles, expansion bombs, depth, numbers and tags that nobody expects."""

import json
import re
import string
import time
from functools import partial

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from installer.common.formats import YamlError, composer
from installer.common.formats.yamltext import CORE, compose, construct, dump, load, load_all
from installer.testing.yaml_kit import HARM, laughs


def refusal(function, *arguments):
    """Return the refusal's text, None without one. Any other error is the test's."""
    try:
        function(*arguments)
    except YamlError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", HARM)
def test_refused_at_once(name):
    document, expected = HARM[name]
    begin = time.thread_time()
    with pytest.raises(YamlError) as caught:
        load_all(document)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.thread_time() - begin < 5


@pytest.mark.parametrize(("document", "line"), [("a: [\n", 1), ("a: 1\nb: [\n\n# end\n", 4), ("a: 1\n b: 2\n", 2)])
def test_the_line_of_an_error_is_one_of_the_file(document, line):
    with pytest.raises(YamlError) as caught:
        load(document)
    assert caught.value.line == line


def test_not_utf8():
    for content, expected in (
        (b"a: 1\nb: \xe9\n", "line 2: not UTF-8 text at byte 8"),
        (b"\xff\xfea", "line 1: not UTF-16 text at byte 2"),
    ):
        with pytest.raises(YamlError, match=expected):
            load(content)


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ("\ufeffa: 1", {"a": 1}),
        (b"\xef\xbb\xbfa: 1", {"a": 1}),
        ("a: 1".encode("utf-16"), {"a": 1}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: !!timestamp x", {"a": "x"}),
        ("a: 52:54:00:11:22:33", {"a": "52:54:00:11:22:33"}),
        ("a: 010\nb: 0o17\nc: 0x10\nd: 0b10", {"a": 8, "b": 15, "c": 16, "d": 2}),
        ("a: 1_000\nb: -0\nc: 0\nd: +7", {"a": 1000, "b": 0, "c": 0, "d": 7}),
        ("a: 0b_\nb: 0x_\nc: 1e400\nd: 0_", {"a": "0b_", "b": "0x_", "c": "1e400", "d": "0_"}),
        ("a: 18446744073709551615\nb: -9223372036854775808", {"a": 2**64 - 1, "b": -(2**63)}),
        ("a: 18446744073709551616\nb: -9223372036854775809", {"a": 2.0**64, "b": -(2.0**63)}),
        (f"a: {'9' * 5000}", {"a": "9" * 5000}),
        ("a: .inf\nb: -.INF\nc: 1.5e3\nd: 08", {"a": float("inf"), "b": float("-inf"), "c": 1500.0, "d": 8.0}),
        ("a: yes\nb: Off\nc: 'yes'\nd: ~\ne:", {"a": True, "b": False, "c": "yes", "d": None, "e": None}),
        ("a: y\nb: N\nc: !!foo 3", {"a": True, "b": False, "c": "3"}),
        ("a: !!binary aGk=", {"a": "hi"}),
        ("a: &m {x: 1, q: 2}\nb: {<<: [*m, {x: 3, z: 4}], q: 5}", {"a": {"x": 1, "q": 2}, "b": {"x": 1, "z": 4, "q": 5}}),  # noqa: E501
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("---\n...\n---\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_as_go_reads_it(document, value):
    loaded = load(document)
    assert loaded == value
    assert [type(one) for one in (loaded or {}).values()] == [type(one) for one in (value or {}).values()]


def test_the_core_schema():
    text = "a: yes\nb: 010\nc: 1.5\nd: 0x10\ne: true\nf: {<<: 1}\ng: ''\nh: 1e3\ni: 1.2.3.4\nj: .5.\nk: 1:2"
    assert load(text, CORE) == {
        "a": "yes", "b": 10, "c": 1.5, "d": 16, "e": True, "f": {"<<": 1}, "g": "", "h": 1000.0,
        "i": "1.2.3.4", "j": ".5.", "k": "1:2",
    }  # fmt: skip


def test_more_than_one_document():
    assert load("1\n---\n2\n--- [") == 1
    for options in ({"alone": True}, {"schema": CORE}):
        with pytest.raises(YamlError, match="line 3: only one document is expected"):
            load("1\n---\n2", **options)


def test_aliases_become_separate_values():
    loaded = load("a: &a [1]\nb: *a\n")
    loaded["a"].append(2)
    assert loaded["b"] == [1]


def test_aliases_are_counted_as_go_counts_them():
    """As go-yaml 3.0.4 has it: three levels of ten pass, the fourth does not."""
    assert len(load(laughs(3))["a2"]) == 10
    with pytest.raises(YamlError, match="excessive aliasing"):
        load(laughs(4))
    # 1000 nodes are free, and so are 100 that come of aliases.
    many = f"a: &a [{','.join(['x'] * 90)}]\nb: [{','.join(['*a'] * 9)}]\n"
    assert len(load(many)["b"]) == 9
    # Each document of a text has its own count and its own anchors.
    assert len(load_all("---\n".join([laughs(3)] * 20))) == 20
    with pytest.raises(YamlError, match="line 3: unknown anchor"):
        load_all("a: &a 1\n---\nb: *a\n")


@pytest.mark.parametrize(
    ("nodes", "aliased", "refused"),
    [
        (1001, 990, False), (1001, 991, True), (1000, 1000, False), (2000, 100, False),
        (400_000, 396_000, False), (400_000, 396_001, True),
        (2_200_000, 1_198_000, False), (2_200_000, 1_200_000, True),
        (4_000_000, 400_000, False), (4_000_000, 400_001, True), (40_000_000, 4_000_000, False),
        (40_000_000, 4_000_001, True),
    ],
)  # fmt: skip
def test_the_share_of_aliases(nodes, aliased, refused):
    message = refusal(partial(composer.check_expansion, text=0, length=1), 7, nodes, aliased)
    assert message == ("line 7: document contains excessive aliasing" if refused else None)


@pytest.mark.parametrize(("written", "length", "refused"), [
    (4 << 20, 1, False), ((4 << 20) + 1, 1, True), (10_000_000, 1_000_000, False), (10_000_001, 1_000_000, True),
])  # fmt: skip
def test_the_text_of_aliases(written, length, refused):
    assert bool(refusal(partial(composer.check_expansion, text=written, length=length), 1, 10, 1)) == refused


def test_depth_to_the_limit():
    for document in ("[" * 128 + "]" * 128, "{a: " * 127 + "[]" + "}" * 127):
        assert load(document)
        with pytest.raises(YamlError, match="exceeded max depth"):
            load(f"[{document}]")
        with pytest.raises(YamlError, match="exceeded max depth"):
            load(f"a: &a {document[1:-1] if document[0] == '[' else document}\nb: [[*a]]\n")
    # As deep as may be, everything that follows can do its work.
    assert dump(load("[" * 128 + "]" * 128))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.printable) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters, min_size=1), inner),
    max_leaves=20,
)


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_what_is_written_is_read(value):
    """Everything that `dump` writes is read as it was; only numbers beyond 64 bits become others, as with Go."""

    def go(one):
        if isinstance(one, int) and not isinstance(one, bool) and not -(1 << 63) <= one < 1 << 64:
            return float(one)
        if isinstance(one, dict):
            return {key: go(item) for key, item in one.items()}
        return [go(item) for item in one] if isinstance(one, list) else one

    assert load(dump(value)) == go(value)


PIECES = st.lists(
    st.sampled_from([
        "a", "b: ", "- ", "&a ", "*a", "[", "]", "{", "}", ",", ": ", "? ", "\n", "  ", "<<: ", "!!int ", "!!set ",
        "'", '"', "|\n", ">\n", "#", "%YAML 1.2\n", "---\n", "...\n", "9" * 30, "0x", "1e999", ".nan", "\0", "\t", "é",
        "\ufeff", "!x ", "~", "yes", "!!float ", "!!binary ", "!!bool ", "!!null ", "&b ", "*b", "\ud800",
    ]),
    max_size=25,
).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(PIECES)
@example("a: &a\n  ? *a\n  : *a")
@example("&a *a")
def test_any_text_is_read_or_refused(document):
    """Nothing but data or a YamlError; the tree can be walked to its end, and both schemas agree on what is YAML."""
    refused = refusal(load_all, document)
    if refused is not None:
        assert "\n" not in refused
        return
    loaded = load_all(document)
    json.dumps(loaded)
    first = compose(document)  # None where the first document is an empty one
    if len(loaded) == 1 and first is not None:
        assert construct(first) is not None
    assert re.search("cannot decode|tag that is not known", refusal(load_all, document, CORE) or "cannot decode")


@pytest.mark.parametrize(
    ("document", "data"),
    [
        ("a: !!python/object/apply:os.system [x]\n", {"a": ["x"]}),
        ("a: !!set {x}\n", {"a": {"x": None}}),
        ("a: !x 5\n", {"a": "5"}),
        ("a: ! 5\n", {"a": "5"}),
        ("a: !x\n  b: 5\n", {"a": {"b": 5}}),
    ],
)
def test_tags_of_other_programs_say_nothing(document, data):
    """As to Go, a text has no type but text; nothing is ever made of a tag, and nmstate's reader refuses it."""
    assert load_all(document) == [data]
    if "! " not in document:
        assert "not known" in refusal(load_all, document, CORE)


@pytest.mark.parametrize("version", ["1.2", "1.3", "2.0"])
def test_yaml_of_another_version_is_refused(version):
    assert refusal(load_all, f"%YAML {version}\n---\na: 1\n") is not None
    assert load_all("%YAML 1.1\n---\na: 1\n") == [{"a": 1}]


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content):
    assert "\n" not in (refusal(load_all, content) or "")


@settings(deadline=None, max_examples=80)
@given(PIECES)
def test_what_pyyaml_composes_is_composed_alike(document):
    """The same trees as PyYAML's, where both make one."""
    try:
        ours = compose(document, CORE)
        theirs = yaml.compose(document, CORE)
    except (YamlError, yaml.YAMLError, UnicodeEncodeError):
        return
    assert (ours is None) == (theirs is None or theirs.tag.endswith(":null"))
    if ours is not None:
        assert yaml.serialize(ours) == yaml.serialize(theirs)


@pytest.mark.parametrize(
    "text", ["0o644", "08", "1e3", "12e03", "1e-7", "1E5", "-1e5", "0o7", ".5", "<<", "~", "", "on", "y"]
)
def test_a_text_that_looks_like_a_number_stays_a_text(text: str) -> None:
    """An annotation that is a number is refused by the cluster; a short commit id may look like one."""
    assert load(dump({"a": text, "b": [text], text: 1})) == {"a": text, "b": [text], text: 1}


@given(st.dictionaries(st.text(st.sampled_from("0123456789+-.eExob_infNtruy~<:"), max_size=8), st.text(max_size=8)))
def test_what_is_written_is_read_again(value: dict[str, str]) -> None:
    assert load(dump(value)) == value
    assert load(dump({"texts": list(value)})) == {"texts": list(value)}


@pytest.mark.parametrize("value", [0, -5, 1.5, 1e300, True, False, None, 2**63 - 1])
def test_only_texts_are_quoted(value: object) -> None:
    text = dump({"a": value})
    assert "'" not in text
    assert load(text) == {"a": value}
