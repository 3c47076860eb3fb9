"""In which order a command puts its outputs in place: inputs go last, once the rest is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from installer.create.outputs import Outputs


def test_inputs_are_removed_when_all_else_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, made = tmp_path / "install-config.yaml", tmp_path / "agent.iso"
    source.write_text("input")
    seen: list[tuple[bool, bool]] = []
    folder = tmp_path / "auth"
    fsync = os.fsync

    def noted(fd: int) -> None:
        if any(os.path.samestat(os.fstat(fd), os.stat(path)) for path in (tmp_path, folder)):
            seen.append((source.exists(), made.exists()))
        fsync(fd)

    with Outputs(tmp_path) as outputs:
        outputs.remove(source.name)
        outputs.put(made.name, b"output")
        outputs.put("auth/kubeconfig", b"output")
        monkeypatch.setattr(os, "fsync", noted)
        outputs.commit()
    # The directory and the folder in it were synced once each, when both files were there.
    assert seen == [(True, True)] * 2
    assert sorted(tmp_path.iterdir()) == [made, folder]


def test_inputs_stay_when_an_output_cannot_be_put_in_place(tmp_path: Path) -> None:
    source = tmp_path / "install-config.yaml"
    source.write_text("input")
    with Outputs(tmp_path) as outputs:
        outputs.remove(source.name)
        outputs.put("agent.iso", b"output")
        (tmp_path / "agent.iso").mkdir()
        with pytest.raises(Exception, match="failed to write"):
            outputs.commit()
    assert source.read_text() == "input"
