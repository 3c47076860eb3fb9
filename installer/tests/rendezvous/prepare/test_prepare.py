"""The payload's installer as the service runs it: one file a release, whole or not there, ended when nobody waits."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.errors import PrepareError
from installer.release import programs
from installer.release.access import registries_conf
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, InfraEnv
from installer.testing.create.registry_kit import MISSING, Registry, registry
from installer.testing.service.rendezvous_kit import PULL_SECRET, wait_for

# Says in its ignition which program made it; waits where the test wants two to be at work at once.
PROGRAM = """#!/bin/sh
NAME="%s"
while [ "$1" != --dir ]; do what=$1; shift; done
work=$2 tries=0
if [ "$what" != manifests ]; then
    for file in bootstrap master worker; do
        printf '{"ignition": {"version": "3.2.0"}, "by": "%%s", "release": "%%s"}' \
            $NAME "$OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE" > "$work/$file.ign"
    done
elif [ "$TEST_MEET" ]; then
    : > "$TEST_MEET/$NAME"
    until [ -e "$TEST_MEET/a" ] && [ -e "$TEST_MEET/b" ] || [ $tries = 1500 ]; do
        sleep 0.02; tries=$((tries + 1))
    done
fi
exit 0
#%s
"""


def program(name: str) -> bytes:
    # As long as a real one is in pieces: several reads and writes.
    return (PROGRAM % (name, "x" * 5_000_000)).encode()


def job(folder: Path, number: int, **changes: Any) -> prepare.Job:
    settings = Settings(
        work_dir=folder / "data", registries_conf=folder / "registries.conf", mirror_ca_file=folder / "ca.crt"
    )
    fields = {key: changes.pop(key) for key in list(changes) if key in ("ocp_release_image", "pull_secret")}
    cluster = Cluster(id=f"cluster-{number}", name=f"c{number}", attempt=f"attempt-{number}", **fields)
    return prepare.Job(
        cluster=cluster,
        infra_envs=[InfraEnv(id="e", name="e")],
        hosts=(),
        manifests=(),
        settings=replace(settings, **changes),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    with registry(tmp_path_factory.mktemp("registry") / "r") as running:
        yield running


@pytest.fixture(scope="module")
def releases(server: Registry) -> dict[str, str]:
    """Pull specs of three releases; the third has the first's installer."""
    references = {}
    images = {name: server.push([{programs.BINARY: program(name)}], f"installer-{name}") for name in ("a", "b")}
    for name, image in (("a", images["a"]), ("b", images["b"]), ("c", images["a"])):
        references[name] = server.push_release({"installer": image}, f"4.18.0-{name}", f"release-{name}")
    return references


@pytest.fixture
def place(tmp_path: Path, server: Registry) -> Path:
    (tmp_path / "registries.conf").write_text(registries_conf(server.sources))
    (tmp_path / "ca.crt").write_text(server.ca_pem)
    return tmp_path


def by(files: dict[str, bytes]) -> tuple[str, str]:
    bootstrap = json.loads(files["bootstrap.ign"])
    return bootstrap["by"], bootstrap["release"]


def kept_programs(folder: Path) -> list[Path]:
    return sorted((folder / "data/install/programs").glob(f"*/{programs.NAME}"))


def test_two_clusters_of_two_releases_at_once(
    place: Path, server: Registry, releases: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in range(2):
        meet = place / f"meet-{turn}"
        meet.mkdir()
        monkeypatch.setenv("TEST_MEET", str(meet))
        monkeypatch.setattr(programs, "PASSED", programs.PASSED | {"TEST_MEET"})
        jobs = [
            job(place, number, ocp_release_image=releases[name], pull_secret=server.pull_secret)
            for number, name in enumerate("ab")
        ]
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(prepare.generate, jobs))
        assert [by(files) for files in results] == [("a", releases["a"]), ("b", releases["b"])]
        assert sorted(os.listdir(meet)) == ["a", "b"]
    # The last one is at hand for the next time; of the others, none fills the disk.
    assert len(kept_programs(place)) == 1
    assert list((place / "data/install/attempts").iterdir()) == []


