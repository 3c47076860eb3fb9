"""A bootstrap config in a system's files."""

from __future__ import annotations

import base64
import gzip
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from installer.orchestrator import ignfs
from installer.orchestrator.errors import StageError
from installer.testing.orchestrator_kit import data

PASSWD = "root:x:0:0::/root:/bin/sh\ncore:x:1234:1235::/home/core:/bin/sh\nshort:x\nodd:x:abc:1::/:/bin/sh\n"
GROUP = "root:x:0:\nwheel:x:77:\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    return tmp_path


def extract(root: Path, *files: dict[str, Any], **storage: Any) -> ignfs.Extraction:
    return ignfs.Writer(root).extract({"storage": {"files": list(files), **storage}})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owner(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


def test_files_are_counted_and_have_their_modes(root: Path) -> None:
    result = extract(
        root, {"path": "/a/b/c", "contents": data("x")}, {"path": "/secret", "mode": 0o600}, {"path": "/no", "mode": 0}
    )
    assert result == ignfs.Extraction(files=3)
    assert (root / "a/b/c").read_text() == "x"
    assert (root / "secret").read_bytes() == b""
    assert (mode(root / "a/b/c"), mode(root / "secret"), mode(root / "no")) == (0o644, 0o600, 0)


def test_directories_have_their_modes_and_may_be_there(root: Path) -> None:
    (root / "old").mkdir(mode=0o700)
    extract(root, directories=[{"path": "/old"}, {"path": "/new/deep", "mode": 0o2750}])
    assert (mode(root / "old"), mode(root / "new/deep")) == (0o755, 0o2750)


def test_owners_by_number_and_by_name(root: Path) -> None:
    files = [
        {"path": "/number", "user": {"id": 5}, "group": {"id": 6}},
        {"path": "/name", "user": {"name": "core"}, "group": {"name": "wheel"}},
        {"path": "/unknown", "user": {"name": "nobody-here"}, "group": {}},
        {"path": "/odd", "user": {"name": "odd"}, "group": {"name": "short"}},
    ]
    extract(
        root,
        *files,
        directories=[{"path": "/dir", "user": {"id": 7}, "group": {"id": 8}}],
        links=[{"path": "/link", "target": "number", "user": {"id": 9}, "group": {"id": 10}}],
    )
    owners = {name: owner(root / name) for name in ("number", "name", "unknown", "odd", "dir", "link")}
    assert owners == {
        "number": (5, 6),
        "name": (1234, 77),
        "unknown": (0, 0),
        "odd": (0, 0),
        "dir": (7, 8),
        "link": (9, 10),
    }


def test_nothing_is_owned_where_that_was_turned_off(root: Path) -> None:
    ignfs.Writer(root, chown=False).extract({"storage": {"files": [{"path": "/a", "user": {"id": 5}}]}})
    assert owner(root / "a") == (os.geteuid(), os.getegid())


def test_without_contents_a_file_that_is_there_keeps_its_own(root: Path) -> None:
    (root / "kept").write_text("old")
    extract(root, {"path": "/kept", "mode": 0o640})
    assert (root / "kept").read_text() == "old"
    assert mode(root / "kept") == 0o640


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(root: Path) -> None:
    (root / "target").write_text("unharmed")
    (root / "file").symlink_to("target")
    extract(root, {"path": "/file", "contents": data("new")})
    assert not (root / "file").is_symlink()
    assert ((root / "target").read_text(), (root / "file").read_text()) == ("unharmed", "new")


def test_a_running_script_is_replaced_whole(root: Path) -> None:
    (root / "script").write_text("old")
    with (root / "script").open() as running:
        extract(root, {"path": "/script", "contents": data("new")})
        assert running.read() == "old"
    assert (root / "script").read_text() == "new"
    assert sorted(path.name for path in root.iterdir()) == ["etc", "script"]


def test_appended_pieces_come_once_each(root: Path) -> None:
    config = {"path": "/log", "contents": data("a"), "append": [data("b"), data("c")]}
    extract(root, config)
    assert (root / "log").read_text() == "abc"
    (root / "log2").write_text("a")
    for _ in range(2):
        extract(root, {"path": "/log2", "append": [data("b")]})
    assert (root / "log2").read_text() == "ab"


def test_links(root: Path) -> None:
    (root / "file").write_text("f")
    (root / "dir/deep").mkdir(parents=True)
    (root / "dangling").symlink_to("nowhere")
    extract(
        root,
        {"path": "/target", "contents": data("t")},
        links=[
            {"path": "/file", "target": "target"},
            {"path": "/dir", "target": "/target", "overwrite": True},
            {"path": "/dangling", "target": "target"},
            {"path": "/new/deep/place", "target": "../../target"},
            {"path": "/hard", "target": "/target", "hard": True},
        ],
    )
    targets = {name: os.readlink(root / name) for name in ("file", "dir", "dangling", "new/deep/place")}
    assert targets == {"file": "target", "dir": "/target", "dangling": "target", "new/deep/place": "../../target"}
    assert (root / "hard").samefile(root / "target")
    assert not (root / "hard").is_symlink()


@pytest.mark.parametrize("overwrite", [{}, {"overwrite": False}, {"overwrite": None}])
def test_a_link_takes_no_directorys_place_unless_it_says_so(root: Path, overwrite: dict[str, Any]) -> None:
    (root / "dir").mkdir()
    (root / "dir/mine").write_text("x")
    with pytest.raises(StageError, match="/dir is a directory, and overwrite is false"):
        extract(root, links=[{"path": "/dir", "target": "/target", **overwrite}])
    assert (root / "dir/mine").read_text() == "x"


def test_a_link_removes_nothing_behind_a_link(root: Path) -> None:
    (root / "dir").mkdir()
    (root / "dir/mine").write_text("x")
    (root / "inner").symlink_to("dir")
    extract(root, links=[{"path": "/inner", "target": "/target", "overwrite": True}])
    assert os.readlink(root / "inner") == "/target"
    assert (root / "dir/mine").read_text() == "x"


def test_units_with_drop_ins(root: Path) -> None:
    units: list[dict[str, Any]] = [
        {"name": "a.service", "contents": "[Unit]\nA=ä\n", "enabled": True},
        {"name": "b.service", "dropins": [{"name": "1.conf", "contents": "one"}, {"name": "2.conf"}], "enabled": False},
        {"name": "c.service", "mask": True, "enabled": True},
        {"name": "d.service", "enabled": True},
    ]
    result = ignfs.Writer(root).extract({"systemd": {"units": units}})
    assert (result.enable, result.mask, result.files) == (["a.service", "d.service"], ["c.service"], 0)
    folder = root / "etc/systemd/system"
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert paths == ["a.service", "b.service.d/1.conf"]
    assert (folder / "a.service").read_text() == "[Unit]\nA=ä\n"
    assert (folder / "b.service.d/1.conf").read_text() == "one"
    assert mode(folder / "a.service") == 0o644
    with pytest.raises(StageError, match=r"'../x' has a slash"):
        ignfs.Writer(root).extract({"systemd": {"units": [{"name": "../x", "contents": "x"}]}})


def test_keys_of_users_that_are_there(root: Path) -> None:
    for home in ("root", "home/core", "home/ghost"):
        (root / home).mkdir(parents=True)
    old = root / "root/.ssh/authorized_keys"
    old.parent.mkdir()
    old.write_text("old\nkey\n")
    users = [
        {"name": "core", "sshAuthorizedKeys": ["key", "other"]},
        {"name": "root", "sshAuthorizedKeys": ["key", "new"]},
        {"name": "ghost", "sshAuthorizedKeys": ["key"]},
        {"name": "short", "sshAuthorizedKeys": ["key"]},
    ]
    ignfs.Writer(root).extract({"passwd": {"users": users}})
    file = root / "home/core/.ssh/authorized_keys"
    assert file.read_text() == "key\nother\n"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    # core's own group is not among the system's groups: the user's number stands in.
    assert (owner(file), owner(file.parent)) == ((1234, 1234), (1234, 1234))
    assert old.read_text() == "old\nkey\nnew\n"
    assert not list((root / "home/ghost").iterdir())


def test_a_user_without_keys_or_without_a_home(root: Path) -> None:
    (root / "home/core").mkdir(parents=True)
    users = [{"name": "core"}, {"name": "root", "sshAuthorizedKeys": ["key"]}]
    ignfs.Writer(root).extract({"passwd": {"users": users}})
    assert not list((root / "home/core").iterdir())
    assert not (root / "root").exists()


def test_a_group_of_the_users_name(root: Path) -> None:
    (root / "etc/group").write_text("core:x:4321:\n")
    (root / "home/core").mkdir(parents=True)
    ignfs.Writer(root).extract({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}]}})
    assert owner(root / "home/core/.ssh/authorized_keys") == (1234, 4321)


