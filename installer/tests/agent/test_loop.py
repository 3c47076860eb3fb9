"""The agent's loop: registration, polls, which answers are sent, and that the service gets those it waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.agent import loop, steps
from installer.agent.errors import MediaLost, Refused, StepError
from installer.agent.loop import REPEATED, Agent, Deduper
from installer.agent.swarm import command as swarm
from installer.agent.swarm.host import SimulatedHost, Site
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.assisted.enums import StepType
from installer.assisted.errors import ClientError
from installer.hostsys.system import HostSystem
from installer.rendezvous.steps import instructions as service_steps
from installer.testing.agent_kit import AGENT, FakeClient
from installer.testing.service.rendezvous_kit import Running, running, wait_for

NOWHERE = HostSystem(Path("/nonexistent"))
LOST = ClientError("x", None, "refused")
Sleep = Callable[[float], None]


def agent_with(
    client: Any, pauses: list[float] | None = None, sleep: Sleep | None = None, **table: steps.Step
) -> Agent:
    """Return an agent of a host without media; its steps are those of ``table``, with dashes for underscores."""
    wait = sleep or (pauses.append if pauses is not None else (lambda seconds: None))
    by_step = {name.replace("_", "-"): step for name, step in table.items()} or steps.TABLE
    return Agent(steps.StepContext(host=NOWHERE, agent=AGENT, client=client, table=by_step), 1.0, wait)


def work(agent: Agent, kind: str, *args: str, times: int = 1, number: int = 1) -> None:
    """Let the agent do a step, one time after the other, to the end; the service names it by that number."""
    for _ in range(times):
        thread = agent.start({"step_type": kind, "step_id": f"{kind}-{number}", "args": list(args)})
        assert thread is not None
        thread.join(30)
        assert not thread.is_alive()


def says(*outputs: str | Exception) -> steps.Step:
    """Return a step that answers these in turn, the last one for ever."""
    left = list(outputs)

    def step(context: Any, args: list[str]) -> str:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return step


def answers(client: FakeClient) -> list[tuple[str, int, str]]:
    """(type, exit code, output) of the answers that were sent."""
    return [(b["step_type"], b["exit_code"], b["output"]) for _, b in client.calls if b and "step_type" in b]


def test_registration_retries_and_gives_up_where_told() -> None:
    client = FakeClient(LOST, ClientError("x", 500, "boom"), {})
    pauses: list[float] = []
    agent_with(client, pauses).register()
    assert (len(client.calls), pauses) == (3, [1.0, 1.0])
    assert client.calls[-1] == ("POST", {"host_id": "h", "discovery_agent_version": "agent@sha256:1"})
    for status in (401, 403, 404, 409):
        with pytest.raises(Refused) as caught:
            agent_with(FakeClient(ClientError("x", status, "no"))).register()
        assert (caught.value.status, caught.value.reason) == (status, "no")


def test_poll_backs_off_and_freezes_on_404(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.random, "uniform", lambda low, high: high)
    pauses: list[float] = []
    assert agent_with(FakeClient(*[LOST] * 14, {"a": 1}), pauses).poll() == {"a": 1}
    # Each half as long again as the one before, up to a minute; the draw is half more at most.
    wanted = [min(0.5 * 1.5**number, 60.0) * 1.5 for number in range(14)]
    assert pauses == pytest.approx(wanted)
    with pytest.raises(Refused):
        agent_with(FakeClient(ClientError("x", 404, "gone"))).poll()
    assert agent_with(FakeClient(["no object"])).poll() == {}


def test_poll_ends_after_a_quarter_of_an_hour_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    client = FakeClient(*[LOST] * 1000)
    assert agent_with(client, sleep=sleep).poll() is None
    assert 15 * 60 < now[0] - 1000.0 < 15 * 60 + 90


class Instructing(FakeClient):
    """Its answers are for polls alone."""

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return super().call(method, path, body, **options) if method == "GET" else None


def test_instructions_are_followed_until_told_to_exit() -> None:
    pauses: list[float] = []
    done: list[str] = []

    def step(context: Any, args: list[str]) -> str:
        done.append(args[0])
        return ""

    asked = {"step_type": "probe", "step_id": "p", "args": ["a"]}
    first = {"instructions": [asked], "post_step_action": "continue", "next_instruction_seconds": 7}
    short = {"instructions": None, "next_instruction_seconds": None}
    last = {"instructions": [{**asked, "args": ["b"]}], "post_step_action": "exit", "next_instruction_seconds": 60}
    client = Instructing(first, short, last)
    agent_with(client, pauses, probe=step).serve()
    wait_for("both steps to be done", lambda: sorted(done) == ["a", "b"], 30)
    # The service is left a moment, however soon it wants to be asked again.
    assert pauses == [7.0, 0.2]
    assert len(client.calls) == 3


def test_a_service_that_was_away_for_long_is_registered_with_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "GIVE_UP", -1.0)
    client = FakeClient({}, LOST, {}, ClientError("x", 404, "gone"))
    with pytest.raises(Refused, match="gone"):
        agent_with(client).run()
    assert [method for method, _ in client.calls] == ["POST", "GET", "POST", "GET"]


def test_a_question_that_changed_while_it_was_answered_is_answered_again() -> None:
    going, seen = threading.Event(), []

    def slow(context: Any, args: list[str]) -> str:
        seen.append(args)
        assert going.wait(10)
        return str(args)

    client = FakeClient()
    agent = agent_with(client, connectivity_check=slow)
    first = agent.start({"step_type": "connectivity-check", "step_id": "1", "args": ["a"]})
    assert first is not None
    for args in (["a"], ["b"], ["c"]):
        assert agent.start({"step_type": "connectivity-check", "step_id": "x", "args": args}) is None
    going.set()
    wait_for("the last question to be answered", lambda: len(client.calls) == 2, 10)
    assert seen == [["a"], ["c"]]


def test_the_same_state_is_sent_once_until_something_has_changed() -> None:
    client = FakeClient()
    agent = agent_with(client, inventory=says("A", "A", "A", "B", "B", "A"))
    work(agent, "inventory", times=6)
    assert [output for _, _, output in answers(client)] == ["A", "B", "A"]


def test_the_same_answer_to_another_question_is_sent() -> None:
    client = FakeClient()
    agent = agent_with(client, verify_vips=says("same"))
    for args in (["a"], ["a"], ["b"], ["b"], ["a"]):
        work(agent, "verify-vips", *args)
    assert len(answers(client)) == 3


@pytest.mark.parametrize("kind", sorted({*StepType} - REPEATED))
def test_what_is_asked_for_once_is_always_answered(kind: StepType) -> None:
    """A preparation that is begun again, an installation, its logs: the service waits for each answer."""
    client = FakeClient()
    work(agent_with(client, **{kind.value.replace("-", "_"): says("same")}), kind.value, times=3)
    assert answers(client) == [(kind.value, 0, "same")] * 3


def test_only_what_the_service_repeats_by_itself_is_suppressed() -> None:
    """Steps that the service hands out once go unsent only where it has stored the answer already."""
    assert {StepType.FREE_ADDRESSES} == REPEATED & service_steps.ONCE
    assert {*service_steps.ON_CHANGE, StepType.INVENTORY, StepType.NTP} == REPEATED


@pytest.mark.parametrize(
    ("failure", "code"), [(StepError("it failed", 7), 7), (MediaLost("gone"), 256), (OSError("I/O"), -1)]
)
def test_what_was_good_before_a_failure_is_news_after_it(failure: Exception, code: int) -> None:
    client = FakeClient()
    agent = agent_with(client, inventory=says("A", failure, failure, "A", "A"))
    work(agent, "inventory", times=5)
    assert [(c, output) for _, c, output in answers(client)] == [(0, "A"), (code, ""), (code, ""), (0, "A")]


def test_a_lost_medium_makes_every_answer_news() -> None:
    """It stands against the whole host, until any of its steps has succeeded: another step may be asked for next."""
    client = FakeClient()
    lost, other = says("A", MediaLost("gone"), "A"), says("B")
    agent = agent_with(client, connectivity_check=lost, inventory=other)
    for kind in ("inventory", "connectivity-check", "connectivity-check", "inventory"):
        work(agent, kind)
    assert [(c, output) for _, c, output in answers(client)] == [(0, "B"), (0, "A"), (256, ""), (0, "B")]
    client.calls.clear()
    agent = agent_with(client, connectivity_check=says("A", StepError("slow")), inventory=says("B"))
    for kind in ("inventory", "connectivity-check", "connectivity-check", "inventory"):
        work(agent, kind)
    assert [(c, output) for _, c, output in answers(client)] == [(0, "B"), (0, "A"), (-1, "")]


def test_registration_and_a_service_that_was_away_forget_what_was_sent() -> None:
    client = FakeClient()
    agent = agent_with(client, inventory=says("A"))
    for _ in range(2):
        agent.register()
        work(agent, "inventory", times=2)
    assert len(answers(client)) == 2
    client.answers = [LOST, {}]
    agent.poll()
    work(agent, "inventory", times=2)
    assert len(answers(client)) == 3


def test_an_answer_sent_during_a_registration_is_sent_again() -> None:
    """The service may forget it after it has taken it, before this agent has heard that it was taken."""
    agent: Agent

    class Overtaken(FakeClient):
        def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
            answer = super().call(method, path, body, **options)
            if body and "step_type" in body and len(answers(self)) == 1:
                agent.register()
            return answer

    client = Overtaken()
    agent = agent_with(client, inventory=says("A"))
    work(agent, "inventory", times=3)
    assert len(answers(client)) == 2


def test_what_the_service_has_forgotten_is_sent_again() -> None:
    """A registration that came twice or late, of which this agent does not know, made it forget."""
    client = FakeClient()
    agent = agent_with(client, inventory=says("A"))
    for number in (1, 1, 2, 2):
        work(agent, "inventory", number=number)
    assert len(answers(client)) == 2


def test_an_answer_that_does_not_arrive_is_sent_again_and_not_taken_for_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    client = FakeClient(*[LOST] * 1000)
    agent = agent_with(client, sleep=sleep, inventory=says("A"))
    work(agent, "inventory")
    # It is asked for again a minute later.
    assert 30 < now[0] < 60
    client.answers.clear()
    tried = len(client.calls)
    work(agent, "inventory", times=2)
    assert len(client.calls) == tried + 1


@pytest.mark.parametrize("status", [None, 500, 503, 408, 425, 429])
def test_what_the_service_waits_for_is_sent_until_it_is_taken(status: int | None) -> None:
    pauses: list[float] = []
    client = FakeClient(*[ClientError("x", status, "away")] * 5)
    agent = agent_with(client, pauses, container_image_availability=says("images"))
    work(agent, "container-image-availability")
    assert answers(client) == [("container-image-availability", 0, "images")] * 6
    assert len(pauses) == 5
    assert all(0.25 <= pause <= 0.5 * 1.5**5 for pause in pauses)
    assert pauses[4] > pauses[0]


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 422])
def test_an_answer_that_is_refused_is_not_sent_again(status: int) -> None:
    client = FakeClient(ClientError("x", status, "no"))
    work(agent_with(client, install=says(StepError("it failed"))), "install")
    assert len(client.calls) == 1


def test_a_service_that_never_takes_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    client = FakeClient(*[LOST] * 1000)
    agent = agent_with(client, sleep=sleep, install=says("done"))
    work(agent, "install")
    assert 15 * 60 < now[0] < 15 * 60 + 90
    # Whoever asks after that is answered.
    client.answers.clear()
    work(agent, "install")
    assert answers(client)[-1] == ("install", 0, "done")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from((0.0, 1800.0, 3700.0)))))
def test_deduper(events: list[tuple[str, str, float]]) -> None:
    now = [0.0]
    deduper = Deduper(lambda: now[0])
    last: tuple[str, str, float] | None = None
    for args, output, pause in events:
        now[0] += pause
        expected = last is None or last[:2] != (args, output) or now[0] - last[2] > 3600
        assert deduper.is_new("inventory", [args], output) is expected
        if expected:
            deduper.sent("inventory", [args], output, deduper.age)
            last = args, output, now[0]
    deduper.flush()
    assert deduper.is_new("inventory", ["a"], "x")


def test_the_hour_of_the_deduper() -> None:
    now = [0.0]
    deduper = Deduper(lambda: now[0])
    deduper.sent("inventory", ["a"], "x", deduper.age)
    now[0] = 3600.0
    assert not deduper.is_new("inventory", ["a"], "x")
    assert deduper.is_new("ntp-synchronizer", ["a"], "x")
    now[0] = 3600.1
    assert deduper.is_new("inventory", ["a"], "x")


class _Stop(BaseException):
    """Ends the agent's threads with the test."""