def test_one_program_for_many_at_once(
    place: Path, server: Registry, releases: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from installer.release.payload import Release

    extracted: list[str] = []
    real = Release.extract

    def counted(self: Release, image: str, path: str, dest: Path) -> Path:
        extracted.append(image)
        return real(self, image, path, dest)

    monkeypatch.setattr(Release, "extract", counted)
    jobs = [
        job(place, number, ocp_release_image=releases[name], pull_secret=server.pull_secret)
        for number, name in enumerate("acac")
    ]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(prepare.generate, jobs))
    assert [by(files) for files in results] == [("a", releases[name]) for name in "acac"]
    assert len(extracted) == len(kept_programs(place)) == 1
    [kept] = kept_programs(place)
    before = kept.stat().st_ino
    prepare.generate(jobs[0])
    assert (len(extracted), kept.stat().st_ino) == (1, before)
    # Another release's takes its place once nobody runs it any more.
    prepare.generate(job(place, 9, ocp_release_image=releases["b"], pull_secret=server.pull_secret))
    [other] = kept_programs(place)
    assert other != kept
    assert b'NAME="b"' in other.read_bytes()[:200]


def test_a_release_without_an_installer_is_named(place: Path, server: Registry) -> None:
    release = server.push_release({"other": f"{server.repository}@sha256:{'0' * 64}"}, "4.18.0-n", "release-n")
    with pytest.raises(PrepareError, match="extract usr/bin/openshift-install from "):
        prepare.generate(job(place, 0, ocp_release_image=release, pull_secret=server.pull_secret))
    with pytest.raises(PrepareError, match="neither the cluster nor RELEASE_IMAGES names one"):
        prepare.generate(job(place, 0))


# the kept programs


def test_a_program_that_was_extracted_in_part_is_not_kept(tmp_path: Path) -> None:
    image = f"r.example/i@sha256:{'1' * 64}"

    def breaks(dest: Path) -> None:
        dest.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    for _ in range(2):
        with pytest.raises(OSError, match="No space left"), programs.installer(tmp_path, image, breaks):
            pass
        assert list(tmp_path.iterdir()) == []
    with programs.installer(tmp_path, image, lambda dest: dest.write_bytes(b"whole")) as path:
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"whole", 0o755)
        assert path.name == "openshift-install"


def test_a_program_in_use_is_neither_removed_nor_replaced(tmp_path: Path) -> None:
    def image(number: int) -> str:
        return f"r.example/i@sha256:{str(number) * 64}"

    def writes(text: bytes) -> Any:
        return lambda dest: dest.write_bytes(text)

    with programs.installer(tmp_path, image(1), writes(b"1")) as first:
        with programs.installer(tmp_path, image(2), writes(b"2")) as second:
            with programs.installer(tmp_path, image(1), writes(b"never")) as again:
                assert again == first
            assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
        assert second.is_file()
        assert first.is_file()
    assert first.is_file()
    assert not second.exists()
    # By whatever name the image is given, its digest counts.
    with programs.installer(tmp_path, f"mirror.example/x@sha256:{'1' * 64}", writes(b"never")) as mirrored:
        assert mirrored == first


def test_an_image_named_by_tag_is_extracted_each_time(tmp_path: Path) -> None:
    seen = []
    for text in (b"before", b"after"):
        with programs.installer(tmp_path, "r.example/i:latest", lambda dest, text=text: dest.write_bytes(text)) as path:  # type: ignore[misc]
            seen.append(path.read_bytes())
    assert seen == [b"before", b"after"]
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_service_left_is_swept(tmp_path: Path) -> None:
    settings = Settings(work_dir=tmp_path)
    install = tmp_path / "install"
    secret = install / "attempts/c/a/install-config.yaml"
    old = install / "cluster-of-an-older-version/auth/kubeadmin-password"
    whole, half = install / "programs/one", install / "programs/two"
    for path in (secret, old, whole / "openshift-install", whole / ".partial", half / ".partial", install / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PULL_SECRET)
    (half / "..partial.17").write_text("x")
    prepare.sweep(settings)
    assert [path for path in install.rglob("*") if path.is_file()] == [whole / "openshift-install"]
    prepare.sweep(Settings(work_dir=tmp_path / "nowhere"))


# running it


