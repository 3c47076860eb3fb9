"""An installation that nobody wants any more ends where the host hears of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from installer.orchestrator import flow
from installer.testing.orchestrator_kit import Site


def refusing(site: Site, refused: Callable[[dict[str, str]], bool], status: int = 409, hosts: int = 200) -> None:
    """Let the service take no progress from the first report on that fits; ``hosts``: its answer when asked why."""
    answer, over = site.service.answer, False

    def scripted(method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        nonlocal over
        if path.endswith("/progress"):
            over = over or refused(json.loads(body))
            return (status, b'{"reason": "scripted refusal"}') if over else (200, b"")
        if path == "/clusters/c/hosts" and hosts != 200:
            return hosts, b'{"reason": "scripted refusal"}'
        return answer(method, path, query, body)

    site.service.answer = scripted  # type: ignore[method-assign]


WRITERS = ("dd", "wipefs", "vgremove", "coreos-installer", "systemd-run")


@pytest.mark.parametrize("role", ["sno", "bootstrap", "master", "arbiter", "worker"])
@pytest.mark.parametrize("status", ["cancelled", "resetting-pending-user-action", "known", "error"])
def test_what_nobody_wants_any_more_writes_nothing(machine: Site, role: str, status: str) -> None:
    machine.service.hosts = [{"id": "other", "status": "installing"}, {"id": "h", "status": status}]
    refusing(machine, lambda body: True)
    run = machine.run("bootstrap" if role == "sno" else role, 1 if role == "sno" else 3, format_disks=["/dev/vdx"])
    assert flow.execute(run) == 1
    assert [name for name in WRITERS if machine.timeline.argv(name)] == []
    # Not that it failed, either: nobody would take that.
    assert [stage for stage, _ in machine.timeline.stages()] == ["Starting installation"]


@pytest.mark.parametrize(("stage", "written"), [("Writing image to disk", 0), ("Rebooting", 1)])
def test_it_ends_where_it_hears_of_it(machine: Site, stage: str, written: int) -> None:
    machine.service.hosts = []
    refusing(machine, lambda body: body["current_stage"] == stage, 404)
    assert flow.execute(machine.run("master", 3)) == 1
    assert len(machine.timeline.argv("coreos-installer")) == written
    assert machine.timeline.argv("systemd-run") == []
    assert machine.timeline.stages()[-1] == (stage, "")


def test_writing_ends_when_it_is_heard_of_meanwhile(machine: Site) -> None:
    machine.programs.add("coreos-installer", "echo 'Read disk (50%)'; sleep 600")
    machine.service.hosts = [{"id": "h", "status": "cancelled"}]
    refusing(machine, lambda body: body["progress_info"] == "50%")
    assert flow.execute(machine.run("master", 3)) == 1
    assert len(machine.timeline.argv("coreos-installer")) == 1
    assert machine.timeline.stages()[-1] == ("Writing image to disk", "50%")


def test_another_attempt_has_begun(machine: Site) -> None:
    refusing(machine, lambda body: True, hosts=409)
    assert flow.execute(machine.run("master", 3)) == 1
    assert machine.timeline.argv("coreos-installer") == []


def test_a_failure_that_nobody_wants_to_hear_of(machine: Site) -> None:
    machine.programs.fails("coreos-installer")
    machine.service.hosts = [{"id": "h", "status": "cancelled"}]
    refusing(machine, lambda body: body["current_stage"] == "Failed")
    assert flow.execute(machine.run("master", 3)) == 1
    assert machine.timeline.stages()[-1][0] == "Failed"


@pytest.mark.parametrize("hosts", [200, 503, 401])
def test_a_stage_out_of_place_ends_nothing(machine: Site, hosts: int) -> None:
    """The service wants this host installed, or does not say."""
    refusing(machine, lambda body: body["current_stage"] == "Installing", hosts=hosts)
    assert flow.execute(machine.run("master", 3)) == 0
    assert len(machine.timeline.argv("coreos-installer")) == 1
