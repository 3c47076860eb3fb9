"""Folders of evidence: only what has our mark is replaced, and only by one lab at a time."""

import json

import pytest

from lab import topology
from lab.errors import BudgetError, EvidenceError, LabStartError
from lab.evidence import record, report
from lab.evidence.folder import MARK, NAMES, Folder, mark_of, put_mark, strangers
from lab.host import budget
from lab.lab import Lab


@pytest.fixture
def earlier(tmp_path):
    """Evidence of an earlier lab."""
    folder = tmp_path / "artifacts"
    put_mark(folder, "lab earlier")
    (folder / "console").mkdir()
    (folder / "console/master-0.txt").write_text("panic")
    (folder / "phases.json").write_text("[]")
    return folder


def test_a_lab_that_cannot_run_leaves_the_earlier_one_s_evidence(earlier, monkeypatch):
    def full(*_arguments):
        raise BudgetError("no memory", wanted_mib=1, capacity_mib=0)

    monkeypatch.setattr(budget.Ledger, "take", full)
    before = sorted(earlier.rglob("*"))
    for _ in range(2):  # nor is it held afterwards
        with pytest.raises(BudgetError):
            Lab(topology.sno(), earlier).start()
    assert sorted(earlier.rglob("*")) == before
    assert (earlier / "phases.json").read_text() == "[]"
    assert mark_of(earlier) == "lab earlier"


def test_a_lab_that_cannot_run_leaves_its_phases_where_there_is_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(budget.Ledger, "take", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Lab(topology.sno(), tmp_path / "new").start()
    [phase] = json.loads((tmp_path / "new/phases.json").read_text())
    assert (phase["name"], phase["outcome"]) == ("wait for the machine", "failed")


def test_a_lab_that_runs_replaces_an_earlier_one_s_evidence(earlier, monkeypatch):
    def fail(*_arguments):
        raise LabStartError("no registry", service="registry")

    monkeypatch.setattr("lab.lab.services.prepare", fail)
    # Others' labs may have all of the machine.
    monkeypatch.setenv("NODE0_BUDGET", str(earlier.parent / "budget.json"))
    lab = Lab(topology.sno(), earlier)
    with pytest.raises(LabStartError):
        lab.start()
    assert not (earlier / "console").exists()
    assert mark_of(earlier) == lab.evidence.mark
    assert [phase["name"] for phase in json.loads((earlier / "phases.json").read_text())] == [
        "wait for the machine",
        "lab up",
    ]


def test_two_labs_do_not_write_to_one_folder(earlier):
    first, second = Folder(earlier, "a"), Folder(earlier, "b")
    first.take()
    with pytest.raises(EvidenceError, match="another lab writes its evidence there"):
        second.take()
    assert (earlier / "console/master-0.txt").exists()
    first.let_go()
    second.take()
    second.replace()
    assert [path.name for path in earlier.iterdir()] == [MARK]
    second.let_go()


@pytest.mark.parametrize("name", ["index.html", "notes", "console/x"])
@pytest.mark.parametrize("act", ["take", "claimed"])
def test_a_folder_of_somebody_else_s_is_refused(tmp_path, name, act):
    folder = tmp_path / "theirs"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("theirs")
    lab = Folder(folder, "lab")
    with pytest.raises(EvidenceError, match="theirs: is not empty, and no evidence that has our mark"):
        lab.take() if act == "take" else lab.claimed(folder)
    assert (folder / name).read_text() == "theirs"
    assert not (folder / MARK).exists()


def test_nothing_but_evidence_is_replaced(earlier):
    (earlier / "sno-ipv4-static-uefi").mkdir()
    put_mark(earlier / "sno-ipv4-static-uefi", "lab of a scenario")
    lab = Folder(earlier, "lab")
    lab.take()
    with pytest.raises(EvidenceError, match="sno-ipv4-static-uefi: is not this evidence's"):
        lab.replace()
    assert (earlier / "console/master-0.txt").exists()
    lab.let_go()


def test_a_lab_s_evidence_is_collected_again_in_the_same_place_and_in_no_other_lab_s(tmp_path, earlier):
    lab, place = Folder(tmp_path / "own", "lab"), tmp_path / "collected"
    for _ in range(2):
        assert lab.claimed(place) == place
    with pytest.raises(EvidenceError, match="has another lab's evidence"):
        lab.claimed(earlier)
    assert lab.claimed(None) == tmp_path / "own"


@pytest.mark.parametrize("name", ["index.html", "console", "console/master-0.txt"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    lab, place = Folder(tmp_path / "own", "lab"), tmp_path / "collected"
    lab.claimed(place)
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).symlink_to(tmp_path)
    with pytest.raises(EvidenceError, match="link in it"):
        lab.claimed(place)
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(EvidenceError, match="link: is a link"):
        lab.claimed(tmp_path / "link")


def test_a_link_in_earlier_evidence_goes_and_what_it_leads_to_stays(tmp_path, earlier):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/x").touch()
    (earlier / "screens").symlink_to(tmp_path / "theirs")
    lab = Folder(earlier, "lab")
    lab.take()
    lab.replace()
    assert (tmp_path / "theirs/x").exists()
    assert not (earlier / "screens").is_symlink()
    lab.let_go()


def test_what_a_page_lists_is_evidence():
    """Else `prune` would take it for somebody's, and leave all of the run's."""
    tops = {pattern.partition("/")[0] for _, patterns in report.EVIDENCE for pattern in patterns}
    assert tops | {report.PAGE, record.TESTS, record.LAB_FAILED, "screens", "phases.json"} <= NAMES


def test_a_folder_s_strangers_are_named(earlier):
    (earlier / "notes").touch()
    put_mark(earlier / "sno", "lab x")
    assert strangers(earlier) == ["notes", "sno"]
    assert strangers(earlier, nested=True) == ["notes"]
