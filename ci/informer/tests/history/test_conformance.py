"""The conformance suite's results come into the history as they were."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history import junit
from lab.conformance import results
from lab.conformance.results import Result

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OUTCOMES = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, "left out": Outcome.SKIPPED, "not run": Outcome.FAILED}


@given(
    st.lists(
        st.builds(
            Result, st.text(min_size=1, max_size=20).map(lambda t: f"spec {t.strip()}"),
            st.sampled_from(sorted(OUTCOMES)), st.floats(0, 1e4), st.text(max_size=40), st.text(max_size=40),
        ),
        min_size=1, max_size=6, unique_by=lambda r: results._clean(r.spec),
    )
)  # fmt: skip
def test_the_history_reads_of_our_junit_what_the_run_was(tmp_path_factory, ended: list[Result]) -> None:
    path = tmp_path_factory.mktemp("junit") / "junit.xml"
    path.write_bytes(results.junit(ended, began=BEGAN, seconds=12.5, facts={"lab": "x\x00y"}))
    run = junit.load([path], "conformance", "4.18.0")
    assert (run.seconds, run.began) == (12.5, "2026-01-02T03:04:05Z")
    assert [attempt.outcome for attempt in run.attempts] == [OUTCOMES[result.outcome] for result in ended]
