"""Moments of an installation, seen through what the service and the consoles say."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, WaitTimeout
from lab.faults.moments import Moment, reached

STAGES = ["Starting installation", "Installing", "Writing image to disk", "Rebooting", "Done"]


def host(stage="", info="", status="installing", name="master-0"):
    progress = {"current_stage": stage, "progress_info": info} if stage else {}
    return {"requested_hostname": name, "status": status, "progress_stages": STAGES, "progress": progress}


class World:
    """An installation whose service answers with these."""

    def __init__(self, folder, hosts=(), events=(), status="installing"):
        self.folder, self.hosts, self.events, self.status = folder, list(hosts), list(events), status

    def rest(self, path):
        if path == "events":
            return [{"message": message} for message in self.events]
        if path == "clusters":
            return [{"id": "c", "status": self.status}]
        assert path == "clusters/c"
        return {"hosts": self.hosts}

    def console_log(self, name):
        return self.folder / f"{name}.log"


def here(moment, world):
    try:
        moment.wait(world, time.monotonic(), 0)
    except WaitTimeout:
        return False
    return True


@given(at=st.sampled_from(STAGES), wanted=st.sampled_from(STAGES), now=st.integers(0, 100), percent=st.integers(0, 100))
def test_a_stage_is_reached_when_it_is_there_so_far_or_past(at, wanted, now, percent):
    order = STAGES.index(at) - STAGES.index(wanted)
    assert reached(host(at, f"{now}%"), wanted, percent) == (order > 0 or (order == 0 and now >= percent))


def test_a_host_that_has_not_begun_or_has_failed():
    assert not reached(host(), "Installing")
    assert reached(host("Failed"), "Rebooting")
    with pytest.raises(LabError, match="has no stage 'Dancing' but Starting installation"):
        reached(host("Installing"), "Dancing")


def test_each_form(tmp_path):
    world = World(tmp_path, [host("Writing image to disk", "40%")], ["Host master-0: registered to cluster"])
    assert here(Moment(stage="Writing image to disk", host="master-0", percent=40), world)
    assert not here(Moment(stage="Writing image to disk", host="master-0", percent=41), world)
    assert here(Moment(event="registered"), world)
    assert not here(Moment(event="^registered"), world)
    assert here(Moment(status="installing"), world)
    assert here(Moment(status="installing", host="master-0"), world)
    assert not here(Moment(status="ready"), world)
    assert not here(Moment(console="login:", host="master-0"), world)
    (tmp_path / "master-0.log").write_bytes(b"Debian\nmaster-0 login: ")
    assert here(Moment(console="^master-0 login:", host="master-0"), world)
    assert here(Moment(seconds=0), world)
    assert not here(Moment(seconds=60), world)


def test_a_moment_that_never_comes_says_what_was_seen(tmp_path):
    world = World(tmp_path, [host("Installing")])
    with pytest.raises(WaitTimeout, match=r"stage='Rebooting'.*'current_stage': 'Installing'"):
        Moment(stage="Rebooting", host="master-0").wait(world, 0, 0)
    with pytest.raises(WaitTimeout, match="the service knows master-0"):
        Moment(stage="Rebooting", host="master-9").wait(world, 0, 0)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{}", "must be one of stage, event, console, status and seconds, is none"),
        ("{seconds: 1, event: x}", "is event, seconds"),
        ("{stage: Installing}", "stage: host: missing"),
        ("{console: x}", "console: host: missing"),
        ("{event: x, host: y}", "event: has no host"),
        ("{event: '('}", "event: missing )"),
        ("{seconds: -1}", "seconds: want 0 to"),
        ("{status: x, percent: 3}", "percent: only a stage has it"),
        ("{sec: 1}", "unknown field"),
    ],
)
def test_what_is_no_moment(text, rule):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.yaml.decode(text, type=Moment)
    assert rule in str(caught.value)
