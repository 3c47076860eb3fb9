"""The daemon and the controller together, over an API of a dictionary and folders in the nodes' place."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.release.cluster import tls
from lab.release.cluster.bootkube import command as bootkube
from lab.release.cluster.errors import ApiError
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.ignition import machineconfig
from lab.release.cluster.installconfig import parse
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.machine_config_server import command as mcs
from lab.release.cluster.machineconfigs import changes, pools
from lab.release.cluster.machineconfigs.controller import Controller
from lab.release.cluster.machineconfigs.daemon import Daemon
from lab.release.cluster.machineconfigs.deployments import Deployments
from lab.release.cluster.pods.assets import Cluster
from lab.testing.clusterapi import Api
from lab.testing.ignition import read_data_url
from lab.tests.release.cluster.machineconfigs.test_host import FILE, Folder

pytestmark = pytest.mark.slow

KUBELET = "/etc/kubernetes/kubelet.conf"
TAGS = ("etcd", "pod", "hyperkube", "machine-config-operator", "keepalived-ipfailover", "rhel-coreos")
IMAGES = Images("4.18.0", {tag: f"r.example/n@sha256:{tag}" for tag in TAGS})
CONFIG = {
    "apiVersion": "v1",
    "metadata": {"name": "c"},
    "baseDomain": "d.example",
    "controlPlane": {"name": "master", "replicas": 3},
    "compute": [{"name": "worker", "replicas": 0}],
    "networking": {"machineNetwork": [{"cidr": "192.0.2.0/24"}]},
    "platform": {"baremetal": {"apiVIPs": ["192.0.2.5"], "ingressVIPs": ["192.0.2.4"]}},
    "pullSecret": '{"auths":{}}',
    "sshKey": "ssh-ed25519 first",
}


def merged(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch's result."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class Server(Api):
    """The API with what drains ask of it; `budget` says why pods may not go."""

    def __init__(self) -> None:
        super().__init__()
        self.budget, self.refusal = "", 429

    def all(self, kind: str) -> list[Object]:
        return [obj for (of, _, _), obj in list(self.objects.items()) if of == kind]

    def list(self, api_version: str, kind: str, *_: Any, accept: str = "", fields: str = "") -> list[Object]:
        return [obj for obj in self.all(kind) if f"spec.nodeName={obj['spec'].get('nodeName')}" == fields]

    def merge_patch(self, obj: Object, patch: Object, sub: str = "") -> Object:
        key = self._key_of(obj)
        self.objects[key] = merged(self.objects[key], patch)
        return self.objects[key]

    def path(self, *words: str, sub: str = "") -> str:
        return "/".join([*words, sub])

    def request(self, method: str, path: str, body: Any) -> None:
        assert path.endswith("/eviction")
        if self.budget:
            raise ApiError(method, path, self.refusal, self.budget)
        del self.objects["Pod", body["metadata"]["namespace"], body["metadata"]["name"]]


@functools.cache
def cluster() -> Cluster:
    config = parse(yaml.safe_dump(CONFIG))
    return Cluster(config, tls.complete(config, {}), "r.example/n@sha256:1", IMAGES)


class World:
    """A cluster of three nodes after its installation: its API, the controller, daemons and folders by node."""

    def __init__(self, folder: Path, *late: Object) -> None:
        self.api = Server()
        for obj in [*bootkube.machine_configs(cluster(), list(late)), *late]:
            self.api.create({**obj, "metadata": {**obj["metadata"], "uid": "u"}})
        self.os_image = IMAGES["rhel-coreos"]
        data = {"osImageURL": self.os_image, "osVersion": "1"}
        place = {"name": machineconfig.OS_IMAGE, "namespace": machineconfig.OS_NAMESPACE}
        self.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": data})
        self.lacks = ""
        self.controller = Controller(self.api, lambda: self.lacks)
        [self.first] = [p["spec"]["configuration"]["name"] for p in self.pools() if p["metadata"]["name"] == "master"]
        self.hosts, self.daemons = dict[str, Folder](), dict[str, Daemon]()
        rendered = self.api.objects["MachineConfig", "", self.first]
        for name in ("m0", "m1", "m2"):
            (folder / name / "home/core/.ssh/authorized_keys.d").mkdir(parents=True)
            (folder / name / "etc").mkdir()
            (folder / name / "etc/passwd").write_text("core:x:1000:1000::/home/core:/bin/sh\n")
            host = self.hosts[name] = Folder(folder / name)
            host.apply(empty := machineconfig.machine_config("none", "", {}), rendered, changes.change(empty, rendered))
            host.programs.clear()
            daemon = self.daemons[name] = Daemon(self.api, name, lambda function, *arguments: function(*arguments))
            daemon._host, daemon._deployments = host, Deployments(host)
            notes = {pools.CURRENT: self.first, pools.DESIRED: self.first, pools.STATE: "Done"}
            labels = {"node-role.kubernetes.io/master": ""}
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            meta = {"name": name, "annotations": notes, "labels": labels}
            self.api.create(
                {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status},
            )

    def pools(self) -> list[Object]:
        return self.api.all("MachineConfigPool")

    def master(self) -> dict[str, Any]:
        pool = self.api.objects["MachineConfigPool", "", "master"]
        return {c["type"]: c for c in pool["status"]["conditions"]}

    def notes(self, name: str = "m0") -> dict[str, str]:
        notes: dict[str, str] = self.api.objects["Node", "", name]["metadata"]["annotations"]
        return notes

    def turn(self, count: int = 1) -> None:
        """Let everybody look; a node that reboots is back at once."""
        for _ in range(count):
            configs, nodes = self.api.all("MachineConfig"), self.api.all("Node")
            self.controller.step(configs, self.pools(), nodes, os_image=self.os_image)
            for name, daemon in list(self.daemons.items()):
                daemon.step(self.api.objects["Node", "", name])
                if self.hosts[name].programs[-1:] == [("systemctl", "--no-block", "reboot")]:
                    self.reboots.append(name)
                    self.hosts[name].programs.clear()
                    self.start(name)

    def start(self, name: str) -> None:
        """Start a node: its daemon knows no more than what is on its disk."""
        self.hosts[name].boot += "'"
        daemon = self.daemons[name] = Daemon(self.api, name, lambda function, *arguments: function(*arguments))
        daemon._host, daemon._deployments = self.hosts[name], Deployments(self.hosts[name])

    def booted(self) -> list[str]:
        """Return the references of the images that the nodes run."""
        return [str(r["container-image-reference"]) for host in self.hosts.values() for r in host.os if r["booted"]]

    reboots: list[str]

    def add(self, name: str, *files: dict[str, Any], role: str = "master", **spec: Any) -> None:
        made = machineconfig.machine_config(name, role, ignition.config(files))
        made["spec"] |= spec
        self.api.create(made)

    def remove(self, name: str) -> None:
        del self.api.objects["MachineConfig", "", name]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have daemons try again at once."""
    monkeypatch.setattr("lab.release.cluster.machineconfigs.daemon.RETRY_SECONDS", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.reboots = []
    return made


def test_nothing_happens_after_an_installation_with_configs_of_the_users(tmp_path: Path) -> None:
    """First boot, server and controller render the same, or all nodes would reboot at once."""
    bare = ignition.config([{"path": "/etc/mine", "contents": {"source": "data:,x"}}])
    mine = machineconfig.machine_config("99-mine", "master", bare, ["a=1"])
    world = World(tmp_path, mine)
    world.reboots = []
    before = len(world.api.all("MachineConfig"))
    world.turn(3)
    assert (world.reboots, len(world.api.all("MachineConfig"))) == ([], before)
    assert world.master()["Updated"]["status"] == "True"
    assert {world.notes(name)[pools.CURRENT] for name in world.daemons} == {world.first}


def test_a_file_comes_node_by_node_with_reboots_and_goes_again(world: World) -> None:
    world.add("99-late", FILE)
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]
    assert world.master()["Updated"]["status"] == "True"
    for name, host in world.hosts.items():
        assert host.at("/etc/a/b.conf").read_text() == "one\n"
        assert world.notes(name)[pools.APPLIED_DRAIN] == f"uncordon-{world.notes(name)[pools.CURRENT]}"
        assert not world.api.objects["Node", "", name]["spec"].get("unschedulable")
    world.remove("99-late")
    world.turn(30)
    assert len(world.reboots) == 6
    assert {world.notes(name)[pools.CURRENT] for name in world.daemons} == {world.first}
    assert not any(host.at("/etc/a/b.conf").exists() for host in world.hosts.values())


