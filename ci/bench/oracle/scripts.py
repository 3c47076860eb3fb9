"""`ci/bench/run oracle --scripts DIR`: openshift-install's own integration scripts, run with node0.

They are testscripts (github.com/rogpeppe/go-internal): commands, then the files that they start from. DIR is the
`testdata/agent` of somebody's checkout; nothing of it is kept here. A release of made-up images stands in a registry on
loopback, and the scripts find its name in RELEASE_IMAGE.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from string import Template

from ci.bench.measure import table
from ci.bench.oracle import isofiles
from ci.bench.oracle.errors import Failed, Skipped
from installer.testing.create.iso_kit import build
from installer.testing.create.registry_kit import SOURCE, Layer, Link, registry

PATIENCE_S = 300
#: Components whose images are named in units of the ISO.
COMPONENTS = (
    "agent-installer-api-server",
    "agent-installer-node-agent",
    "agent-installer-orchestrator",
    "agent-installer-csr-approver",
)
_MEGABYTE = 1_000_000  # isoSizeMin and isoSizeMax count so
# Bytes of the initrd: scripts want minimal ISOs to have a hundred megabytes at least, as real ones have.
_INITRD = 120 * _MEGABYTE
#: The release's version; and the text in its place in scripts, from an openshift-install built without a version.
VERSION, UNKNOWN_VERSION = "4.21.0-test", "was not built correctly"
_ROOTFS = {"location": "http://stream.example/rootfs.img", "sha256": "0" * 64}
_PXE = {"kernel": _ROOTFS, "initramfs": _ROOTFS, "rootfs": _ROOTFS}
_STREAM = {
    "stream": "test",
    "architectures": {"x86_64": {"artifacts": {"metal": {"release": "1", "formats": {"pxe": _PXE}}}}},
}
_FILE = re.compile(r"^-- (.+) --$", re.MULTILINE)


@dataclass
class Run:
    """A running script: its directory and environment, and the output of the last program."""

    work: Path
    env: dict[str, str]
    program: list[str]
    stdout: str = ""
    _: KW_ONLY
    stderr: str = ""
    commands: dict[str, Callable[[Run, bool, list[str]], None]] = field(default_factory=lambda: COMMANDS)

    def line(self, text: str) -> None:
        """Execute a line. Raises Failed."""
        words = shlex.split(Template(text).safe_substitute(self.env), comments=True)
        if not words:
            return
        negated = words[0] == "!"
        name, *arguments = words[negated:]
        command = self.commands.get(name)
        if command is None:
            raise Failed(f"{text}: no such command here")
        try:
            command(self, negated, arguments)
        except Skipped:
            raise
        except (Failed, OSError, ValueError, KeyError) as error:
            raise Failed(f"{text}: {error}") from error

    def path(self, name: str) -> Path:
        """A file that a script names."""
        return self.work / name

    def expected(self, name: str) -> str:
        """The text of a file, with the environment's variables in it."""
        return Template(self.path(name).read_text()).safe_substitute(self.env)


def _held(negated: bool, holds: bool, why: str) -> None:
    if holds == negated:
        raise Failed(("not to be: " if negated else "") + why)


def _exec(run: Run, negated: bool, arguments: list[str]) -> None:
    if arguments[0] != "openshift-install":
        raise Failed(f"what is {arguments[0]}?")
    argv = [*run.program, *arguments[1:]]
    completed = subprocess.run(
        argv, env=run.env, cwd=run.work, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    run.stdout, run.stderr = completed.stdout, completed.stderr
    _held(negated, completed.returncode == 0, f"exit code {completed.returncode}: {completed.stderr[-600:]}")


def _matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.MULTILINE) is not None


def _stderr(run: Run, negated: bool, arguments: list[str]) -> None:
    _held(negated, _matches(arguments[0], run.stderr), run.stderr[-900:])


def _stdout(run: Run, negated: bool, arguments: list[str]) -> None:
    _held(negated, _matches(arguments[0], run.stdout), run.stdout[-900:])


def _grep(run: Run, negated: bool, arguments: list[str]) -> None:
    text = run.path(arguments[1]).read_text()
    _held(negated, _matches(arguments[0], text), text[-900:])


def _exists(run: Run, negated: bool, arguments: list[str]) -> None:
    for name in arguments:
        _held(negated, run.path(name).exists(), f"{name} {'exists' if negated else 'does not exist'}")


def _equal(negated: bool, one: str, other: str) -> None:
    pairs = zip(one.split("\n"), other.split("\n"), strict=False)
    first = next((f"{left!r}, to be {right!r}" for left, right in pairs if left != right), "one ends before the other")
    _held(negated, one == other, first)


def _cmp(run: Run, negated: bool, arguments: list[str]) -> None:
    _equal(negated, run.path(arguments[0]).read_text(), run.path(arguments[1]).read_text())


def _env(run: Run, _negated: bool, arguments: list[str]) -> None:
    for pair in arguments:
        name, _, value = pair.partition("=")
        run.env[name] = value


def _skip(_run: Run, _negated: bool, arguments: list[str]) -> None:
    raise Skipped(" ".join(arguments))


def _expand(run: Run, _negated: bool, arguments: list[str]) -> None:
    run.path(arguments[0]).write_text(run.expected(arguments[0]))


def _iso_cmp(run: Run, negated: bool, arguments: list[str]) -> None:
    iso, path, expected = arguments
    _equal(negated, isofiles.host_file(run.path(iso), path).decode(), run.expected(expected))


def _iso_has(run: Run, _negated: bool, arguments: list[str]) -> None:
    isofiles.host_file(run.path(arguments[0]), arguments[1])


