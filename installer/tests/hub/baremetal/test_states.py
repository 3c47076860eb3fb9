from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.hub.baremetal.provisioner import Busy, Done, Failed, Power
from installer.hub.baremetal.states import (
    Action,
    Credentials,
    Fault,
    Host,
    Operational,
    State,
    Wanted,
    backoff,
    plan,
    settle,
)

GOOD, CHANGED, MISSING = Credentials.GOOD, Credentials.CHANGED, Credentials.MISSING
flags = (
    "managed",
    "online",
    "awaits_image",
    "externally_provisioned",
    "inspection",
    "detached",
    "detach_forced",
    "deletion_delayed",
)
wanteds = st.builds(
    Wanted, image=st.sampled_from(["", "a", "b"]), deleting=st.just(False),
    **{flag: st.booleans() for flag in (*flags, "inspect_again", "reboot", "held_off", "hard", "never_off")},
)  # fmt: skip
outcomes = st.one_of(st.builds(Done), st.just(Busy(1.0)), st.builds(Failed, st.just("it broke"), st.booleans()))
histories = st.lists(st.tuples(wanteds, st.sampled_from(Credentials), outcomes), max_size=40)


def done(step):
    if step.action is not Action.POWER:
        return Done()
    return Done(powered=step.order in (Power.ON, Power.RESET))


def once(wanted, host, credentials, outcome):
    """Take a step with that outcome, where it has an action that can have one."""
    step = plan(wanted, host, credentials)
    if step.action in (Action.NOTHING, Action.ATTACH, Action.DELETE):
        outcome = Done()
    elif step.action is Action.REGISTER and credentials is MISSING:
        outcome = Failed("no Secret")
    elif isinstance(outcome, Done):
        outcome = done(step)
    return step, settle(wanted, host, step, outcome)


def lived(history):
    """Return the hosts that a history leads through."""
    hosts = [Host()]
    for wanted, credentials, outcome in history:
        hosts.append(once(wanted, hosts[-1], credentials, outcome)[1].host)
    return hosts


def rested(wanted, host, outcome=None, credentials=GOOD):
    """Run a host until nothing more is to be done; None when it is gone."""
    seen: list[Host] = []
    for _ in range(40):
        step, settled = once(wanted, host, credentials, outcome or Done())
        if step.action is Action.DELETE and not isinstance(outcome, Failed | Busy):
            return None, seen
        if settled.rebooted:
            wanted = replace(wanted, reboot=False)
        if settled.inspected:
            wanted = replace(wanted, inspect_again=False)
        seen.append(settled.host)
        if settled.host == host and settled.wait:
            return host, seen
        host = settled.host
    raise AssertionError(f"no end: {seen[-6:]}")


@settings(max_examples=60, deadline=None)
@given(histories, wanteds)
def test_from_wherever_a_host_got_it_comes_to_what_is_wanted(history, wanted):
    host = lived(history)[-1]
    wanted = replace(wanted, detached=False, reboot=False, held_off=False)
    wanted = replace(wanted, awaits_image=wanted.awaits_image and not wanted.image)
    end, _ = rested(wanted, host)
    if not wanted.managed and end.state in (State.NONE, State.UNMANAGED):
        assert (end.state, end.operational) == (State.UNMANAGED, Operational.DISCOVERED)
        return
    assert (end.fault, end.errors, end.operational) == (Fault.NONE, 0, Operational.OK)
    in_use = wanted.image and (wanted.online or end.image == wanted.image)
    rests = {State.EXTERNALLY_PROVISIONED: wanted.externally_provisioned, State.PROVISIONED: bool(in_use)}
    assert rests.get(end.state, end.state is State.AVAILABLE and not (wanted.image and wanted.online))
    assert end.powered_on is wanted.online or (wanted.awaits_image and end.state is State.AVAILABLE)


@settings(max_examples=40, deadline=None)
@given(histories, wanteds, st.sampled_from([None, Failed("dead"), Failed("503", True)]), st.sampled_from(Credentials))
def test_a_host_that_is_deleted_goes_even_if_its_bmc_is_dead(history, wanted, outcome, credentials):
    wanted = replace(wanted, deleting=True, deletion_delayed=False)
    host, deleted = lived(history)[-1], False
    for _ in range(20):
        step, settled = once(wanted, host, credentials, outcome or Done())
        host, deleted = settled.host, deleted or step.action is Action.DELETE
        if step.action is Action.REGISTER and not settled.host.fault:
            credentials = GOOD
    assert deleted


@settings(max_examples=40, deadline=None)
@given(histories)
def test_another_image_is_provisioned_only_after_deprovisioning(history):
    hosts = lived(history)
    for before, after in pairwise(hosts):
        if before.state in (State.PROVISIONED, State.PROVISIONING) and after.state in (
            State.PROVISIONED, State.PROVISIONING,
        ):  # fmt: skip
            assert after.image == before.image


@settings(max_examples=40, deadline=None)
@given(histories)
def test_an_error_has_type_message_and_count_together(history):
    for host in lived(history):
        failed = host.fault is not Fault.NONE
        assert failed == bool(host.message) == (host.operational is Operational.ERROR)


