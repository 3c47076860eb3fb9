"""The payload reader: pure parts alone, the rest against a real registry on loopback."""

import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.errors import (
    FileNotInImage,
    ImageNotFound,
    PullSecretRejected,
    RegistryCertificateError,
    RegistryUnreachable,
    ReleaseError,
    ReleaseNotByDigest,
    UnknownTag,
)
from installer.release import DigestSource, RegistryAccess, Release, registries_conf
from installer.release.layers import normal, whiteouts
from installer.release.payload import repository_of
from installer.release.proxy import explain
from installer.testing.create.registry_kit import MISSING, SOURCE, Link, registry

needs_registry = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

names = st.from_regex(r"[a-z0-9]{1,8}(\.[a-z]{1,4})?(:[0-9]{2,4})?(/[a-z0-9._-]{1,8}){0,3}", fullmatch=True)


@pytest.mark.slow
@given(st.lists(st.builds(DigestSource, names, st.lists(names, max_size=3).map(tuple), st.booleans()), max_size=4))
def test_registries_conf_is_toml_that_says_the_same(sources):
    data = tomllib.loads(registries_conf(sources))
    assert data["unqualified-search-registries"] == []
    importers = [
        DigestSource(
            entry["location"],
            tuple(mirror["location"] for mirror in entry.get("mirror", [])),
            entry.get("blocked", False),
        )
        for entry in data.get("registry", [])
    ]
    # Mirrors of one source are together, each once; a source without mirrors says nothing.
    merged: dict[tuple[str, bool], list[str]] = {}
    for source in sources:
        merged.setdefault((source.source, source.never_contact_source), []).extend(source.mirrors)
    assert importers == [
        DigestSource(name, tuple(dict.fromkeys(mirrors)), never) for (name, never), mirrors in merged.items() if mirrors
    ]
    assert all(entry["mirror-by-digest-only"] for entry in data.get("registry", []))


@pytest.mark.parametrize(
    ("pullspec", "expected"),
    [
        ("a.example/b/c@sha256:00", "a.example/b/c"),
        ("a.example:5000/b", "a.example:5000/b"),
        ("a.example:5000/b:tag", "a.example:5000/b"),
        ("a.example:5000/b:tag@sha256:00", "a.example:5000/b"),
        ("b", "b"),
    ],
)
def test_repository_of(pullspec, expected):
    assert repository_of(pullspec) == expected


def test_paths_in_layers():
    assert normal("./a/../b//c") == "b/c"
    assert whiteouts("a/b") == {".wh.a", "a/.wh.b", ".wh..wh..opq", "a/.wh..wh..opq"}


MIRROR = (
    "(Mirrors also failed: [m.example/x@sha256:00: {0}]): a.example/x@sha256:00: pinging container registry a.example: "
)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("unauthorized: authentication required", PullSecretRejected, "rejected the pull secret"),
        ("denied: requested access to the resource is denied", PullSecretRejected, "rejected the pull secret"),
        (
            'Get "https://m.example/v2/": x509: certificate signed by unknown authority',
            RegistryCertificateError,
            "Bundle",
        ),
        (
            'Get "https://m.example/v2/": dial tcp 1.2.3.4:443: connect: connection refused',
            RegistryUnreachable,
            "reached",
        ),
        ("reading manifest sha256:00 in m.example/x: manifest unknown", ImageNotFound, "no such image"),
        ("something\nelse", ReleaseError, "something else"),
    ],
)
def test_errors_of_skopeo_become_one_line(text, kind, says):
    error = explain("a.example/x@sha256:00", MIRROR.format(text))
    assert type(error) is kind
    assert says in str(error)
    assert "\n" not in str(error)
    assert "m.example/x: " in str(error)
    # Of a source that is tried after the mirrors nothing is said.
    after = explain("a.example/x@sha256:00", MIRROR.format(text).rpartition("pinging")[0] + "unauthorized: no login")
    assert (type(after), str(after)) == (kind, str(error))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def access(server):
    with RegistryAccess(server.pull_secret, server.sources, server.ca_pem) as context:
        yield context