def test_a_node_that_joins_later_is_served_what_came_late(world: World, tmp_path: Path) -> None:
    token = {"data": {"token": base64.b64encode(b"t").decode()}}
    meta = {"name": "node-bootstrapper-token", "namespace": mcs.NAMESPACE}
    world.api.create({"kind": "Secret", "metadata": meta, **token})
    (tmp_path / "kubelet-ca.crt").touch()
    (tmp_path / "kubeconfig-kubelet").write_text("clusters: [{cluster: {server: s}}]")
    world.add("99-late", ignition.file("/root/.docker/config.json", "{}", 0o600))
    world.turn(12)
    served = mcs.cluster_source(world.api, tmp_path)("master")
    files = {entry["path"]: entry for entry in served["storage"]["files"]}
    notes = json.loads(read_data_url(files["/etc/machine-config-daemon/node-annotations.json"]["contents"]["source"]))
    assert notes[pools.CURRENT] == world.notes()[pools.CURRENT] != world.first
    assert read_data_url(files["/root/.docker/config.json"]["contents"]["source"]) == b"{}"


def test_a_pull_secret_needs_neither_drain_nor_reboot(world: World) -> None:
    world.add("99-late", ignition.file("/root/.docker/config.json", "{}", 0o600))
    world.turn(12)
    assert (world.reboots, world.master()["Updated"]["status"]) == ([], "True")
    assert pools.DESIRED_DRAIN not in world.notes()
    assert world.hosts["m2"].at("/root/.docker/config.json").read_text() == "{}"


