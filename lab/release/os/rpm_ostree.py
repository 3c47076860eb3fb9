#!/usr/bin/python3 -I
"""Deployments of the machine OS on a node's disk: ``rpm-ostree status|rebase|finalize-deployment|cleanup``, and
``greenboot``, which decides after a boot whether the new deployment stays.

Names, options and states are rpm-ostree's and greenboot's as far as a caller sees them (reference/machine-os.md,
"Deployments"). A deployment is a folder with ``usr`` and ``etc``, which the initramfs puts in the place of the root's;
the first one is the root's own. It runs with the standard library alone, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import hashlib
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: Boots that a deployment may take to prove itself (greenboot's GREENBOOT_MAX_BOOT_ATTEMPTS); grub.cfg counts them.
ATTEMPTS = 3
DEPLOYMENTS, STATE = "ostree/deploy/node0/deploy", "ostree/deployments.json"
REASON = "var/lib/greenboot/reason"
CHECKS = ("usr/lib/greenboot/check/required.d", "etc/greenboot/check/required.d")
BLOCK_BYTES = 1024
SIGNATURE = "# GRUB Environment Block\n"
# Longer than a registry on a busy network takes for the image.
COMMAND_SECONDS = 1200.0
UNVERIFIED = "ostree-unverified-registry:"


class DeployError(Exception):
    """A request cannot be carried out; ``str()`` is one sentence."""


@dataclass
class Deployment:
    """A deployment. ``id`` is its folder's name, empty for the root's own; ``kernel`` its folder on the boot partition.

    ``image`` is the container image that it was made of, empty for what coreos-installer wrote; ``state`` is ``staged``
    until it is booted; ``reason`` says why it was given up."""

    id: str = ""
    image: str = ""
    version: str = ""
    kernel: str = ""
    state: str = ""
    reason: str = ""

    @property
    def folder(self) -> str:
        """Its place below the root, as the kernel argument ostree= has it."""
        return f"/{DEPLOYMENTS}/{self.id}" if self.id else ""


@dataclass
class System:
    """A node's disk: ``root`` and what its kernel was started with."""

    root: Path = Path("/")
    arguments: Sequence[str] = field(default_factory=lambda: Path("/proc/cmdline").read_text().split())

    def argument(self, name: str) -> str:
        """Return the value of a kernel argument; empty without it."""
        return next((word.partition("=")[2] for word in self.arguments if word.startswith(f"{name}=")), "")

    @property
    def booted(self) -> str:
        """The id of the deployment that runs."""
        return self.argument("ostree").rpartition("/")[2]

    def load(self) -> list[Deployment]:
        """Return the deployments, the root's own among them."""
        try:
            listed = json.loads((self.root / STATE).read_text())
        except FileNotFoundError:
            return [Deployment(version=version(self.root / "usr"))]
        return [Deployment(**entry) for entry in listed]

    def save(self, deployments: Sequence[Deployment]) -> None:
        """Write the list of deployments."""
        place = self.root / STATE
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_suffix(".new")
        temporary.write_text(json.dumps([asdict(d) for d in deployments], indent=1) + "\n")
        temporary.replace(place)

    @contextlib.contextmanager
    def boot(self) -> Iterator[Path]:
        """Provide the boot partition, mounted for a while."""
        place = self.root / "run/ostree/boot"
        place.mkdir(parents=True, exist_ok=True)
        run("udevadm", "settle", "--timeout=60")
        run("mount", self.argument("boot") or "LABEL=boot", str(place))
        try:
            yield place
            run("sync", "-f", str(place))
        finally:
            run("umount", str(place))


def run(*command: str) -> str:
    """Return what a program prints. Raises DeployError: it failed, with its last line; it is missing, or too slow."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeployError(f"{' '.join(command)} did not end within {COMMAND_SECONDS:.0f} s") from None
    except OSError as error:
        raise DeployError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise DeployError(f"{' '.join(command[:3])}: {lines[-1] if lines else done.returncode}")
    return done.stdout


def version(usr: Path) -> str:
    """Return the version of a machine OS, which its os-release has as OSTREE_VERSION."""
    found = re.search(r"^OSTREE_VERSION=\W?([\w.-]+)", (usr / "lib/os-release").read_text(), re.MULTILINE)
    return found[1] if found else ""


def read_environment(boot: Path) -> dict[str, str]:
    """Return GRUB's environment; empty without one."""
    try:
        lines = (boot / "grub/grubenv").read_text().splitlines()
    except FileNotFoundError:
        return {}
    split = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value for name, equals, value in split if equals}


