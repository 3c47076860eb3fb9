"""Claims as they are read or refused, and the directories that a volume may have removed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.errors import VolumeError
from lab.release.cluster.storage import claims
from lab.testing.volumeapi import UID, claim, storage_class


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1Gi", 2**30),
        ("1.5Ki", 1536),
        ("500M", 500_000_000),
        ("2e3", 2000),
        ("1500m", 2),
        ("1E", 10**18),
        ("+1Mi", 2**20),
    ],
)
def test_quantities(text: str, size: int) -> None:
    assert claims.size(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1.2.3", "1Q", "-1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(VolumeError, match="is no quantity"):
        claims.size(text)


def test_all_reasons_of_a_refusal_come_at_once() -> None:
    wrong = claim(
        accessModes=["ReadWriteOnce", "ReadWriteMany"],
        volumeMode="Block",
        selector={"matchLabels": {"a": "b"}},
        dataSource={"kind": "VolumeSnapshot", "name": "s"},
    )
    others = storage_class(provisioner="x/y", volumeBindingMode="Immediate", parameters={"type": "fast"})
    found = claims.refusals(wrong, others)
    starts = ["StorageClass 'local': provisioner: x/y: must be storage.node0.example/local"]
    starts += ["StorageClass 'local': volumeBindingMode: Immediate", "StorageClass 'local': parameters: type"]
    starts += ["accessModes: ReadWriteMany", "volumeMode: Block", "selector:", "dataSource: VolumeSnapshot"]
    assert [reason.startswith(start) for reason, start in zip(found, starts, strict=True)] == [True] * 7
    assert claims.refusals(claim(), None) == ["StorageClass 'local' is not there"]
    assert claims.refusals(claim(), storage_class()) == []


@given(st.text("abpvc-/.0", max_size=45) | st.just("pvc-" + UID.format(7)), st.text("/.avlribpc-0\n", max_size=20))
def test_a_volume_by_another_hand_names_no_directory_outside_the_base(name: str, path: str) -> None:
    for given_path in (path, f"{claims.BASE}/{name}", f"{claims.BASE}/{name}/../{path}", None):
        volume = {"metadata": {"name": name}, "spec": {"local": {"path": given_path}}}
        try:
            found = claims.directory(volume)
        except VolumeError:
            continue
        assert (found, given_path) == ("pvc-" + UID.format(7), f"{claims.BASE}/{found}")


def test_only_a_nodes_own_released_volumes_are_removed() -> None:
    answered = claim()
    answered["metadata"]["uid"] = UID.format(7)
    volume = {**claims.volume(answered, storage_class(), "a"), "status": {"phase": "Released"}}
    assert claims.released(volume, "a")
    assert not claims.released(volume, "b")
    assert not claims.released({**volume, "metadata": {**volume["metadata"], "annotations": {}}}, "a")
    assert not claims.released({**volume, "metadata": {**volume["metadata"], "deletionTimestamp": "now"}}, "a")


def test_claims_that_are_not_answered() -> None:
    wanted = claim()
    wanted["metadata"] |= {"annotations": {claims.ASKED: claims.PROVISIONER}, "uid": "../x"}
    assert claims.asked(wanted)
    with pytest.raises(VolumeError, match="must be a UUID"):
        claims.volume_name(wanted)
    wanted["metadata"]["deletionTimestamp"] = "now"
    assert not claims.asked(wanted)


def test_claims_of_nodes_that_are_away() -> None:
    waiting = claim("waiting")
    waiting["metadata"]["annotations"][claims.ASKED] = claims.PROVISIONER
    bound = claim("bound", volumeName="pvc")
    bound["metadata"]["annotations"] |= waiting["metadata"]["annotations"]
    assert claims.stranded([waiting, bound, claim("of another provisioner")], ["b"]) == [waiting]
    assert claims.stranded([waiting], ["a"]) == []
