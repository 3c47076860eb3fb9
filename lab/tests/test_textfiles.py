"""Files that users name are read whole, or told to be none that can be."""

import os
from pathlib import Path

import pytest

from lab import textfiles, topology
from lab.deploy import read
from lab.errors import ConfigsError, TopologyError


def test_a_file_without_an_end_is_refused():
    with pytest.raises(OSError, match="larger than the 8 MiB that are read"):
        textfiles.read(Path("/dev/zero"))
    with pytest.raises(TopologyError, match="larger than the 8 MiB"):
        topology.load("/dev/zero")


def test_a_pipe_is_read_where_nobody_reads_it_again():
    reading, writing = os.pipe()
    os.write(writing, b"name: x")
    os.close(writing)
    assert textfiles.read(Path(f"/dev/fd/{reading}")) == b"name: x"
    os.close(reading)


def test_configs_are_regular_files(tmp_path):
    os.mkfifo(tmp_path / "install-config.yaml")
    (tmp_path / "agent-config.yaml").symlink_to("/dev/zero")
    with pytest.raises(ConfigsError) as caught:
        read(tmp_path)
    assert [line for _, line in caught.value.problems] == ["not a regular file; the lab is made from it"] * 2


def test_a_key_that_stands_twice_is_told(tmp_path):
    (tmp_path / "install-config.yaml").write_text("platform: {none: {}}\nbaseDomain: a.b\nplatform: {none: {}}\n")
    (tmp_path / "agent-config.yaml").write_text("rendezvousIP: 10.0.0.1\nhosts:\n- {role: master, role: worker}\n")
    with pytest.raises(ConfigsError) as caught:
        read(tmp_path)
    lines = [line for _, line in caught.value.problems]
    assert lines == ['line 3: key "platform" already set in map', 'line 3: key "role" already set in map']


def test_what_follows_the_first_document_of_a_config_is_nobodys(tmp_path):
    (tmp_path / "install-config.yaml").write_text("---\nbaseDomain: a.b\n---\nx: [\n")
    (tmp_path / "agent-config.yaml").write_text("rendezvousIP: 10.0.0.1\n...\n---\nkind: ConfigMap\n")
    assert read(tmp_path) == ({"baseDomain": "a.b"}, {"rendezvousIP": "10.0.0.1"})
