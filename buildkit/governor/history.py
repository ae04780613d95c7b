"""The history: what compiler calls took on this machine, in one SQLite file of the cache.

What enters: measurements of a build. What leaves: the last runs of each unit. It only ever makes a
build better informed: a file that is damaged is set aside, one that cannot be used is done
without, and both are told.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from buildkit.fs import locked
from buildkit.governor.estimate import Measured, UnitKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from buildkit.events import Events

__all__ = ["History"]

#: Runs that are kept of each unit.
KEPT = 3

#: How long one process waits for another one's transaction.
BUSY_SECONDS = 10.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    number INTEGER PRIMARY KEY,
    recipe TEXT NOT NULL,
    arch TEXT NOT NULL,
    compiler TEXT NOT NULL,
    source TEXT NOT NULL,
    flags TEXT NOT NULL,
    peak_bytes INTEGER NOT NULL,
    seconds REAL NOT NULL,
    tail_bytes INTEGER,
    ran_out INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS run_of_unit ON run (recipe, arch, compiler, source, flags, number);
"""

_FORGET = """
DELETE FROM run WHERE number IN (
    SELECT number FROM (
        SELECT number, row_number() OVER (
            PARTITION BY recipe, arch, compiler, source, flags ORDER BY number DESC
        ) AS age FROM run WHERE recipe = ? AND arch = ? AND compiler = ?
    ) WHERE age > ?
)
"""


class History:
    """The runs of one recipe, target and compiler. Safe under any number of processes.

    :param file: The database; made when something is remembered.
    :param compiler: Name and version.
    """

    def __init__(
        self, file: Path, *, recipe: str, arch: str, compiler: str, events: Events
    ) -> None:
        self._file = file
        self._key = (recipe, arch, compiler)
        self._events = events

    def recall(self) -> dict[UnitKey, list[Measured]]:
        """Return the last runs of every unit, oldest first; nothing if the file cannot be read."""
        if not self._file.exists():
            return {}
        runs: dict[UnitKey, list[Measured]] = {}
        try:
            with closing(self._open()) as database:
                rows = database.execute(
                    "SELECT source, flags, peak_bytes, seconds, tail_bytes, ran_out FROM run"
                    " WHERE recipe = ? AND arch = ? AND compiler = ? ORDER BY number",
                    self._key,
                ).fetchall()
        except (sqlite3.Error, OSError) as error:
            self._tell(error)
            return {}
        for source, flags, peak_bytes, seconds, tail_bytes, ran_out in rows:
            run = Measured(
                peak_bytes=peak_bytes,
                seconds=seconds,
                tail_bytes=tail_bytes,
                ran_out=bool(ran_out),
            )
            runs.setdefault(UnitKey(source, flags), []).append(run)
        return runs

    def remember(self, runs: Iterable[tuple[UnitKey, Measured]]) -> None:
        """Add runs, all or none, and forget the oldest beyond those that are kept of each unit."""
        rows = [
            (
                *(*self._key, unit.source, unit.flags),
                *(run.peak_bytes, run.seconds, run.tail_bytes, run.ran_out),
            )
            for unit, run in runs
        ]
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._open()) as database, database:
                database.executemany(
                    "INSERT INTO run (recipe, arch, compiler, source, flags, peak_bytes, seconds,"
                    " tail_bytes, ran_out) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
                database.execute(_FORGET, (*self._key, KEPT))
        except (sqlite3.Error, OSError) as error:
            self._tell(error)

    def _open(self) -> sqlite3.Connection:
        """Open the database; if it is damaged, set it aside and make a new one.

        The rollback journal, SQLite's default, also works where the cache is a network directory;
        write-ahead logging does not. Source: sqlite.org/wal.html, "Overview".
        """
        try:
            return self._open_sound()
        except sqlite3.OperationalError:
            raise  # locked, read-only, disk full: the file itself is sound
        except sqlite3.DatabaseError:
            with locked(self._file.with_name(f"{self._file.name}.lock")):
                try:
                    return self._open_sound()  # another process may have been first
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError:
                    aside = self._file.with_name(f"{self._file.name}.damaged")
                    self._file.replace(aside)
                    self._events.warning(
                        f"The build history was damaged and begins anew; the old one is {aside}."
                    )
                    return self._open_sound()

    def _open_sound(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=BUSY_SECONDS)
        try:
            if database.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("quick_check failed")
            database.executescript(_SCHEMA)
        except BaseException:
            database.close()
            raise
        return database

    def _tell(self, error: Exception) -> None:
        self._events.warning(f"The build history {self._file} is not used: {error}.")