@contextmanager
def _one_node(service: Running) -> Iterator[tuple[AssistedClient, str]]:
    """Provide a single node that the agent's own loop serves, over the service's real API: (user's client, cluster
    id)."""
    user = service.client()
    network = IPv4Network("10.64.0.0/16")
    [infra_env] = swarm.make_infra_envs(user, network, 1, 1)
    [cluster] = user.call("GET", "/clusters")
    stop = threading.Event()

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise _Stop

    host = SimulatedHost(0, Site(network))
    client = AssistedClient(endpoint(service.url, ca_file=service.ca), Scheme.AGENT, service.keys.token("agentAuth"))
    where = {"url": service.url, "infra_env_id": infra_env, "host_id": host.id, "ca_file": str(service.ca)}
    identity = replace(AGENT, **where, token="", agent_image="")
    agent = Agent(steps.StepContext(host=NOWHERE, agent=identity, client=client, table=host.steps()), 0.5, sleep)

    def live() -> None:
        with suppress(_Stop):
            agent.run()

    thread = threading.Thread(target=live, name="agent")
    thread.start()
    try:
        yield user, cluster["id"]
    finally:
        stop.set()
        thread.join(70)
        client.close()
        assert not thread.is_alive()


def test_a_preparation_that_is_begun_again_gets_the_same_answers_again(tmp_path: Path) -> None:
    """The real service: its first preparation fails at the installer, the host has nothing new to say in the second."""
    binary, go = tmp_path / "openshift-install", tmp_path / "go"
    binary.write_text(f"#!/bin/sh\nfor i in $(seq 600); do [ -e {go} ] && break; sleep 0.1; done\nexit 3\n")
    binary.chmod(0o755)
    image = "registry.invalid/installer@sha256:" + "1" * 64
    with (
        running(tmp_path, INSTALLER_BINARY=str(binary), INSTALLER_IMAGE=image) as service,
        _one_node(service) as (user, cluster),
    ):
        path = f"/clusters/{cluster}"

        def image_events() -> list[str]:
            answer = user.call("GET", "/events", query={"cluster_id": cluster})
            return [event["message"] for event in answer if event["name"] == "image_status_updated"]

        for attempt in (1, 2):
            what = f"the cluster to be ready for preparation {attempt}"
            wait_for(what, lambda: user.call("GET", path)["status"] == "ready", 60)
            go.unlink(missing_ok=True)
            user.call("POST", f"{path}/actions/install")
            what = f"the host to be prepared, for the {attempt}. time"
            wait_for(what, lambda: [h["status"] for h in user.call("GET", f"{path}/hosts")] == ["preparing-successful"])
            assert len([message for message in image_events() if image in message]) == attempt
            go.touch()