def script(folder: Path, text: str) -> Path:
    path = folder / "openshift-install"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_program_that_nobody_waits_for_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    binary = script(
        tmp_path, f"sleep 600 & echo $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child; wait"
    )
    wanted = job(tmp_path, 1, installer_binary=binary)
    caught: list[PrepareError] = []

    def run() -> None:
        try:
            prepare.generate(wanted)
        except PrepareError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for("the program to run", (tmp_path / "child").is_file)
    assert wanted.work.is_dir()
    assert wanted.work.stat().st_mode & 0o777 == 0o700
    child = int((tmp_path / "child").read_text())
    assert alive(child)
    wanted.stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert str(caught[0]) == "openshift-install create manifests: was stopped: its attempt is over"
    wait_for("its child to end", lambda: not alive(child), 10)
    assert not wanted.work.parent.exists()


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "COMMAND_TIMEOUT", 0.3)
    binary = script(tmp_path, "sleep 600")
    with pytest.raises(PrepareError, match="create manifests: did not end within 0 s"):
        prepare.generate(job(tmp_path, 1, installer_binary=binary))


def test_the_installers_last_lines_are_the_reason_of_a_failure(tmp_path: Path) -> None:
    # More than a pipe holds: it is read while it runs.
    binary = script(
        tmp_path, 'head -c 300000 /dev/zero | tr "\\0" "x"; for n in 1 2 3 4 5 6 7; do echo "line $n" >&2; done; exit 3'
    )
    with pytest.raises(PrepareError) as caught:
        prepare.generate(job(tmp_path, 1, installer_binary=binary))
    assert caught.value.step == "openshift-install create manifests"
    assert caught.value.cause == "exit code 3: line 3 | line 4 | line 5 | line 6 | line 7"
    binary = script(tmp_path, "echo only here; exit 1")
    with pytest.raises(PrepareError, match=r"exit code 1: only here$"):
        prepare.generate(job(tmp_path, 1, installer_binary=binary))
    with pytest.raises(PrepareError, match=r"create manifests: .*No such file"):
        prepare.generate(job(tmp_path, 1, installer_binary=tmp_path / "none"))


def test_signers_of_the_image_are_given_to_the_installer(tmp_path: Path) -> None:
    """The user's kubeconfig was made with them; what else is in their folder stays there."""
    signers, found = tmp_path / "signers", tmp_path / "found"
    binary = script(tmp_path, f'cp -a "$4/tls" {found}; exit 1')
    signers.mkdir()
    for name in (prepare.TLS_FILES[0], "other.key"):
        (signers / name).write_text(name)
    (signers / prepare.TLS_FILES[1]).mkdir()
    with pytest.raises(PrepareError):
        prepare.generate(job(tmp_path, 1, installer_binary=binary, tls_override_dir=signers))
    assert {path.name: path.read_text() for path in found.iterdir()} == {prepare.TLS_FILES[0]: prepare.TLS_FILES[0]}
    assert [path.stat().st_mode & 0o777 for path in found.iterdir()] == [0o600]
    for nowhere in (None, tmp_path / "none"):
        shutil.rmtree(found, ignore_errors=True)
        with pytest.raises(PrepareError):
            prepare.generate(job(tmp_path, 1, installer_binary=binary, tls_override_dir=nowhere))
        assert not found.exists()


def test_the_administrators_environment_stays_with_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENSHIFT_INSTALL_PRESERVE_BOOTSTRAP", "KUBECONFIG", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "of-the-administrator")
    monkeypatch.setenv("https_proxy", "http://p.example:1")
    monkeypatch.setenv("LC_TIME", "C")
    binary = script(tmp_path, f"env > {tmp_path}/env; exit 1")
    with pytest.raises(PrepareError):
        prepare.generate(job(tmp_path, 1, installer_binary=binary))
    passed = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert "of-the-administrator" not in passed.values()
    assert passed["https_proxy"] == "http://p.example:1"
    assert passed["LC_TIME"] == "C"
    assert passed["PATH"] == os.environ["PATH"]
    assert passed["OPENSHIFT_INSTALL_INVOKER"]


def test_a_file_that_somebody_still_writes_is_waited_for(tmp_path: Path) -> None:
    """ETXTBSY: another thread's child has inherited the handle and is not its own program yet."""
    binary = script(tmp_path, "exit 7")
    handle = os.open(binary, os.O_WRONLY)
    closer = threading.Timer(0.3, os.close, [handle])
    closer.start()
    began = time.monotonic()
    with pytest.raises(PrepareError, match="exit code 7"):
        prepare.generate(job(tmp_path, 1, installer_binary=binary))
    assert time.monotonic() - began >= 0.2
    closer.join()
    with binary.open("r+b"), pytest.raises(PrepareError, match="Text file busy"):
        prepare.generate(job(tmp_path, 1, installer_binary=binary))
