"""`create image` against `cp` of the same base ISO: time, memory, steps; judging many hosts; start of the command.

Both write into the same folder, after a sync and with no old output there, and which is first changes with each round.
Neither `cp` nor `create image` waits for the disk: the kernel decides when data are durable. With `os.sync` after them,
both wait until all is on the disk. What `create image` does besides copying (keys, documents, start of Python) is
measured alone, with a base ISO of next to nothing.

The release comes from a registry on loopback with the unit tests' small images; the base ISOs are given by
OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE: one of 1 GB that is made here, and the lab's own where one was built.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from ci.bench.image_steps import show, steps_of
from ci.bench.measure import seconds_of, table
from installer.testing.create.inputs_kit import AGENT, SNO, many_hosts, text
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import Registry, registry
from lab.errors import LabError
from lab.release.build import latest_release

NODE0 = str(Path(sys.executable).with_name("node0"))
COMPONENTS = (
    "agent-installer-api-server",
    "agent-installer-node-agent",
    "agent-installer-orchestrator",
    "agent-installer-csr-approver",
    "machine-os-images",
)
ROUNDS = 5
BIG = 1_000_000_000
HOSTS = 1000


SMALL = 5_000_000


@dataclass(frozen=True)
class Taken:
    """One pair: seconds of create and cp, without and with waiting for the disk; create's peak MB and CPU seconds."""

    create: float
    create_synced: float
    cp: float
    cp_synced: float
    _: KW_ONLY
    memory: float
    cpu: float


# A small process of its own runs the command: a child's peak memory is at least that of the process that forked it.
_RUNNER = """
import resource, subprocess, sys, time
begin = time.monotonic()
completed = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
seconds = time.monotonic() - begin
if completed.returncode:
    sys.exit(completed.stdout[-500:].decode(errors="replace"))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, used.ru_maxrss, used.ru_utime + used.ru_stime)
"""