@pytest.mark.parametrize(
    "config", [{}, {"storage": None}, {"systemd": None, "passwd": None}, {"storage": {"files": None}}]
)
def test_a_config_with_nothing_in_it(root: Path, config: dict[str, Any]) -> None:
    before = sorted(root.rglob("*"))
    assert ignfs.Writer(root).extract(config) == ignfs.Extraction()
    assert sorted(root.rglob("*")) == before


def test_a_system_without_users(tmp_path: Path) -> None:
    extract(tmp_path, {"path": "/a", "user": {"name": "core"}})
    assert owner(tmp_path / "a") == (0, 0)


def test_links_above_a_file_are_followed_within_the_system(root: Path) -> None:
    (root / "var/log").mkdir(parents=True)
    (root / "log").symlink_to("/var/log")
    (root / "var/up").symlink_to("../etc")
    extract(root, {"path": "/log/a", "contents": data("a")}, {"path": "/var/up/b", "contents": data("b")})
    assert (root / "var/log/a").read_text() == "a"
    assert (root / "etc/b").read_text() == "b"


def test_links_in_circles_and_files_as_directories_are_refused(root: Path) -> None:
    (root / "round").symlink_to("again")
    (root / "again").symlink_to("round")
    with pytest.raises(StageError, match=r"'/round/x' leads in circles"):
        extract(root, {"path": "/round/x"})
    with pytest.raises(StageError, match=r"ignition: /etc/passwd is not a directory"):
        extract(root, {"path": "/etc/passwd/deeper/x"})


