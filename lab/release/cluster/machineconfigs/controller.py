"""The machine-config controller, a thread of the version operator that leads: renders each pool's MachineConfigs, gives
the result to one node after the other, drains nodes that ask for it, and reports each pool's progress.

The nodes' own part is `daemon.py`; the two speak by annotations of Nodes, as OpenShift's do.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.release.cluster.errors import ApiError, ClusterError, ConfigError
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.kube import events
from lab.release.cluster.kube.client import Kube, Object, Objects
from lab.release.cluster.machineconfigs import drain, generated, pools

log = logging.getLogger(__name__)

#: Between two looks while a node drains or the control plane is not whole; at rest, for what no event tells.
BUSY_SECONDS = 2.0
REST_SECONDS = 300.0
RETRY_SECONDS = 5.0
#: A drain that takes longer is reported as held up; a pod ends in less.
HELD_SECONDS = 40.0
#: What it follows; those of the last two stand for MachineConfigs.
KINDS = ("MachineConfig", "MachineConfigPool", "Node", *(kind.name for kind in generated.KINDS))
COMPONENT = "machineconfigcontroller"


class Controller:
    """The controller; `step` does what can be done now, `run` repeats it at each change.

    `control_plane` says what the control plane lacks, and nothing while all of it serves: only then another of its
    nodes may go. The node that the controller runs on goes last, or another would have to lead first.
    """

    def __init__(self, kube: Kube, control_plane: Callable[[], str], own: str = "") -> None:
        self._kube = kube
        self._control_plane = control_plane
        self._own = own
        self._draining: dict[str, tuple[str, float]] = {}
        self._several: dict[str, list[str]] = {}
        self.busy = False

    def step(
        self,
        configs: Sequence[Object],
        listed: Sequence[Object],
        nodes: Sequence[Object],
        others: Sequence[Object] = (),
        *,
        os_image: str,
    ) -> None:
        """Bring pools and nodes one step on; `others` stand for MachineConfigs, `os_image` is the release's machine OS.
        Raises ApiError."""
        self.busy = False
        configs = self._generate(configs, listed, others)
        for node in nodes:
            self._drain(node, alone=len(nodes) == 1)
            self._warn_of_pools(node, listed)
        for pool in listed:
            name = str(pool["metadata"]["name"])
            members = [node for node in nodes if pools.primary(node, listed) == name]
            error = self._render(pool, configs, os_image)
            held = self._send(pool, members)
            status = pools.status(pool, members, dt.datetime.now(dt.UTC), render_error=error, held=held)
            if status != (pool.get("status") or {}):
                pool.update(self._kube.replace({**pool, "status": status}, "status"))

    def _warn_of_pools(self, node: Object, listed: Sequence[Object]) -> None:
        """Say, once, that a node is in several custom pools: nothing configures it."""
        name, found = str(node["metadata"]["name"]), pools.candidate_pools(node, listed)
        custom = found if len(found) > 1 else []
        if custom and custom != self._several.get(name):
            text = f"node {name} belongs to {len(custom)} custom roles ({', '.join(custom)}), cannot proceed with it"
            log.error("%s", text)
            self._say(node, "SeveralPools", text, "Warning")
        self._several[name] = custom

    def _generate(
        self, configs: Sequence[Object], listed: Sequence[Object], others: Sequence[Object]
    ) -> Sequence[Object]:
        """Make, change and remove the MachineConfigs that `others` stand for; return all there are then."""
        known = {str(config["metadata"]["name"]): config for config in configs}
        wanted, malformed = dict[str, Object](), False
        for pool in listed:
            try:
                made = generated.generated(pool, configs, others)
            except (ConfigError, ValueError, TypeError) as error:
                log.warning(
                    "pool %s: KubeletConfigs and the like stay as they are: %s", pool["metadata"]["name"], error
                )
                malformed = True
            else:
                wanted |= {str(config["metadata"]["name"]): config for config in made}
        for name, config in wanted.items():
            if name not in known or known[name]["spec"] != config["spec"]:
                whole = {**config, "metadata": {**known.get(name, config)["metadata"], **config["metadata"]}}
                known[name] = (self._kube.replace(whole) if name in known else self._kube.create(whole)) or whole
        # One that has become wrong keeps what it stood for.
        stale = () if malformed or any(map(generated.problems, others)) else known.keys() - wanted.keys()
        for name in [name for name in stale if generated.MARK in name]:
            self._kube.delete(machineconfig.API, "MachineConfig", name)
            del known[name]
        for obj in others:
            status = generated.status(obj, listed, dt.datetime.now(dt.UTC))
            if status != obj.get("status"):
                obj.update(self._kube.replace({**obj, "status": status}, "status"))
        return list(known.values())

    def _render(self, pool: Object, configs: Sequence[Object], os_image: str) -> str:
        """Render a pool anew and point it to the result; return why that is not possible."""
        sources = machineconfig.selected(pool, configs)
        name = pool["metadata"]["name"]
        try:
            if not sources:
                raise ClusterError("no MachineConfigs found matching its machineConfigSelector")
            current = machineconfig.rendered(name, sources, os_image)
            pools.max_unavailable(pool, 1)
        except (ClusterError, ValueError) as error:
            return str(error)
        wanted = machineconfig.configuration(current, sources)
        known = any(config["metadata"]["name"] == wanted["name"] for config in configs)
        if pool["spec"].get("configuration") != wanted or not known:
            owner = {"apiVersion": machineconfig.API, "kind": "MachineConfigPool", "name": name, "controller": True}
            current["metadata"]["ownerReferences"] = [{**owner, "uid": pool["metadata"]["uid"]}]
            try:
                self._kube.create(current)
            except ApiError as error:
                if error.status in (400, 413, 422):  # it is too large for etcd
                    return str(error)
                raise
            pool.update(self._kube.merge_patch(pool, {"spec": {"configuration": wanted}}))
            self._say(pool, "RenderedConfigGenerated", f"{wanted['name']} successfully generated")
        return ""

    def _send(self, pool: Object, members: Sequence[Object]) -> str:
        """Give the pool's config to the nodes whose turn it is; return what they wait for."""
        if pool["spec"].get("paused") or not pool["spec"].get("configuration"):
            return ""
        wanted = pool["spec"]["configuration"]["name"]
        try:
            chosen = pools.candidates(pool, members, self._own)
        except ValueError:  # reported as RenderDegraded
            return ""
        # A node that goes back to what it runs, or has failed, is mended whatever else is wrong.
        ordinary = [node for node in chosen if not pools.failing(node) and not pools.draining(node)]
        held = ""
        if ordinary and pool["metadata"]["name"] in ("master", "arbiter") and len(members) > 1:
            held = self._control_plane()
        if held:
            self.busy = True
            chosen = [node for node in chosen if node not in ordinary]
        for node in chosen:
            changed = {pools.DESIRED: wanted}
            node["metadata"] = self._annotate(node, changed)["metadata"]
            self._say(pool, "SetDesiredConfig", f"Targeted node {node['metadata']['name']} to {wanted}")
        return held

    def _drain(self, node: Object, *, alone: bool) -> None:
        """Do what the node's daemon asks for: drain, or open the node again. The pods of a single node have nowhere to
        go, and stay."""
        name, own = str(node["metadata"]["name"]), pools.notes(node)
        request = own.get(pools.DESIRED_DRAIN, "")
        if not request or own.get(pools.APPLIED_DRAIN) == request:
            self._draining.pop(name, None)
            return
        left: list[str] = []
        if request.startswith("uncordon-"):
            drain.cordon(self._kube, name, closed=False)
        elif not alone:
            left = drain.step(self._kube, name)
        if not left:
            self._draining.pop(name, None)
            applied: dict[str, Any] = {pools.APPLIED_DRAIN: request, pools.HELD: None}
            node["metadata"] = self._annotate(node, applied)["metadata"]
            log.info("Node %s: %s is done", name, request)
            return
        self.busy = True
        known, since = self._draining.setdefault(name, (request, time.monotonic()))
        if known != request:
            self._draining[name] = (request, since := time.monotonic())
        text = "; ".join(left)
        if time.monotonic() - since > HELD_SECONDS and own.get(pools.HELD) != text:
            node["metadata"] = self._annotate(node, {pools.HELD: text})["metadata"]
            self._say(node, "FailedToDrain", f"{text}: the drain goes on as soon as it may", "Warning")

    def _annotate(self, node: Object, changed: dict[str, Any]) -> Object:
        target = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]}}
        return self._kube.merge_patch(target, {"metadata": {"annotations": changed}})

    def _say(self, about: Object, reason: str, message: str, kind: str = "Normal") -> None:
        if about["kind"] == "Node":
            # Events of nodes have the name in the place of the UID: kubelets write it so, kubectl looks for it.
            about = {**about, "metadata": {"name": about["metadata"]["name"], "uid": about["metadata"]["name"]}}
        try:
            events.send(self._kube, about, reason, message, component=COMPONENT, kind=kind)
        except ApiError as error:
            log.warning("event %s: %s", reason, error)

    def run(self, stop: threading.Event) -> None:
        """Follow MachineConfigs, pools and nodes until ``stop``; what fails is tried again."""
        wake, latest = threading.Event(), dict[str, Objects]()

        def follow(api: str, kind: str) -> None:
            for objects in self._kube.watch(api, kind, stop):
                latest[kind] = objects
                wake.set()

        def follow_os() -> None:
            name, namespace = f"metadata.name={machineconfig.OS_IMAGE}", machineconfig.OS_NAMESPACE
            for objects in self._kube.watch("v1", "ConfigMap", stop, namespace=namespace, fields=name):
                # The payload brings it, after what came with the installation.
                if objects:
                    latest["ConfigMap"] = objects
                    wake.set()

        threading.Thread(target=follow_os, name="machine OS", daemon=True).start()
        for kind in KINDS:
            api = "v1" if kind == "Node" else machineconfig.API
            threading.Thread(target=follow, args=(api, kind), name=kind, daemon=True).start()
        pause = REST_SECONDS
        while not stop.is_set():
            wake.wait(pause)
            wake.clear()
            seen = dict(latest)
            if stop.is_set() or len(seen) < len(KINDS) + 1:
                continue
            try:
                configs, listed, nodes, *others = (list(seen[kind].values()) for kind in KINDS)
                [config_map] = seen["ConfigMap"].values()
                os_image = config_map["data"]["osImageURL"]
                self.step(configs, listed, nodes, [obj for objects in others for obj in objects], os_image=os_image)
                pause = BUSY_SECONDS if self.busy else REST_SECONDS
            except (ClusterError, OSError) as error:
                log.warning("machine configs: %s", error)
                pause = RETRY_SECONDS
            except (KeyError, TypeError, ValueError):
                # One malformed object ends nothing.
                log.exception("machine configs: this round failed")
                pause = RETRY_SECONDS