def measured(command: list[str], env: dict[str, str], cwd: Path | None = None) -> tuple[float, float, float]:
    """(seconds, peak memory in MB of its biggest process, CPU seconds of all) of a command that must succeed."""
    runner = [sys.executable, "-c", _RUNNER, *command]
    completed = subprocess.run(runner, env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {completed.stderr}")
    seconds, peak, cpu = map(float, completed.stdout.split())
    return seconds, peak / 1024, cpu


def write_inputs(directory: Path, server: Registry) -> None:
    """Write an asset directory with nothing but the inputs of one node, whose release the registry mirrors."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    source = {"source": server.sources[0].source, "mirrors": [server.repository]}
    common = {"pullSecret": server.pull_secret, "imageDigestSources": [source], "additionalTrustBundle": server.ca_pem}
    (directory / "install-config.yaml").write_text(text({**SNO, **common}))
    (directory / "agent-config.yaml").write_text(text(AGENT))


def push_release(server: Registry) -> str:
    """Push a release with images of next to nothing; its pull spec."""
    return server.push_release({tag: server.push([{tag: b"x"}], tag) for tag in COMPONENTS})


def _pair(work: Path, base: Path, server: Registry, env: dict[str, str], *, cp_first: bool) -> Taken:
    folder = work / "cluster"
    taken: dict[str, tuple[float, ...]] = {}
    commands = {
        "create": [NODE0, "agent", "create", "image", "--dir", str(folder)],
        "cp": ["cp", "--reflink=auto", str(base), str(folder / "copy.iso")],
    }
    for name in sorted(commands, reverse=not cp_first):
        write_inputs(folder, server)
        os.sync()
        seconds, memory, cpu = measured(commands[name], env)
        taken[name] = (seconds, seconds + seconds_of(os.sync), memory, cpu)
    shutil.rmtree(folder)
    memory, cpu = taken["create"][2:]
    return Taken(*taken["create"][:2], *taken["cp"][:2], memory=memory, cpu=cpu)


def _environment(work: Path, base: Path, release: str) -> dict[str, str]:
    return {
        "XDG_CACHE_HOME": str(work / "cache"),
        "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": release,
        "OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE": str(base),
    }


def _pairs(work: Path, base: Path, server: Registry, release: str) -> list[Taken]:
    env = _environment(work, base, release)
    _pair(work, base, server, env, cp_first=False)  # so that the base is in memory, for both, and the payload known
    return [_pair(work, base, server, env, cp_first=bool(i % 2)) for i in range(ROUNDS)]


def _compare(name: str, work: Path, base: Path, server: Registry, *, release: str, limit: str = "") -> None:
    taken = _pairs(work, base, server, release)

    def median(values: Iterator[float]) -> float:
        return statistics.median(values)

    table(
        f"create image, {name}: base of {base.stat().st_size / 1e6:.0f} MB, medians of {ROUNDS} pairs",
        [
            ("create image", f"{median(t.create for t in taken):.2f} s"),
            ("cp of the base", f"{median(t.cp for t in taken):.2f} s"),
            ("difference", f"{median(t.create - t.cp for t in taken):+.2f} s"),
            ("ratio", f"{median(t.create / t.cp for t in taken):.2f}"),
            ("create image, on the disk", f"{median(t.create_synced for t in taken):.2f} s"),
            ("cp, on the disk", f"{median(t.cp_synced for t in taken):.2f} s"),
            (f"ratio, both on the disk{limit}", f"{median(t.create_synced / t.cp_synced for t in taken):.2f}"),
            ("peak memory, target under 120 MB", f"{max(t.memory for t in taken):.0f} MB"),
        ],
    )


def _fixed(work: Path, server: Registry, release: str) -> None:
    """Measure the part of `create image` that does not depend on the base's size, with the keys and the hash in it."""
    base = build(work / "small", "2023-07.x86_64", SMALL)
    taken = _pairs(work, base, server, release)
    code = (
        "from installer.credentials import access, certificates as c; import sys; n = int(sys.argv[1]);"
        "[c.signer(name) for name in c.SIGNERS * n]; n and access.password_hash('x')"
    )
    without, with_keys = (
        statistics.median(measured([sys.executable, "-c", code, n], {})[2] for _ in range(ROUNDS)) for n in "01"
    )
    table(
        f"create image, fixed cost: base of {base.stat().st_size / 1e6:.0f} MB, medians of {ROUNDS} runs",
        [
            ("create image", f"{statistics.median(t.create for t in taken):.2f} s"),
            ("its CPU time, on all cores", f"{statistics.median(t.cpu for t in taken):.2f} s"),
            ("of it the signers' RSA keys and kubeadmin's bcrypt", f"{with_keys - without:.2f} s"),
        ],
    )


def _steps(work: Path, base: Path, server: Registry, release: str) -> None:
    """Measure the steps: of a first run, which copies the base and asks the registry, and of later ones."""
    env = {**_environment(work, base, release), "XDG_CACHE_HOME": str(work / "empty-cache")}
    taken = []
    for _ in range(1 + ROUNDS):
        write_inputs(work / "cluster", server)
        os.sync()
        taken.append(steps_of(work / "cluster", env))
    shutil.rmtree(work / "cluster")
    size = f"base of {base.stat().st_size / 1e6:.0f} MB"
    show(
        f"create image, its steps: {size}; a first run, medians of {ROUNDS} later ones (own processor time)",
        taken[0],
        taken[1:],
    )


@contextlib.contextmanager
def _reflinks(work: Path) -> Iterator[Path | None]:
    """Provide a file system that shares blocks between files, None where none can be mounted."""
    image, place = work / "xfs.img", work / "xfs"
    place.mkdir()
    try:
        with image.open("wb") as out:
            out.truncate(4 * BIG)
        subprocess.run(["mkfs.xfs", "-q", str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"\nno measurement with reflink: no XFS can be mounted here ({error})")
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        image.unlink()


def _validation(work: Path) -> float:
    """Seconds that a whole process takes to judge 1,000 hosts, their networks included."""
    directory = work / "many"
    directory.mkdir()
    install, agent = many_hosts(HOSTS)
    (directory / "install-config.yaml").write_text(text(install))
    (directory / "agent-config.yaml").write_text(text(agent))
    code = (
        "import sys; from pathlib import Path; from installer.create.stages.read import read; "
        "from installer.create.stages.check import check; check(read(Path(sys.argv[1]), 'bench'), 'bench')"
    )
    return min(
        seconds_of(
            lambda: subprocess.run([sys.executable, "-c", code, str(directory)], check=True, capture_output=True)
        )
        for _ in range(3)
    )


def run() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name, registry(Path(name) / "registry") as server:
        work = Path(name)
        release = push_release(server)
        _fixed(work, server, release)
        big = build(work / "big", "2023-07.x86_64", BIG)
        shutil.rmtree(work / "big/root")
        _steps(work, big, server, release)
        _compare("a big base", work, big, server, release=release, limit=", target under 1.15")
        with contextlib.suppress(LabError):
            lab = latest_release().machine_os_iso
            if lab is not None:
                _compare("the lab's base", work, lab, server, release=release, limit=", target under 1.3")
        with _reflinks(work) as place:
            if place is not None:
                (place / "work").mkdir()
                shutil.copyfile(big, place / "base.iso")
                title = "reflink, target for create: under 0.5 s"
                _compare(title, place / "work", place / "base.iso", server, release=release)
        start = [NODE0, "--help"]
        table(
            "small things",
            [
                (f"validation of {HOSTS} hosts, target under 3 s", f"{_validation(work):.2f} s"),
                ("node0 --help, target under 0.25 s", f"{min(measured(start, {})[0] for _ in range(5)):.3f} s"),
            ],
        )
