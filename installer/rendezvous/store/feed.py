"""The feed of changes: which clusters, hosts and infra-envs have changed since a mark, kept in the database.

Each object has one row, moved to the end by its last change; that of a removed one stays for a while. So a reader that
was away, or whose service was started anew, goes on from its mark, and the feed is never longer than what there is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from installer.assisted.errors import Gone
from installer.rendezvous.store.records import Records

# Removed objects that the feed remembers; whoever has missed more of them begins anew.
REMOVED = 10_000
# Changes of one page.
PAGE = 1_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL,
    infra_env_id TEXT NOT NULL, deleted INTEGER NOT NULL, UNIQUE (kind, id, infra_env_id));
"""
# Objects of a store without a feed, which an earlier version has made.
_FILL = """
INSERT INTO changes (kind, id, infra_env_id, deleted) SELECT 'cluster', id, '', 0 FROM clusters
    UNION ALL SELECT 'infra_env', id, '', 0 FROM infra_envs UNION ALL SELECT 'host', id, infra_env_id, 0 FROM hosts
"""
_MARK = re.compile(r"([0-9a-f]{12})-([0-9]{1,18})(?:-([0-9]{1,18}))?")
# The row that says up to where removed objects have been forgotten.
_FORGOTTEN = ("forgotten", "", "")


class Subject(NamedTuple):
    """A change of a ``cluster``, ``host`` or ``infra_env``."""

    kind: str
    id: str
    infra_env_id: str = ""


class Feed(Records):
    """The database with the feed. Changes are noted within the transaction that they belong to."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError when the file cannot be used."""
        super().__init__(path, _SCHEMA)
        # What the change under way has touched, and whether it is gone now.
        self._changed: dict[Subject, bool] = {}

    def _fill_feed(self) -> None:
        if not self._rows("SELECT 1 FROM changes LIMIT 1"):
            self.db.execute(_FILL)

    def _note(self, kind: str, identity: str, infra_env_id: str = "", *, deleted: bool = False) -> None:
        self._changed[Subject(kind, identity, infra_env_id)] = deleted

    def _write_feed(self) -> None:
        for subject, deleted in self._changed.items():
            self._write(
                "INSERT OR REPLACE INTO changes (kind, id, infra_env_id, deleted) VALUES (?,?,?,?)", *subject, deleted
            )
        if any(self._changed.values()):
            query = "SELECT seq FROM changes WHERE deleted ORDER BY seq DESC LIMIT 1 OFFSET ?"
            for (seq,) in self._rows(query, REMOVED):
                self._write("DELETE FROM changes WHERE deleted AND seq <= ?", seq)
                self._write("INSERT OR REPLACE INTO changes VALUES (?,?,?,?,0)", seq, *_FORGOTTEN)

    def changes(self, mark: str) -> tuple[list[tuple[Subject, bool]], str]:
        """Return the next changes (what, whether it was removed) after a mark, and the mark after them.

        An empty mark is the beginning, with all that there is. Raises Gone for a mark that is not this feed's, or from
        before what it remembers.
        """
        name = self.secret("feed").hex()[:12]
        newest = self._newest()
        after, begun = self._position(mark, name, newest) if mark else (0, newest)
        rows = self._rows(
            "SELECT seq, kind, id, infra_env_id, deleted FROM changes WHERE seq > ? AND kind != 'forgotten' "
            "AND NOT (deleted AND seq <= ?) ORDER BY seq LIMIT ?",
            after,
            begun,
            PAGE,
        )
        end = rows[-1][0] if len(rows) == PAGE else newest
        # Until a reader has seen what there was when it began, removals before that are none of its concern.
        place = f"{end}-{begun}" if end < begun else f"{end}"
        return [(Subject(*row[1:4]), bool(row[4])) for row in rows], f"{name}-{place}"

    def _newest(self) -> int:
        rows = self._rows("SELECT seq FROM sqlite_sequence WHERE name='changes'")
        return int(rows[0][0]) if rows else 0

    def _position(self, mark: str, name: str, newest: int) -> tuple[int, int]:
        """Return (after which change to go on, with which the reader has begun). Raises Gone."""
        match = _MARK.fullmatch(mark)
        after, begun = (int(match[2]), int(match[3] or 0)) if match else (0, 0)
        if match is None or match[1] != name or max(after, begun) > newest:
            raise Gone("after: the mark is not of this service's feed; list everything anew, with an empty one")
        forgotten = self._rows("SELECT seq FROM changes WHERE kind='forgotten'")
        if forgotten and max(after, begun) < forgotten[0][0]:
            raise Gone("after: the mark is too old; list everything anew, with an empty one")
        return after, begun
