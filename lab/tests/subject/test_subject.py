"""A release that is not ours, from a registry and from each kind of directory; errors of unfit releases."""

import base64
import dataclasses
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import bcrypt
import msgspec
import pytest

from installer.common.certificates import authority
from installer.common.ports import free_port
from lab import topology
from lab.daemons.pki import issue
from lab.errors import SubjectError
from lab.release.registry import RegistryConfig, loopback_registry
from lab.subject import Mirror, Subject, hardware, options
from lab.subject.mirroring import Cache, from_directory, from_registry, parse_name
from lab.subject.payload import NEEDED
from lab.subject.sources import Upstream, opened_directory
from lab.tests.subject.kit import LIMITS, VERSION, as_oc_files, blob, make, program, push, served

pytestmark = pytest.mark.slow

ART = "quay.example/openshift-release-dev/ocp-v4.0-art-dev"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Return (OCI layout, digests by tag)."""
    return make(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def storage(release, tmp_path_factory):
    """Return a registry's storage that has the release."""
    folder = tmp_path_factory.mktemp("pushed")
    with loopback_registry(folder / "storage", folder / "work") as address:
        push(release[0], names(release[1]), address)
    return folder / "storage"


def names(digests):
    """Return the images by the names that a registry is to have them under."""
    top = "openshift-release-dev"
    release = f"{top}/ocp-release:{VERSION}-x86_64"
    return {release if tag == "release" else f"{top}/ocp-v4.0-art-dev:{tag}": one for tag, one in digests.items()}


def whole(subject, digests):
    """Check that a registry over the subject's storage serves all of it, under the repositories that it says."""
    assert subject.version == VERSION
    assert subject.digest == digests["release"]
    assert json.loads(subject.hardware) == LIMITS
    assert {t: n.rpartition("@")[2] for t, n in subject.components.items()} == {
        t: d for t, d in digests.items() if t != "release"
    }
    mirrors = {mirror.source: mirror.repository for mirror in subject.mirrors}
    config = RegistryConfig(storage=subject.registry_storage, address="127.0.0.1:0")
    assert config.readonly
    with loopback_registry(subject.registry_storage, subject.registry_storage.parent / "work") as address:
        for name in [subject.pullspec, *subject.components.values()]:
            source, _, digest = name.partition("@")
            assert served(address, mirrors[source], digest) == digest


def as_archive(_release, storage, target):
    """Pack a cache as oc-mirror does."""
    target.mkdir()
    with tarfile.open(target / "mirror_000001.tar", "w") as archive:
        archive.add(storage / "docker", "docker")