def test_the_states_error_types_and_events_of_the_reference_are_all_reached():
    """All that a few kinds of wishes and outcomes lead to, in whatever order."""
    wishes = [
        Wanted(), Wanted(managed=False), Wanted(image="a"), Wanted(image="b"), Wanted(externally_provisioned=True),
        Wanted(detached=True), Wanted(image="a", deleting=True), Wanted(deleting=True), Wanted(inspect_again=True),
        Wanted(inspection=False),
    ]  # fmt: skip
    reached, todo, events = {Host()}, [Host()], set()
    while todo:
        host = todo.pop()
        for wanted in wishes:
            for outcome in (Done(), Failed("it broke")):
                for credentials in Credentials:
                    settled = once(wanted, host, credentials, outcome)[1]
                    events |= {reason for reason, _ in settled.events}
                    after = settled.host
                    # More failures change no more.
                    after = replace(
                        after, errors=min(after.errors, 4), provisioning_failures=after.provisioning_failures > 0
                    )
                    if after not in reached:
                        reached.add(after)
                        todo.append(after)
    assert {host.state for host in reached} == set(State)
    assert {host.fault for host in reached} == set(Fault)
    assert {host.operational for host in reached} == set(Operational)
    assert events == {
        "Discovered", "Registered", "BMCAccessValidated", "InspectionStarted", "InspectionComplete",
        "InspectionSkipped", "ProvisioningStarted", "ProvisioningComplete", "DeprovisioningStarted",
        "DeprovisioningComplete", "RegistrationError", "ProvisionedRegistrationError", "InspectionError",
        "PreparationError", "ProvisioningError", "PowerManagementError", "DetachError",
    }  # fmt: skip


@pytest.mark.parametrize("state", [State.REGISTERING, State.PREPARING, State.PROVISIONING, State.PROVISIONED])
def test_corrected_credentials_end_a_registration_error(state):
    wanted = Wanted(image="a")
    broken = Host(
        state, operational=Operational.ERROR, fault=Fault.REGISTRATION, message="401", errors=9, image="a"
    )  # fmt: skip
    settled = once(wanted, broken, CHANGED, Done())[1]
    assert (settled.host.fault, settled.host.errors) == (Fault.NONE, 0)
    assert settled.host.state is (State.INSPECTING if state is State.REGISTERING else state)


def test_a_failed_provisioning_is_told_until_it_is_tried_again_and_waits_grow():
    wanted, host, waits = Wanted(image="a", inspection=False), Host(), []
    for _ in range(60):
        step = plan(wanted, host, GOOD)
        settled = settle(wanted, host, step, Failed("no medium") if step.action is Action.PROVISION else Done())
        host = settled.host
        if step.action is Action.DEPROVISION:
            assert (host.state, host.fault, host.message) == (State.AVAILABLE, Fault.PROVISIONING, "no medium")
            waits.append(settled.wait or 0.0)
    assert waits[:4] == [10, 20, 40, 80]
    assert max(waits) == 600


def test_a_bmc_that_is_not_ready_costs_no_new_provisioning_and_is_asked_soon():
    wanted, host = Wanted(image="a"), Host(State.PROVISIONING, operational=Operational.OK, image="a")
    settled = once(wanted, host, GOOD, Failed("503: not ready", passing=True))[1]
    assert (settled.host, settled.why) == (host, "503: not ready")
    assert backoff(50, passing=True) <= 30


def test_a_bmc_that_answers_503_for_minutes_at_every_step_delays_and_spoils_nothing():
    wanted, host, credentials, tries, seconds = Wanted(image="a"), Host(), CHANGED, 0, 0.0
    while host.state is not State.PROVISIONED:
        step = plan(wanted, host, credentials)
        tries = tries + 1 if step.action not in (Action.NOTHING, Action.ATTACH) else 6
        settled = settle(wanted, host, step, Done() if tries > 5 else Failed("503", passing=True))
        tries = 0 if tries > 5 else tries
        credentials = GOOD if settled.host.state not in (State.NONE, State.REGISTERING) else CHANGED
        host, seconds = settled.host, seconds + (settled.wait or 0.0)
        assert host.state is not State.DEPROVISIONING
    assert host == Host(State.PROVISIONED, operational=Operational.OK, image="a")
    assert 200 < seconds < 600


def test_a_reboot_is_off_once_and_on_again():
    wanted = Wanted(image="a", reboot=True)
    host = Host(State.PROVISIONED, operational=Operational.OK, image="a", powered_on=True)
    step, settled = once(wanted, host, GOOD, Done())
    assert (step.order, settled.rebooted, settled.host.powered_on) == (Power.SHUT_DOWN, True, False)
    assert plan(replace(wanted, reboot=False), settled.host, GOOD).order is Power.ON
    held = replace(wanted, held_off=True, reboot=False)
    assert plan(held, settled.host, GOOD).order is not Power.ON
    assert once(replace(wanted, never_off=True), host, GOOD, Done())[1].rebooted


def test_a_soft_power_off_that_fails_is_followed_by_a_hard_one():
    wanted = Wanted(image="a", online=False)
    host = Host(State.PROVISIONED, operational=Operational.OK, image="a", powered_on=True)
    failed = once(wanted, host, GOOD, Failed("it ignores it"))[1].host
    assert failed.fault is Fault.POWER
    assert plan(wanted, failed, GOOD).order is Power.OFF


def test_detached_hosts_keep_their_state_and_come_back():
    wanted, host = Wanted(image="a", detached=True), Host(State.PROVISIONED, operational=Operational.OK, image="a")
    detached = once(wanted, host, GOOD, Done())[1].host
    assert detached == replace(host, operational=Operational.DETACHED)
    assert plan(wanted, detached, MISSING).action is Action.NOTHING
    assert once(replace(wanted, detached=False), detached, GOOD, Done())[1].host == host
    delayed = replace(wanted, deleting=True, deletion_delayed=True)
    assert plan(delayed, detached, GOOD).then is None
    assert plan(replace(delayed, deletion_delayed=False), detached, GOOD).then is State.DELETING
    provisioning = replace(host, state=State.PROVISIONING)
    assert plan(wanted, provisioning, GOOD).action is Action.PROVISION
    assert plan(replace(wanted, detach_forced=True), provisioning, GOOD).action is Action.DETACH
