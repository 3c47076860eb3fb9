"""Installers: distinguished from other programs, and taken out of an image."""

from pathlib import Path

import pytest

from lab.errors import SubjectError
from lab.subject import installer
from lab.subject.installer import checked, from_image, is_ours
from lab.subject.stores import OciLayout
from lab.tests.subject.kit import make, program
from lab.waiting import wait_until


def test_an_installer_that_is_a_script_needs_its_image(tmp_path):
    layout, digests = make(tmp_path / "made", installer=b"#!/usr/bin/python3\n")
    assert from_image(OciLayout(layout.root), digests["installer"], tmp_path / "x", "image") is None
    assert not (tmp_path / "x").exists()
    with pytest.raises(SubjectError, match="the image has no /usr/bin/openshift-install"):
        from_image(OciLayout(layout.root), digests["etcd"], tmp_path / "x", "image")


def test_an_installer_of_the_users(tmp_path):
    path = tmp_path / "openshift-install"
    with pytest.raises(SubjectError, match="no such installer"):
        checked(path, "--installer")
    with pytest.raises(SubjectError, match="is a directory: want the program itself"):
        checked(tmp_path, "--installer")
    path.write_bytes(program(22))
    with pytest.raises(SubjectError, match="is not executable"):
        checked(path, "--installer")
    path.chmod(0o755)
    with pytest.raises(SubjectError, match="is an installer for s390x"):
        checked(path, "--installer")
    path.write_bytes(program())
    assert checked(path, "--installer") == path


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is no program"),
        (b"hello\n", "is no program"),
        (b"\x7fELF\x02", "is no program"),
        (b"#!\nexit 0\n", "is no program"),
        (b"#!/bin/sh\r\nexit 0\r\n", r"wants '/bin/sh\\r' in its first line"),
        (b"#! /nosuch/python3 -I\n", "wants '/nosuch/python3' in its first line"),
        (program()[:40], "cannot be run: Exec format error"),
        (b"#!/bin/sh\nexit 0\n", "is no installer: its `version` says no release image$"),
        (b"#!/bin/ls\n", "is no installer: its `version` says no release image, but .*cannot access 'version'"),
        (b"#!/bin/sh\nsleep 1000 & sleep 1000\n", "is no installer: it does not answer `version` within"),
        (b"#!/usr/bin/yes\n", "is no installer: its `version` says no release image, but '/"),
        (b"#!/bin/sh\necho password: Xq7canaryZ\n", "says no release image, but 'password: .*'$"),
    ],
)
def test_another_program_is_refused(tmp_path, monkeypatch, content, rule):
    """Before a release is copied, which takes minutes, and whatever it does instead."""
    monkeypatch.setattr(installer, "ANSWER_SECONDS", 1.0)
    path = tmp_path / "openshift-install"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(SubjectError, match=rule) as caught:
        checked(path, "--installer")
    assert "\n" not in str(caught.value)
    assert "Xq7canaryZ" not in str(caught.value)


def test_a_script_may_be_an_installer_and_leaves_nothing_running(tmp_path):
    path = tmp_path / "wrapper"
    path.write_text(f"#! /bin/sh\nsleep 1000 & echo $! > {tmp_path}/pid\necho release image x.example/y:1\n")
    path.chmod(0o755)
    assert checked(path, "--installer") == path
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    wait_until(
        lambda: not status.exists() or "zombie" in status.read_text(), 10, "its child to end", lambda: "", poll=0.05
    )


def test_node0_is_known_by_its_name():
    assert is_ours(["/usr/bin/node0"])
    assert not is_ours(["/opt/openshift-install"])