def test_keys_need_no_reboot_and_are_the_config_s_alone(world: World) -> None:
    users = [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 second"]}]
    world.add("99-late", config={"ignition": {"version": "3.2.0"}, "passwd": {"users": users}})
    world.turn(12)
    keys = world.hosts["m2"].at("/home/core/.ssh/authorized_keys.d/ignition")
    assert keys.read_text() == "ssh-ed25519 first\nssh-ed25519 second\n"
    assert (keys.stat().st_uid, keys.stat().st_mode & 0o777) == (1000, 0o600)
    world.remove("99-late")
    world.turn(12)
    assert (keys.read_text(), world.reboots) == ("ssh-ed25519 first\n", [])


def test_no_node_goes_while_the_control_plane_lacks_something_or_the_pool_is_paused(world: World) -> None:
    world.lacks = "etcd: m1 does not answer"
    world.add("99-late", FILE)
    world.turn(5)
    assert (world.reboots, world.controller.busy) == ([], True)
    assert world.lacks in world.master()["Updating"]["message"]
    world.lacks = ""
    world.api.objects["MachineConfigPool", "", "master"]["spec"]["paused"] = True
    world.turn(5)
    assert (world.reboots, world.master()["Updating"]["status"]) == ([], "False")
    world.api.objects["MachineConfigPool", "", "master"]["spec"]["paused"] = False
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]


@pytest.mark.parametrize("refusal", [400, 403, 418, 429, 500])
def test_whatever_refuses_an_eviction_is_told_and_holds_up_its_node_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    monkeypatch.setattr("lab.release.cluster.machineconfigs.controller.HELD_SECONDS", -1)
    world.api.budget, world.api.refusal = "a webhook denied the request", refusal
    pod = {"kind": "Pod", "metadata": {"namespace": "ns", "name": "own"}, "spec": {"nodeName": "m0"}}
    world.api.create(pod)
    world.add("99-late", FILE)
    world.turn(6)
    assert world.notes()[pools.HELD] == "pod ns/own: a webhook denied the request"
    assert world.notes()[pools.HELD] in world.master()["Updating"]["message"]