@pytest.fixture(scope="module")
def release(server):
    component = server.push(
        [
            {"usr/bin/tool": b"old", "usr/bin/gone": b"x", "opt/dir/file": b"y", "bin": Link("usr/bin")},
            {"./usr/bin/tool": b"new" * 100_000, "usr/bin/.wh.gone": b"", "opt/.wh..wh..opq": b"",
             "usr/bin/link": Link("tool"), "etc/abs": Link("/usr/bin/tool")},
            {"etc/other": b"z"},
        ],
        "component", "zstd",
    )  # fmt: skip
    plain = server.push([{"a": b"1"}], "plain", "")
    return server.push_release({"tool": component, "plain": plain})


@needs_registry
def test_reads_a_release_through_a_mirror(access, release):
    payload = Release(release, access)
    assert payload.version == "4.18.0-test"
    assert payload.architecture == "amd64"
    assert payload.tags() == ["tool", "plain"]
    assert payload.image_for("tool").startswith(f"{SOURCE}@sha256:")
    with pytest.raises(UnknownTag, match=f"no image tag nope exists in the release image {release}"):
        payload.image_for("nope")


@needs_registry
def test_extracts_through_layers_links_and_whiteouts(access, release, tmp_path):
    payload = Release(release, access)
    image = payload.image_for("tool")
    for path in ("usr/bin/tool", "/usr/bin/link", "etc/abs"):
        extracted = payload.extract(image, path, tmp_path / "out")
        assert extracted.read_bytes() == b"new" * 100_000
        assert os.access(extracted, os.X_OK)
    both = payload.extract_all(image, {"etc/other": tmp_path / "a", "usr/bin/tool": tmp_path / "b"})
    assert both["etc/other"].read_bytes() == b"z"
    for path in ("usr/bin/gone", "opt/dir/file", "absent", "usr/bin"):
        with pytest.raises(FileNotInImage, match=path):
            payload.extract(image, path, tmp_path / "none")
    assert payload.extract(payload.image_for("plain"), "a", tmp_path / "p").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "out", "p"], "no partial files stay"


@needs_registry
def test_each_failure_has_an_error_of_its_own(server, release):
    def read(**change):
        options = {
            "pull_secret": server.pull_secret,
            "sources": server.sources,
            "trust_bundle": server.ca_pem,
            **change,
        }
        spec = options.pop("spec", release)
        with RegistryAccess(**options) as context:
            return Release(spec, context).version

    bad = server.pull_secret.replace('"auth": "', '"auth": "AAAA')
    elsewhere = (DigestSource(SOURCE, ("127.0.0.1:1/x",), never_contact_source=True),)
    with pytest.raises(PullSecretRejected):
        read(pull_secret=bad)
    with pytest.raises(PullSecretRejected):
        read(pull_secret=None)
    with pytest.raises(RegistryCertificateError):
        read(trust_bundle="")
    with pytest.raises(RegistryUnreachable):
        read(sources=elsewhere)
    with pytest.raises(ImageNotFound):
        read(spec=f"{SOURCE}@sha256:{'0' * 64}")
    with pytest.raises(ReleaseNotByDigest, match="is not by digest"):
        read(spec=f"{SOURCE}:release")
    with pytest.raises(ReleaseError, match="is not a release image: its last layer has no"):
        read(spec=server.push([{"a": b"b"}], "no-release"))


@needs_registry
def test_the_private_directory_goes_away(server, release):
    with RegistryAccess(server.pull_secret, server.sources, server.ca_pem) as context:
        folder = context.directory
        assert not [path for path in folder.rglob("*") if path.is_file() and '"auth"' in path.read_text()]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_without_skopeo():
    with RegistryAccess(skopeo="/nonexistent/skopeo") as context, pytest.raises(ReleaseError, match="not installed"):
        _ = Release(f"{SOURCE}@sha256:{'0' * 64}", context).version
