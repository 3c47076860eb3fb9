"""`node0-lab fault`: every fault has a command whose options are its fields."""

import argparse
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import topology
from lab.commands import cli
from lab.commands.fault import fault_of, run
from lab.errors import LabError
from lab.faults import (
    BlackHole,
    Corrupted,
    DiskErrors,
    DiskSlow,
    Duplicate,
    Duplicated,
    Fault,
    Flapping,
    GuestStarved,
    Hang,
    Kill,
    Latency,
    LinkDown,
    Loss,
    Outage,
    Partition,
    RegistryImage,
    RegistryRefuses,
    Reordered,
    Throttle,
)
from lab.faults.active import Begun
from lab.host.records import Record

PAGE = (Path(__file__).parents[3] / "docs/faults.md").read_text()


def parsed(*words: str) -> argparse.Namespace:
    return cli.parser().parse_args(["fault", "begin", *words])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["link-down", "--node", "master-0"], LinkDown("master-0")),
        (["loss", "--percent", "2.5"], Loss(2.5)),
        (["black-hole", "--mtu", "1300", "--node", "master-1"], BlackHole(1300, "master-1")),
        (["partition", "--nodes", "master-0", "master-1"], Partition(("master-0", "master-1"))),
        (["kill", "--node", "master-0", "--process", "etcd"], Kill("master-0", "etcd")),
        (["registry-image", "--image", "etcd"], RegistryImage("etcd", "absent")),
        (["registry-refuses"], RegistryRefuses()),
        (["disk-errors", "--node", "master-0"], DiskErrors("master-0", "", "writes")),
        (
            ["disk-errors", "--node", "master-0", "--disk", "vdb", "--fails", "all"],
            DiskErrors("master-0", "vdb", "all"),
        ),
        (["disk-slow", "--node", "master-0", "--kib", "512"], DiskSlow("master-0", 512)),
        (["latency", "--ms", "200"], Latency(200)),
        (["latency", "--ms", "200", "--jitter-ms", "50", "--node", "a"], Latency(200, 50, node="a")),
        (["reordered", "--percent", "10"], Reordered(10, 20)),
        (["duplicated", "--percent", "0.5", "--node", "a"], Duplicated(0.5, node="a")),
        (["corrupted", "--percent", "1"], Corrupted(1)),
        (["corrupted", "--percent", "1", "--way", "from"], Corrupted(1, way="from")),
        (["guest-starved", "--node", "a", "--cpu-percent", "5"], GuestStarved("a", 5)),
        (["latency", "--link", "master-0", "--ms", "200"], Latency(200, node="master-0")),
        (["link-down", "--link", "a", "--nic", "enp2s0"], LinkDown("a", "enp2s0")),
        (["flapping", "--node", "a", "--way", "from"], Flapping("a", way="from")),
        (["throttle", "--link", "a", "--kbit", "9", "--nic", "b"], Throttle("a", 9, nic="b")),
        (["loss", "--percent", "5", "--link", "a", "--nic", "b"], Loss(5, "a", nic="b")),
    ],
)
def test_options_make_a_fault(words: list[str], fault: Fault) -> None:
    assert fault_of(parsed(*words)) == fault


def test_an_empty_default_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for words, default in (
        (["disk-errors"], "the one to install on"),
        (["black-hole"], "any that the lab talks to"),
        (["link-down"], "all"),
    ):
        with pytest.raises(SystemExit):
            parsed(*words, "--help")
        assert f"(default: {default})" in " ".join(capsys.readouterr().out.split())


def test_a_list_says_in_words_what_an_empty_field_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    record = Record(id="sno-1", topology=topology.sno(), owner=(1, 1), created=0, artifacts="/")
    record.root.mkdir(parents=True)
    lasting = [
        Begun(1, "2026-11-26T10:00:00Z", Loss(5, way="from")),
        Begun(2, "2026-11-26T10:01:00Z", DiskSlow("master-0", 64)),
    ]
    (record.root / "faults.json").write_bytes(msgspec.json.encode({"next": 3, "begun": lasting}))
    assert run(argparse.Namespace(what="ls", output="text"), record) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1  2026-11-26T10:00:00Z  type: Loss, percent: 5.0, node: any that the lab talks to, way: from, nic: all",
        "2  2026-11-26T10:01:00Z  type: DiskSlow, node: master-0, kib: 64, disk: the one to install on",
    ]