def test_a_budget_holds_the_drain_until_it_is_let_go_or_the_config_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.release.cluster.machineconfigs.controller.HELD_SECONDS", -1)
    kinds: list[dict[str, Any]] = [
        {"name": "own"},
        {"name": "daemon", "ownerReferences": [{"kind": "DaemonSet"}]},
        {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}},
    ]
    for meta in kinds:
        spec = {"nodeName": "m0"}
        world.api.create({"kind": "Pod", "metadata": {"namespace": "ns", **meta}, "spec": spec})
    world.api.budget = "Cannot evict pod as it would violate the pod's disruption budget."
    world.add("99-late", FILE)
    world.turn(6)
    assert world.reboots == []
    assert world.notes()[pools.HELD] == f"pod ns/own: {world.api.budget}"
    assert f"node m0: pod ns/own: {world.api.budget}" in world.master()["Updating"]["message"]
    world.remove("99-late")
    world.turn(6)
    assert (world.reboots, world.master()["Updated"]["status"]) == ([], "True")
    assert not world.api.objects["Node", "", "m0"]["spec"].get("unschedulable")
    assert pools.HELD not in world.notes()
    world.add("99-late", FILE)
    world.turn(6)
    world.api.budget = ""
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]
    assert sorted(pod["metadata"]["name"] for pod in world.api.all("Pod")) == ["daemon", "static"]


def test_what_ignition_refuses_degrades_the_pool_and_reaches_no_node(world: World) -> None:
    world.add("99-late", {**FILE, "mode": 0o1777}, {"path": "b", "colour": "red"})
    world.add("98-late", extensions=["usbguard"], kernelType="realtime")
    world.turn(4)
    says = world.master()
    assert (says["RenderDegraded"]["status"], says["Degraded"]["status"]) == ("True", "True")
    for word in ("98-late", "spec.extensions", "spec.kernelType", "99-late", "unknown field `colour`"):
        assert word in says["RenderDegraded"]["message"]
    assert world.notes()[pools.DESIRED] == world.first
    world.remove("99-late")
    world.remove("98-late")
    world.turn(2)
    assert (world.master()["Degraded"]["status"], world.master()["Updated"]["status"]) == ("False", "True")


@pytest.mark.parametrize("kubelet", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        {"ignition": "x"},
        {"ignition": {"version": "3.2.0"}, "storage": ["x"]},
        {"ignition": {"version": "3.2.0"}, "storage": {"files": [5, None]}},
        {"ignition": {"version": "3.2.0"}, "storage": {"files": [{"path": KUBELET, "contents": {"source": "x:y"}}]}},
    ],
)
def test_a_config_of_wrong_types_holds_up_its_pool_alone(
    world: World, config: dict[str, Any], *, kubelet: bool
) -> None:
    selector = {"matchLabels": {f"pools.operator.{machineconfig.PREFIX}/master": ""}}
    own: Object = {
        "apiVersion": machineconfig.API,
        "kind": "KubeletConfig",
        "metadata": {"name": "own"},
        "spec": {"machineConfigPoolSelector": selector, "kubeletConfig": {"maxPods": 99}},
    }
    world.api.create(own)
    world.add("99-late", role="worker", config=config)
    world.add("99-late-too", config=config)
    world.controller.step(
        world.api.all("MachineConfig"),
        world.pools(),
        world.api.all("Node"),
        [own] if kubelet else [],
        os_image=world.os_image,
    )
    assert "99-late-too: spec.config." in world.master()["RenderDegraded"]["message"]


def test_two_configs_that_contradict_each_other_are_told(world: World) -> None:
    """One has a path as a file, the other as a link: alone each is right."""
    world.add("98-late", FILE)
    links = {"links": [{"path": FILE["path"], "target": "/x"}]}
    world.add("99-late", config={"ignition": {"version": "3.2.0"}, "storage": links})
    world.turn(3)
    message = world.master()["RenderDegraded"]["message"]
    assert f"{FILE['path']}: is there 2 times" in message
    assert (world.notes()[pools.DESIRED], world.reboots) == (world.first, [])


def test_a_change_that_no_running_node_can_do_stops_at_the_first(world: World) -> None:
    world.add("99-late", config={"ignition": {"version": "3.2.0"}, "passwd": {"groups": [{"name": "g"}]}})
    world.turn(8)
    states = [world.notes(name)[pools.STATE] for name in world.daemons]
    assert states == ["Unreconcilable", "Done", "Done"]
    assert "passwd groups section contains changes" in world.master()["NodeDegraded"]["message"]
    world.remove("99-late")
    world.turn(4)
    assert (world.reboots, world.master()["Updated"]["status"]) == ([], "True")


