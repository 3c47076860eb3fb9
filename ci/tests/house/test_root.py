"""The files at the repository's root agree: hooks run what the gate runs, and packages are typed."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def test_hooks_run_what_the_gate_runs_and_fetch_nothing():
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {repo["repo"] for repo in repos} == {"local"}
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
    lines = re.compile(r"^ *\.venv/bin/((?:ruff|mypy).*?)(?: \.| \|\| .*)?$", re.MULTILINE)
    gate = lines.findall((ROOT / "ci/test").read_text())
    assert len(gate) >= 3
    entries = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in hooks]
    assert set(gate) <= set(entries)


def test_the_gate_looks_at_subjects():
    assert "ci/commit-subject --history\n" in (ROOT / "ci/test").read_text()


@pytest.mark.parametrize("room", ["installer", "drivers", "lab", "scenarios", "ci"])
def test_a_room_says_that_it_is_typed(room):
    assert (ROOT / room / "py.typed").exists()


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("a" * 72, None),
        ("ä" * 72 + "\n\nwhy\n", None),
        ("fixup! " + "a" * 72, None),
        ("# note\nsubject\n\n# note\nwhy\n", None),
        ("a" * 73, "the subject has 73 characters"),
        ("subject\nwhy\n", "a blank line belongs"),
        ("# note\n", "the commit has no subject"),
    ],
)
def test_a_commit_has_a_short_subject(tmp_path, message, why):
    (tmp_path / "message").write_text(message)
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    completed = subprocess.run(
        [ROOT / "ci/commit-subject", tmp_path / "message"], env=env, capture_output=True, text=True
    )
    assert (completed.returncode != 0) is (why is not None)
    assert (why or "") in completed.stderr


def test_subjects_since_a_commit_are_looked_at(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*argv, check=True):
        return subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=check, timeout=30)

    git = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org")
    run(*git, "init", "-q")
    for number, subject in enumerate(["a" * 80, "b" * 72, "c" * 73, "ä" * 72]):
        run(*git, "commit", "-q", "--allow-empty", "-m", subject)
        run(*git, "tag", f"v{number}")
    wanted = {"v0": ["c" * 73], "v1": ["c" * 73], "v2": [], "v3": []}
    for since, subjects in wanted.items():
        completed = run(ROOT / "ci/commit-subject", "--history", since, check=False)
        assert completed.returncode == (1 if subjects else 0)
        assert [line.split()[1] for line in completed.stderr.splitlines() if line.startswith("  ")] == subjects
    completed = run(ROOT / "ci/commit-subject", "--history", "0123456789", check=False)
    assert (completed.returncode, completed.stderr) == (
        0,
        "subjects are not looked at: this checkout has no commit 0123456789\n",
    )
