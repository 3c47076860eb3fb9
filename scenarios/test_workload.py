"""A user's application goes on while a node is lost, another is drained, and both come back."""

from collections.abc import Callable

import pytest

from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, all_is_well
from scenarios.testing.workload import NAMESPACE, Use, User, deploy, notes, ready_on

#: A note is a write through the API: as for any (test_ha.py), etcd may need 7.5 to 15 s to elect a leader, and a second
#: election, when the node that is lost led. The router takes a lost replica out within seconds.
LOSS_SECONDS = 30
#: A drain takes no replica away before it has stopped being asked; nothing is lost but the time for a slow answer.
DRAIN_SECONDS, DRAIN_FAILURES = 5, 0
#: Longer than a node is silent until it counts as lost and its replica leaves the Service.
SERVED_BY_TWO_SECONDS = 120
DRAINED_SECONDS = 180


def check(seen: Use, longest: float, failures: int) -> None:
    """Compare what the user saw with its limits."""
    assert seen.longest <= longest, f"{seen.longest:.1f} s without a note; failed: {seen.failed}"
    assert len(seen.failed) <= failures, seen.failed


@pytest.mark.weekly
@pytest.mark.disruptive
@pytest.mark.parametrize(
    "installation", params(lambda row: row.thorough and row.topology.startswith("compact-")), indirect=True
)
def test_an_application_is_served_while_a_node_is_lost_and_another_drained(
    installation: Installation, record_property: Callable[[str, object], None]
) -> None:
    """Nothing that was acknowledged is lost, and each pause has a limit."""
    lab, boots = installation.lab, installation.ready_boots()
    drained, *_, lost = sorted(boots)
    deploy(installation)
    assert ready_on(installation) == sorted(boots), "one replica a node"
    user = User(installation)
    with user.using():
        wait_until(lambda: len(user.use.kept) > 5, 30, "the first notes", lambda: user.use.failed[-3:])
        before = user.part()
        assert before.failed == []
        with lab.phase(f"{lost} without power"):
            lab.nodes[lost].power.off()
            wait_until(
                lambda: lost not in ready_on(installation),
                SERVED_BY_TWO_SECONDS,
                f"the replica on {lost} to be given up",
            )
        lab.nodes[lost].power.on()
        all_is_well(installation, boots, {lost})
        wait_until(lambda: len(ready_on(installation)) == 3, BACK_SECONDS, "three replicas again")
        loss = user.part()
        with lab.phase(f"{drained} drained"):
            words = ("--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DRAINED_SECONDS}s")
            drain = lab.run(
                ["kubectl", "--kubeconfig", str(installation.deployment.kubeconfig), "drain", drained, *words],
                timeout=DRAINED_SECONDS + 30,
            )
            assert drain.returncode == 0, drain.stdout + drain.stderr
            assert drained not in ready_on(installation)
        installation.kubectl("uncordon", drained)
        wait_until(lambda: len(ready_on(installation)) == 3, BACK_SECONDS, "three replicas after the drain")
        drain_seen = user.part()
    loss, drain_seen = loss.since(before), drain_seen.since(loss)
    for name, seen in (("loss", loss), ("drain", drain_seen)):
        text = f"{len(seen.kept)} notes, {len(seen.failed)} failed, longest pause {seen.longest:.1f} s"
        record_property(name, text)
    kept, found = user.use.kept, notes(installation)
    assert {name: found.get(name) for name in kept} == kept, "acknowledged, and lost"
    check(loss, LOSS_SECONDS, int(LOSS_SECONDS / 0.5))
    check(drain_seen, DRAIN_SECONDS, DRAIN_FAILURES)
    installation.kubectl("delete", "namespace", NAMESPACE)
