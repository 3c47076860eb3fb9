"""A node's files and units, in a folder in the node's place; systemctl is the real one, offline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.release.cluster.errors import ConfigError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube.client import Object
from lab.release.cluster.machineconfigs import changes, host
from lab.release.cluster.machineconfigs.host import DriftError, Host, HostError

UNIT = "[Unit]\nDescription=x\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"


def deployment(reference: str, version: str, *, booted: bool = False, staged: bool = False) -> dict[str, object]:
    """Return a row of `rpm-ostree status --json`."""
    own = {"container-image-reference": reference, "version": version, "failed": ""}
    return {**own, "booted": booted, "staged": staged}


class Folder(Host):
    """A folder in the place of a node; `programs` are those that were run, but for systemctl's on files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._folder = root
        self.programs: list[Sequence[str]] = []
        self.boot = "boot-1"
        # Its deployments as rpm-ostree has them, and the image with which no kubelet comes up.
        self.os, self.broken_os = [deployment("", "1", booted=True)], ""

    def boot_id(self) -> str:
        return self.boot

    def run(self, *argv: str, text: str = "", may_fail: bool = False, seconds: float = 60) -> str:
        if argv[0] == "systemctl" and argv[1] in ("enable", "disable", "preset", "is-enabled"):
            return super().run("systemctl", "--root", str(self._folder), *argv[1:], may_fail=may_fail)
        if "rpm-ostree" in argv:
            return self._rpm_ostree(*argv[argv.index("rpm-ostree") + 1 :])
        self.programs.append(argv)
        return ""

    def _rpm_ostree(self, command: str, *words: str) -> str:
        if command == "rebase":
            self.os.append(deployment(words[-1], words[-1], staged=True))
        elif command == "finalize-deployment":
            [staged] = [row for row in self.os if row["staged"]]
            lost = self.broken_os in str(staged["container-image-reference"]) and bool(self.broken_os)
            for row in self.os:
                row["staged"], row["booted"] = False, row["booted"] if lost else row is staged
            staged["failed"] = "3 boots in vain" if lost else ""
            self.programs.append(("systemctl", "--no-block", "reboot"))
        return json.dumps({"deployments": self.os})


def config(name: str, *files: dict[str, Any], units: Sequence[dict[str, Any]] = (), **spec: Any) -> Object:
    made = machineconfig.machine_config(name, "", ignition.config(files, units))
    made["spec"] |= spec
    return made


OLD = config("rendered-old")
FILE = ignition.file("/etc/a/b.conf", "one\n", 0o640)


def move(folder: Folder, old: Object, new: Object) -> None:
    folder.apply(old, new, changes.change(old, new))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_a_config_brings_is_as_it_says_and_goes_with_it(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/theirs").write_text("the OS's own\n")
    (tmp_path / "etc/theirs").chmod(0o600)
    units = [
        ignition.unit("x.service", UNIT),
        ignition.unit("y.service", None, enabled=None, dropins={"9.conf": "[Unit]\n"}),
    ]
    hidden = {"name": "z.service", "mask": True}
    new = config("rendered-new", FILE, ignition.file("/etc/theirs", "ours\n"), units=[*units, hidden])
    move(folder, OLD, new)
    folder.check(new)
    assert (tmp_path / "etc/systemd/system/multi-user.target.wants/x.service").is_symlink()
    assert os.readlink(tmp_path / "etc/systemd/system/z.service") == "/dev/null"
    move(folder, new, OLD)
    assert (tmp_path / "etc/theirs").read_text() == "the OS's own\n"
    assert (tmp_path / "etc/theirs").stat().st_mode & 0o777 == 0o600
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if not p.is_dir() and "orig" not in p.parts}
    assert left == {"etc/theirs"}


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda etc: (etc / "a/b.conf").write_text("two\n"), 'content mismatch for file "/etc/a/b.conf"'),
        (lambda etc: (etc / "a/b.conf").chmod(0o600), 'mode mismatch for file: "/etc/a/b.conf"; expected: 0o640'),
        (lambda etc: (etc / "a/b.conf").unlink(), 'could not stat file "/etc/a/b.conf"'),
        (lambda etc: (etc / "systemd/system/x.service").write_text("[Unit]\n"), "content mismatch .*x.service"),
        (lambda etc: (etc / "systemd/system/x.service.d/9.conf").unlink(), "could not stat file .*9.conf"),
        (lambda etc: (etc / "systemd/system/multi-user.target.wants/x.service").unlink(), 'systemd reports "disabled"'),
        (lambda etc: (etc / "systemd/system/z.service").unlink(), "invalid unit masked setting"),
    ],
)
def test_what_is_not_as_it_was_left_is_found(folder: Folder, tmp_path: Path, spoil: Any, text: str) -> None:
    units = [ignition.unit("x.service", UNIT, dropins={"9.conf": "[Unit]\n"}), {"name": "z.service", "mask": True}]
    new = config("rendered-new", FILE, units=units)
    move(folder, OLD, new)
    paths = [*host.wanted_files(new), *host.masked(new)]
    before = folder.traces(paths)
    spoil(tmp_path / "etc")
    assert folder.traces(paths) != before, "the cheap look sees it"
    with pytest.raises(DriftError, match=text):
        folder.check(new)


