"""Clusters of failures: those with nearly the same text within two weeks. A cluster's id never changes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import KW_ONLY, dataclass
from datetime import date, timedelta

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import latest
from ci.informer.history.store import History

DAYS = 14
#: Texts whose edit distance is under this share of the longer one are the same failure.
DISTANCE = 0.10
#: Characters of a text that are compared.
_LONGEST = 1000
#: What differs from run to run without meaning, in lower-case text, and the word put in its place; in this order.
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\bsha256:[0-9a-f]{12,64}\b"), "DIGEST"),
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b"), "MAC"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?\b"), "ADDRESS"),
    (re.compile(r"(?<![\w.])/[\w.+@-]+(?:/[\w.+@-]+)+"), "PATH"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"), "HEX"),
    (re.compile(r"\d+(?:\.\d+)?"), "N"),
    (re.compile(r"\s+"), " "),
)


def normalised(text: str) -> str:
    """Return a failure's text without what differs from run to run. Normalising twice changes nothing more."""
    text = text[: 4 * _LONGEST].lower()
    for pattern, word in _VARYING:
        text = pattern.sub(word.lower(), text)
    return text.strip()[:_LONGEST]


def same(message: str, other: str) -> bool:
    """Tell whether two normalised texts are the same failure."""
    return Levenshtein.normalized_distance(message, other, score_cutoff=DISTANCE) < DISTANCE


def id_of(text: str) -> str:
    """Return the id of the cluster that a normalised text begins."""
    return "c" + hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Cluster:
    """Failures that are the same one."""

    id: str
    text: str
    first_seen: date
    last_seen: date
    _: KW_ONLY
    runs: int
    jobs: int


class _Clusters:
    """The clusters that a failure may belong to: those seen within two weeks of it, before or after."""

    def __init__(self, history: History) -> None:
        rows = history.db.execute("SELECT * FROM cluster ORDER BY first_seen, id").fetchall()
        self.texts = {row["id"]: row["text"] for row in rows}
        self.seen = {
            row["id"]: (date.fromisoformat(row["first_seen"]), date.fromisoformat(row["last_seen"])) for row in rows
        }
        self._day: date | None = None
        self._recent: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def take(self, name: str, text: str, day: date) -> None:
        """Add a failure of a day to a cluster, which is created if it does not exist."""
        first, last = self.seen.get(name, (day, day))
        # Older runs may be loaded after newer ones.
        self.seen[name] = min(first, day), max(last, day)
        self._recent[name] = self.texts.setdefault(name, text)
        self._names[text] = name

    def nearest(self, text: str, day: date) -> str | None:
        """Return the cluster of a text, if there is one."""
        if id_of(text) in self.texts:
            return id_of(text)
        if day != self._day:
            near, seen = timedelta(days=DAYS), self.seen
            self._recent = {
                name: text for name, text in self.texts.items() if seen[name][0] - near <= day <= seen[name][1] + near
            }
            self._day, self._names = day, {}
        if text in self._names:
            return self._names[text]
        hit = process.extractOne(
            text, self._recent, scorer=Levenshtein.normalized_distance, processor=None, score_cutoff=DISTANCE
        )
        return hit[2] if hit is not None and hit[1] < DISTANCE else None


def assign(history: History) -> int:
    """Assign clusters to the red runs that have none, oldest first; returns how many runs."""
    select = "SELECT id, began, reason FROM run WHERE outcome IN (?, ?) AND cluster IS NULL ORDER BY began, id"
    red = (Outcome.FAILED.value, Outcome.VOID.value)
    if history.db.execute(select, red).fetchone() is None:
        return 0
    # All in one transaction: another process may be about to create the same cluster.
    with history.writing() as db:
        rows = db.execute(select, red).fetchall()
        clusters = _Clusters(history)
        for row in rows:
            text, day = normalised(row["reason"]) or "(no message)", date.fromisoformat(row["began"][:10])
            name = clusters.nearest(text, day) or id_of(text)
            clusters.take(name, text, day)
            db.execute(
                """INSERT INTO cluster VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
                SET first_seen = excluded.first_seen, last_seen = excluded.last_seen""",
                (name, clusters.texts[name], *(day.isoformat() for day in clusters.seen[name])),
            )
            db.execute("UPDATE run SET cluster = ? WHERE id = ?", (name, row["id"]))
    return len(rows)


def listed(history: History, since: date) -> list[Cluster]:
    """Return the clusters seen since a day, those with most runs first."""
    rows = history.db.execute(
        """SELECT cluster.*, count(run.id) AS runs, count(DISTINCT run.job) AS jobs FROM cluster
        JOIN run ON run.cluster = cluster.id AND run.began BETWEEN ? AND ?
        GROUP BY cluster.id ORDER BY runs DESC, cluster.id""",
        (since.isoformat(), latest()),
    )
    return [
        Cluster(
            row["id"],
            row["text"],
            date.fromisoformat(row["first_seen"]),
            date.fromisoformat(row["last_seen"]),
            runs=row["runs"],
            jobs=row["jobs"],
        )
        for row in rows
    ]


def first_seen(history: History) -> dict[str, date]:
    """Find when each cluster was first seen."""
    return {
        row["id"]: date.fromisoformat(row["first_seen"])
        for row in history.db.execute("SELECT id, first_seen FROM cluster")
    }
