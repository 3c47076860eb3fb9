"""`pytest scenarios/ --artifacts DIR`: nothing that lies there is lost to a run that is not its own."""

import json

import pytest

from ci import gate
from ci.tests.pytest_kit import pytest_scenarios
from lab.errors import EvidenceError
from lab.evidence import folder
from lab.evidence import report as pages
from lab.evidence.folder import put_mark
from scenarios.testing.results import Results

UNIT = "sno-ipv4-static-uefi"


@pytest.mark.parametrize("name", ["index.html", "summary.md"])
def test_a_folder_with_anything_else_in_it_is_a_usage_error(tmp_path, name):
    """`--artifacts .`: the page of the run would replace its index.html."""
    (tmp_path / name).write_text("mine")
    code, output = pytest_scenarios("-k", "console_answers", f"--artifacts={tmp_path}")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --artifacts: {tmp_path}/{name}: is no page of a run, and would be replaced" in output
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("what", ["file", "link"])
def test_what_is_no_folder_is_a_usage_error(tmp_path, what):
    place = tmp_path / "artifacts"
    if what == "file":
        place.touch()
    else:
        place.symlink_to("nowhere")
    code, output = pytest_scenarios("-k", "console_answers", f"--artifacts={place}")
    assert (code, output.strip()) == (pytest.ExitCode.USAGE_ERROR, f"ERROR: --artifacts: {place}: is no folder")
    with pytest.raises(EvidenceError, match="is a link" if what == "link" else "is no folder"):
        folder.Folder(place, "lab").take()


def test_evidence_of_an_older_checkout_is_reported_before_anything_runs(tmp_path, monkeypatch, capfd):
    """Labs would refuse it one by one, each once it is its turn, and call that void: `run again` would not help."""
    old = tmp_path / "artifacts/container" / UNIT
    old.mkdir(parents=True)
    (old / "phases.json").write_text("[]")
    why = f"{old}: has evidence without our mark (an older checkout's): move {old.parent} away"
    code, output = pytest_scenarios("-k", "console_answers", f"--artifacts={old.parent}")
    assert (code, output.strip()) == (pytest.ExitCode.USAGE_ERROR, f"ERROR: --artifacts: {why}")
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "passed", lambda *_, **__: pytest.fail("stages were run"))
    monkeypatch.setattr(gate.signal, "signal", lambda *_: None)
    assert gate.main() == 2
    assert capfd.readouterr().err == f"[gate] {why}\n"
    put_mark(old, "lab x")
    folder.check_below(old.parent)


@pytest.mark.parametrize(("mark", "written"), [("lab ours", True), ("lab another", False), ("", False)])
def test_outcomes_are_written_beside_the_evidence_of_their_own_lab(tmp_path, mark, written):
    place = tmp_path / UNIT
    put_mark(place, "lab ours")
    (place / "tests.json").write_text("[]")
    report = pytest.TestReport(f"a.py::test[{UNIT}]", ("a.py", 1, "test"), {}, "failed", "boom", "call")
    vars(report)["mark"] = mark
    report.user_properties.append(("loss", "3 failed"))
    results = Results(tmp_path)
    results.pytest_runtest_logreport(report)
    entries = json.loads((place / "tests.json").read_text())
    assert [entry["figures"] for entry in entries] == ([{"loss": "3 failed"}] if written else [])


@pytest.mark.parametrize("theirs", ["", "text", "link", "new"])
def test_the_page_of_a_run_replaces_no_other(tmp_path, theirs):
    (tmp_path / "elsewhere").write_text("mine")
    root = tmp_path / "artifacts"
    (root / UNIT).mkdir(parents=True)
    (root / UNIT / "phases.json").write_text("[]")
    pages.write(root)
    if theirs == "text":
        (root / "index.html").write_text("mine")
    elif theirs == "link":
        (root / "index.html").unlink()
        (root / "index.html").symlink_to(tmp_path / "elsewhere")
    elif theirs == "new":
        (root / ".index.html.new").symlink_to(tmp_path / "elsewhere")
    if theirs in ("text", "link"):
        with pytest.raises(EvidenceError, match="is no page of a run"):
            pages.write(root)
    else:
        assert pages.write(root) == root / "index.html"
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert ((root / "index.html").read_text() == "mine") == (theirs in ("text", "link"))
