"""Configs that a lab is made from: regular files, whose first document counts."""

import os

import pytest

from lab.deploy import read
from lab.errors import ConfigsError


def test_configs_are_regular_files(tmp_path):
    os.mkfifo(tmp_path / "install-config.yaml")
    (tmp_path / "agent-config.yaml").symlink_to("/dev/zero")
    with pytest.raises(ConfigsError) as caught:
        read(tmp_path)
    assert [line for _, line in caught.value.problems] == [
        "it is a named pipe, not a regular file; the lab is made from it",
        "it is a character device, not a regular file; the lab is made from it",
    ]


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