def write_environment(boot: Path, values: dict[str, str]) -> None:
    """Write GRUB's environment, at once or not at all. GRUB overwrites it in place, so all of it has to be there."""
    text = SIGNATURE + "".join(f"{name}={value}\n" for name, value in values.items())
    if len(text) > BLOCK_BYTES:
        raise DeployError(f"GRUB's environment takes {BLOCK_BYTES} bytes, not {len(text)}")
    temporary = boot / "grub/grubenv.new"
    with temporary.open("w") as file:
        file.write(text.ljust(BLOCK_BYTES, "#"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(boot / "grub/grubenv")


def same(left: Path, right: Path) -> bool:
    """Return whether two entries of a file system are alike: type, mode, owners, and content, a folder's aside."""
    try:
        one, two = left.lstat(), right.lstat()
    except OSError:
        return False
    if (one.st_mode, one.st_uid, one.st_gid) != (two.st_mode, two.st_uid, two.st_gid):
        return False
    if stat.S_ISLNK(one.st_mode):
        return os.readlink(left) == os.readlink(right)
    return not stat.S_ISREG(one.st_mode) or filecmp.cmp(left, right, shallow=False)


def walk(top: Path) -> Iterator[str]:
    """Yield all names below a folder, relative to it, a folder before what is in it."""
    for folder, names, files in os.walk(top):
        for name in sorted([*names, *files]):
            yield os.path.relpath(os.path.join(folder, name), top)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it."""
    if is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()


def _put(own: Path, new: Path) -> None:
    """Put a file, a link or a folder itself in the place of what is there, if that is none."""
    status = own.lstat()
    if os.path.lexists(new) and not (is_folder(own) and is_folder(new)):
        remove(new)
    if is_folder(own):
        new.mkdir(exist_ok=True)
    else:
        shutil.copy2(own, new, follow_symlinks=False)
    os.chown(new, status.st_uid, status.st_gid, follow_symlinks=False)
    if not own.is_symlink():
        new.chmod(stat.S_IMODE(status.st_mode))


def merge(before: Path, now: Path, after: Path, target: Path) -> None:
    """Make ``target`` of the defaults ``after`` with what was changed on this node from the defaults ``before`` to
    ``now``; what the node has added, changed or removed stays so."""
    run("cp", "-a", str(after), str(target))
    for name in walk(now):
        if not stat.S_ISSOCK((now / name).lstat().st_mode) and not same(now / name, before / name):
            # A folder above it may be one that only the node has kept.
            for path in [*reversed(Path(name).parents[:-1]), Path(name)]:
                if path == Path(name) or not is_folder(target / path):
                    _put(now / path, target / path)
    for name in walk(before):
        gone = target / name
        if not os.path.lexists(now / name) and os.path.lexists(gone):
            remove(gone)


def status(system: System) -> list[dict[str, object]]:
    """Return the deployments as ``rpm-ostree status --json`` has them: the staged one, the booted one, others."""
    rows = [
        {
            "id": f"node0-{d.id}" if d.id else "node0-installed",
            "version": d.version,
            "container-image-reference": f"{UNVERIFIED}{d.image}" if d.image else "",
            "booted": d.id == system.booted,
            "staged": d.state == "staged",
            "failed": d.reason,
        }
        for d in system.load()
    ]
    return sorted(rows, key=lambda row: (not row["staged"], not row["booted"]))


def rebase(system: System, reference: str) -> str:
    """Fetch an image and lay it out beside what runs; nothing of that changes. Returns its deployment's version."""
    image = reference.removeprefix(UNVERIFIED)
    cleanup(system)
    digest = hashlib.sha256(image.encode()).hexdigest()[:12]
    taken = {d.id for d in system.load()}
    name = next(name for name in (f"{digest}.{serial}" for serial in itertools.count()) if name not in taken)
    new = Deployment(id=name, image=image, state="staged")
    target = system.root / new.folder.lstrip("/")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        # The node's own registries.conf, credentials and CA: those that its pods are pulled with.
        run("podman", "pull", "--quiet", image)
        try:
            run("cp", "-a", f"{run('podman', 'image', 'mount', image).strip()}/usr", f"{target}/usr")
        finally:
            run("podman", "image", "umount", "--force", image)
            run("podman", "rmi", "--force", image)
        new.version = version(target / "usr")
        new.kernel = _put_kernel(system, target / "usr")
    except (DeployError, OSError):
        shutil.rmtree(target, ignore_errors=True)
        raise
    os.sync()
    system.save([*system.load(), new])
    return new.version


def _put_kernel(system: System, usr: Path) -> str:
    """Put a deployment's kernel and initramfs on the boot partition; returns their folder, which says what they are."""
    modules = [path.parent for path in usr.glob("lib/modules/*/vmlinuz")]
    if len(modules) != 1:
        raise DeployError(f"the image has {len(modules)} kernels at /usr/lib/modules/*/vmlinuz, and must have one")
    parts = [modules[0] / "vmlinuz", modules[0] / "initramfs.img"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()[:16]
    kept = {d.kernel for d in system.load()}
    with system.boot() as boot:
        folder = boot / "ostree" / f"node0-{digest}"
        for old in (boot / "ostree").glob("node0-*"):
            if f"/ostree/{old.name}" not in kept and old != folder:
                shutil.rmtree(old)
        if f"/ostree/{folder.name}" not in kept:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for path, name in zip(parts, ("vmlinuz", "initrd.img"), strict=True):
                shutil.copyfile(path, folder / name)
    return f"/ostree/{folder.name}"


def cleanup(system: System) -> None:
    """Remove the deployment that was staged."""
    deployments = system.load()
    for deployment in deployments:
        if deployment.state == "staged":
            shutil.rmtree(system.root / deployment.folder.lstrip("/"), ignore_errors=True)
    system.save([d for d in deployments if d.state != "staged"])


def finalize(system: System) -> None:
    """Make the staged deployment the next that is booted, with this node's own changes in /etc, and the one that runs
    the one to fall back on."""
    deployments = system.load()
    new = next((d for d in deployments if d.state == "staged"), None)
    current = next(d for d in deployments if d.id == system.booted)
    if new is None:
        raise DeployError("no staged deployment")
    target = system.root / new.folder.lstrip("/")
    shutil.rmtree(target / "etc", ignore_errors=True)
    merge(system.root / "usr/etc", system.root / "etc", target / "usr/etc", target / "etc")
    (system.root / REASON).unlink(missing_ok=True)
    os.sync()
    new.state = ""
    for deployment in deployments:
        deployment.reason = ""
    # Only the two that GRUB knows stay; the root's own lies below them.
    kept = [d for d in deployments if d.id in ("", new.id, current.id)]
    system.save(kept)
    with system.boot() as boot:
        values = {"kernel": new.kernel, "ostree": new.folder}
        values |= {"rollback_kernel": current.kernel, "rollback_ostree": current.folder}
        write_environment(boot, {**values, "boot_counter": str(ATTEMPTS), "boot_success": "0"})
    for deployment in deployments:
        if deployment not in kept:
            shutil.rmtree(system.root / deployment.folder.lstrip("/"), ignore_errors=True)


def failed_check(system: System) -> str:
    """Run the required checks in their order; return which failed, and its last line; nothing when none did."""
    for folder in CHECKS:
        for script in sorted((system.root / folder).glob("*.sh")):
            done = subprocess.run(["/bin/bash", str(script)], capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stdout + done.stderr).strip().splitlines()
                return f"{script.name}: {lines[-1] if lines else f'exit code {done.returncode}'}"
    return ""


def greenboot(system: System) -> bool:
    """Judge this boot; return whether it is to be left by a reboot.

    A deployment on trial whose checks pass stays. One whose checks fail is booted again until GRUB has counted its
    boots; then this runs in the one before, which becomes the default again, and notes why."""
    with system.boot() as boot:
        environment = read_environment(boot)
    if environment.get("boot_success") != "0":
        return False
    reason = system.root / REASON
    if environment.get("boot_counter") == "-1":
        text = reason.read_text().strip() if reason.exists() else "it did not come up"
        deployments = system.load()
        for deployment in deployments:
            if deployment.folder == environment["ostree"]:
                deployment.reason = f"{ATTEMPTS} boots in vain: {text}"
        system.save(deployments)
        values = {"kernel": environment["rollback_kernel"], "ostree": environment["rollback_ostree"]}
        said = f"FALLBACK BOOT DETECTED! {text}"
    elif text := failed_check(system):
        reason.parent.mkdir(parents=True, exist_ok=True)
        reason.write_text(f"{text}\n")
        os.sync()
        print(f"Boot Status is RED - {text}", flush=True)
        return True
    else:
        values = {name: value for name, value in environment.items() if name != "boot_counter"}
        said = "Boot Status is GREEN - Health Check SUCCESS"
    with system.boot() as boot:
        write_environment(boot, {**values, "boot_success": "1"})
    print(said)
    return False


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the command line; argparse ends the program with code 2 on what it does not know."""
    parser = argparse.ArgumentParser(prog="rpm-ostree")
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("status", help="show the deployments")
    shown.add_argument("--json", action="store_true")
    fetched = commands.add_parser("rebase", help="stage another OS image")
    fetched.add_argument("reference", metavar=f"{UNVERIFIED}IMAGE")
    fetched.add_argument("--experimental", action="store_true")
    fetched.add_argument("--lock-finalization", action="store_true", required=True)
    last = commands.add_parser("finalize-deployment", help="boot the staged deployment")
    last.add_argument("--allow-missing-checksum", action="store_true", required=True)
    removed = commands.add_parser("cleanup", help="remove the staged deployment")
    removed.add_argument("-p", "--pending", action="store_true", required=True)
    commands.add_parser("greenboot", help="judge this boot, as greenboot-healthcheck.service does")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Do as the command line says; returns the exit code, with the error on standard error."""
    options, system = parse(argv), System()
    try:
        if options.command == "status":
            shown = status(system)
            if options.json:
                print(json.dumps({"deployments": shown}, indent=1))
            for row in shown if not options.json else ():
                print(f"{'*' if row['booted'] else ' '} {row['container-image-reference'] or row['id']}")
                print(f"      Version: {row['version']}{'  (staged)' if row['staged'] else ''}")
        elif options.command == "rebase":
            print(f"Staged {rebase(system, options.reference)}")
        elif options.command == "cleanup":
            cleanup(system)
        elif options.command == "finalize-deployment":
            finalize(system)
            run("systemctl", "--no-block", "reboot")
        elif greenboot(system):
            run("systemctl", "--no-block", "reboot")
    except (DeployError, OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
