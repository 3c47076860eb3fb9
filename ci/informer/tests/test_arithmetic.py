"""The formulas against published examples, and what must hold of them whatever comes in."""

import random
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.informer.arithmetic import aggregate, changepoint, durations, flakes, promotion, regression
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.arithmetic.proportions import Counts, adjusted, fisher_worse, wilson
from ci.informer.arithmetic.regression import Status, assess

COUNTS = st.integers(0, 200).flatmap(lambda runs: st.builds(Counts, st.just(runs), st.integers(0, runs)))
DAYS = st.dates(date(2020, 1, 1), date(2030, 1, 1))
#: The aggregator's table (pass_fail.go), by runs: from which percentage of history on one more must pass.
TABLE = {
    10: (41, 52, 62, 71, 79, 86, 92, 98, 100),
    9: (44, 56, 67, 76, 84, 91, 97, 100),
    8: (48, 61, 72, 82, 90, 96, 100),
    7: (53, 67, 79, 88, 95, 100),
    6: (59, 74, 86, 95, 100),
    5: (67, 82, 94, 100),
    4: (76, 91, 99),
    3: (87, 99),
}
#: R's `Nile`: the yearly flow at Aswan from 1871 on, in 10^8 m^3.
NILE = (
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
)  # fmt: skip


#: Fifteen comparisons after a heart attack (K. L. Neuhaus and others, 1992), Benjamini and Hochberg's own example.
NEUHAUS = (
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590,
    1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("failures", "runs", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_newcombes_method_3(failures, runs, low, high):
    assert list(wilson(Counts(runs, failures))) == pytest.approx([low, high], abs=5e-5)


@given(COUNTS, st.floats(0.5, 0.999))
def test_wilson_holds_the_share_and_widens_with_confidence(counts, confidence):
    low, high = wilson(counts, confidence)
    assert 0 <= low <= counts.failure_rate + 1e-12
    assert counts.failure_rate - 1e-12 <= high <= 1
    wider = wilson(counts, 0.9999)
    assert wider[0] <= low + 1e-12
    assert wider[1] >= high - 1e-12


def test_of_many_comparisons_those_stay_that_benjamini_and_hochberg_keep():
    assert [p < 0.05 for p in adjusted(NEUHAUS)] == [True] * 4 + [False] * 11
    assert adjusted(NEUHAUS)[3] == pytest.approx(0.0095 * 15 / 4)


@given(st.lists(st.floats(0, 1)))
def test_corrected_p_values_are_no_smaller(ps):
    assert all(after >= before for before, after in zip(ps, adjusted(ps), strict=True))
    assert adjusted(ps[:1]) == pytest.approx(ps[:1])


def test_fisher_has_the_p_of_the_lady_tasting_tea():
    """Three of four cups right, Fisher 1935: 17 in 70."""
    assert fisher_worse(Counts(4, 3), Counts(4, 1)) == pytest.approx(17 / 70)


@given(COUNTS, COUNTS)
def test_fisher_is_a_probability_and_falls_with_failures(sample, base):
    p = fisher_worse(sample, base)
    assert 0 <= p <= 1 + 1e-9
    if sample.failures < sample.runs:
        assert fisher_worse(Counts(sample.runs, sample.failures + 1), base) <= p + 1e-9


@pytest.mark.parametrize(("runs", "failures"), [(1, 2), (3, -1)])
def test_more_failures_than_runs_are_an_error(runs, failures):
    with pytest.raises(ValueError, match="failures of"):
        Counts(runs, failures)


@pytest.mark.parametrize("runs", TABLE)
def test_required_passes_are_the_aggregators_table(runs):
    wanted = [sum(begin <= percentage for begin in TABLE[runs]) for percentage in range(101)]
    assert [aggregate.required_passes(runs, percentage) for percentage in range(101)] == wanted


@given(st.integers(1, 20), st.integers(0, 99))
def test_a_better_history_asks_for_no_less(runs, percentage):
    few = aggregate.required_passes(runs, percentage)
    assert 0 <= few <= aggregate.required_passes(runs, percentage + 1) <= runs
    assert few <= aggregate.required_passes(runs + 1, percentage) or runs + 1 == aggregate.GRACE_FROM


def test_an_aggregated_job_wants_one_pass_at_least():
    assert not aggregate.accepted(Counts(10, 10), Counts(100, 90))
    assert aggregate.accepted(Counts(10, 9), Counts(100, 90))
    assert aggregate.percentage_of(Counts()) == 70
    assert [aggregate.percentage_of(Counts(runs, 3)) for runs in (5, 6, 299)] == [70, 50, 98]
    assert not aggregate.accepted(Counts(10, 8), Counts())


@given(DAYS)
def test_the_baseline_ends_ten_days_before(day):
    begin, end = aggregate.baseline(day)
    assert (day - end).days == 10
    assert (end - begin).days == 30


@pytest.mark.parametrize(
    ("sample", "base", "status"),
    [
        (Counts(100, 20), Counts(1000, 20), Status.EXTREME),
        (Counts(100, 10), Counts(1000, 20), Status.REGRESSED),
        (Counts(100, 7), Counts(1000, 20), Status.UNCHANGED),  # five points of pity
        (Counts(10, 2), Counts(1000, 0), Status.UNCHANGED),  # two failures
        (Counts(10, 3), Counts(1000, 0), Status.EXTREME),
        (Counts(10, 3), Counts(10, 1), Status.UNCHANGED),  # not sure
        (Counts(20, 3), Counts(100, 2), Status.REGRESSED),  # p 0.03
        (Counts(1000, 50), Counts(1000, 0), Status.REGRESSED),  # five points, and more in Sippy's floats
        (Counts(1000, 100), Counts(1000, 50), Status.UNCHANGED),  # five points, and less
        (Counts(1000, 56), Counts(1000, 0), Status.REGRESSED),
        (Counts(1000, 145), Counts(1000, 0), Status.REGRESSED),
        (Counts(1000, 150), Counts(1000, 0), Status.EXTREME),
        (Counts(1000, 155), Counts(1000, 0), Status.EXTREME),
        (Counts(100, 0), Counts(100, 20), Status.UNCHANGED),  # too few failures, before all else
        (Counts(100, 3), Counts(100, 20), Status.IMPROVED),
        (Counts(), Counts(100, 0), Status.MISSING),
        (Counts(), Counts(), Status.NEW),
        (Counts(5, 5), Counts(), Status.NEW),
        (Counts(6, 1), Counts(), Status.NEW),
        (Counts(6, 3), Counts(), Status.EXTREME),
        (Counts(20, 2), Counts(), Status.NEW),
        (Counts(30, 3), Counts(), Status.REGRESSED),  # 90 %
        (Counts(29, 3), Counts(), Status.EXTREME),
        (Counts(60, 3), Counts(), Status.NEW),  # 95 %
    ],
)
def test_a_test_is_assessed_as_component_readiness_does(sample, base, status):
    assert assess(sample, base).status is status


@given(COUNTS, COUNTS)
def test_a_regression_has_failures_points_and_confidence(sample, base):
    assessment = assess(sample, base)
    if assessment.status in (Status.EXTREME, Status.REGRESSED):
        worse = base.pass_rate - sample.pass_rate if base.runs else 0.95 - sample.pass_rate
        assert sample.failures >= 3
        assert worse > (0.05 if base.runs else 0)
        assert assessment.p < 0.051 or not base.runs
        assert (assessment.status is Status.EXTREME) == (worse > (0.15 if base.runs else 0.05))
    assert assess(sample, sample).status in (Status.UNCHANGED, Status.NEW)


@pytest.mark.parametrize(
    ("sample", "base", "status"),
    [
        (Counts(100, 5), Counts(1000, 10), Status.REGRESSED),  # 4 points, p 0.01
        (Counts(1000, 39), Counts(1000, 10), Status.UNCHANGED),  # under 3 points
        (Counts(40, 3), Counts(200, 4), Status.REGRESSED),  # p 0.09
        (Counts(40, 2), Counts(200, 0), Status.UNCHANGED),
    ],
)
def test_an_open_regression_closes_less_readily_than_it_opens(sample, base, status):
    assert assess(sample, base, regression.OPEN_RULES).status is status
    assert assess(sample, base).status is Status.UNCHANGED


@pytest.mark.parametrize(
    ("base", "earlier", "best"),
    [
        (Counts(100, 5), [Counts(60, 1)], Counts(60, 1)),
        (Counts(100, 5), [Counts(59, 1)], Counts(100, 5)),
        (Counts(100, 5), [Counts(59, 1), Counts(100, 0)], Counts(100, 5)),
        (Counts(100, 5), [Counts(), Counts(100, 0)], Counts(100, 0)),
        (Counts(100, 5), [Counts(60, 1), Counts(40, 0)], Counts(40, 0)),  # six tenths of the better basis
        (Counts(100, 5), [Counts(100, 5), Counts(100, 6)], Counts(100, 5)),
        (Counts(), [Counts(100, 0)], Counts()),
    ],
)
def test_the_basis_is_the_best_of_earlier_releases(base, earlier, best):
    assert regression.best_basis(base, earlier) == best


@given(COUNTS, COUNTS)
def test_a_regression_stays_one_by_the_rules_of_open_ones(sample, base):
    if (opened := assess(sample, base)).status.bad:
        assert assess(sample, base, regression.OPEN_RULES) == opened


@given(DAYS, st.integers(-3, 9))
def test_a_closed_regression_reopens_within_five_days(closed, days):
    assert regression.reopens(closed, closed + timedelta(days=days)) == (0 <= days <= 5)


@given(DAYS)
def test_the_sample_is_a_week_and_the_base_a_month(day):
    begin, end = regression.sample_window(day)
    assert (begin, end) == (day - timedelta(days=6), day + timedelta(days=1))
    assert regression.base_window(day) == (day - timedelta(days=30), day)


@pytest.mark.parametrize(
    ("attempts", "outcome"),
    [
        ("failed passed", Outcome.FLAKE),
        ("passed", Outcome.PASSED),
        ("failed failed", Outcome.FAILED),
        ("passed failed", Outcome.FAILED),
        ("passed failed passed void", Outcome.FLAKE),
        ("void passed", Outcome.PASSED),
        ("void", Outcome.VOID),
        ("void failed", Outcome.FAILED),
        ("skipped", Outcome.SKIPPED),
        ("", Outcome.SKIPPED),
    ],
)
def test_a_pass_in_a_rerun_is_a_flake(attempts, outcome):
    assert flakes.of_attempts([Outcome(word) for word in attempts.split()]) is outcome


@given(st.lists(st.sampled_from(Outcome)))
def test_invalid_runs_count_as_neither(outcomes):
    counts = flakes.counted(outcomes)
    assert counts == flakes.counted([outcome for outcome in outcomes if outcome not in (Outcome.VOID, Outcome.SKIPPED)])
    assert counts.passes == sum(outcome.good for outcome in outcomes)


@given(COUNTS, st.builds(Counts, st.integers(2, 500), st.just(1)))
def test_a_rise_is_weighed_by_two_beta_binomials(sample, history):
    from scipy.stats import betabinom  # 0.9 s of processor time, and each worker collects this module

    many = min(1 + history.runs / 10, history.runs - 0.5)
    worse = betabinom.logpmf(sample.failures, sample.runs, many, history.runs - many)
    usual = betabinom.logpmf(sample.failures, sample.runs, 1, history.runs - 1)
    likelier = flakes.worse_likelier(history, 0.1)
    assert likelier(sample) == pytest.approx(worse - usual, abs=1e-6)
    for more in (Counts(1, 1), Counts(1)):
        assert (likelier(sample + more) > likelier(sample)) is bool(more.failures)


def test_a_history_that_could_have_come_out_otherwise_promises_little():
    """Ten failures of fifty, after 2 % of so many runs."""
    ratios = [flakes.worse_likelier(Counts(50 * n, n), 0.1)(Counts(50, 10)) for n in (1, 2, 6, 100)]
    assert ratios == sorted(ratios)
    assert ratios[0] < 7.5 < ratios[-1]


def test_all_attempts_fail_as_the_beta_binomial_says():
    """With Beta(1/2, 1/2), no history, the first attempt fails with 1/2, both with (1/2)(3/2) / (1 * 2) = 3/8."""
    assert flakes.all_fail(1, Counts()) == pytest.approx(1 / 2)
    assert flakes.all_fail(2, Counts()) == pytest.approx(3 / 8)
    assert flakes.all_fail(3, Counts(20, 4)) == pytest.approx(4.5 / 21 * 5.5 / 22 * 6.5 / 23)
    assert flakes.attempts_wanted(Counts(1000, 1)) == 1
    assert flakes.attempts_wanted(Counts(1000, 20)) == 2
    assert flakes.attempts_wanted(Counts()) == 5


@given(COUNTS, st.integers(1, 6))
def test_more_attempts_fail_more_seldom(history, attempts):
    assert flakes.all_fail(attempts + 1, history) <= flakes.all_fail(attempts, history) + 1e-12
    assert 1 <= flakes.attempts_wanted(history) <= flakes.MOST


@pytest.mark.parametrize(
    ("days", "counts", "flaky", "p95", "kind"),
    [
        (30, Counts(300, 0), 2, 3600, promotion.Kind.BLOCKING),
        (30, Counts(300, 0), 3, 3600, promotion.Kind.INFORMING),
        (30, Counts(300, 3), 0, 3600, promotion.Kind.INFORMING),
        (13, Counts(300, 0), 0, 60, promotion.Kind.INFORMING),
        (30, Counts(300, 0), 0, 3601, promotion.Kind.INFORMING),
        (30, Counts(10, 3), 0, 60, promotion.Kind.INFORMING),
        (30, Counts(100, 31), 0, 60, promotion.Kind.NEW),
        (30, Counts(5, 0), 0, 60, promotion.Kind.NEW),
    ],
)
def test_a_job_is_promoted_by_what_it_did(days, counts, flaky, p95, kind):
    earned, wants = promotion.promoted(promotion.Record(days, counts, flaky, p95))
    assert earned is kind
    assert bool(wants) == (kind is not promotion.Kind.BLOCKING)


def test_percentiles_are_type_7():
    """Hyndman and Fan's type 7 of 1 to 10, as R and numpy give it."""
    summary = durations.summary(range(1, 11))
    assert (summary.p50, summary.p95, summary.longest) == (5.5, pytest.approx(9.55), 10)
    assert durations.summary([]) is None
    assert durations.summary([3.0]) == durations.Durations(1, 3.0, 3.0, 3.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1e6, 1e9))
def test_percentiles_are_in_order_and_one_hung_run_moves_only_the_longest_far(seconds, hung):
    summary = durations.summary(seconds)
    assert min(seconds) <= summary.p50 * (1 + 1e-9)
    assert summary.p50 <= summary.p95 * (1 + 1e-9)
    assert summary.p95 <= summary.longest * (1 + 1e-9)
    assert durations.summary([*seconds, hung]).longest == hung


@pytest.mark.parametrize(("factor", "notable_drift"), [(1.14, False), (1.2, True), (0.8, True), (0.9, False)])
def test_drift_over_fifteen_percent_is_notable(factor, notable_drift):
    before = [300.0, 310.0, 290.0, 305.0, 295.0]
    assert durations.notable(durations.drift([factor * row for row in before], before)) is notable_drift
    assert durations.drift(before[:4], before) is None


def test_the_nile_changed_in_1898():
    """G. W. Cobb, "The problem of the Nile", Biometrika 65 (1978)."""
    change = changepoint.likeliest(NILE)
    assert 1871 + change.index - 1 == 1898
    assert change.p < 1e-6
    assert [point.index for point in changepoint.change_points(NILE)] == [28]


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 9))
def test_change_points_do_not_depend_on_scale_or_direction(values, factor):
    changes = changepoint.change_points(values)
    assert [c.index for c in changepoint.change_points([factor * v + 3 for v in values])] == [c.index for c in changes]
    assert [c.index for c in changepoint.change_points([-v for v in values])] == [c.index for c in changes]
    assert all(0 < change.index < len(values) and change.p < changepoint.LEVEL for change in changes)


def test_a_test_that_began_to_fail_has_its_change_there():
    assert [change.index for change in changepoint.change_points([0] * 40 + [1] * 20)] == [40]
    assert changepoint.change_points([0] * 40) == []
    assert changepoint.change_points([0] * 5 + [1] * 5) == []  # p 0.08


def test_what_repeats_itself_has_not_changed():
    """Noise of which each value is half of the one before, and a trend: change points to a test that counts values."""
    noise, generator = [0.0], random.Random(1)
    for _ in range(299):
        noise.append(noise[-1] / 2 + generator.gauss(0, 1))
    assert changepoint.change_points(noise) == []
    assert changepoint.change_points([float(value) for value in range(200)]) == []
    assert changepoint.likeliest(noise).p < changepoint.LEVEL


def test_a_regression_that_was_mended_soon_has_both_its_ends():
    usual, generator = [100.0] * 200, random.Random(2)
    values = [value + generator.gauss(0, 3) for value in [*usual, *[120.0] * 12, *usual]]
    assert [change.index for change in changepoint.change_points(values)] == [200, 212]
