"""The machine-config daemon: brings its node to the config that the controller has given to it, and tells when the node
is not as that config wants it.

It is a thread of the node's `node-network`, which is privileged and runs anyway. A process of its own would take 45 MiB
more on each node; a pod that is started by need would have to be started while its node is drained. At rest it sleeps,
and stats the config's files once a minute. The node is reached by /proc/1/root (`hostPID`), since a mount of / would
hold on to what is mounted below it: one thread of the daemon has that for its root.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from lab.release.cluster.errors import ApiError, ClusterError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube import events
from lab.release.cluster.kube.client import Kube, Object
from lab.release.cluster.machineconfigs import changes, host, pools
from lab.release.cluster.machineconfigs.deployments import Deployments
from lab.release.cluster.machineconfigs.host import DriftError, Host, HostError
from lab.release.cluster.machineconfigs.pools import notes

log = logging.getLogger(__name__)

#: Between two looks whether all files are as they were, and after a failure.
LOOK_SECONDS = 60.0
RETRY_SECONDS = 10.0
COMPONENT = "machineconfigdaemon"
_CLONE_FS = 0x200
_NOTHING = machineconfig.machine_config("", "", {})


def enter_host() -> None:
    """Give the calling thread, and what it starts, the node's file system for its root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_FS):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_FS)")
    os.chroot("/proc/1/root")
    os.chdir("/")


class Unreconcilable(ClusterError):
    """A change that no running node can do."""


