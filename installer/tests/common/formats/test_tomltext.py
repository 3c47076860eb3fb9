"""TOML that wants to harm: depth, long keys and numbers; in both readers of registries.conf."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.assisted.errors import PrepareError
from installer.common.formats import tomltext
from installer.errors import ConfigError
from installer.manifests import mirror
from installer.rendezvous import registries


def deep(opening: str) -> str:
    return "a = " + opening * 5000


QUOTED = '"#"'
TOML = {
    "nested arrays": (deep("["), "line 1: nested more than 16 levels deep"),
    "nested tables": (f"b = 1\n{deep('{a = ')}", "line 2: nested more than 16 levels deep"),
    "digits": (f"a = {'9' * 5000}", "line 1: a number of more than 64 digits"),
    "digits apart": (f"a = {'9_' * 500}9", "line 1: a number of more than 64 digits"),
    "hexadecimal digits": (f"\n\na = 0x{'f' * 5000}", "line 3: a number of more than 64 digits"),
    "dotted key": (f"a{'.a' * 20000} = 1", "line 1: a key of more than 16 parts"),
    "dotted quoted key": (f'"a"{f" . {QUOTED}" * 20000} = 1', "line 1: a key of more than 16 parts"),
    "dotted header": (f"[[a{'.a' * 20000}]]", "line 1: a key of more than 16 parts"),
    "dotted key in a table": (f"x = {{a{'.a' * 20000} = 1}}", "line 1: a key of more than 16 parts"),
    "size": ("#" * ((1 << 20) + 1), "it has more than 1048576 bytes"),
    "no end": ('a = """x', 'line 1: the text that begins with """ has no end'),
    "a line's end": ("a = 'x\n'", "line 1: the text that begins with ' has no end"),
    "hidden by a text": (f"a = '''it's\"'''\nb = '\"'\nc{deep('[')[1:]}", "line 3: nested more than 16 levels deep"),
    "hidden by quotes at an end": (f'a = """x"""""\nb{deep("[")[1:]}', "line 2: nested more than 16 levels deep"),
    "a long name twice": (f"{'a' * 5000} = 1\n" * 2, "Cannot overwrite a value"),
    "no such day": ("a = 2024-02-31", "Invalid date or datetime"),
    "list of words": ("registry = ['x']", "registry is not a list of tables"),
    "table": ("[registry]\na = 1", "registry is not a list of tables"),
    "mirrors of words": ("[[registry]]\nlocation = 'x'\nmirror = ['x']", "mirror is not a list of tables"),
    "number as location": ("[[registry]]\nlocation = 5", "location of registry 0 is not a text"),
    "number as prefix": ("[[registry]]\nlocation = 'x'\nprefix = 5", "prefix of registry 0 is not a text"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOML)
def test_hostile_registries_conf(tmp_path: Path, name: str) -> None:
    text, expected = TOML[name]
    begin = time.thread_time()
    with pytest.raises(ConfigError) as caught:
        mirror.read_registries(text)
    path = tmp_path / "registries.conf"
    path.write_text(text)
    with pytest.raises(PrepareError) as other:
        registries.digest_sources(path)
    assert time.thread_time() - begin < 5
    for error, start in ((caught, "failed to load mirror/registries.conf file: "), (other, f"{path}: ")):
        assert str(error.value).startswith(start)
        assert expected in str(error.value)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 500
    # Whoever only asks for a name is told none.
    assert registries.release_domain(path, "") == ""


PIECES = st.sampled_from(
    [*"[]{}=.,\n\"'\\#a1 ", "\r\n", '"""', "'''", '\\"', "'''''", '""""']
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_toml_of_any_kind_is_read_as_tomllib_reads_it(text: str) -> None:
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ValueError, match=r"."):
            tomltext.loads(text)
    else:
        assert tomltext.loads(text) == wanted


def hidden() -> Iterator[str]:
    """Whole texts and comments that look like depth, keys and numbers."""
    inside = f"{'[' * 50} {'a.' * 50} {'9' * 90} #"
    yield f"a = '{inside}'"
    yield f'a = "{inside} \\" {inside}"'
    yield f"a = '''{inside}\n'' {inside}'''"
    yield f'a = """{inside}\n"" \\""" {inside}"""""'
    yield f'a = 1 # {inside} """'
    yield f'"{inside}" = 1'


@pytest.mark.parametrize("text", list(hidden()))
def test_toml_that_only_looks_hostile_is_read(text: str) -> None:
    assert tomltext.loads(text) == tomltext.loads(text.encode()) == tomllib.loads(text)