FORMS = {
    "oci": lambda release, _storage, target: target.symlink_to(release[0].root),
    "storage": lambda _release, storage, target: shutil.copytree(storage, target),
    "oc": lambda release, _storage, target: as_oc_files(release[0], release[1], target),
    "oc-mirror": as_archive,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_directory_that_somebody_mirrored(release, storage, tmp_path, capfd, form):
    FORMS[form](release, storage, tmp_path / "given")
    cache = Cache(tmp_path / "subjects")
    subject = from_directory(cache, tmp_path / "given", None)
    whole(subject, release[1])
    assert subject.mirrors == (Mirror(ART, ART),)
    assert subject.installer is not None
    assert subject.installer.read_bytes() == program()
    assert capfd.readouterr().err.count(" copied: ") == len(set(release[1].values())), "once, whatever its tags"
    # The second time nothing is copied, and the installer is where it was.
    before = sorted(p.stat().st_mtime_ns for p in (tmp_path / "subjects/registry").rglob("data"))
    assert from_directory(cache, tmp_path / "given", None) == subject
    assert sorted(p.stat().st_mtime_ns for p in (tmp_path / "subjects/registry").rglob("data")) == before


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """Yield a registry with a password and a certificate of its own: (address, folder with its ca.crt and pull
    secret)."""
    tmp_path = tmp_path_factory.mktemp("upstream")
    ca = authority("somebody's CA")
    (tmp_path / "ca.crt").write_text(ca.certificate)
    issue(ca, ["localhost", "127.0.0.1"], tmp_path)
    secret = bcrypt.hashpw(b"pass", bcrypt.gensalt(rounds=4)).decode()
    (tmp_path / "htpasswd").write_text(f"user:{secret}\n")
    address = f"localhost:{free_port()}"
    layout, digests = make(tmp_path / "made", host=address)
    with loopback_registry(tmp_path / "upstream", tmp_path / "work") as plain:
        push(layout, names(digests), plain)
    auth = base64.b64encode(b"user:pass").decode()
    (tmp_path / "pull-secret.json").write_text(json.dumps({"auths": {address: {"auth": auth}}}))
    config = RegistryConfig(
        storage=tmp_path / "upstream",
        address=address,
        certificate=tmp_path / "server.crt",
        key=tmp_path / "server.key",
        htpasswd=tmp_path / "htpasswd",
    )
    argv = config.write(tmp_path / "tls.yaml")
    with (tmp_path / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            _answers(address, tmp_path)
            yield address, tmp_path, digests
        finally:
            process.terminate()


def _answers(address, folder):
    argv = ["curl", "-so", "/dev/null", "--retry", "50", "--retry-connrefused", "--retry-delay", "0"]
    subprocess.run([*argv, "--cacert", str(folder / "ca.crt"), f"https://{address}/v2/"], check=True, timeout=60)


def test_a_registry_with_a_pull_secret_and_a_ca_of_its_own(upstream, tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path))
    address, folder, digests = upstream
    cache = Cache(tmp_path / "subjects")
    way = Upstream(folder / "pull-secret.json", folder / "ca.crt")
    name = f"{address}/openshift-release-dev/ocp-release"
    subject = from_registry(cache, f"{name}:{VERSION}-x86_64", way)
    whole(subject, digests)
    assert subject.pullspec == f"{name}@{digests['release']}"
    host = address.replace(":", "-")
    assert {m.repository for m in subject.mirrors} == {
        f"{host}/openshift-release-dev/ocp-release",
        f"{host}/openshift-release-dev/ocp-v4.0-art-dev",
    }
    # By digest it is known without a question to its registry.
    assert from_registry(cache, subject.pullspec, Upstream()) == subject
    art = name.replace("ocp-release", "ocp-v4.0-art-dev")
    extracted = options.installer_of(f"{art}@{digests['installer']}", subject, way)
    assert extracted == [str(subject.installer)]


@pytest.mark.parametrize(
    ("secret", "ca", "tag", "rule"),
    [
        (False, True, f"{VERSION}-x86_64", "does not accept the credentials: --pull-secret FILE"),
        ("wrong", True, f"{VERSION}-x86_64", "does not accept the credentials of "),
        ("other", True, f"{VERSION}-x86_64", "does not accept the credentials: {secret} has none for {host} ("),
        (True, False, f"{VERSION}-x86_64", "its certificate is not trusted: --ca FILE"),
        (True, True, "4.99.0", "there is no such image"),
    ],
)
def test_what_a_registry_refuses_is_one_line(upstream, tmp_path, secret, ca, tag, rule):
    address, folder, _ = upstream
    path = folder / "pull-secret.json" if secret else None
    if isinstance(secret, str):
        auth = base64.b64encode(b"user:wrong").decode()
        path = tmp_path / "another.json"
        path.write_text(
            json.dumps({"auths": {address if secret == "wrong" else "https://quay.io/v2/": {"auth": auth}}})
        )
    name = f"{address}/openshift-release-dev/ocp-release:{tag}"
    with pytest.raises(SubjectError) as caught:
        from_registry(Cache(tmp_path / "subjects"), name, Upstream(path, folder / "ca.crt" if ca else None))
    assert str(caught.value).startswith(f"{name}: ")
    assert rule.replace("{secret}", str(path)).replace("{host}", address) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\\" not in str(caught.value), "escapes of skopeo's log"
    assert "wrong" not in str(caught.value)


def test_a_registry_that_is_not_there(tmp_path):
    with pytest.raises(SubjectError, match="the registry cannot be reached"):
        from_registry(Cache(tmp_path), "localhost:1/x/y:z", Upstream())


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"architecture": "arm64"}, "it is for arm64, the lab's machines are amd64"),
        ({"tags": [t for t in NEEDED if "os-images" not in t]}, "it has no image machine-os-images"),
        ({"installer": program(183)}, "is an installer for arm64, this machine is amd64"),
        ({"installer": program()[:40]}, "/usr/bin/openshift-install cannot be run: Exec format error"),
        ({"version": ""}, "release-metadata has no version"),
    ],
)
def test_a_release_that_cannot_be_installed_here(tmp_path, changes, rule):
    layout, digests = make(tmp_path / "made", **changes)
    with pytest.raises(SubjectError, match=rule) as caught:
        from_directory(Cache(tmp_path / "subjects"), layout.root, f"quay.example/x/y@{digests['release']}")
    assert str(caught.value).startswith(f"--release-dir {layout.root}")
    assert str(tmp_path / "subjects") not in str(caught.value)
    assert not list((tmp_path / "subjects/registry").rglob("repositories/**/etcd-*")), "all of it was copied first"
    assert not (tmp_path / "subjects/releases").exists() or not list((tmp_path / "subjects/releases").iterdir())