class Daemon:
    """The daemon of one node; `step` takes its Node as it is now."""

    def __init__(self, kube: Kube, node: str, on_host: Callable[..., Any] | None = None) -> None:
        self._kube = kube
        self._node = node
        self._rebooting = False
        # The config that was tried in vain last, and when it may be tried again.
        self._failed, self._again = "", 0.0
        self._host = Host()
        self._deployments, self._os_known = Deployments(self._host), False
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="host", initializer=enter_host)
        self._on_host = on_host or (lambda function, *arguments: self._executor.submit(function, *arguments).result())
        self._configs: dict[str, Object] = {}
        self._seen: tuple[str, tuple[object, ...]] = ("", ())

    @property
    def failed(self) -> bool:
        """True while something is to be tried again."""
        return bool(self._failed)

    def step(self, node: Object) -> None:
        """Do what can be done now. Raises ApiError; what goes wrong on the node is reported in its annotations."""
        own = notes(node)
        current, desired = own.get(pools.CURRENT), own.get(pools.DESIRED)
        if not current or not desired or self._rebooting:
            return
        if desired == self._failed and time.monotonic() < self._again:
            return
        try:
            pending = self._on_host(self._host.load, host.PENDING)
            if pending and pending["written"] and pending["boot"] != self._on_host(self._host.boot_id):
                self._arrive(pending["config"], own)
            elif pending and not pending["written"] and pending["config"] != desired:
                self._undo(pending["config"], current)
                self._stay(own)
            elif current != desired or self._forced():
                self._go(own, pending)
            else:
                self._stay(own)
            self._failed = ""
        except Unreconcilable as error:
            self._fail(own, pools.UNRECONCILABLE, str(error))
        except (HostError, OSError, KeyError, TypeError, ValueError) as error:
            self._fail(own, pools.DEGRADED, str(error))

    def _stay(self, own: dict[str, str]) -> None:
        """Check that the node is as its config has it; open it, where it was drained for one that nobody wants any
        more."""
        name = own[pools.CURRENT]
        config = self._config(name)
        paths = [*host.wanted_files(config), *host.masked(config)]
        traces = self._on_host(self._host.traces, paths)
        if self._seen != (name, traces) or own.get(pools.STATE) != pools.DONE:
            known = self._knows_os(config)
            if known is False:
                # Installed from the image of another release.
                self._go(own, {"config": name, "written": False})
                return
            self._check(config)
            self._seen = (name, traces) if known else self._seen
            self._finish(own, name)

    def _knows_os(self, config: Object) -> bool | None:
        """Return whether the node's OS is of an image that is known, noting that of an installed one; False where it
        was installed with another version than its config wants, None while nobody says which that is."""
        if not self._os_known:
            release = self._kube.get("v1", "ConfigMap", machineconfig.OS_IMAGE, machineconfig.OS_NAMESPACE)
            wanted = changes.os_image(config)
            # The payload brings it after the first nodes have joined; of a release before it says nothing.
            version = release["data"]["osVersion"] if release and release["data"]["osImageURL"] == wanted else ""
            self._os_known = self._on_host(self._deployments.adopt, wanted, version)
            if not self._os_known and not version:
                return None
        return self._os_known

    def _check(self, config: Object, *, arrived: bool = False) -> None:
        try:
            if not arrived or not self._forced():
                self._on_host(self._host.check, config)
            self._on_host(partial(self._deployments.check, config, unknown=not arrived))
        except DriftError as error:
            name = config["metadata"]["name"]
            raise DriftError(f"unexpected on-disk state validating against {name}: {error}") from error

    def _go(self, own: dict[str, str], pending: Any) -> None:
        """Change the node: prepare, drain, write, and reboot if the change needs it."""
        old, new = self._config(own[pools.CURRENT]), self._config(own[pools.DESIRED])
        name = new["metadata"]["name"]
        begun = bool(pending) and pending["config"] == name
        # Forced to what it runs already, all of it is written again.
        what = changes.change(_NOTHING if old is new else old, new)
        if wrong := changes.irreconcilable(old, new):
            names = f"{old['metadata']['name']}, {name}"
            raise Unreconcilable(f"configs {names} are not reconcilable: {'; '.join(wrong)}")
        if not begun and not self._forced():
            self._check(old)
        reboots = changes.REBOOT in what.actions
        if own.get(pools.STATE) != pools.WORKING and name != self._failed:
            self._annotate(own, {pools.STATE: pools.WORKING, pools.REASON: ""})
        if reboots:
            # While its pods are still there.
            self._on_host(self._deployments.stage, new)
        if reboots and not self._drained(own, name):
            return
        if not begun or not pending["written"]:
            self._on_host(self._write, old, new, what, begun)
        if reboots:
            self._say("Reboot", f"Node will reboot into config {name}")
            self._on_host(self._deployments.reboot, new)
            self._rebooting = True
            return
        if changes.TRUST in what.actions:
            self._on_host(self._host.run, "update-ca-trust")
            self._on_host(self._host.run, "systemctl", "restart", "containerd.service")
        self._say("SkipReboot", "Config changes do not require reboot.")
        self._on_host(self._host.forget, host.PENDING)
        self._finish(own, name)

    def _forced(self) -> bool:
        return bool(self._on_host(lambda: self._host.at(changes.FORCE_FILE).exists()))

    def _drained(self, own: dict[str, str], name: str) -> bool:
        """Return whether the controller has drained the node for a config, having asked it to."""
        request = f"drain-{name}"
        if own.get(pools.APPLIED_DRAIN) == request == own.get(pools.DESIRED_DRAIN):
            return True
        if own.get(pools.DESIRED_DRAIN) != request:
            self._say("Drain", f"Asking for a drain of the node for config {name}")
            self._annotate(own, {pools.DESIRED_DRAIN: request})
        return False

    def _write(self, old: Object, new: Object, what: changes.Change, begun: bool) -> None:
        """Write a config to the node, or leave it as it was."""
        record = {"config": new["metadata"]["name"], "boot": self._host.boot_id()}
        self._host.save(host.PENDING, {**record, "written": False})
        try:
            self._host.apply(old, new, what, begun=begun)
        except (HostError, OSError):
            self._host.apply(new, old, what)
            self._host.forget(host.PENDING)
            raise
        # What is on its way to the disk would be lost with the power.
        os.sync()
        self._host.save(host.PENDING, {**record, "written": True})
        log.info("wrote %s", record["config"])

    def _undo(self, name: str, current: str) -> None:
        """Take back what was written of a config when this process was ended half-way, and which nobody wants now."""
        new, old = self._config(name), self._config(current)
        self._on_host(self._host.apply, new, old, changes.change(new, old))
        self._on_host(self._host.forget, host.PENDING)

    def _arrive(self, name: str, own: dict[str, str]) -> None:
        """After the reboot: check that all is as it was written, and report it; where it is not, and another config is
        wanted by now, go on to that."""
        config = self._config(name)
        try:
            self._check(config, arrived=True)
        except DriftError:
            # The power may have gone after its files were written, and before its OS could be booted.
            again = self._forced() or self._on_host(self._deployments.waits, config)
            if own[pools.DESIRED] == name and not again:
                raise
            self._go({**own, pools.CURRENT: name}, {"config": own[pools.DESIRED], "written": False})
            return
        self._on_host(self._host.forget, host.PENDING)
        self._finish(own, name)

    def _finish(self, own: dict[str, str], name: str) -> None:
        """Report a config as the node's own, and have the node opened if it was drained."""
        self._on_host(self._host.forget, changes.FORCE_FILE)
        changed: dict[str, Any] = {pools.CURRENT: name, pools.STATE: pools.DONE, pools.REASON: ""}
        if own.get(pools.DESIRED_DRAIN, "").startswith("drain-"):
            changed[pools.DESIRED_DRAIN] = f"uncordon-{name}"
        if any(own.get(key) != value for key, value in changed.items()):
            self._annotate(own, changed)
            self._say("NodeDone", f"Setting node {self._node}, currentConfig {name} to Done")

    def _config(self, name: str) -> Object:
        if name not in self._configs:
            config = self._kube.get(machineconfig.API, "MachineConfig", name)
            if config is None:
                raise HostError(f"MachineConfig {name} is not there")
            # The two that matter: the one that runs, the one to come.
            self._configs = dict([*self._configs.items()][-1:]) | {name: config}
        return self._configs[name]

    def _fail(self, own: dict[str, str], state: str, reason: str) -> None:
        """Report what went wrong, and have it tried again after RETRY_SECONDS."""
        self._failed, self._again = own[pools.DESIRED], time.monotonic() + RETRY_SECONDS
        if (own.get(pools.STATE), own.get(pools.REASON)) != (state, reason):
            self._annotate(own, {pools.STATE: state, pools.REASON: reason})
            self._say("OnDiskStateValidationFailed" if "on-disk" in reason else "FailedToUpdate", reason, "Warning")

    def _annotate(self, own: dict[str, str], changed: dict[str, Any]) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}}
        self._kube.merge_patch(target, {"metadata": {"annotations": changed}})
        own.update(changed)
        log.info("%s", {key.rpartition("/")[2]: value for key, value in changed.items()})

    def _say(self, reason: str, message: str, kind: str = "Normal") -> None:
        # Events of nodes have the name in the place of the UID: kubelets write it so, kubectl looks for it.
        meta = {"name": self._node, "uid": self._node}
        about = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        try:
            events.send(self._kube, about, reason, message, component=COMPONENT, host=self._node, kind=kind)
        except ApiError as error:
            log.warning("event %s: %s", reason, error)


def run(kube: Kube, node: str, stop: threading.Event) -> None:
    """Follow the node until ``stop``; what fails is tried again."""
    daemon, wake, latest = Daemon(kube, node), threading.Event(), list[Object]()

    def follow() -> None:
        for objects in kube.watch("v1", "Node", stop, fields=f"metadata.name={node}"):
            latest[:] = objects.values()
            wake.set()

    threading.Thread(target=follow, name="own node", daemon=True).start()
    pause = LOOK_SECONDS
    while not stop.is_set():
        wake.wait(pause)
        wake.clear()
        if not latest:
            continue
        try:
            daemon.step(latest[0])
            pause = RETRY_SECONDS if daemon.failed else LOOK_SECONDS
        except (ClusterError, OSError) as error:
            log.warning("machine config: %s", error)
            pause = RETRY_SECONDS
