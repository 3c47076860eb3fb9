"""Ignition configs merged: lists by their keys."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from installer.common.ignition import merge

TREES = st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2))


@given(TREES, TREES)
def test_laws(parent: dict[str, Any], child: dict[str, Any]) -> None:
    once = merge(parent, child)
    assert set(once) == set(parent) | set(child)
    assert merge(parent, {}) == parent
    assert merge(once, child) == once


def test_storage() -> None:
    parent = {
        "luks": [{"name": "root", "device": "/dev/a", "wipeVolume": True}],
        "filesystems": [{"device": "/dev/mapper/root", "format": "xfs", "options": ["-f"]}],
        "disks": [{"device": "/dev/c", "partitions": [{"number": 1, "label": "a"}, {"label": "b", "sizeMiB": 8}]}],
        "files": [
            {"path": "/a", "mode": 420, "contents": {"source": "data:,a", "compression": "gzip"}},
            {"path": "/null", "contents": {"source": "data:,n"}},
            {"path": "/link"},
        ],
        "directories": [{"path": "/b"}],
    }
    child = {
        "luks": [{"name": "root", "device": "/dev/b"}, {"name": "var"}],
        "filesystems": [{"device": "/dev/mapper/root", "label": "root", "options": ["-f"]}],
        "disks": [{"device": "/dev/c", "partitions": [{"number": 1, "sizeMiB": 9}, {"label": "b"}]}],
        "files": [
            {"path": "/a", "contents": {"source": "data:,b"}},
            {"path": "/null", "contents": {"source": None}},
        ],
        "links": [{"path": "/link", "target": "/a"}],
    }
    assert merge({"storage": parent}, {"storage": child})["storage"] == {
        "luks": [{"name": "root", "device": "/dev/b", "wipeVolume": True}, {"name": "var"}],
        "filesystems": [{"device": "/dev/mapper/root", "format": "xfs", "options": ["-f", "-f"], "label": "root"}],
        "files": [
            {"path": "/a", "mode": 420, "contents": {"source": "data:,b"}},
            {"path": "/null", "contents": {"source": "data:,n"}},
            {"path": "/link"},
        ],
        "directories": [{"path": "/b"}],
        "disks": [
            {
                "device": "/dev/c",
                "partitions": [{"number": 1, "label": "a", "sizeMiB": 9}, {"label": "b", "sizeMiB": 8}],
            }
        ],
        "links": [{"path": "/link", "target": "/a"}],
    }


def test_units_and_users() -> None:
    parent = {
        "systemd": {"units": [{"name": "x", "enabled": True, "dropins": [{"name": "1", "contents": "a"}]}]},
        "passwd": {"users": [{"name": "core", "groups": ["a"], "sshAuthorizedKeys": ["a", "b"]}]},
    }
    child = {
        "systemd": {"units": [{"name": "x", "dropins": [{"name": "2"}]}, {"name": "y"}]},
        "passwd": {"users": [{"name": "core", "groups": ["b"], "sshAuthorizedKeys": ["b", "c"]}]},
    }
    assert merge(parent, child) == {
        "systemd": {
            "units": [
                {"name": "x", "enabled": True, "dropins": [{"name": "1", "contents": "a"}, {"name": "2"}]},
                {"name": "y"},
            ]
        },
        "passwd": {"users": [{"name": "core", "groups": ["a", "b"], "sshAuthorizedKeys": ["a", "b", "c"]}]},
    }
