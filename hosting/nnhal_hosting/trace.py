"""Timelines as files, for chrome://tracing and Perfetto.

The format is the JSON object of the Trace Event Format (Google, 2016), with complete, flow and instant events, and
metadata events that name the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

Details = Mapping[str, object]
"""What a viewer shows of an event besides its name and time, as values of JSON."""
_Event = dict[str, object]


class Row(NamedTuple):
    """A row in which events are shown: the numbers of a process and of one of its threads."""

    process: int
    thread: int


class Trace:
    """A trace that is being recorded. Instants are nanoseconds of CLOCK_BOOTTIME. Not thread-safe."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Row] = {}
        self._metadata: list[_Event] = []
        self._events: list[tuple[int, _Event]] = []
        self._flows = 0

    def row(self, process: str, thread: str = "main") -> Row:
        """Return the row of these names, and make it the first time. Rows are shown in the order of their making."""
        known = self._rows.get((process, thread))
        if known is not None:
            return known
        of_process = [row for (name, _), row in self._rows.items() if name == process]
        number = of_process[0].process if of_process else 1 + len({row.process for row in self._rows.values()})
        row = self._rows[process, thread] = Row(number, 1 + len(of_process))
        if not of_process:
            self._name(row, "process_name", {"name": process})
            self._name(row, "process_sort_index", {"sort_index": number})
        self._name(row, "thread_name", {"name": thread})
        return row

    def span(self, row: Row, name: str, started_ns: int, ended_ns: int, details: Details | None = None) -> None:
        """Add an event with a duration. Two spans of one row are nested or disjoint."""
        self._add(
            row, started_ns, {"ph": "X", "name": name, "cat": "span", "dur": (ended_ns - started_ns) / 1e3}, details
        )

    def instant(self, row: Row, at_ns: int, name: str, details: Details | None = None) -> None:
        """Add an event without a duration."""
        self._add(row, at_ns, {"ph": "i", "name": name, "cat": "instant", "s": "t"}, details)

    def flow(
        self, name: str, source: tuple[Row, int], destination: tuple[Row, int], details: Details | None = None
    ) -> None:
        """Add an arrow between two spans, each given by its row and an instant within it."""
        self._flows += 1
        common: _Event = {"name": name, "cat": "value", "id": self._flows}
        self._add(*source, common | {"ph": "s"}, details)
        self._add(*destination, common | {"ph": "f", "bp": "e"}, details)

    def as_dict(self) -> dict[str, object]:
        """Return the file's JSON object; times are microseconds since the first event."""
        origin = min((at_ns for at_ns, _ in self._events), default=0)
        events = [
            event | {"ts": (at_ns - origin) / 1e3} for at_ns, event in sorted(self._events, key=lambda entry: entry[0])
        ]
        return {
            "traceEvents": [*self._metadata, *events],
            "displayTimeUnit": "ns",
            "otherData": {"clock": "CLOCK_BOOTTIME", "origin_ns": origin},
        }

    def write(self, path: Path) -> None:
        """Write the trace to a file. Raises OSError."""
        path.write_text(json.dumps(self.as_dict()))

    def _add(self, row: Row, at_ns: int, event: _Event, details: Details | None) -> None:
        self._events.append((at_ns, event | {"pid": row.process, "tid": row.thread, "args": dict(details or {})}))

    def _name(self, row: Row, kind: str, details: Details) -> None:
        self._metadata.append({"ph": "M", "name": kind, "pid": row.process, "tid": row.thread, "args": dict(details)})
