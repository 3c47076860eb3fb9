"""Tables of specs, what is chosen, and what the suite's progress lines say."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.common.formats import yamltext
from lab.conformance import images, running, suite
from lab.conformance.errors import ConformanceError

SPECS = ("[k8s.io] a (x) [Conformance]", "[sig-apps] b [Serial] [Conformance]", "[sig-apps] c+ [Conformance]")
TABLES = files("lab.conformance").joinpath("data")


def test_a_table_names_all_that_is_wrong() -> None:
    text = (
        "- {spec: nobody, reason: r}\n- {spec: '[sig-apps] c+ [Conformance]', reason: ' '}\n- {spec: nobody, reason: r}"
    )
    with pytest.raises(ConformanceError) as caught:
        suite.left_out(text, SPECS)
    lines = str(caught.value).splitlines()
    assert "'nobody': e2e.test has no such spec" in lines[0]
    assert any("is there twice" in line for line in lines)
    assert any("reason: is empty" in line for line in lines)


@pytest.mark.parametrize("text", ["{", "- {spec: x}", "- {spec: x, reason: r, because: y}", "- 3"])
def test_a_table_that_is_none_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(ConformanceError, match=r"^left_out.yaml: [^\n]+$"):
        suite.left_out(text, SPECS)


def test_a_part_is_of_specs_that_there_are() -> None:
    assert suite.part(f"- '{SPECS[1]}'", SPECS) == (SPECS[1],)
    with pytest.raises(ConformanceError, match=r"part.yaml: 'd'"):
        suite.part("[d]", SPECS)


def test_the_tables_of_the_house_name_conformance_specs_once_each() -> None:
    """Each run checks with e2e.test that it has them."""
    names = yamltext.load(TABLES.joinpath(suite.PART).read_text())
    rows = yamltext.load(TABLES.joinpath(suite.LEFT_OUT).read_text())
    for table in (names, [row["spec"] for row in rows]):
        assert len(set(table)) == len(table)
        assert all("[Conformance]" in name for name in table)
    assert not [name for name in names if suite.SERIAL in name]
    assert not {row["spec"] for row in rows} & set(names)


def test_a_focus_that_fits_nothing_or_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "left_out", lambda _text, _specs: {SPECS[2]: "no clock"})
    monkeypatch.setattr(suite, "part", lambda _text, _specs: SPECS[:1])
    chosen = suite.plan(SPECS, focus="sig-apps")
    assert (chosen.parallel, chosen.serial, chosen.left_out) == ((), SPECS[1:2], {SPECS[2]: "no clock"})
    assert suite.plan(SPECS, only_part=True).specs == SPECS[:1]
    for focus in ("sig-storage", "("):
        with pytest.raises(ConformanceError, match="--focus"):
            suite.plan(SPECS, focus=focus)


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n\r\x00"), min_size=1), min_size=1))
def test_a_focus_fits_just_the_specs_that_it_is_made_of(names: list[str]) -> None:
    pattern = re.compile(running.focus_of(names))
    assert all(pattern.search(f"{running.BEFORE}{name}") for name in names)
    assert not any(pattern.search(f"{running.BEFORE}{name}x") for name in names if f"{name}x" not in names)


def test_every_image_has_a_place_in_the_list_of_repositories() -> None:
    named = yamltext.load(images.repo_list("registry.example:5000"))
    assert {row.registry for row in images.ROWS} == set(named)
    assert set(named.values()) == {"registry.example:5000/node0/conformance"}
    assert len({row.tag for row in images.ROWS}) == len(images.ROWS)


def test_a_labs_registry_says_where_its_images_lie(tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text("storage: {filesystem: {rootdirectory: /srv/images}}\n")
    assert images.storage_of(tmp_path) == Path("/srv/images")
    (tmp_path / "registry.yaml").write_text("storage: {s3: {}}\n")
    with pytest.raises(ConformanceError, match=r"registry\.yaml"):
        images.storage_of(tmp_path)
