"""The first steps within a machine's namespaces, up to the exec of its init.

Two processes. The outer one holds the user, network, UTS and IPC namespaces from power-on, while the firmware works;
then it joins the control groups' namespace and forks the first process of the PID namespace, which mounts /proc, /sys
and the control groups, changes its root, closes the fence and becomes the machine's init. Each ends with its parent,
whatever ends that.

The image's early boot is run by that first process, as a kernel runs an initramfs: when the fence is closed and nothing
of the host is open any more. The image's programs cannot read what the first process still has in memory of the host's
(`syscalls.hide`); what they get it to do, it does with the machine's rights and under the seccomp filter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import mmap
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from lab.host.namespaces import die_with_parent, unshare
from lab.machines.container.fence import seccomp
from lab.machines.container.hardware import pseudofs
from lab.machines.container.kernel import syscalls
from lab.machines.container.spec import NotBootable, Stage

# Exit codes of the outer process. STOPPED: the early boot stopped, and has said why.
POWERED_OFF, REBOOTED, BROKEN, STOPPED = 0, 10, 11, 12
#: Messages of the first process: LISTENING comes with seccomp's listener, RUNNING when init is about to run. REFUSED:
#: the early boot stopped before it had a console; why follows.
LISTENING, RUNNING, REFUSED = b"listening", b"running", b"refused "
# linux/capability.h: CAP_SYS_MODULE, CAP_SYS_RAWIO. Units that need them are left out (ConditionCapability=).
_NEVER = (16, 17)
_MESSAGE_BYTES = 1 << 20
# Descriptors that one message can carry (Linux, SCM_MAX_FD), and by far more initrds than boot loaders are given.
MOST_IMAGES = 253
_FILE_SYSTEM = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A machine to be started. The holder's directory has in `dev` its devices and in `files` the files that go over
    /proc and /sys (lab.machines.container.hardware.pseudofs); `cgroups` are the options of the v1 hierarchies, or
    nothing for cgroup2. `stage` is the early boot (spec.Early), whose initrds come as descriptors with the order."""

    cgroups: tuple[str, ...]
    argv: tuple[str, ...]
    environment: dict[str, str]
    memory_mib: int
    arguments: tuple[str, ...]
    stage: str


