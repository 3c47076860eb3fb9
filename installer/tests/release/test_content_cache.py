"""A release's content is fetched once: with a registry that goes away, and with access that changes."""

import shutil
import stat
from dataclasses import replace

import pytest

from installer.errors import PullSecretRejected, RegistryUnreachable
from installer.release import RegistryAccess, Release
from installer.release.content_cache import ContentCache
from installer.testing.create.registry_kit import MISSING, registry

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def look(access, pullspec):
    """(version, a component's pullspec) as a new run finds them."""
    with replace(access) as opened:
        release = Release(pullspec, opened, ContentCache(opened))
        return release.version, release.image_for("etcd"), release.architecture


def test_a_release_is_fetched_once_and_only_for_the_access_that_worked(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with registry(tmp_path / "registry") as server:
        release = server.push_release({"etcd": server.push([{"etcd": b"x"}], "etcd")})
        access = RegistryAccess(server.pull_secret, server.sources, server.ca_pem)
        first = look(access, release)
        with pytest.raises(PullSecretRejected):
            look(replace(access, pull_secret=None), release)
    # The registry is gone.
    assert look(access, release) == first
    (kept,) = (tmp_path / "cache/agent/release_cache").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert server.pull_secret not in kept.read_text()
    for other in ({"pull_secret": None}, {"trust_bundle": ""}, {"sources": ()}, {"architecture": "arm64"}):
        with pytest.raises(RegistryUnreachable):
            look(replace(access, **other), release)
    for damage in ("", "[]", '{"salt": 1}', '{"salt": "zz", "access": ""}', kept.read_text()[:-20]):
        kept.write_text(damage)
        with pytest.raises(RegistryUnreachable):
            look(access, release)
    shutil.rmtree(kept.parent)
    with pytest.raises(RegistryUnreachable):
        look(access, release)


def test_without_a_cache_everything_is_fetched_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("a file in the way")
    with registry(tmp_path / "registry") as server:
        release = server.push_release({"etcd": server.push([{"etcd": b"x"}], "etcd")})
        access = RegistryAccess(server.pull_secret, server.sources, server.ca_pem)
        assert look(access, release) == look(access, release)
