"""`ci/bench/run oracle --scripts`: how testscripts are read and held against node0."""

import base64
import json
import sys

import pytest

from ci.bench.oracle import carried
from ci.bench.oracle.errors import Skipped
from ci.bench.oracle.scripts import VERSION, parts, run_script
from installer.image import cpio  # what writes is not what reads here
from installer.image.config_image import config_iso

PROGRAM = [sys.executable, "-m", "installer"]
ENV = {"RELEASE_IMAGE": "registry.example/a"}
FILES = "-- a.txt --\nimage: $RELEASE_IMAGE\n-- b/c.txt --\nimage: registry.example/a"


def _run(tmp_path, *lines, files=FILES):
    path = tmp_path / "one.txt"
    path.write_text("\n".join([*lines, "", files]))
    return run_script(path, ENV, PROGRAM)


def test_a_script_is_lines_and_files():
    lines, files = parts("# x\nexists a\n\n-- a --\none\n-- b/c --\ntwo")
    assert lines == ["# x", "exists a", ""]
    assert files == {"a": "one\n", "b/c": "two\n"}


def test_a_script_that_holds(tmp_path):
    lines = [
        "# a comment",
        "exec openshift-install agent graph --output-file $WORK/agent.dot",
        "exists $WORK/agent.dot b/c.txt",
        "! exists $WORK/none",
        "grep '^digraph' $WORK/agent.dot",
        "! exec openshift-install agent create nothing --dir $WORK",
        "stderr 'invalid choice: .nothing.'",
        "expandFile a.txt",
        "cmp a.txt b/c.txt",
    ]
    assert _run(tmp_path, *lines) == ""


@pytest.mark.parametrize(
    "line",
    [
        "exists none",
        "! exists a.txt",
        "cmp a.txt b/c.txt",
        "! cmp a.txt a.txt",
        "grep nothing a.txt",
        "stderr nothing",
        "exec openshift-install agent create nothing",
        "! exec openshift-install version",
        "isoSizeMin a.txt 1",
        "unknown a",
    ],
)
def test_the_first_line_that_does_not_hold_is_told(tmp_path, line):
    assert _run(tmp_path, "exists a.txt", line, "exists none2").startswith(f"{line}: ")


def test_a_script_that_is_not_to_be_run(tmp_path):
    with pytest.raises(Skipped, match="why"):
        _run(tmp_path, "skip 'why'", "exists none")


def test_the_version_that_a_build_has_by_itself_is_the_releases(tmp_path):
    assert _run(tmp_path, f"grep 'openshift-{VERSION}' a", files="-- a --\nopenshift-was not built correctly") == ""


def test_what_a_config_image_carries_has_absolute_names(tmp_path):
    source = "data:text/plain;base64," + base64.b64encode(b"x: 1\n").decode()
    entry = {"path": "/etc/assisted/manifests/infraenv.yaml", "mode": 0o600, "contents": {"source": source}}
    iso = tmp_path / "agentconfig.noarch.iso"
    iso.write_bytes(config_iso(json.dumps({"storage": {"files": [entry]}}).encode()))
    (tmp_path / "wanted").write_text("x: 1\n")
    assert carried.archive(iso, "config.gz") == {entry["path"]: b"x: 1\n"}
    assert carried.host_file(iso, entry["path"]) == b"x: 1\n"
    with pytest.raises(ValueError, match="has no images/other"):
        carried.file_of(iso, "images/other")


def test_every_compressed_archive_of_an_initrd_is_found():
    one, two = (cpio.compress(cpio.pack({name: b"x"})) for name in ("a", "b"))
    initrd = b"\x1f\x8b\x08junk" + one + bytes(9) + two
    assert {name for files in carried.compressed_archives(initrd) for name in files} == {"a", "b"}