@pytest.mark.parametrize("kind", get_args(Fault))
def test_no_option_has_the_name_of_what_the_command_itself_goes_by(kind: type[msgspec.Struct]) -> None:
    assert {field.name for field in msgspec.structs.fields(kind)}.isdisjoint({"what", "lab"})


@pytest.mark.parametrize("kind", get_args(Fault))
def test_each_fault_has_a_command_that_says_what_it_does(kind: type[msgspec.Struct], capsys) -> None:
    name = "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).strip("-")
    with pytest.raises(SystemExit) as ended:
        parsed(name, "--help")
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(f"--{field.name.replace('_', '-')}" in text for field in msgspec.structs.fields(kind))
    assert " ".join((kind.__doc__ or "x").split())[:40] in " ".join(text.split())


@pytest.mark.parametrize("kind", get_args(Fault))
def test_the_page_says_what_each_fault_does(kind: type[msgspec.Struct]) -> None:
    assert re.search(rf"^\| [^|]*`{kind.__name__}`[^|]* \| \w", PAGE, re.M)


@pytest.mark.parametrize(
    "words",
    [
        ["link-down"],
        ["link-down", "--no", "a"],
        ["kill", "--link", "a", "--process", "etcd"],
        ["kill", "--node", "a", "--process", "b"],
        *(["loss", "--percent", text] for text in ("x", "0", "101", "-5", "nan", "5%")),
        *(["black-hole", "--mtu", text] for text in ("0", "67", "65536", "1.5k")),
        ["throttle", "--node", "a", "--kbit", "0"],
        ["latency", "--node", "a", "--ms", "200ms"],
        ["reordered", "--percent", "10", "--ms", "0"],
        ["disk-slow", "--node", "a", "--kib", "1M"],
        ["disk-full", "--node", "a", "--left-mib", "-1"],
        ["loss", "--percent", "5", "--way", "both"],
        ["guest-starved", "--node", "a", "--cpu-percent", "0"],
    ],
)
def test_what_is_wrong_is_an_option(words: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["name-wrong", "--name", "api", "--address", "banana"], "name-wrong: address: 'banana' is no IP address"),
        (["duplicate", "--address", "192.168.111.5/24"], "duplicate: address: '192.168.111.5/24' is no IP address"),
        (["duplicate", "--address", "fe80::1%lab0"], "duplicate: address: 'fe80::1%lab0' is no IP address"),
        (["dhcp-wrong", "--gateway", "192.0.2.1", "--dns", "::1"], "dhcp-wrong: dns: '::1' is no IPv4 address"),
        (
            ["flapping", "--node", "a", "--period-ms", "100", "--down-ms", "100"],
            "flapping: down_ms: 100 is not less than period_ms, 100: nothing would get through",
        ),
        (
            ["latency", "--ms", "10", "--jitter-ms", "11"],
            "latency: jitter_ms: 11 is more than ms, 10: nothing comes before it is sent",
        ),
        *(
            ([*words, "--nic", "enp2s0"], f"{words[0]}: nic: enp2s0 is a NIC of which machine? node names it")
            for words in (
                ["loss", "--percent", "5"],
                ["black-hole", "--mtu", "1000"],
                ["latency", "--ms", "10"],
                ["reordered", "--percent", "10"],
                ["duplicated", "--percent", "10"],
                ["corrupted", "--percent", "10"],
            )
        ),
    ],
)
def test_what_options_say_together_is_told_in_one_line(words: list[str], problem: str) -> None:
    with pytest.raises(LabError) as caught:
        fault_of(parsed(*words))
    assert str(caught.value) == problem


def test_an_address_of_either_version_may_be_taken() -> None:
    assert fault_of(parsed("duplicate", "--address", "fd00::5")) == Duplicate("fd00::5")


NAMES = st.text(min_size=1, max_size=8)
DRAWN = st.one_of(
    st.builds(Outage, NAMES),
    st.builds(Hang, NAMES),
    st.builds(LinkDown, NAMES),
    st.builds(Partition, st.lists(NAMES, min_size=1, max_size=2, unique=True).map(tuple)),
    st.builds(Throttle, NAMES, st.integers(1, 10**6)),
    st.builds(Loss, st.floats(0.1, 100), NAMES),
    st.builds(RegistryImage, NAMES, st.sampled_from(["absent", "wrong"])),
    st.builds(RegistryRefuses),
)


@given(st.lists(DRAWN))
def test_faults_are_data(drawn: list[Fault]) -> None:
    assert msgspec.yaml.decode(msgspec.yaml.encode(drawn), type=list[Fault]) == drawn
