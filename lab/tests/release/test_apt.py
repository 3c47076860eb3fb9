"""The private apt, with a real apt-get and an archive of three packages."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from lab.daemons.httpd import serving
from lab.release.image.debian import DPKG_STATUS, DebInputs, Packages, download
from lab.release.stage import apt
from lab.release.stage.apt import AptSource
from lab.release.stage.keys import Built
from lab.release.stage.store import Store

CONTROL = """\
Package: {name}
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.com>
Depends: {depends}
Description: {name}
"""


def packaged(archive: Path, name: str, depends: str) -> str:
    """Make a package with nothing in it; its stanza in the archive's list."""
    control = CONTROL.format(name=name, depends=depends)
    if not depends:
        control = control.replace("Depends: \n", "")
    (archive / name / "DEBIAN").mkdir(parents=True)
    (archive / name / "DEBIAN/control").write_text(control)
    deb = archive / f"{name}_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", archive / name, deb], check=True, capture_output=True, timeout=60)
    content = deb.read_bytes()
    sums = f"Filename: ./{deb.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    return f"{control}{sums}\n"


def test_each_group_has_all_that_its_packages_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "archive"
    base, out = tmp_path / "base", tmp_path / "out"
    for folder in (archive, base, out):
        folder.mkdir()
    (base / DPKG_STATUS).touch()
    stanzas = [packaged(archive, "shared", ""), packaged(archive, "one", "shared"), packaged(archive, "two", "shared")]
    (archive / "Packages").write_text("".join(stanzas))
    with serving(archive, "127.0.0.1", 0) as port:
        source = AptSource((f"http://127.0.0.1:{port}",), ("./",), ())
        monkeypatch.setattr(
            AptSource, "stanza", lambda self, types: f"Types: {types}\nURIs: {self.uris[0]}\nSuites: ./\nTrusted: yes\n"
        )
        monkeypatch.setattr(apt, "debian_sources", lambda: [source])
        monkeypatch.setattr(apt, "transport_settings", lambda: 'Acquire::http::Proxy "DIRECT";\n')
        groups = {"one": Packages(("one",)), "two": Packages(("two",), skip=("sh*",)), "three": Packages(("two",))}
        download(Store(tmp_path / "cache"), DebInputs(Built(base), groups), out)
    assert {name: sorted(deb.name for deb in (out / name).iterdir()) for name in groups} == {
        "one": ["one_1_all.deb", "shared_1_all.deb"],
        "two": ["two_1_all.deb"],
        "three": ["shared_1_all.deb", "two_1_all.deb"],
    }