def test_a_node_of_two_custom_pools_gets_no_config_and_is_told_once(world: World) -> None:
    for name in ("gpu", "infra"):
        custom = machineconfig.machine_config_pool("worker")
        custom["metadata"] = {"name": name, "uid": "u"}
        custom["spec"]["nodeSelector"] = {"matchLabels": {f"node-role.kubernetes.io/{name}": ""}}
        world.api.create(custom)
    node = world.api.objects["Node", "", "m2"]
    node["metadata"]["labels"] = {f"node-role.kubernetes.io/{role}": "" for role in ("worker", "gpu", "infra")}
    world.turn(3)
    [event] = [e for e in world.api.all("Event") if e["reason"] == "SeveralPools"]
    assert event["message"] == "node m2 belongs to 2 custom roles (gpu, infra), cannot proceed with it"
    assert world.notes("m2")[pools.DESIRED] == world.first


def test_drift_is_told_and_mended_by_hand_or_by_force(world: World) -> None:
    world.turn()
    file = world.hosts["m1"].at("/etc/kubernetes/kubelet.conf")
    kept = file.read_text()
    file.write_text("other")
    world.turn(2)
    text = f'unexpected on-disk state validating against {world.first}: content mismatch for file "/etc/kubernetes/'
    assert world.notes("m1")[pools.STATE] == "Degraded"
    assert world.notes("m1")[pools.REASON].startswith(text)
    assert text in world.master()["Degraded"]["message"]
    file.write_text(kept)
    world.turn(2)
    assert (world.notes("m1")[pools.STATE], world.notes("m1")[pools.REASON]) == ("Done", "")
    file.write_text("other")
    world.turn(2)
    force = world.hosts["m1"].at(changes.FORCE_FILE)
    force.parent.mkdir(parents=True)
    force.touch()
    world.turn(6)
    assert (file.read_text(), world.reboots) == (kept, ["m1"])
    assert (world.notes("m1")[pools.STATE], force.exists()) == ("Done", False)


def test_a_node_with_drift_is_given_no_further_config(world: World) -> None:
    world.turn()
    file = world.hosts["m0"].at("/etc/kubernetes/kubelet.conf")
    file.write_text("other")
    world.add("99-late", FILE)
    world.turn(6)
    assert world.notes()[pools.REASON].startswith(f"unexpected on-disk state validating against {world.first}")
    assert (file.read_text(), world.hosts["m0"].at(FILE["path"]).exists(), world.reboots) == ("other", False, [])


def test_a_node_that_cannot_be_written_is_left_as_it_was(world: World) -> None:
    for host in world.hosts.values():
        host.at("/etc/a").write_text("a file where a folder has to be")
    world.add("99-late", ignition.file("/etc/0", "x"), FILE)
    world.turn(12)
    assert [world.notes(name)[pools.STATE] for name in world.daemons] == ["Degraded", "Done", "Done"]
    assert not world.hosts["m0"].at("/etc/0").exists()
    assert world.reboots == []
    world.hosts["m0"].at("/etc/a").unlink()
    world.hosts["m1"].at("/etc/a").unlink()
    world.hosts["m2"].at("/etc/a").unlink()
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]


def test_a_file_in_a_directory_s_place_is_taken_back_and_forgotten_with_its_config(world: World) -> None:
    for host in world.hosts.values():
        host.at("/etc/dir").mkdir()
    world.add("99-late", ignition.file("/etc/0", "x"), ignition.file("/etc/dir", "x"))
    world.turn(12)
    assert [world.notes(name)[pools.STATE] for name in world.daemons] == ["Degraded", "Done", "Done"]
    assert "Is a directory" in world.notes()[pools.REASON]
    assert not [p for name in ("0", ".dir.mcd") if (p := world.hosts["m0"].at(f"/etc/{name}")).exists()]
    world.remove("99-late")
    world.turn(12)
    assert (world.notes()[pools.STATE], world.reboots) == ("Done", [])
    assert world.hosts["m0"].at("/etc/dir").is_dir()


