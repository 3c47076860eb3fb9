"""Files and images that options name: checked before anything is copied, and no secret of theirs is shown."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.errors import SubjectError
from lab.subject import credentials, options


@pytest.mark.parametrize("image", ["user:Xq7canaryZ@host/a:1", "docker://user:Xq7canaryZ/x@host.example/a:1"])
def test_a_login_before_an_images_name_is_not_shown(tmp_path, monkeypatch, image):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SubjectError, match="is no image") as caught:
        options.choose({"release": image}.get)
    assert "Xq7canaryZ" not in str(caught.value)


FILES = {
    "text": "xyz",
    "empty": '{"auths": {}}',
    "list": "[]",
    "deep": "[" * 100_000,
    "utf-16": '{"auths": {"quay.io": {"auth": "eDp5"}}}'.encode("utf-16"),
    "odd": '{"auths": {"quay.io": "c2VjcmV0", "ours": {"auth": "eDp5"}}}',
    "no-auth": '{"auths": {"quay.io": {"email": "x@y.example"}, "ours.example": {"auth": "eDp5"}}}',
    "no-base64": '{"auths": {"quay.io": {"auth": "user:Xq7canaryZ"}}}',
    "no-password": '{"auths": {"quay.io": {"auth": "dXNlcg=="}}}',
    "null": '{"auths": {"quay.io": {"auth": null}}}',
    "swapped": '{"auths": {"Xq7canaryZ": {"auth": 3}}}',
    "key": "-----BEGIN EC PRIVATE KEY-----\neDp5\n-----END EC PRIVATE KEY-----\n",
    "nothing-in-it": "",
    "broken": "-----BEGIN CERTIFICATE-----\neDp5\n-----END CERTIFICATE-----\n",
    "der": b"0\x82\x01",
}


@pytest.mark.parametrize(
    ("chosen", "rule"),
    [
        ({"pull-secret": "nothing"}, "cannot be read: No such file"),
        ({"pull-secret": "text"}, "is no pull secret: want JSON with auths"),
        ({"pull-secret": "list"}, "is no pull secret: want JSON with auths"),
        ({"pull-secret": "deep"}, "is no pull secret: want JSON with auths"),
        ({"pull-secret": "empty"}, "auths is empty"),
        ({"pull-secret": "odd"}, "auths: quay.io: must be a mapping with auth"),
        ({"pull-secret": "no-auth"}, "auths: quay.io: auth must be the base64 of USER:PASSWORD"),
        ({"pull-secret": "no-base64"}, "auths: quay.io: auth must be the base64 of USER:PASSWORD"),
        ({"pull-secret": "no-password"}, "auths: quay.io: auth must be the base64 of USER:PASSWORD"),
        ({"pull-secret": "null"}, "auths: quay.io: auth must be the base64 of USER:PASSWORD"),
        ({"pull-secret": "swapped"}, "auths: <not shown>: auth must be the base64 of USER:PASSWORD"),
        ({"pull-secret": "."}, "cannot be read: it is not a regular file"),
        ({"pull-secret": "pipe"}, "cannot be read: it is not a regular file"),
        ({"pull-secret": "large"}, "is bigger than 4 MiB"),
        ({"ca": "nothing"}, "cannot be read"),
        ({"ca": "nothing-in-it"}, "has no certificate: want those of CAs, PEM"),
        ({"ca": "text"}, "has no certificate: want those of CAs, PEM"),
        ({"ca": "broken"}, "has no certificate: want those of CAs, PEM"),
        ({"ca": "der"}, "has no certificate: want those of CAs, PEM"),
        ({"ca": "key"}, "is a private key: want the certificates of CAs, PEM"),
        ({"ca": "."}, "cannot be read: it is not a regular file"),
        ({"installer": "nothing"}, "no such installer"),
        ({"installer": "."}, "is a directory: want the program itself"),
        ({"installer": "/bin/ls"}, "is no installer: its `version` says no release image"),
        ({"release": "what"}, "'what' is no image"),
        ({"release-dir": "nothing"}, "no such directory"),
    ],
)
def test_options_are_checked_before_anything_is_copied(tmp_path, monkeypatch, chosen, rule):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(options, "built_lab_release", lambda: pytest.fail("a release was built"))
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(5 << 20)
    paths = {name: value if name == "release" else str(tmp_path / value) for name, value in chosen.items()}
    with pytest.raises(SubjectError, match=rule) as caught:
        options.choose(paths.get)
    [(name, value)] = paths.items()
    assert str(caught.value).startswith(f"--{name} {value}: ")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"auths": {"quay.io": {"auth": "eDp5", "email": "x@y.example"}, "localhost:5000": {"auth": "eDp5"}}}',
        '{"auths": {"quay.io": {"credsStore": "pass"}}}',
        '{"auths": {"quay.io": {}}, "credsStore": "pass"}',
    ],
)
def test_pull_secrets_as_they_are(tmp_path, text):
    path = tmp_path / "pull-secret.json"
    path.write_text(text)
    assert credentials.pull_secret(str(path)) == path
    assert credentials.pull_secret(None) is None


def certificate(name, begin, end):
    """Return a CA's certificate (PEM) that is valid between two numbers of days from now."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    built = builder.not_valid_before(now + timedelta(begin)).not_valid_after(now + timedelta(end))
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_of_a_bundle_one_certificate_must_be_valid(tmp_path):
    path = tmp_path / "ca.pem"
    old, older, new = certificate("old", -30, -2), certificate("older", -30, -9), certificate("new", 2, 30)
    day = f"{datetime.now(UTC) - timedelta(2):%Y-%m-%d}"
    path.write_bytes(b"# ours\n" + older + old)
    with pytest.raises(SubjectError, match=f"--ca {path}: has expired: CN=old was valid until {day}$"):
        credentials.ca(str(path))
    path.write_bytes(new)
    with pytest.raises(SubjectError, match=r"is not valid yet: CN=new is from .* on, by this machine's clock"):
        credentials.ca(str(path))
    path.write_bytes(old + FILES["broken"].encode() + certificate("ours", -1, 30))
    assert credentials.ca(str(path)) == path
    assert credentials.ca(None) is None


def test_releases_that_need_not_be_copied_are_known(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path))
    assert options.here() == []
    (tmp_path / "subjects/releases").mkdir()
    for name in ("b", "a"):
        (tmp_path / f"subjects/releases/{name * 64}.json").touch()
    assert options.here() == [f"sha256:{name * 64}" for name in "ab"]


def test_registries_of_a_pull_secret_are_known_however_they_are_written(tmp_path):
    names = (
        "quay.io",
        "localhost:5000",
        "https://registry.example/v2/",
        "ours.example/team",
        "https://index.docker.io/v1/",
    )
    path = tmp_path / "pull-secret.json"
    path.write_text(json.dumps({"auths": {name: {"auth": "eDp5"} for name in names}}))
    assert sorted(credentials.hosts_of(path)) == [
        *("docker.io", "localhost:5000", "ours.example", "quay.io", "registry.example")
    ]
