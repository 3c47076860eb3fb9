"""Members of etcd whose nodes are gone: which may leave, which have to stay."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from hypothesis import given, strategies

from lab.release.cluster.nodes import departures
from lab.release.cluster.nodes.etcdapi import Member
from lab.release.cluster.pods import installerpod, nodeinstall
from lab.testing.clusterapi import node


def member(number: int, name: str = "", learner: bool = False) -> Member:
    return Member(str(number), name or f"m{number}", (f"https://192.0.2.{number}:2380",), learner)


def removed(members: list[Member], answering: Iterable[str], gone: Iterable[str]) -> list[Member]:
    """Remove one after the other what may go, as the operator's rounds do."""
    rest = list(members)
    while leaver := next((m for m in rest if m.id in gone and not departures.refusal(m, rest, set(answering))), None):
        rest.remove(leaver)
    return rest


@given(
    strategies.integers(1, 5), strategies.sets(strategies.integers(1, 5)), strategies.sets(strategies.integers(1, 5))
)
def test_a_quorum_that_there_was_is_never_removed(count: int, answering: set[int], gone: set[int]) -> None:
    members = [member(number) for number in range(1, count + 1)]
    healthy = {str(number) for number in answering}
    rest = removed(members, healthy, {str(number) for number in gone})
    assert rest
    if rest != members:
        assert sum(m.id in healthy for m in rest) > len(rest) // 2


def test_a_member_that_answers_may_go_too_and_a_learner_always() -> None:
    three = [member(1), member(2), member(3)]
    assert departures.refusal(three[2], three, {"1", "2", "3"}) == ""
    assert departures.refusal(three[2], three, {"1", "3"}) == (
        "cannot remove member m3, whose node is gone: unhealthy voting etcd members found: m2"
    )
    assert "last voting member" in departures.refusal(three[0], three[:1], {"1"})
    assert departures.refusal(member(4, learner=True), [*three, member(4, learner=True)], set()) == ""


def test_a_voter_that_has_never_been_started_counts_for_the_majority() -> None:
    unstarted = Member("7", "", ("https://192.0.2.7:2380",), learner=False)
    assert "found: 7" in departures.refusal(member(2), [member(1), member(2), unstarted], {"1", "2"})


def test_a_member_is_known_by_its_address_not_by_its_name() -> None:
    nodes = [node("m1", "192.0.2.1"), node("m2", "192.0.2.22")]
    bootstrap = member(9, departures.BOOTSTRAP_MEMBER)
    assert departures.left([member(1), member(2), bootstrap], nodes) == [member(2)]
    nodes[1]["status"] = {}
    assert departures.left([member(1), member(2)], nodes) == []


def test_objects_of_nodes_that_are_there_stay() -> None:
    """Of two nodes that a name could mean, both have to be gone."""
    names = ("installer-1-master-1", "installer-12-master-1-7", "static-pods-master-1", "node-resources-master-1-3")
    assert all(departures.is_of_nobody(name, {"master-0"}) for name in names)
    assert not any(departures.is_of_nobody(name, {"master-1", "master-1-7"}) for name in names)
    assert not any(
        departures.is_of_nobody(name, ()) for name in ("etcd-signer", "control-plane-resources", "installer")
    )


def test_data_of_another_member_are_put_aside_and_a_members_own_stay(tmp_path: Path) -> None:
    kubernetes, data, files = (tmp_path / name for name in ("kubernetes", "etcd", "files"))

    def install(member: str | None) -> list[str]:
        """Return what of etcd's directory is there after an installation as this member, which starts it."""
        shutil.rmtree(files, ignore_errors=True)
        (files / "etcd-certs").mkdir(parents=True)
        if member is not None:
            (files / installerpod.MEMBER_ID).write_text(member)
        nodeinstall.set_aside(files, kubernetes, data)
        nodeinstall.copy_files(files, kubernetes / "static-pod-resources")
        (data / "member").mkdir(parents=True, exist_ok=True)
        return sorted(path.name for path in data.iterdir())

    assert install("1") == install("1") == install(None) == ["member"]
    (kubernetes / "manifests").mkdir()
    (kubernetes / "manifests/etcd-pod.yaml").touch()
    assert [name.partition("-")[0] for name in install("2")] == ["member", "removed"]
    assert not list((kubernetes / "manifests").iterdir())
