from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab.release.cluster import pace
from lab.release.cluster.bootkube import command as bootkube
from lab.release.cluster.pods import staticpods
from lab.testing.scaling import CONFIG


@pytest.mark.parametrize(("took", "seconds"), [(0.0, 1.0), (0.05, 1.0), (0.3, 2.7), (2.0, 5.0), (60.0, 5.0)])
def test_quick_looks_come_often_and_slow_ones_seldom(took, seconds):
    assert pace.pause(took, 5.0) == pytest.approx(seconds)


def test_a_bound_below_the_shortest_pause_holds():
    assert pace.pause(0.0, 0.01) == 0.01


def timing(config):
    """(heartbeat, election timeout) in ms of the bootstrap's member and of the node's."""
    stages = staticpods.control_plane(config, "r", "192.0.2.1", "m1")
    cluster = SimpleNamespace(config=config, release_image="r")
    temporary = bootkube.temporary_pods(
        cluster, SimpleNamespace(node_ip="192.0.2.1", addresses=("192.0.2.1",), node_name="m1")
    )
    timings = []
    for pods in (temporary, [pod for stage in stages for pod in stage.pods]):
        [etcd] = [pod for pod in pods if pod.name == "etcd"]
        flags = dict(arg.split("=", 1) for arg in etcd.command if "=" in arg)
        timings.append((int(flags["--heartbeat-interval"]), int(flags["--election-timeout"])))
    return timings


def test_a_member_that_stays_alone_elects_itself_within_a_second_and_others_bear_a_stall():
    assert timing(CONFIG) == [(750, 7500)] * 2
    single = replace(CONFIG, control_plane_replicas=1, compute_replicas=0)
    assert timing(replace(single, installation_disk="/dev/vda")) == [(100, 1000)] * 2
    # Beside a bootstrap machine's member it is a second one at first.
    assert timing(single) == [(750, 7500), (100, 1000)]