def hold(line: socket.socket, work: Path, owner: int) -> NoReturn:
    """Be the outer process: make namespaces as the host's user `owner`, wait for the order at `line`, start the
    machine, exit with the code of its end. `work` is the holder's directory."""
    code = BROKEN
    try:
        os.setsid()
        # From here on by relative paths: the machine's users may not pass the directories above.
        os.chdir(work)
        # Resources that are counted by users (inotify's instances, namespaces) count for the maker of a user namespace
        # too (user_namespaces(7)): made by root, one machine could use up those of the host and all others.
        syscalls.change_user(owner)
        # At a change of user the kernel forgets the parent-death signal (PR_SET_PDEATHSIG).
        die_with_parent()
        flags = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
        unshare(flags)
        line.send(b"namespaces")
        text, images, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, MOST_IMAGES)
        if text:
            order = msgspec.json.decode(text, type=Order)
            os.setgroups([])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            die_with_parent()
            unshare(syscalls.CLONE_NEWCGROUP | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                _become_init(order, line, images)
            line.close()
            code = _meaning(os.waitpid(pid, 0)[1])
    except BaseException:
        _complain(line)
    finally:
        os._exit(code)


def _meaning(status: int) -> int:
    """Translate a wait status: in a PID namespace reboot(2) ends the first process with SIGHUP for a restart, SIGINT
    for a halt."""
    if os.WIFSIGNALED(status):
        return {signal.SIGHUP: REBOOTED, signal.SIGINT: POWERED_OFF}.get(signal.Signals(os.WTERMSIG(status)), BROKEN)
    code = os.WEXITSTATUS(status)
    return code if code in (POWERED_OFF, REBOOTED, STOPPED) else BROKEN


def _complain(line: socket.socket) -> None:
    try:
        line.send(b"failed " + traceback.format_exc().encode()[-4000:])
    except OSError:
        traceback.print_exc(file=sys.stderr)


def _become_init(order: Order, line: socket.socket, images: list[int]) -> NoReturn:
    code = BROKEN
    try:
        die_with_parent()
        os.setsid()
        os.umask(0o022)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        # A first process gets no signal that it has no handler for.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        syscalls.hide()
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        stage = _stage(order)
        try:
            stage.lay_out(Path("place"), [_take(image) for image in images])
        except NotBootable as error:
            line.send(REFUSED + error.reason.encode(errors="replace")[:4000])
            raise
        gc.collect()
        syscalls.mount("dev", "place/dev", flags=syscalls.MS_BIND | syscalls.MS_REC)
        _mount_kernels(order)
        os.chdir("place")
        syscalls.pivot_root_here()
        socket.sethostname("localhost")
        _take_console()
        for capability in _NEVER:
            syscalls.drop_for_good(capability)
        # One byte: with this limit alone the kernel starts no program of the host's for a core (core(5)).
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
        listener = seccomp.install()
        socket.send_fds(line, [LISTENING], [listener])
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        os.closerange(3, line.fileno())
        os.closerange(line.fileno() + 1, most)
        # From here on all is the machine's own.
        with os.fdopen(1, "wb", buffering=0, closefd=False) as console:
            _switch_root(stage.go(console))
        _take_console()
        line.send(RUNNING)
        os.closerange(3, most)
        # Python ignores these; an init does not expect to inherit that.
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execve(order.argv[0], list(order.argv), order.environment)
    except NotBootable as error:
        # It has said why.
        code = REBOOTED if error.again else STOPPED
    except BaseException:
        _complain(line)
    finally:
        os._exit(code)


def _take_console() -> None:
    terminal = os.open("/dev/console", os.O_RDWR)
    for number in range(3):
        os.dup2(terminal, number, inheritable=True)


def _stage(order: Order) -> Stage:
    module, _, name = order.stage.partition(":")
    stage: Stage = getattr(importlib.import_module(module), name)(order.memory_mib, order.arguments)
    return stage


def _take(image: int) -> memoryview:
    """Map an initrd: a copy would take the machine's memory a second time."""
    with os.fdopen(image, "rb"):
        return memoryview(mmap.mmap(image, 0, access=mmap.ACCESS_READ) if os.fstat(image).st_size else b"")


def _mount_kernels(order: Order) -> None:
    """Mount /proc, /sys, control groups and the rest of what a kernel or a systemd mounts first, below `place`."""
    root = Path("place")
    syscalls.mount("proc", f"{root}/proc", "proc", _FILE_SYSTEM)
    syscalls.mount("sysfs", f"{root}/sys", "sysfs", _FILE_SYSTEM)
    pseudofs.put_over(Path("files"), root)
    _mount_cgroups(root / "sys/fs/cgroup", order.cgroups)
    read_only = _FILE_SYSTEM | syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY
    syscalls.mount("none", f"{root}/sys", flags=read_only)
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    syscalls.mount("devpts", f"{root}/dev/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, data=options)
    shared = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("shm", f"{root}/dev/shm", "tmpfs", shared, data="mode=1777")
    # As systemd has it: a fifth of the memory.
    size = max(order.memory_mib // 5, 1)
    syscalls.mount("run", f"{root}/run", "tmpfs", shared, data=f"mode=755,size={size}m")
    database = root / "run/udev/data"
    database.mkdir(parents=True)
    syscalls.mount(f"files/{pseudofs.UDEV}", str(database), flags=syscalls.MS_BIND)


def _switch_root(root: Path) -> None:
    """End the processes that the early boot left, and change to the root that it made (switch_root(8))."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    for name in ("dev", "proc", "sys", "run"):
        (root / name).mkdir(exist_ok=True)
        syscalls.mount(f"/{name}", str(root / name), flags=syscalls.MS_MOVE)
    os.chdir(root)
    syscalls.pivot_root_here()


def _mount_cgroups(place: Path, hierarchies: tuple[str, ...]) -> None:
    if not hierarchies:
        syscalls.mount("cgroup2", str(place), "cgroup2", _FILE_SYSTEM)
        return
    syscalls.mount("cgroups", str(place), "tmpfs", _FILE_SYSTEM, data="mode=755")
    for name in hierarchies:
        folder = place / name.removeprefix("name=")
        folder.mkdir()
        data = f"none,{name}" if name.startswith("name=") else name
        syscalls.mount("cgroup", str(folder), "cgroup", _FILE_SYSTEM, data=data)
