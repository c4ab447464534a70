"""The order of a replay: a call begins when all that had ended before it in the recording have ended again."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence

from nnhal.recording import Record


class Turns:
    """The turns of calls of several sessions. Safe to use from several threads.

    Calls that overlap in the recording may overlap again. As each waits for earlier ones only, none waits for ever.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        by_end = sorted(range(len(records)), key=lambda number: records[number].ended_ns)
        ends = [records[number].ended_ns for number in by_end]
        self._places = {number: place for place, number in enumerate(by_end)}
        self._before = [bisect_right(ends, record.started_ns) for record in records]
        self._is_done = bytearray(len(records))
        self._done = 0
        self._has_failed = False
        self._changed = threading.Condition()

    def wait_for(self, number: int) -> bool:
        """Wait until a call may begin; return False if the replay is over."""
        with self._changed:
            # A call of no length is among those that end at its own beginning.
            needed = min(self._before[number], self._places[number])
            self._changed.wait_for(lambda: self._done >= needed or self._has_failed)
            return not self._has_failed

    def end(self, number: int) -> None:
        """Note that a call has ended, or was left out."""
        with self._changed:
            self._is_done[self._places[number]] = 1
            while self._done < len(self._is_done) and self._is_done[self._done]:
                self._done += 1
            self._changed.notify_all()

    def fail(self) -> None:
        """Have all sessions end."""
        with self._changed:
            self._has_failed = True
            self._changed.notify_all()