def _archive_has(run: Run, _negated: bool, arguments: list[str]) -> None:
    iso, name = arguments
    files = isofiles.archive(run.path(iso), "images/ignition.img")
    _held(False, name in files, f"has {sorted(files)}")


def _initrd_has(run: Run, _negated: bool, arguments: list[str]) -> None:
    names = isofiles.names_in_initrd(run.path(arguments[0]))
    _held(False, any(fnmatch.fnmatchcase(name, arguments[1]) for name in names), f"has {sorted(names)}")


def _config_has(run: Run, _negated: bool, arguments: list[str]) -> None:
    isofiles.archive(run.path(arguments[0]), arguments[1].lstrip("/"))


def _ignition_has(run: Run, negated: bool, arguments: list[str]) -> None:
    files = isofiles.ignition_files(run.path("unconfigured-agent.ign").read_bytes())
    _held(negated, arguments[0] in files, f"{arguments[0]} is {'' if negated else 'not '}there")


def _ignition_cmp(run: Run, negated: bool, arguments: list[str]) -> None:
    files = isofiles.ignition_files(run.path("unconfigured-agent.ign").read_bytes())
    _equal(negated, files[arguments[0]].decode(), run.expected(arguments[1]))


def _size(least: bool) -> Callable[[Run, bool, list[str]], None]:
    def check(run: Run, _negated: bool, arguments: list[str]) -> None:
        size, limit = run.path(arguments[0]).stat().st_size, int(arguments[1]) * _MEGABYTE
        _held(False, size >= limit if least else size <= limit, f"has {size} bytes")

    return check


COMMANDS: dict[str, Callable[[Run, bool, list[str]], None]] = {
    "exec": _exec, "stderr": _stderr, "stdout": _stdout, "grep": _grep, "exists": _exists, "cmp": _cmp, "env": _env,
    "skip": _skip, "expandFile": _expand, "isocmp": _iso_cmp, "isoIgnitionContains": _iso_has,
    "ignitionImgContains": _archive_has, "initrdImgContains": _initrd_has, "configImgContains": _config_has,
    "unconfiguredIgnContains": _ignition_has, "unconfiguredIgnCmp": _ignition_cmp,
    "isoSizeMin": _size(True), "isoSizeMax": _size(False),
}  # fmt: skip


def parts(text: str) -> tuple[list[str], dict[str, str]]:
    """A script's lines, and the files that it brings."""
    commands, *pieces = _FILE.split(text if text.endswith("\n") else f"{text}\n")
    return commands.splitlines(), dict(zip(pieces[::2], (piece[1:] for piece in pieces[1::2]), strict=True))


def run_script(path: Path, env: dict[str, str], program: list[str]) -> str:
    """Empty if the script holds, else the first line that does not; raises Skipped."""
    lines, files = parts(path.read_text())
    with tempfile.TemporaryDirectory(prefix="script-") as name:
        run = Run(Path(name), {**env, "WORK": name}, program)
        for file, content in files.items():
            place = run.path(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content.replace(UNKNOWN_VERSION, VERSION))
        for line in lines:
            try:
                run.line(line)
            except Skipped:
                raise
            except Failed as error:
                return str(error)
    return ""


@contextmanager
def release(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which node0 finds a release: a registry that asks for no password."""
    iso = build(folder, "2023-07.x86_64", initrd=_INITRD)
    checksum = hashlib.sha256(iso.read_bytes()).hexdigest().encode()
    with registry(folder / "registry", password=False) as server:
        utils: Layer = {"usr/bin/agent-tui": b"x", "usr/lib64/libnmstate.so.2": Link("libnmstate.so.2.2"),
                 "usr/lib64/libnmstate.so.2.2": b"y"}  # fmt: skip
        images = {name: server.push([{name: b"x"}], name) for name in COMPONENTS}
        images["agent-installer-utils"] = server.push([utils], "utils")
        live: Layer = {
            "coreos/coreos-x86_64.iso": iso.read_bytes(),
            "coreos/coreos-x86_64.iso.sha256": checksum,
            "coreos/coreos-stream.json": json.dumps(_STREAM).encode(),
        }
        images["machine-os-images"] = server.push([live], "mos", "zstd")
        images = {name: spec.replace(SOURCE, server.repository) for name, spec in images.items()}
        spec = server.push_release(images, VERSION).replace(SOURCE, server.repository)
        trust = folder / "registry/certs/ca.crt"
        yield {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "SSL_CERT_FILE": str(trust),
            "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": spec,
            "RELEASE_IMAGE": spec,
        }


def run(place: Path) -> None:
    """Run all scripts below a folder, and print which of them hold. SystemExit if there is none."""
    paths = sorted(path for path in place.rglob("*") if path.suffix in (".txt", ".txtar"))
    if not paths:
        raise SystemExit(f"{place} has no scripts (*.txt)")
    program = [sys.executable, "-m", "installer"]

    def ask(path: Path) -> tuple[str, str]:
        try:
            why = run_script(path, env, program)
        except Skipped as skipped:
            return "skipped", str(skipped)
        return ("failed", why) if why else ("passed", "")

    with tempfile.TemporaryDirectory(prefix="scripts-") as name, release(Path(name)) as env:
        env = {**env, "PYTHONPATH": str(Path(__file__).parents[3])}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(ask, paths))
    for path, (verdict, why) in zip(paths, answers, strict=True):
        print(f"{verdict:8} {path.relative_to(place)}{'' if not why else ': ' + why}")
    count = {verdict: sum(answer[0] == verdict for answer in answers) for verdict in ("passed", "failed", "skipped")}
    table("openshift-install's own scripts", [(verdict, f"{number:5}") for verdict, number in count.items()])
