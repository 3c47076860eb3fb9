"""Laws of the orchestrator: extraction and merge of Ignition configs, and percentages, over many inputs."""

from __future__ import annotations

import base64
import gzip
import json
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.hostsys.system import HostSystem
from installer.orchestrator import bootstrap, disk, ignfs
from installer.orchestrator.errors import StageError


def data(text: str) -> dict[str, str]:
    return {"source": "data:;base64," + base64.b64encode(text.encode()).decode()}


CONFIG: dict[str, Any] = {
    "ignition": {"version": "3.2.0"},
    "storage": {
        "directories": [{"path": "/opt/openshift/auth", "mode": 0o700}],
        "files": [
            {"path": "/usr/local/bin/bootkube.sh", "mode": 0o555, "contents": data("#!/bin/sh\n")},
            {"path": "/opt/openshift/auth/kubeconfig", "mode": 0o600, "contents": data("k")},
            {"path": "/etc/motd", "append": [data("hello\n")]},
            {
                "path": "/opt/zipped",
                "contents": {
                    "compression": "gzip",
                    "source": "data:;base64," + base64.b64encode(gzip.compress(b"zipped", mtime=0)).decode(),
                },
            },
            {"path": "/opt/plain", "contents": {"source": "data:,a%20b"}},
        ],
        "links": [{"path": "/etc/link", "target": "/opt/plain"}],
    },
    "systemd": {
        "units": [
            {
                "name": "bootkube.service",
                "contents": "[Service]\n",
                "dropins": [{"name": "10-a.conf", "contents": "x"}],
            },
            {"name": "progress.service", "enabled": True, "contents": "[Service]\n"},
            {"name": "bad.service", "mask": True},
        ]
    },
}


def test_extract_twice_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/motd").write_text("welcome\n")
    for _ in range(2):
        result = ignfs.Writer(tmp_path, chown=False).extract(CONFIG)
        assert (result.enable, result.mask) == (["progress.service"], ["bad.service"])
        assert stat.S_IMODE((tmp_path / "usr/local/bin/bootkube.sh").stat().st_mode) == 0o555
        assert stat.S_IMODE((tmp_path / "opt/openshift/auth/kubeconfig").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "opt/openshift/auth").stat().st_mode) == 0o700
        assert (tmp_path / "etc/motd").read_text() == "welcome\nhello\n"
        assert (tmp_path / "opt/zipped").read_bytes() == b"zipped"
        assert (tmp_path / "opt/plain").read_text() == "a b"
        assert (tmp_path / "etc/link").readlink() == Path("/opt/plain")
        assert (tmp_path / "etc/systemd/system/bootkube.service.d/10-a.conf").read_text() == "x"


@pytest.mark.parametrize("path", ["relative", "/a/../../etc/x", ""])
def test_paths_stay_inside(tmp_path: Path, path: str) -> None:
    config = {"storage": {"files": [{"path": path, "contents": data("x")}]}}
    with pytest.raises(StageError):
        ignfs.Writer(tmp_path, chown=False).extract(config)


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "etc").mkdir(parents=True)
    outside.mkdir()
    (root / "etc/out").symlink_to(outside)
    ignfs.Writer(root, chown=False).extract({"storage": {"files": [{"path": "/etc/out/x", "contents": data("x")}]}})
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "x").read_text() == "x"


@given(st.binary(max_size=200))
def test_data_urls_carry_any_bytes(content: bytes) -> None:
    assert ignfs.decode_source("data:;base64," + base64.b64encode(content).decode()) == content


@given(st.lists(st.integers(0, 100)))
def test_percentages_are_at_least_five_apart_and_end_with_100(values: list[int]) -> None:
    seen: list[int] = []
    percentages = disk.Percentages(lambda text: seen.append(int(text.rstrip("%"))))
    for value in values:
        percentages.feed(f"Read disk 27.0 MiB/157.0 MiB ({value}%)")
    assert all(second - first >= 5 or second == 100 for first, second in pairwise(seen))
    assert (100 in values) == (100 in seen)
    assert seen == sorted(seen)


def test_merge_drops_the_pointer_and_keeps_the_name(tmp_path: Path) -> None:
    master = tmp_path / "opt/openshift/master.ign"
    master.parent.mkdir(parents=True)
    files = [{"path": "/etc/hostname", "contents": data("old")}, {"path": "/x", "contents": data("x")}]
    master.write_text(json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}))
    own = {
        "ignition": {"version": "3.1.0", "config": {"merge": [{"source": "https://api-int:22623/config/master"}]}},
        "storage": {"files": [{"path": "/etc/hostname", "mode": 420, "contents": data("master-0")}]},
    }
    merged = json.loads(bootstrap.merged_master(HostSystem(tmp_path), own))
    assert merged["ignition"] == {"version": "3.2.0"}
    assert [item["path"] for item in merged["storage"]["files"]] == ["/etc/hostname", "/x"]
    assert ignfs.content_of(merged["storage"]["files"][0]["contents"]) == b"master-0"
    with pytest.raises(StageError, match=r"master\.ign"):
        bootstrap.merged_master(HostSystem(tmp_path / "none"), own)
