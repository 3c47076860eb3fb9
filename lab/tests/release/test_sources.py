"""The private apt's reading of the host's sources, and the pins that wheels come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.release.image.wheels import CONSTRAINTS, WHEELS, normalised, read_constraints
from lab.release.stage.apt import AptSource, debian_sources, parse_deb822, parse_list
from lab.release.stage.errors import NoAptSource, RecipeMismatch

DEB822 = """\
Types: deb
# a comment inside a stanza
URIs: http://debian.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
Components: main
"""


def test_only_enabled_binary_stanzas_count() -> None:
    assert [source.uris for source in parse_deb822(DEB822)] == [("http://debian.example/debian",)]


def test_debian_sources_keep_the_suite_and_main_only(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "debian.sources").write_text(DEB822)
    (parts / "vendor.list").write_text("deb [arch=amd64] https://vendor.example/apt vendor-bookworm main\n")
    (tmp_path / "sources.list").write_text("# nothing\ndeb http://sec.example/s bookworm-security main # why\n")
    sources = debian_sources(host=tmp_path)
    assert [source.suites for source in sources] == [("bookworm-security",), ("bookworm", "bookworm-updates")]
    assert all(source.components == ("main",) for source in sources)
    assert "Types: deb-src\nURIs: http://debian.example/debian\n" in sources[1].stanza("deb-src")


def test_a_host_without_the_suite_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://debian.example/debian trixie main\n")
    with pytest.raises(NoAptSource, match="bookworm"):
        debian_sources(host=tmp_path)


def test_list_options() -> None:
    line = "deb [arch=amd64 signed-by=/k.gpg] http://debian.example/debian bookworm main"
    assert parse_list(line) == [AptSource(("http://debian.example/debian",), ("bookworm",), ("main",), "/k.gpg")]
    assert parse_list("deb-src http://debian.example/debian bookworm main") == []


WORDS = st.lists(st.text("abz09-", min_size=1, max_size=9), min_size=1, max_size=3).map(tuple)


@settings(max_examples=50)
@given(st.lists(st.builds(AptSource, WORDS, WORDS, WORDS, st.sampled_from(["", "/k.gpg"])), max_size=4))
def test_stanzas_read_back_as_written(sources: list[AptSource]) -> None:
    assert parse_deb822("\n".join(source.stanza("deb") for source in sources)) == sources


def test_constraints_pin_every_wheel() -> None:
    pins = read_constraints(CONSTRAINTS.read_text())
    assert [name for name in WHEELS if normalised(name) not in pins] == []


@pytest.mark.parametrize("line", ["requests", "requests>=2", "requests @ file:///x", "--index-url x"])
def test_constraints_are_pins_and_nothing_else(line: str) -> None:
    with pytest.raises(RecipeMismatch, match="pin"):
        read_constraints(f"# a comment\nPyYAML==6.0\n{line}\n")