def test_forty_links_in_a_row_are_followed(root: Path) -> None:
    (root / "end").mkdir()
    previous = "end"
    for number in range(40):
        (root / f"l{number}").symlink_to(previous)
        previous = f"l{number}"
    extract(root, {"path": "/l39/x", "contents": data("x")})
    assert (root / "end/x").read_text() == "x"
    (root / "l40").symlink_to("l39")
    with pytest.raises(StageError, match="circles"):
        extract(root, {"path": "/l40/x"})


def test_what_the_disk_refuses_is_a_stage_error(root: Path) -> None:
    (root / "dir").mkdir()
    with pytest.raises(StageError, match=r"^ignition: .*directory"):
        extract(root, {"path": "/dir", "contents": data("x")})


def test_sources() -> None:
    assert ignfs.decode_source("") == b""
    assert ignfs.decode_source("data:,a%20b,c") == b"a b,c"
    assert ignfs.decode_source("data:text/plain;charset=utf-8;base64,eA==") == b"x"
    packed = base64.b64encode(gzip.compress(b"y", mtime=0)).decode()
    assert ignfs.decode_source(f"data:;base64,{packed}", "gzip") == b"y"
    assert ignfs.content_of(None) == b""
    assert ignfs.content_of({}) == b""
    assert ignfs.content_of({"source": None, "compression": None}) == b""
    assert ignfs.content_of({"source": "data:,x", "compression": ""}) == b"x"


@pytest.mark.parametrize(
    ("source", "compression"),
    [
        ("https://192.0.2.1/x", ""),
        ("data:no-comma", ""),
        ("file,data:", ""),
        ("data:;base64,*", ""),
        ("data:,plain", "gzip"),
        ("data:;base64," + base64.b64encode(gzip.compress(b"long enough to cut", mtime=0)[:-9]).decode(), "gzip"),
        ("data:;base64," + base64.b64encode(gzip.compress(b"x", mtime=0)[:12] + b"\xff" * 8).decode(), "gzip"),
    ],
)
def test_sources_that_cannot_be_read(source: str, compression: str) -> None:
    with pytest.raises(StageError, match=r"^ignition: "):
        ignfs.decode_source(source, compression)


def test_the_text_of_a_file() -> None:
    config = {"storage": {"files": [{"path": "/a", "contents": data("1")}, {"path": "/b", "contents": data("2")}]}}
    assert ignfs.text_of(config, "/b") == "2"
    assert ignfs.text_of(config, "/c") == ""
    assert ignfs.text_of({}, "/c") == ""
    assert (
        ignfs.text_of({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,%ff"}}]}}, "/a") == "\ufffd"
    )
