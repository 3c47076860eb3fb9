"""Scores of the judges: the formulas against published figures, and recordings that are not as they should be."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bench.judges import broken, nightly, report
from ci.bench.judges.scores import covering, f1
from ci.informer.arithmetic.proportions import Counts
from ci.informer.cli import main
from ci.informer.history.store import History

POINTS = st.sets(st.integers(1, 99), max_size=8)


@pytest.mark.parametrize(
    ("annotations", "found", "f1s", "covers"),
    [
        # What TCPDBench's metrics give for these.
        ([[10, 20], [11, 20], [10], [0, 5]], [10, 20], 1.0, None),
        ([[], [10], [50]], [10], 0.9090909, None),
        ([[], [10], [50]], [], 0.8, None),
        ([[10, 20], [10], [0, 5]], [10, 20], None, 0.7962962),
        ([[], [10], [40]], [10], None, 0.7954144),
        ([[], [10], [40]], [], None, 0.8189300),
    ],
)
def test_scores_are_the_benchmarks(annotations, found, f1s, covers):
    if f1s is not None:
        assert f1(annotations, found) == pytest.approx(f1s)
    if covers is not None:
        assert covering(annotations, found, 45) == pytest.approx(covers)


@given(POINTS, POINTS)
def test_what_an_annotator_saw_scores_one_and_all_else_no_more(truth, found):
    assert f1([truth], truth) == 1.0
    assert covering([truth], truth, 100) == pytest.approx(1.0)
    assert 0 < f1([truth], found) <= 1
    assert 0 < covering([truth], found, 100) <= 1 + 1e-9


def recording(file, *rows):
    usual = {"job": "e2e", "result": "S", "succeeded": True, "infrastructure_failure": False, "test_failures": 0}
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps({**usual, **row}) + "\n" for row in rows)
    return nightly.read(file)


def test_a_recording_with_gaps_jumps_and_duplicates_is_read(tmp_path):
    """Runs in any order, one twice, one without a result, a week missing, one that the infrastructure failed."""
    days = [*range(20), *range(27, 40)]
    rows = [{"time": 86400 * day + 7} for day in reversed(days)]
    rows += [rows[0], {"time": 5, "result": "U"}, {"time": 9, "succeeded": False, "infrastructure_failure": True}]
    runs = recording(tmp_path / "runs.gz", *rows)
    assert [run.at for run in runs] == sorted(run.at for run in runs)
    assert nightly.nights(runs) == {"e2e": [Counts(1, 0)] * 33}


def test_a_planted_regression_is_found_and_none_where_none_was(tmp_path):
    real = {"e2e": [Counts(10, 0)] * 9 + [Counts(10, 1)]}
    score = nightly.score(real, nightly.watch, [1, 2])
    assert score.false_alarms == 0
    assert score.found[20][1] == 1.0


def test_without_data_each_score_says_that_it_is_skipped(capsys):
    report.run(None, None, [1])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "skipped" in line]) >= 4


def test_each_file_that_is_broken_is_named_and_the_others_are_scored(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(broken, "COUNT", 0)
    (tmp_path / "openshift-regressions.tsv").write_text("a\tb\tc\nx\ty\tno number\n")
    (tmp_path / "openshift-4.8-runs.jsonl.gz").write_bytes(gzip.compress(b'{"job": "e2e"}')[:-3])
    (tmp_path / "tcpd").mkdir()
    (tmp_path / "tcpd/annotations.json").write_text('{"s": {"1": [3]}}')
    (tmp_path / "tcpd/s.json").write_text('{"name": "s", "series": [{"raw": [1, NaN, 2]}]}')
    (tmp_path / "python").write_text("")
    with pytest.raises(SystemExit) as ended:
        report.run(tmp_path, tmp_path / "python", [1])
    assert capsys.readouterr().out.splitlines() == ["releases broken on purpose, seed 1: 0 of 0 right, 0 wrong"]
    said = ended.value.code.splitlines()
    names = ["openshift-4.8-runs.jsonl.gz", "openshift-regressions.tsv", "tcpd/s.json", "python"]
    assert [line.split(": ")[1] for line in said] == [str(tmp_path / name) for name in names]


def test_a_recording_of_few_runs_is_skipped(tmp_path):
    recording(tmp_path / "openshift-4.8-runs.jsonl.gz", *({"time": day * 86400} for day in range(9)))
    assert [line for line in nightly.lines(tmp_path, [1]) if "skipped: no job has 30 runs" in line]


def test_broken_releases_are_told_and_none_is_accused_wrongly(tmp_path):
    results = [broken.blamed(1, number, tmp_path) for number in range(broken.COUNT)]
    accused = [([suspect.tag for suspect in said.suspects if suspect.revert], release) for release, said in results]
    assert sum(tags == [release.broken] for tags, release in accused) >= 18
    assert all(tags in ([], [release.broken]) for tags, release in accused)


def test_the_command_proposes_a_revert(tmp_path, capsys):
    release, _ = broken.blamed(1, 1, tmp_path)
    assert main(["--history", str(Path(tmp_path, "1-1.db")), "blame", broken.GOOD, broken.BAD]) == 1
    assert f" {release.broken}: revert its change (new +30, " in capsys.readouterr().out
    with History(tmp_path / "1-1.db") as history:
        history.db.execute("DELETE FROM image")
    assert main(["--history", str(Path(tmp_path, "1-1.db")), "blame", broken.GOOD, broken.BAD]) == 3
    assert "undecided: the images of the good payload are not known" in capsys.readouterr().out