def test_a_file_that_no_reboot_leaves_degrades_its_node_until_its_config_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.hosts["m0"], "boot_id", lambda: _booted(world.hosts["m0"]))
    world.add("99-late", ignition.file("/run/lost", "x"))
    world.turn(12)
    assert (world.notes()[pools.STATE], world.reboots) == ("Degraded", ["m0"])
    assert 'could not stat file "/run/lost"' in world.notes()[pools.REASON]
    world.remove("99-late")
    world.turn(12)
    assert (world.notes()[pools.STATE], world.reboots) == ("Done", ["m0", "m0"])
    assert (world.notes()[pools.CURRENT], world.master()["Updated"]["status"]) == (world.first, "True")
    assert not world.api.objects["Node", "", "m0"]["spec"].get("unschedulable")


def _booted(host: Folder) -> str:
    """Return the id of a node's boot, whose /run is empty after each reboot."""
    if host.boot.endswith("'"):
        host.at("/run/lost").unlink(missing_ok=True)
    return host.boot


def test_a_daemon_that_was_ended_half_way_goes_on_or_takes_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def end(*_: object) -> None:
        raise Ended

    for wanted in (True, False):
        world.add("99-late", FILE)
        with monkeypatch.context() as patch:
            patch.setattr(world.hosts["m0"], "_units", end)
            with pytest.raises(Ended):
                world.turn(12)
        assert world.hosts["m0"].at("/etc/a/b.conf").exists(), "half of it is there"
        if wanted:
            world.turn(30)
            assert world.reboots == ["m0", "m1", "m2"]
        world.remove("99-late")
        world.turn(30)
        assert not world.hosts["m0"].at("/etc/a/b.conf").exists(), world.notes()
        assert {world.notes(name)[pools.STATE] for name in world.daemons} == {"Done"}
        assert world.master()["Updated"]["status"] == "True"


def test_a_number_of_nodes_that_is_none_holds_up_its_pool_alone(world: World) -> None:
    world.api.objects["MachineConfigPool", "", "worker"]["spec"]["maxUnavailable"] = "x"
    world.add("99-late", FILE)
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]
    [told] = [p["status"]["conditions"] for p in world.pools() if p["metadata"]["name"] == "worker"]
    assert "maxUnavailable: 'x'" in next(c["message"] for c in told if c["type"] == "RenderDegraded")


OTHER_OS = "r.example/n@sha256:other"


def test_another_machine_os_comes_node_by_node_and_goes_again(world: World) -> None:
    world.turn(3)
    assert world.reboots == []
    first, world.os_image = world.os_image, OTHER_OS
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]
    assert world.booted() == [f"ostree-unverified-registry:{OTHER_OS}"] * 3
    assert world.master()["Updated"]["status"] == "True"
    world.os_image = first
    world.turn(30)
    assert len(world.reboots) == 6
    assert {world.notes(name)[pools.CURRENT] for name in world.daemons} == {world.first}


def test_a_machine_os_that_does_not_come_up_degrades_the_pool_and_stops_there(world: World) -> None:
    world.turn(3)
    world.hosts["m0"].broken_os = "other"
    first, world.os_image = world.os_image, OTHER_OS
    world.turn(30)
    assert world.reboots == ["m0"]
    degraded = world.master()["Degraded"]
    assert degraded["status"] == "True"
    assert f'expected target osImageURL "{OTHER_OS}", have "{first}" (1); rolled back: 3 boots' in degraded["message"]
    world.os_image = first
    world.turn(30)
    assert world.master()["Degraded"]["status"] == "False"
    assert world.master()["Updated"]["status"] == "True"
    assert set(world.reboots) == {"m0"}, "the others never left"


def test_the_power_goes_before_the_new_machine_os_could_be_booted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.turn(3)
    world.os_image = OTHER_OS
    with monkeypatch.context() as patch:
        patch.setattr(Deployments, "reboot", lambda *_: None)
        world.turn(8)
        assert world.booted() == ["", "", ""]
    world.start("m0")
    world.turn(30)
    assert world.reboots == ["m0", "m1", "m2"]
    assert world.master()["Updated"]["status"] == "True"


def test_a_node_that_was_installed_with_an_older_machine_os_gets_the_release_s(world: World) -> None:
    world.hosts["m1"].os[0]["version"] = "0"
    world.turn(20)
    assert world.reboots == ["m1"]
    assert world.booted() == ["", f"ostree-unverified-registry:{world.os_image}", ""]
