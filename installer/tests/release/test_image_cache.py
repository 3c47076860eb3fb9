"""Folders of the cache are named for images: whatever a payload calls them, they stay within it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from installer.release import image_cache

DIGEST = "0123456789abcdef" * 4
NAMES = [
    "r.example/a:../../../../x", "r.example/a:..", "r.example/a:.", "r.example/a:", "r.example/a:latest",
    "r.example/b:latest", "r.example/a@sha256:../../x", f"r.example/a@sha256:{DIGEST}/../../..", "", "a",
]  # fmt: skip


@pytest.mark.parametrize("folder_of", [image_cache.folder_of, image_cache.files_folder])
def test_folders_of_images(folder_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = [folder_of(name) for name in NAMES]
    above = {folder.parent for folder in folders}
    assert len(above) == 1
    assert above.pop().is_relative_to(tmp_path / "agent")
    assert all(folder.name.isalnum() for folder in folders)
    assert len(set(folders)) == len(NAMES)
    for name in (f"r.example/a@sha256:{DIGEST}", f"mirror.example/b@sha256:{DIGEST}"):
        assert folder_of(name).name == DIGEST[:16]
