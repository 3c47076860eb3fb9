"""Finding the first release that is bad, where even a good one fails now and then.

Noisy bisection: each place for the change is as likely as the next one at first; each run makes those more likely that
explain it (Bayes); the next run is on the release that splits what is left evenly, until one place has the wanted share
(R. M. Karp, R. Kleinberg, "Noisy binary search and its applications", SODA 2007; Waeber, Frazier, Henderson, "Bisection
search with noisy responses", SIAM J. Control Optim. 51, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

from ci.informer.arithmetic.proportions import Counts
from ci.informer.errors import InformerError

#: What good releases are taken to have shown besides their history: one failure in fifty.
_GOOD = Counts(50, 1)
#: Failure rates that a bad release may have; the search finds the rate together with the place. When a fixed nine in
#: ten was assumed and the true rate was six, a third of the searches blamed a wrong release.
_BAD_RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
#: What is broken fails most times rather than few: before any run a failure rate is as likely as it is to this power.
_OFTEN = 2


@dataclass
class Bisection:
    """Releases in their order, the first of which is good and the last bad, and what is known of where it changed.

    `flakes` are runs of good releases, `failures` of bad ones: what a job's history has of them.
    """

    releases: Sequence[str]
    flakes: Counts = field(default_factory=Counts)
    failures: Counts = field(default_factory=Counts)
    sure: float = 0.95
    _: KW_ONLY
    runs: dict[str, Counts] = field(default_factory=dict)
    #: By release (all but the first) and failure rate of the bad ones; they add up to 1.
    _joint: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise InformerError for less than two releases, or one that occurs twice."""
        if len(self.releases) < 2:
            raise InformerError(f"releases: {len(self.releases)} is less than two: a good one and a bad one")
        if twice := sorted({release for release in self.releases if self.releases.count(release) > 1}):
            raise InformerError(f"releases: {twice[0]!r} occurs twice")
        prior = self.failures
        rates = [rate**_OFTEN * rate**prior.failures * (1 - rate) ** prior.passes for rate in _BAD_RATES]
        self._joint = [list(rates) for _ in self.releases[1:]]
        self._scale()

    def _scale(self) -> None:
        total = sum(map(sum, self._joint))
        self._joint = [[rate / total for rate in rates] for rates in self._joint]

    @property
    def likely(self) -> list[float]:
        """Compute how likely each release but the first is the first bad one."""
        return [sum(rates) for rates in self._joint]

    def learn(self, release: str, *, failed: bool) -> None:
        """Take in the outcome of one run of a release. Raises ValueError for a release that is not among `releases`."""
        good = (self.flakes + _GOOD).failure_rate
        place = self.releases.index(release)
        for first_bad, rates in enumerate(self._joint, start=1):
            for number, bad in enumerate(_BAD_RATES):
                rate = max(bad, good) if place >= first_bad else good
                rates[number] *= rate if failed else 1 - rate
        self._scale()
        self.runs[release] = self.runs.get(release, Counts()) + Counts(1, int(failed))

    @property
    def first_bad(self) -> tuple[str, float]:
        """The release that is most likely the first bad one, and how likely that is."""
        likely = self.likely
        place = max(range(len(likely)), key=likely.__getitem__)
        return self.releases[place + 1], likely[place]

    @property
    def is_decided(self) -> bool:
        """Tell whether one release is the first bad one with a probability of at least `sure`."""
        return self.first_bad[1] >= self.sure

    def wanted(self) -> str:
        """Return the release whose run tells most: about half of the likelihood is at it or before.

        Next to the change it is the last good or the first bad one, whichever is less sure.
        """
        total, best, release = 0.0, 2.0, self.releases[-1]
        for place, share in enumerate(self.likely[:-1], start=1):
            total += share
            if abs(total - 0.5) < best:
                best, release = abs(total - 0.5), self.releases[place]
        return release


def bisect(search: Bisection, run: Callable[[str], bool | None], most: int) -> Iterator[tuple[str, bool | None]]:
    """Run releases until the first bad one is found, one cannot be run, or `most` runs were made; each release and
    whether it failed.

    `run` makes one run of a release; None: it said nothing (an invalid run), as often as it was repeated. The same
    one would be chosen again then."""
    for _ in range(most):
        if search.is_decided:
            return
        release = search.wanted()
        failed = run(release)
        if failed is not None:
            search.learn(release, failed=failed)
        yield release, failed
        if failed is None:
            return
