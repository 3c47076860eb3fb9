"""MachineConfigs after the installation: rolled out while an application is used, refused, held up by a
PodDisruptionBudget, and taken back."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, all_is_well
from scenarios.testing.workload import NAMESPACE, deploy, host_of, ready_on

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

ANY = params(lambda row: row.thorough)
COMPACT = params(lambda row: row.thorough and row.topology.startswith("compact-"))
PREFIX = "machineconfiguration.openshift.io"
#: For three nodes with reboots, a file alone having changed.
ROLLOUT_SECONDS = 120
#: Within which a pool has to say what is wrong, and until which nothing else may have happened.
TELL_SECONDS = 90
PERIOD_SECONDS, REQUEST_SECONDS = 0.5, 5.0
UNIT = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"


def machine_config(name: str, role: str, config: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a MachineConfig, its Ignition config without the version."""
    return {
        "apiVersion": f"{PREFIX}/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {f"{PREFIX}/role": role}},
        "spec": {"config": {"ignition": {"version": "3.2.0"}, **(config or {})}, **spec},
    }


def file(path: str, text: str, mode: int = 0o644) -> dict[str, Any]:
    """Return a file of an Ignition config."""
    source = "data:;base64," + base64.b64encode(text.encode()).decode()
    return {"path": path, "mode": mode, "contents": {"source": source}}


def apply(installation: Installation, *objects: dict[str, Any]) -> None:
    """Apply objects by kubectl."""
    place = installation.lab.layout.root / "applied.json"
    place.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    installation.kubectl("apply", "-f", str(place))


def pool(installation: Installation, name: str = "master") -> tuple[str, dict[str, tuple[str, str]]]:
    """Return the config that all of a pool's nodes have run last, and its conditions: status and message by type."""
    found = installation.kubectl_json("get", "machineconfigpool", name)["status"]
    conditions = {c["type"]: (c["status"], c.get("message", "")) for c in found["conditions"]}
    return found["configuration"]["name"], conditions


def rolled_out(installation: Installation, before: str, seconds: float, what: str) -> None:
    """Wait until the pool has another config than before, and all its nodes run it."""

    def there() -> bool:
        try:
            name, conditions = pool(installation)
        except AssertionError:  # the API of one node reboots with it
            return False
        return name != before and conditions["Updated"][0] == "True"

    with installation.lab.phase(what):
        wait_until(there, seconds, what)


def as_root(installation: Installation, node: str, script: str) -> str:
    """Return the output of a script on a node; its failure fails the test."""
    done = installation.lab.nodes[node].ssh().run(f"sudo sh -ec '{script}'")
    assert done.rc == 0, f"{node}: {script}: {done.stderr}"
    return str(done.stdout).strip()