def test_an_archive_writes_nowhere_else(release, storage, tmp_path):
    as_archive(release, storage, folder := tmp_path / "given")
    with tarfile.open(folder / "mirror_000002.tar", "w") as archive:
        for name in ("docker/registry/v2/../../../../evil", "/docker/registry/v2/evil", "evil"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"bad"))
        link = tarfile.TarInfo("docker/registry/v2/blobs/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with opened_directory(folder, tmp_path) as images:
        assert images.store.blob(release[1]["release"]) is not None
        assert not [path for path in tmp_path.rglob("*") if path.name == "evil" or path.is_symlink()]


def test_an_image_that_is_not_whole(tmp_path):
    layout, digests = make(tmp_path / "made")
    config = json.loads(blob(layout, digests["etcd"]))["config"]
    (layout.root / "blobs/sha256" / config["digest"].partition(":")[2]).unlink()
    with pytest.raises(SubjectError, match=r"is not whole there: .*is missing"):
        from_directory(Cache(tmp_path / "subjects"), layout.root, None)


def test_directories_that_hold_no_release(tmp_path):
    cache = Cache(tmp_path / "subjects")
    with pytest.raises(SubjectError, match="no such directory"):
        from_directory(cache, tmp_path / "none", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SubjectError, match="is no OCI layout"):
        from_directory(cache, tmp_path / "empty", None)
    (tmp_path / "empty/mirror_000001.tar").write_bytes(b"not a tar")
    with pytest.raises(SubjectError, match=r"mirror_000001.tar cannot be unpacked: file could not be opened[^:]*$"):
        from_directory(cache, tmp_path / "empty", None)
    with pytest.raises(SubjectError, match=rf"is a file; want the directory that has it: {tmp_path}/empty$"):
        from_directory(cache, tmp_path / "empty/mirror_000001.tar", None)
    layout, digests = make(tmp_path / "made")
    index = layout.root / "index.json"
    entries = json.loads(index.read_bytes())
    entries["manifests"] = [e for e in entries["manifests"] if e["digest"] != digests["release"]]
    index.write_text(json.dumps(entries))
    with pytest.raises(SubjectError, match="has no release image"):
        from_directory(cache, layout.root, None)
    index.write_text(json.dumps({"manifests": [{"digest": "sha256:aaaa", "size": 3}]}))
    with pytest.raises(SubjectError, match="cannot be read: an image: 'sha256:aaaa' is no digest"):
        from_directory(cache, layout.root, None)


def test_one_of_several_releases_is_chosen_by_name(tmp_path):
    """Two releases in one storage, as a mirror tool leaves them."""
    for version in (VERSION, "4.20.2"):
        layout, digests = make(tmp_path / version, version=version)
        top = f"openshift/release:{version}-x86_64"
        with loopback_registry(tmp_path / "given", tmp_path / "work") as address:
            push(layout, {f"{top}-{tag}".removesuffix("-release"): one for tag, one in digests.items()}, address)
    cache = Cache(tmp_path / "subjects")
    with pytest.raises(SubjectError, match=r"has 2 releases \(.*choose by --release"):
        from_directory(cache, tmp_path / "given", None)
    chosen = from_directory(cache, tmp_path / "given", "quay.example/ocp/release:4.20.2-x86_64")
    assert (chosen.version, chosen.pullspec) == ("4.20.2", f"quay.example/ocp/release@{digests['release']}")


@pytest.mark.parametrize("text", ["x", "quay.io", "quay.io/x@sha256:12", "quay.io/x y", "quay.io/x:tag:tag", ""])
def test_a_name_that_is_none(text):
    with pytest.raises(SubjectError, match="is no image"):
        parse_name(text, "--release")


def test_names_as_users_write_them():
    digest = "sha256:" + "a" * 64
    assert str(parse_name("docker://quay.io/a/b:1.2-x86_64", "")) == "quay.io/a/b:1.2-x86_64"
    assert str(parse_name(f"h:5000/a.b/c_d:t@{digest}", "")) == f"h:5000/a.b/c_d@{digest}"


def test_machines_are_grown_to_what_the_release_demands_and_not_shrunk():
    one = hardware.sized(topology.sno(), hardware.OPENSHIFT).nodes[0]
    assert (one.vcpu, one.memory_mib, one.disk_gib) == hardware.OPENSHIFT["sno"]
    grown = hardware.sized(topology.ha(), hardware.OPENSHIFT)
    roles = {node.role: (node.vcpu, node.memory_mib, node.disk_gib) for node in grown.nodes}
    assert roles == {role: hardware.OPENSHIFT[role] for role in ("master", "worker")}
    assert hardware.sized(grown, hardware.OPENSHIFT) == grown
    assert hardware.raised(grown, grown) == []
    said = hardware.raised(topology.ha(), grown)
    assert "3072 → 8192 MiB of memory (worker-0, worker-1): less is refused by the release's service" in said
    large = tuple(msgspec.structs.replace(n, vcpu=16, memory_mib=32768, disk_gib=200) for n in topology.sno().nodes)
    shape = msgspec.structs.replace(topology.sno(), nodes=large)
    assert hardware.sized(shape, hardware.OPENSHIFT) == shape


def test_what_a_release_demands_is_read_as_its_service_reads_it():
    text = json.dumps(
        [
            {"version": "default", "master": {"cpu_cores": 1, "ram_mib": 2048, "disk_size_gb": 10}},
            {"version": "4.20", "sno": {"cpu_cores": 3, "ram_mib": 4000, "disk_size_gb": 11}},
        ]
    )
    assert hardware.requirements(text, "4.18.0", "x")["master"] == (1, 2048, 10)
    newer = hardware.requirements(text, "4.20.1", "x")
    assert newer["sno"] == (3, 4000, 11)
    assert newer["master"] == hardware.OPENSHIFT["master"]
    assert hardware.requirements("", "4.20.1", "x") == hardware.OPENSHIFT
    with pytest.raises(SubjectError, match=r"default_hw_requirements.json"):
        hardware.requirements("[{}]", "4.20.1", "x")


def test_the_release_decides_over_sizes_unless_the_installer_brings_its_own(tmp_path):
    subject = Subject(VERSION, "x", tmp_path, (), hardware=json.dumps(LIMITS))
    small = topology.compact()
    ours = options.Chosen(subject, ("/usr/bin/node0",)).sized(small)
    assert {n.memory_mib for n in ours.nodes} == {16384}
    modest = options.Chosen(dataclasses.replace(subject, hardware=_modest()), ("node0",))
    assert modest.sized(small) == small
    theirs = options.Chosen(modest.subject, ("/opt/openshift-install",)).sized(small)
    assert {n.memory_mib for n in theirs.nodes} == {16384}


def _modest():
    limits = {"cpu_cores": 1, "ram_mib": 1024, "disk_size_gb": 10}
    return json.dumps([{"version": "default", "master": limits, "worker": limits, "sno": limits}])


def test_nothing_else_knows_what_the_lab_release_is_called():
    """A release is data: only who builds the lab release, and the installer's default, have its name."""
    root = Path(__file__).parents[3]
    rooms = ("ci", "drivers", "installer", "lab", "scenarios")
    files = [path.relative_to(root) for room in rooms for path in (root / room).rglob("*.py")]
    options_told = {
        str(path)
        for path in files
        if not {"tests", "testing"} & set(path.parts) and "node0/lab-release" in (root / path).read_text()
    }
    outside = {path for path in options_told if not path.startswith("lab/release/")}
    assert outside == {"installer/create/stages/resolve.py"}
    assert options_told - outside  # the search finds it where it is
