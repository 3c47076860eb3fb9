"""The lease: of two operators one acts, whatever their clocks say."""

import threading

import pytest

from installer.hub.kube.kinds import LEASE, Key
from installer.hub.kube.lease import DEADLINE, DURATION, Leader
from installer.testing.hub.apiserver import api_server

KEY = Key("node0-hub", "node0-hub")


class Clock:
    """A monotonic clock that stands."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture(name="server")
def fixture_server():
    with api_server() as server:
        yield server


@pytest.fixture(name="clock")
def fixture_clock():
    return Clock()


def leaders(server, clock, *names):
    return [Leader(server.api(), KEY, name, monotonic=clock) for name in names]


def test_of_two_the_first_leads_until_it_has_not_renewed_for_the_whole_duration(server, clock):
    first, second = leaders(server, clock, "first", "second")
    first.step()
    for _ in range(5):
        clock.now += 10
        first.step()
        second.step()
        assert (first.is_leading(), second.is_leading()) == (True, False)
    clock.now += DEADLINE + 1
    assert not first.is_leading()  # it stops before another may begin
    second.step()
    assert not second.is_leading()
    clock.now += DURATION - DEADLINE
    second.step()
    assert second.is_leading()
    first.step()
    assert not first.is_leading()
    assert server.api().get(LEASE, KEY)["spec"]["leaseTransitions"] == 1


def test_the_same_operator_started_again_leads_at_once(server, clock):
    (killed,) = leaders(server, clock, "me")
    killed.step()
    (again,) = leaders(server, clock, "me")
    again.step()
    assert again.is_leading()


def test_a_lease_given_back_is_free_at_once(server, clock):
    first, second = leaders(server, clock, "first", "second")
    first.step()
    first.release()
    second.step()
    assert (first.is_leading(), second.is_leading()) == (False, True)
    first.release()
    assert server.api().get(LEASE, KEY)["spec"]["holderIdentity"] == "second"


def test_an_unreachable_server_ends_the_lead_at_its_deadline_only(server, clock):
    (leader,) = leaders(server, clock, "me")
    leader.step()
    server.refusals += [503] * 2
    clock.now += DEADLINE - 1
    leader.step()
    assert leader.is_leading()
    clock.now += 2
    leader.step()
    assert not leader.is_leading()


def test_gaining_it_is_told_each_time(server, clock):
    (leader,) = leaders(server, clock, "me")
    stop, gained = threading.Event(), []

    def note():
        gained.append(leader.is_leading())
        stop.set()

    leader.run(stop, note)
    assert gained == [True]