class Reader:
    """A thread that asks the application's Route each PERIOD_SECONDS, each time by a new connection."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._url = f"https://{host_of(installation)}/"
        self._ca = installation.lab.layout.root / "reader-ca.crt"
        self._ca.write_text(installation.ca_bundle)
        self._stop = threading.Event()
        self.answered = 0
        self.failed: list[str] = []

    def run(self) -> None:
        """Ask until the end."""
        start = time.monotonic()
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with requests.Session() as session:
                    session.trust_env, session.verify = False, str(self._ca)
                    session.get(self._url, timeout=REQUEST_SECONDS).raise_for_status()
                self.answered += 1
            except requests.RequestException as error:
                self.failed.append(f"{began - start:.1f} s: {error}")
            self._stop.wait(max(PERIOD_SECONDS - (time.monotonic() - began), 0))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Ask for the length of the block."""
        thread = threading.Thread(target=self._installation.lab.inside, args=(self.run,), name="reader", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(4 * REQUEST_SECONDS)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_machineconfig_with_a_file_and_a_unit_comes_with_a_reboot_and_goes_with_another(
    installation: Installation,
) -> None:
    boots, nodes = installation.ready_boots(), [spec.name for spec in installation.topology.masters]
    first, conditions = pool(installation)
    assert conditions["Updated"][0] == "True", conditions
    unit = {"name": "late.service", "enabled": True, "contents": UNIT}
    config = {"storage": {"files": [file("/etc/late.conf", "late\n", 0o640)]}, "systemd": {"units": [unit]}}
    apply(installation, machine_config("99-late", "master", config, kernelArguments=["late=1"]))
    rolled_out(installation, first, BACK_SECONDS, "a file, a unit and a kernel argument")
    all_is_well(installation, boots, set(nodes))
    for name in nodes:
        assert as_root(installation, name, "stat -c %a /etc/late.conf; cat /etc/late.conf") == "640\nlate"
        assert as_root(installation, name, "systemctl is-active late.service") == "active"
        assert " late=1" in as_root(installation, name, "cat /proc/cmdline")
    boots, (second, _) = installation.ready_boots(), pool(installation)
    installation.kubectl("delete", "machineconfig", "99-late")
    rolled_out(installation, second, BACK_SECONDS, "the config as it was")
    all_is_well(installation, boots, set(nodes))
    assert pool(installation)[0] == first
    for name in nodes:
        assert as_root(installation, name, "ls -d /etc/late.conf /etc/systemd/system/late.service || true") == ""
        assert "late=1" not in as_root(installation, name, "cat /proc/cmdline")


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_machineconfig_with_keys_alone_needs_no_reboot(installation: Installation) -> None:
    boots, (first, _) = installation.ready_boots(), pool(installation)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILateLateLateLateLateLateLateLateLateLateLate late"
    apply(
        installation,
        machine_config("99-key", "master", {"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]}}),
    )
    rolled_out(installation, first, TELL_SECONDS, "a key")
    for spec in installation.topology.masters:
        keys = as_root(
            installation, spec.name, "cat /home/core/.ssh/authorized_keys* /home/core/.ssh/authorized_keys.d/* || true"
        )
        assert key in keys
    second, _ = pool(installation)
    installation.kubectl("delete", "machineconfig", "99-key")
    rolled_out(installation, second, TELL_SECONDS, "no such key")
    assert installation.ready_boots() == boots


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_what_a_machineconfig_asks_for_in_vain_is_told_and_changes_no_node(installation: Installation) -> None:
    boots, (first, _) = installation.ready_boots(), pool(installation)
    wrong = machine_config("98-wrong", "master", {"storage": {"files": [{**file("/etc/x", "x"), "colour": "red"}]}})
    more = machine_config("99-wrong", "master", None, extensions=["usbguard"])
    apply(installation, wrong, more)
    words = ("98-wrong", "unknown field `colour`", "99-wrong", "spec.extensions")
    wait_until(
        lambda: all(word in pool(installation)[1]["RenderDegraded"][1] for word in words),
        TELL_SECONDS,
        "the pool to say what is wrong",
        lambda: pool(installation)[1],
    )
    wait_until(lambda: "machine-config" in installation.unwell_operators(), TELL_SECONDS, "the operator to say so")
    installation.kubectl("delete", "machineconfig", "98-wrong", "99-wrong")
    wait_until(lambda: installation.unwell_operators() == [], TELL_SECONDS, "all to be well again")
    assert pool(installation)[0] == first
    assert installation.ready_boots() == boots


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_file_that_somebody_changed_is_found_and_told(installation: Installation) -> None:
    node, place = installation.topology.masters[-1].name, "/etc/sysctl.d/99-kubernetes.conf"
    as_root(installation, node, f"cp -p {place} /root/kept; echo x >> {place}")

    def says(kind: str) -> tuple[str, str]:
        return pool(installation)[1][kind]

    text = f'content mismatch for file "{place}"'
    wait_until(
        lambda: text in says("NodeDegraded")[1], TELL_SECONDS, "the pool to say so", lambda: says("NodeDegraded")
    )
    as_root(installation, node, f"cp -p /root/kept {place}")
    wait_until(
        lambda: says("Degraded")[0] == "False", TELL_SECONDS, "the pool to be well again", lambda: says("Degraded")
    )


@pytest.mark.parametrize("installation", COMPACT, indirect=True)
def test_a_machineconfig_takes_no_answer_of_a_service_with_a_budget(installation: Installation) -> None:
    """Three nodes one after the other, a file alone having changed."""
    boots, (first, _) = installation.ready_boots(), pool(installation)
    deploy(installation)
    reader = Reader(installation)
    with reader.reading():
        wait_until(lambda: reader.answered > 5, 30, "the first answers", lambda: reader.failed[-3:])
        began = time.monotonic()
        apply(installation, machine_config("99-late", "master", {"storage": {"files": [file("/etc/late.conf", "x")]}}))
        rolled_out(installation, first, BACK_SECONDS, "a file on three nodes")
        took = time.monotonic() - began
    print(f"{took:.0f} s, {reader.answered} answers, {len(reader.failed)} failed: {reader.failed[:5]}")
    all_is_well(installation, boots, set(boots))
    wait_until(lambda: len(ready_on(installation)) == 3, BACK_SECONDS, "three replicas again")
    assert reader.failed == []
    assert took <= ROLLOUT_SECONDS
    second, _ = pool(installation)
    with installation.lab.phase("a budget that lets nobody go"):
        budget = {"spec": {"minAvailable": 3}}
        words = ("-n", NAMESPACE, "patch", "poddisruptionbudget", "notes", "--type=merge", "-p")
        installation.kubectl(*words, json.dumps(budget))
        installation.kubectl("delete", "machineconfig", "99-late")
        wait_until(
            lambda: "disruption budget" in pool(installation)[1]["Updating"][1],
            TELL_SECONDS,
            "the pool to say what holds it up",
            lambda: pool(installation)[1]["Updating"],
        )
        installation.kubectl(*words, json.dumps({"spec": {"minAvailable": 2}}))
    rolled_out(installation, second, BACK_SECONDS, "the config as it was")
    assert pool(installation)[0] == first
    installation.kubectl("delete", "namespace", NAMESPACE)
