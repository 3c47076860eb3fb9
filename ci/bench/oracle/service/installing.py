"""What both services have hosts do from `actions/install` on: steps of preparing, and the install step, by field."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ci.bench.oracle.service import drive
from ci.bench.oracle.service.hosts import Host, disk, nic
from ci.bench.oracle.service.programs import AGENT_IMAGE, Api
from ci.bench.oracle.service.worlds import TOPOLOGIES, World
from installer.testing.service.words_kit import Scheme, StepType
from lab.waiting import wait_until

DEADLINE_S = 240.0
#: Fields that differ for a reason (docs/rendezvous.md), or since neither has a release to read here.
OWN = frozenset({"installation_attempt", "check_cvo", "mco_image", "must_gather_image"})


def _multipath(hosts: list[Host]) -> None:
    for one in hosts:
        one.inventory["disks"] = [
            disk(0, name="dm-0", path="/dev/dm-0", drive_type="Multipath"),
            disk(1, name="sdb", path="/dev/sdb", drive_type="FC", holders="dm-0"),
        ]


def _iscsi(hosts: list[Host]) -> None:
    for one in hosts:
        address = f"192.168.222.{9 + one.number}"
        one.inventory["interfaces"].append(nic(7, f"52:54:00:07:00:{one.number:02x}", [f"{address}/24"]))
        one.inventory["disks"] = [disk(0, drive_type="iSCSI") | {"iscsi": {"host_ip_address": address}}]


def bootable(hosts: list[Host]) -> None:
    """Give hosts a disk to install on and bootable ones: plain, removable, iSCSI and the installation media."""
    for one in hosts:
        kinds: list[dict[str, Any]] = [
            {},
            {"removable": True},
            {"drive_type": "iSCSI"},
            {"is_installation_media": True},
        ]
        more = [disk(n, name=f"sd{n}", path=f"/dev/sd{n}", bootable=True, **kind) for n, kind in enumerate(kinds, 1)]
        one.inventory["disks"] = [disk(0), *more]


#: Topology, a change of its hosts, and what a PATCH gives to the cluster, or its hosts' installer arguments.
CASES: Sequence[tuple[str, Callable[[list[Host]], None] | None, Any]] = (
    *((name, None, None) for name in ("sno", "sno-ipv6", "sno-dual", "compact-roles", "ha-roles", "dual", "ipv6")),
    *((name, None, None) for name in ("arbiter", "fencing", "vsphere", "nutanix")),
    *(("compact", change, None) for change in (_multipath, _iscsi)),
    ("sno", bootable, None),
    ("compact", None, {"http_proxy": "http://p.example:3128", "no_proxy": "a.example"}),
    ("compact", None, {"additional_ntp_source": "a.example"}),
    ("compact", None, ["--append-karg", "a=b", "--save-partlabel", "d*"]),
    ("sno", None, ["--append-karg", "ip=enp1s0:dhcp"]),
)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class _Case:
    """One cluster of one service on its way into the installation."""

    def __init__(self, api: Api, number: int) -> None:
        kind, change, more = CASES[number]
        cluster, hosts = TOPOLOGIES[kind]()
        if change is not None:
            change(hosts)
        self._api, self._hosts = api, hosts
        self._world = World(f"installing {number} {kind}", cluster, hosts, more if isinstance(more, dict) else None)
        self._played = drive.play(api, self._world)
        for one in hosts if isinstance(more, list) else ():
            api.ask("PATCH", f"{self._path(one)}/installer-args", {"args": more})

    def _path(self, one: Host) -> str:
        return f"/infra-envs/{self._played.infra_env_id}/hosts/{drive.host_id(self._world, one.number)}"

    def _is_ready(self) -> bool:
        return drive.seen(self._api, self._played).get("status") == "ready"

    def step_arguments(self) -> dict[str, dict[str, Any]]:
        """The arguments of each kind of step, by host and kind. Raises TimeoutError."""
        name = f"{self._api.name}: {self._world.name}"
        wait_until(self._is_ready, DEADLINE_S, f"{name} is ready", poll=1.0)
        install = f"/clusters/{self._played.cluster_id}/actions/install"
        self._api.ask("POST", install)
        requests: dict[str, dict[str, Any]] = {}

        def are_told() -> bool:
            if self._is_ready():  # preparing has failed (programs.theirs)
                self._api.ask("POST", install)
            for one in self._hosts:
                self._steps(one, requests)
            return sum(name.endswith(f" {StepType.INSTALL}") for name in requests) == len(self._hosts)

        wait_until(are_told, DEADLINE_S, f"{name}: an install step for each host", poll=1.0)
        # Among hosts that are alike, the first row of a database decides there which one begins.
        roles = [step.pop("role") for name, step in requests.items() if name.endswith(f" {StepType.INSTALL}")]
        return {**requests, f"of all {StepType.INSTALL}": {"roles": sorted(roles)}}

    def _steps(self, one: Host, arguments: dict[str, dict[str, Any]]) -> None:
        target = f"{self._path(one)}/instructions"
        headers = {"discovery_agent_version": AGENT_IMAGE}
        query = f"{target}?timestamp={int(time.time())}"
        answer = self._api.ask("GET", query, scheme=Scheme.AGENT, headers=headers).body or {}
        for step in answer.get("instructions") or []:
            kind, args = step["step_type"], [_decoded(text) for text in step.get("args") or []]
            output: Any = None
            if kind == StepType.IMAGES:
                output = {"images": [{"name": image, "result": "success"} for image in args[0].pop("images")]}
            elif kind == StepType.DISK_SPEED:
                output = {"path": args[0]["path"], "io_sync_duration": 1}
            elif kind != StepType.INSTALL:
                continue
            arguments[f"{one.number} {kind}"] = {"args": args} if kind != StepType.INSTALL else self._plain(args[0])
            if output is not None:
                body = {"step_type": kind, "step_id": step["step_id"], "exit_code": 0, "output": json.dumps(output)}
                self._api.ask("POST", target, body, scheme=Scheme.AGENT)

    def _plain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Without the ids of this cluster, and without what Go leaves out when it is empty."""
        ids = (self._played.cluster_id, self._played.infra_env_id)
        return {key: value for key, value in request.items() if value not in (*ids, None, False, "", [])}


def compared(theirs: Api, ours: Api) -> tuple[list[tuple[str, str]], list[str]]:
    """Rows of a table, and a line for each field that differs."""
    numbers = range(len(CASES))
    with ThreadPoolExecutor(8) as pool:
        left = pool.map(lambda number: _Case(theirs, number).step_arguments(), numbers)
        right = pool.map(lambda number: _Case(ours, number).step_arguments(), numbers)
        pairs = list(zip(numbers, left, right, strict=True))
    counts: dict[str, list[int]] = {}
    lines = []
    for number, one, other in pairs:
        for name in sorted(one.keys() | other.keys()):
            mine, his = other.get(name, {}), one.get(name, {})
            for key in sorted((mine.keys() | his.keys()) - OWN):
                equal = mine.get(key) == his.get(key)
                counts.setdefault(name.split(" ")[-1], []).append(equal)
                if not equal:
                    lines.append(f"{CASES[number][0]}, host {name}: {key}: {his.get(key)} there, {mine.get(key)} here")
    rows = [
        (f"{kind}, fields", f"{sum(same):6} of {len(same):6} ({100 * sum(same) / len(same):5.1f} %)")
        for kind, same in counts.items()
    ]
    return rows, lines