def test_files_have_their_owners_and_one_that_the_node_does_not_know_is_refused(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:\nweb:x:77:7::/:\n")
    move(folder, OLD, config("rendered-new", {**FILE, "user": {"name": "web"}, "group": {"id": 5}}))
    status = (tmp_path / "etc/a/b.conf").stat()
    assert (status.st_uid, status.st_gid) == (77, 5)
    with pytest.raises(HostError, match="'nobody-at-all' is not in /etc/passwd"):
        move(folder, OLD, config("rendered-new", {**FILE, "user": {"name": "nobody-at-all"}}))


def test_links_and_owners_that_files_replaced_come_back(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/localtime").symlink_to("../usr/share/zoneinfo/UTC")
    (tmp_path / "etc/theirs").touch()
    os.chown(tmp_path / "etc/theirs", 77, 7)
    new = config("rendered-new", ignition.file("/etc/localtime", "x"), ignition.file("/etc/theirs", "x"))
    move(folder, OLD, new)
    folder.check(new)
    move(folder, new, OLD)
    assert os.readlink(tmp_path / "etc/localtime") == "../usr/share/zoneinfo/UTC"
    status = (tmp_path / "etc/theirs").stat()
    assert (status.st_uid, status.st_gid) == (77, 7)


def test_kernel_arguments_replace_those_of_the_config_before(folder: Folder) -> None:
    move(folder, config("rendered-1", kernelArguments=["a=1 b"]), config("rendered-2", kernelArguments=["b", "c"]))
    [argv] = folder.programs
    assert argv[-2:] == ("a=1 b b c", "b c")
    assert argv[:4] == ("nsenter", "--target", "1", "--mount")


@pytest.mark.parametrize(
    ("path", "actions"),
    [
        ("/etc/a/b.conf", ("reboot",)),
        ("/root/.docker/config.json", ()),
        ("/etc/containers/registries.conf", ()),
        ("/etc/containerd/certs.d/r.example/hosts.toml", ()),
        ("/etc/containerd/certs.d.more", ("reboot",)),
        ("/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt", ("update-ca-trust",)),
    ],
)
def test_what_a_changed_file_needs(path: str, actions: tuple[str, ...]) -> None:
    new = config("rendered-new", ignition.file(path, "x"))
    assert changes.change(OLD, new).actions == changes.change(new, OLD).actions == actions
    both = config("rendered-new", ignition.file(path, "x"), FILE)
    assert changes.change(OLD, both).actions == ("reboot",)


@pytest.mark.parametrize("path", [changes.FORCE_FILE, host.PENDING, f"{host.ORIGINALS}/etc/a", host.ORIGINALS])
def test_the_daemon_s_own_files_are_no_config_s(path: str) -> None:
    assert changes.irreconcilable(OLD, config("rendered-new", ignition.file(path, "x"))) == [
        f"cannot create {path} via Ignition"
    ]


KEYS = {"name": "core", "sshAuthorizedKeys": ["a"]}
UNITS = "/etc/systemd/system/x.service"


@pytest.mark.parametrize(
    ("files", "units", "users", "text"),
    [
        ([{**FILE, "user": {"id": 2**40}}], [], [], "user.id: 1099511627776: must be from 0"),
        ([{**FILE, "group": {"id": -1}}], [], [], "group.id: -1: must be from 0"),
        ([ignition.file("/etc//a", "")], [], [], "'/etc//a': must be an absolute path"),
        ([ignition.file("/etc/./a", "")], [], [], "'/etc/./a': must be an absolute path"),
        ([ignition.file("/etc/\0", "")], [], [], "must be an absolute path"),
        ([FILE, ignition.file("/etc/a", "")], [], [], "/etc/a/b.conf: is below /etc/a, which is a file"),
        (
            [ignition.file(UNITS, "")],
            [{"name": "x.service", "mask": True}],
            [],
            "x.service: is masked, and among storage's files",
        ),
        ([], [{"name": "x y\n.service"}], [], "is no name of a unit"),
        ([], [{"name": "../x.service"}], [], "is no name of a unit"),
        ([], [{"name": ".service"}], [], "is no name of a unit"),
        ([], [], [{**KEYS, "passwordHash": "x\nroot:y"}], "users core: SSH keys and password hash must be a line each"),
        ([], [], [{**KEYS, "sshAuthorizedKeys": "ssh-rsa"}], "sshAuthorizedKeys: Expected `array | null`, got `str`"),
        ([], [], [{"uid": 7}], "missing required field `name`"),
    ],
)
def test_what_no_node_could_be_given_is_refused_without_secrets(
    files: list[dict[str, Any]], units: list[dict[str, Any]], users: list[dict[str, Any]], text: str
) -> None:
    made = config("99-x", *files, units=units)
    made["spec"]["config"]["passwd"] = {"users": users}
    with pytest.raises(ConfigError, match=re.escape(text)) as caught:
        machineconfig.rendered("worker", [made], "")
    assert "root:y" not in str(caught.value)


def test_what_no_running_node_can_do_is_told_all_at_once() -> None:
    new = config("rendered-new", {**FILE, "append": [{"source": "data:,x"}]}, fips=True)
    new["spec"]["config"]["storage"]["links"] = [{"path": "/l", "target": "/t"}]
    new["spec"]["config"]["passwd"] = {
        "users": [{"name": "core", "sshAuthorizedKeys": ["k"], "uid": 7}, {"name": "eve"}],
        "groups": [{"name": "g"}],
    }
    found = changes.irreconcilable(OLD, new)
    words = ("links section", "passwd groups", "not uid", "non-core user eve", "includes append", "FIPS")
    assert all(any(word in text for text in found) for word in words), found
    assert len(found) == len(words)
    assert changes.irreconcilable(OLD, config("rendered-new", FILE)) == []
