"""`ci/bench/run machines`: what is read from logs and from the kernel, what is made of it, and the table."""

import os
import threading
import time
from datetime import UTC, datetime

import pytest

from ci.bench.installs import lower_bound, machines
from ci.bench.installs.machines import (
    Install,
    Login,
    Phase,
    Results,
    Sample,
    Sampler,
    figures,
    keep,
    load_results,
    marks,
    sample,
    segments,
    waits,
)
from ci.bench.measure import TICK, Clock, busy, timed
from lab import topology

STAT = "cpu  {user} 10 20 5000 700 30 40 9 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n"
MEMINFO = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   {} kB\n"
LOG = """time="2026-11-23T15:07:14Z" level=debug msg="The rendezvous service answers"
time="2026-11-23T15:07:30Z" level=info msg="Updated status of the cluster to installing"
time="2026-11-23T15:07:39Z" level=info msg="Host: master-2, reached installation stage Writing image to disk: 16%"
time="2026-11-23T15:07:41Z" level=info msg="Host: master-2, reached installation stage Writing image to disk: 100%"
time="2026-11-23T15:07:44Z" level=info msg="Host: master-1, reached installation stage Writing image to disk: 100%"
time="2026-11-23T15:08:49Z" level=debug msg="The rendezvous service answers"
time="2026-11-23T15:10:19Z" level=info msg="Install complete!"
"""


def _at(text):
    return datetime.fromisoformat(f"2026-11-23T{text}").replace(tzinfo=UTC).timestamp()


def _install(seconds, chain=40.0, spread=60.0, peak=4000):
    phases = (Phase("lab up", 1.0, 1.5), Phase("until hosts are ready", seconds - 1, 30.0))
    return Install(
        seconds=seconds,
        chain=chain,
        spread=spread,
        peak_mib=peak,
        rest_cores=0.25,
        phases=phases,
        when="2026-11-23 15:07",
        load=0.4,
    )


def test_work_is_what_the_processors_did_and_neither_idle_nor_waiting_for_disks():
    assert busy(STAT.format(user=100)) == pytest.approx((100 + 10 + 20 + 30 + 40) / TICK)


def test_a_busy_block_has_worked_and_a_waiting_one_less():
    with timed() as working:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
    with timed() as waiting:
        threading.Event().wait(0.3)
    assert working.work >= 0.15
    # Others may work meanwhile, but no more than there are processors.
    assert waiting.work <= len(os.sched_getaffinity(0)) * waiting.seconds + 0.1
    assert waiting.seconds >= 0.3


def test_a_sample_has_the_memory_that_programs_could_have():
    assert sample(5.0, STAT.format(user=0), MEMINFO.format(2048)) == Sample(5.0, 100 / TICK, 2)
    with pytest.raises(ValueError, match="MemAvailable"):
        sample(5.0, STAT.format(user=0), "MemTotal: 1 kB\n")


def test_work_between_two_times_is_interpolated():
    sampler = Sampler()
    sampler.samples = [Sample(10.0, 100.0, 900), Sample(12.0, 104.0, 300), Sample(14.0, 104.0, 500)]
    assert sampler.work(11.0, 13.0) == pytest.approx(2.0)
    assert sampler.work(0.0, 99.0) == pytest.approx(4.0)
    assert sampler.peak_mib == 600


def test_a_sampler_takes_a_sample_at_either_end():
    with Sampler() as sampler:
        pass
    assert len(sampler.samples) >= 2
    assert sampler.samples[0].available_mib > 0


def test_a_mark_has_the_time_of_the_first_line_that_matches():
    assert marks(LOG) == [
        ("the service answers", _at("15:07:14")),
        ("installation begins", _at("15:07:30")),
        ("first disk is written", _at("15:07:41")),
        ("installation is complete", _at("15:10:19")),
    ]


def test_segments_follow_one_another_and_leave_nothing_out():
    phases = [
        {"name": "wait for the machine", "at": 0.0, "depth": 0, "seconds": 3.0},
        {"name": "lab up", "at": 3.0, "depth": 0, "seconds": 0.5},
        {"name": "inner", "at": 3.1, "depth": 1, "seconds": 0.1},
        {"name": "power on", "at": 3.5, "depth": 0, "seconds": 0.5},
        {"name": "wait-for bootstrap-complete", "at": 4.0, "depth": 0, "seconds": None},
    ]
    # The log counts whole seconds: a mark may seem to be earlier than what it followed.
    marks_told = [("early", 1003.0), ("late", 1020.0)]
    assert segments(phases, marks_told, 500.0, 1000.0) == [
        ("lab up", 503.0, 503.5),
        ("power on", 503.5, 504.0),
        ("until early", 504.0, 504.0),
        ("until late", 504.0, 520.0),
    ]


def test_the_chain_has_each_step_once_more_where_one_host_waits_for_others():
    single, several = lower_bound.in_turn(topology.sno()), lower_bound.in_turn(topology.ha())
    assert (single["disk to SSH"], several["disk to SSH"]) == (1, 2)
    assert (single["etcd and API start"], several["etcd and API start"]) == (2, 3)
    assert several["live ISO to SSH"] == 1
    assert single.keys() == several.keys() == lower_bound.times(topology.ha()).keys()


def test_bounds_are_the_chain_and_the_work_of_all_hosts_by_processors():
    steps = {name: Clock(2.0, 1.0) for name in lower_bound.times(topology.ha())}
    chain, spread = lower_bound.bounds(steps, topology.ha(), 2)
    assert chain == 2.0 * sum(lower_bound.in_turn(topology.ha()).values())
    assert spread == sum(lower_bound.times(topology.ha()).values()) / 2


def test_the_ratio_is_to_the_higher_bound():
    assert _install(90.0, chain=40, spread=60).ratio == 1.5
    assert _install(90.0, chain=45, spread=30).ratio == 2.0


def test_results_are_kept_and_an_unreadable_file_counts_as_empty(tmp_path):
    path = tmp_path / "results.json"
    assert load_results(path) == Results()
    results = Results(2, {"container sno": _install(80.0)}, {"vm": Login(100.0, "2026-11-23 15:07", 1.0)})
    keep(path, results)
    assert load_results(path) == results
    path.write_text('{"installs": {"container sno": 5}}')
    assert load_results(path) == Results()


def test_the_table_has_both_kinds_and_compares_those_that_have_a_size_in_common():
    installs = {"container sno": _install(80.0), "vm sno": _install(800.0, peak=8000), "container ha": _install(250.0)}
    rows = dict(figures(Results(2, installs, {"container": Login(8.0, "2026-11-23 15:07", 0.3)})))
    # 31.5 s of work on two processors.
    assert rows["container sno"].split()[:10] == ["80.0", "s", "90", "s", "60", "s", "1.33", "16", "s", "5.08"]
    assert rows["vm sno"].split()[:3] == ["800.0", "s", "-"]
    assert rows["sno: container to vm"] == "0.10 of the time, 0.50 of the memory"
    assert "ha: container to vm" not in rows
    assert rows["container, five machines at login"].startswith("     8.0 s (target under 10 s")


def test_the_step_in_which_processors_wait_most_is_named():
    rows = dict(waits(_install(80.0), 2))
    assert rows["until hosts are ready"].split()[:3] == ["79.0", "s", "0.38"]
    assert rows["waits most"].startswith("until hosts are ready: processors idle for 128 of all 128 s")


@pytest.mark.parametrize("kind", machines.KINDS)
def test_usual_sizes_exist_and_all_sizes_have_a_target(kind):
    assert set(machines.USUAL[kind]) <= set(machines.SIZES) == set(machines.TARGET_SECONDS)
