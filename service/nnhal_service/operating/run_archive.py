"""The file of the runs of the last day: the slowest of each model and minute, those that failed, and a sample."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nnhal.clock import now_ns
from nnhal.v1.framework_admin_pb2 import FindRunsRequest, FinishedRun
from nnhal_hosting.logs import get_logger
from nnhal_service.serving.history.ended_runs import KEPT_OF_MINUTE, MINUTE_NS, TROUBLED

FILE_NAME = "runs.sqlite"
MOST_FOUND = 100_000
_KEPT_MINUTES = 24 * 60
MOST_ROWS = 100_000
"""Rows of the file, of about 300 bytes each; the oldest are dropped."""
_FORM = 1
"""Counts the forms of the file. One of another form is begun anew."""
_TABLE = """
CREATE TABLE IF NOT EXISTS kept (model TEXT, minute INTEGER, reason TEXT, rank REAL,
    arrived_ns INTEGER, ended_ns INTEGER, took_ns INTEGER, run BLOB);
CREATE INDEX IF NOT EXISTS by_minute ON kept (minute, model, reason, rank);
"""
_log = get_logger(__name__)
T = TypeVar("T")


class ArchivedRun(NamedTuple):
    """A run for the archive, with the reason and the rank that ``ChosenRun`` has."""

    reason: str
    rank: float
    run: FinishedRun


class RunArchive:
    """A bounded file, which only its owner may read. Safe to use from several threads.

    What goes wrong with the file is logged once, and costs only what it kept. Runs have instants of CLOCK_BOOTTIME; in
    the file these are nanoseconds since the epoch.
    """

    def __init__(self, path: Path, most_rows: int = MOST_ROWS) -> None:
        self._path, self._most_rows = path, most_rows
        self._lock = threading.Lock()
        self._has_failed = False

    def add(self, runs: Iterable[ArchivedRun]) -> None:
        """Write runs, and drop those that others of their minute outrank, and those that are too old or too many."""
        shift = _epoch_shift()
        rows = [_row(each, shift) for each in runs]
        if rows:
            with self._lock, suppress(sqlite3.Error, OSError):
                self._guarded(lambda file: self._write(file, rows))

    def find(self, asked: FindRunsRequest) -> list[FinishedRun]:
        """Return the runs that are asked for. Raises OSError or sqlite3.Error if there is no usable file."""
        where = "minute >= ? AND ended_ns >= ? AND (? OR arrived_ns <= ?) AND (? OR model = ?) AND (? OR reason = ?)"
        order = "took_ns" if asked.slowest else "ended_ns"
        sql = f"SELECT DISTINCT {order}, run FROM kept WHERE {where} ORDER BY {order} DESC LIMIT ?"
        begin = (asked.begin_ns // MINUTE_NS, asked.begin_ns)
        end, model = (not asked.end_ns, asked.end_ns), (not asked.model, asked.model)
        given = (*begin, *end, *model, not asked.troubled, TROUBLED, asked.most)
        with self._lock:
            found = self._guarded(lambda file: file.execute(sql, given).fetchall())
        shift = _epoch_shift()
        return [_shifted(FinishedRun.FromString(content), -shift) for _, content in found]

    def _write(self, file: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
        with file:
            file.executemany("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            for model, minute, reason in {row[:3] for row in rows}:
                file.execute(
                    "DELETE FROM kept WHERE rowid IN (SELECT rowid FROM kept WHERE model = ? AND minute = ? AND "
                    "reason = ? ORDER BY rank DESC LIMIT -1 OFFSET ?)",
                    (model, minute, reason, KEPT_OF_MINUTE[reason]),
                )
            file.execute("DELETE FROM kept WHERE minute < ?", (time.time_ns() // MINUTE_NS - _KEPT_MINUTES,))
            (count,) = file.execute("SELECT count(*) FROM kept").fetchone()
            if count > self._most_rows:
                file.execute(
                    "DELETE FROM kept WHERE rowid IN (SELECT rowid FROM kept ORDER BY minute LIMIT ?)",
                    (count - self._most_rows,),
                )

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the file; one that is damaged is begun anew."""
        try:
            try:
                with closing(self._opened()) as file:
                    return work(file)
            except sqlite3.OperationalError:  # the disk is full, and such: the file may be sound
                raise
            except sqlite3.DatabaseError:
                self._path.unlink(missing_ok=True)
                with closing(self._opened()) as file:
                    return work(file)
        except (sqlite3.Error, OSError) as error:
            if not self._has_failed:
                _log.warning(f"runs are not kept in {self._path}: {error}")
            self._has_failed = True
            raise

    def _opened(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        file = sqlite3.connect(self._path)
        try:
            # A process that is killed leaves a sound file. Only a host that fails may damage it, and may lose it.
            file.execute("PRAGMA synchronous = OFF")
            (form,) = file.execute("PRAGMA user_version").fetchone()
            if form not in (0, _FORM):
                raise sqlite3.DatabaseError(f"it has form {form}, expected {_FORM}")
            if not form:
                file.executescript(f"{_TABLE} PRAGMA user_version = {_FORM};")
        except sqlite3.Error:
            file.close()
            raise
        return file


def _row(archived: ArchivedRun, shift: int) -> tuple[Any, ...]:
    """Return the row of a run, in the order of the columns."""
    run = _shifted(archived.run, shift)
    instants = (run.arrived_ns, run.ended_ns, run.ended_ns - run.arrived_ns)
    minute = run.ended_ns // MINUTE_NS
    return run.model, minute, archived.reason, archived.rank, *instants, run.SerializeToString()


def _shifted(run: FinishedRun, shift: int) -> FinishedRun:
    """Return a copy of a run whose instants are those of another clock."""
    copy = FinishedRun()
    copy.CopyFrom(run)
    copy.arrived_ns += shift
    copy.ended_ns += shift
    return copy


def _epoch_shift() -> int:
    """Return what turns an instant of CLOCK_BOOTTIME into one since the epoch when added, in nanoseconds."""
    return time.time_ns() - now_ns()
