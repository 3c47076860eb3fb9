"""A lab's supervisor: `python -m lab.supervisor STATE_DIR STATUS_FD ALIVE_FD`.

It is two processes. The outer one stays in the machine's namespaces, watches the lab's owner through a pidfd, and
removes the lab's directory at the end. The inner one (lab.supervisor.init) is the first process of new network, mount
and PID namespaces and starts everything else. When it ends, the kernel kills everything in its PID namespace, and with
the last process the other namespaces, their mounts and their bridge disappear. However the owner dies, nothing is left.

Signals to the outer process: TERM ends the lab, USR1 detaches it from its owner.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from lab.host import identity as processes
from lab.host import namespaces, records
from lab.supervisor import init, watch
from lab.supervisor.plan import Ended, Event, Plan

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def _owner_fd(plan: Plan) -> int | None:
    """Return a descriptor that becomes readable when the owner ends; None without an owner."""
    if plan.owner is None:
        return None
    pid, started = plan.owner
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise SystemExit("the lab's owner has already ended") from None
    if not processes.alive(pid, started):
        raise SystemExit("the lab's owner has already ended")
    return fd


def _watch(init_pid: int, owner: int | None) -> str:
    """Wait until the lab is to end; returns the reason."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
    # A signal that came meanwhile is acted on only now: by default it would have ended this process alone.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    init_fd = os.pidfd_open(init_pid)
    with selectors.DefaultSelector() as selector:
        selector.register(wake_read, selectors.EVENT_READ, "signal")
        selector.register(init_fd, selectors.EVENT_READ, "init ended")
        if owner is not None:
            selector.register(owner, selectors.EVENT_READ, "owner ended")
        while True:
            for key, _ in selector.select():
                if key.data != "signal":
                    return str(key.data)
                numbers = os.read(wake_read, 64)
                if any(n != signal.SIGUSR1 for n in numbers):
                    return "asked to end"
                if owner is not None:
                    selector.unregister(owner)
                    owner = None


def _follow(plan: Plan) -> subprocess.Popen[bytes] | None:
    """Start what comes after the lab. It waits at a pipe that this process and the lab's first one keep open: it is not
    in the lab's namespaces, and nothing that ends the lab ends it."""
    if not plan.after:
        return None
    read, write = os.pipe()
    environment = init.BASE_ENV | plan.after_env
    follower = subprocess.Popen(plan.after, stdin=read, start_new_session=True, cwd="/", env=environment)
    os.close(read)
    os.set_inheritable(write, False)
    return follower


def main(argv: list[str]) -> int:
    """Run a lab until it is to end; returns the exit code, 0 when the lab ended on request."""
    state, status_fd, alive_fd = Path(argv[0]), int(argv[1]), int(argv[2])
    plan = msgspec.json.decode((state / "plan.json").read_bytes(), type=Plan)
    owner = _owner_fd(plan)
    # Only this process and its child hold the lab's lock, not what they start: it is released when both have ended.
    os.set_inheritable(alive_fd, False)
    records.claim(alive_fd, "supervisor")
    # From here on the signal must not end this process before it has ended its child.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    follower = _follow(plan)
    namespaces.unshare(namespaces.CLONE_NEWPID)
    init_pid = os.fork()
    if init_pid == 0:
        init.run(plan, status_fd)
    os.write(status_fd, msgspec.json.encode(Event(event="forked", pid=init_pid)) + b"\n")
    os.close(status_fd)
    why = _watch(init_pid, owner)
    now = time.strftime("%H:%M:%S", time.gmtime())
    print(f"{now} ending: {why}", flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(init_pid, signal.SIGKILL)
    # Returns only when every process of the namespace is gone (pid_namespaces(7)).
    _, status = os.waitpid(init_pid, 0)
    if follower is not None and follower.poll() is not None:
        # Somebody has ended it: with the lab's directory gone nobody would know what is left to be cleared away. The
        # namespace that this process starts others in has ended, so they are to be in its own again.
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        namespaces.setns(own, namespaces.CLONE_NEWPID)
        _follow(plan)
    if why != "init ended":
        records.remove(state)
        return 0
    tail = watch.tail_of(state / "log/supervisor.log")
    watch.note(state, Ended(watch.ALL, os.waitstatus_to_exitcode(status), now, tail))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
