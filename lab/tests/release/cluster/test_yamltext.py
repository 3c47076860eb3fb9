"""YAML in the lab: what users wrote, read as Go reads it, and refused where it wants to harm."""

import json
import re
import string

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import deploy, topology
from lab.errors import TopologyError
from lab.release.cluster import installconfig, yamltext
from lab.release.cluster.errors import ConfigError, ManifestError
from lab.release.cluster.kube import payload
from lab.release.cluster.kube.client import split_kubeconfig


def laughs(levels, fanout=10):
    lines = [f"a0: &a0 [{','.join(['x'] * fanout)}]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * fanout)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


HARM = {
    "bomb": (laughs(9), "line 4: document contains excessive aliasing"),
    "cycle": ("kind: X\na: &a [*a]\n", "line 2: an anchor's value contains itself"),
    "merge cycle": ("a: &a\n  <<: *a\n", "line 2: an anchor's value contains itself"),
    "deep": ("[" * 100_000, "line 1: exceeded max depth of 128"),
    "deep maps": ("{a: " * 100_000, "line 1: exceeded max depth of 128"),
    "deep by aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)),
        "line 128: exceeded max depth of 128",
    ),
    "no bool": ("!!bool s3cr3t", "a value does not fit its tag (KeyError)"),
    "no time": ("!!timestamp s3cr3t", "a value does not fit its tag (AttributeError)"),
    "unknown": ("a: *b", "line 1: unknown anchor referenced"),
}


@pytest.mark.parametrize("name", HARM)
def test_refused(name, tmp_path):
    text, message = HARM[name]
    with pytest.raises(yaml.YAMLError) as caught:
        yamltext.load(text)
    assert str(caught.value) == message
    (tmp_path / "install-config.yaml").write_text(text)
    (tmp_path / "agent-config.yaml").write_text("{}")
    with pytest.raises(TopologyError) as error:
        deploy.read(tmp_path)
    assert str(error.value) == f"{tmp_path}/install-config.yaml: {message}"
    with pytest.raises(TopologyError):
        topology.load(str(tmp_path / "install-config.yaml"))
    with pytest.raises(ConfigError):
        installconfig.parse(text)
    with pytest.raises(ConfigError):
        split_kubeconfig(tmp_path / "install-config.yaml")
    with pytest.raises(ManifestError):
        payload.read_objects(text, "x")


def test_what_passes():
    assert len(yamltext.load(laughs(3))["a2"]) == 10
    assert len(yamltext.load_all("---\n".join([laughs(3)] * 20))) == 20
    assert yamltext.load("[" * 128 + "]" * 128)
    assert yamltext.load("a: &m {x: 1}\nb: {<<: *m, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
    assert yamltext.load("") is None
    with pytest.raises(yaml.YAMLError, match="only one document is expected"):
        yamltext.load("1\n---\n2")
    with pytest.raises(yaml.YAMLError, match=r"^not UTF-8 text at byte 3$"):
        yamltext.load(b"a: \xe9 s3cr3t")


def test_a_mac_address_and_a_date_are_texts(tmp_path):
    """YAML 1.1 would make a number and a date of them, and the lab writes its inputs anew."""
    for name in ("install-config.yaml", "agent-config.yaml"):
        (tmp_path / name).write_text("mac: 52:54:00:11:22:33\nday: 2024-01-01\noctal: 010\nbig: 1" + "0" * 30)
    document, _ = deploy.read(tmp_path)
    assert document == {"mac": "52:54:00:11:22:33", "day": "2024-01-01", "octal": 8, "big": 1e30}


PIECES = st.lists(
    st.sampled_from([
        "a", "b: ", "- ", "&a ", "*a", "[", "]", "{", "}", ",", ": ", "? ", "\n", "  ", "<<: ", "!!int ", "!!set ", "'",
        "|\n", "---\n", "9" * 30, "0x", "1e999", ".nan", "\0", "!!float ", "!!bool ", "!!timestamp ", "!!omap ",
        "!!pairs ", '"',
    ]) | st.text(string.printable, max_size=3),
    max_size=25,
).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(PIECES)
def test_any_text_is_read_or_refused(text):
    try:
        yamltext.load_all(text)
    except yaml.YAMLError:
        return


@settings(deadline=None, max_examples=50)
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(string.printable),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters, min_size=1), inner),
    max_leaves=20,
))  # fmt: skip
def test_what_is_written_is_read(value):
    written = yaml.safe_dump(value)
    # PyYAML leaves texts like 0E0 plain, which Go and we read as numbers: what the lab writes has none.
    assert yamltext.load(written) == value or re.search(r"(?<![\w.])[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+", written)
    assert yamltext.load(json.dumps(value, ensure_ascii=False)) == value or "\x7f" in json.dumps(value)
