"""Runs that have ended, with their addresses and the times of day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_pages.operating.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run in a list."""

    run: wire.FinishedRun
    page: str
    """The path of its page."""
    ended: float
    """When it had ended, in nanoseconds since the epoch."""

    @property
    def took_ns(self) -> int:
        """From its arrival to its answer."""
        return self.run.ended_ns - self.run.arrived_ns

    @property
    def result(self) -> str:
        """How it went, in a word or two."""
        return "failed" if self.run.error else "fell back" if self.run.fell_back else "done"


def shown_runs(runs: Sequence[wire.FinishedRun], snapshot: Snapshot) -> list[ShownRun]:
    """Return what is shown of runs, the newest first.

    A framework that was started again counts from 1 again, so an earlier run's address has the instant of its arrival.
    """
    rows, known = [], set[int]()
    for run in runs:
        page = f"/runs/{run.number}" + (f"?arrived={run.arrived_ns}" if run.number in known else "")
        known.add(run.number)
        rows.append(ShownRun(run, page, epoch_ns(run.ended_ns, snapshot)))
    return rows


def epoch_ns(instant_ns: int, snapshot: Snapshot) -> float:
    """Return an instant of CLOCK_BOOTTIME in nanoseconds since the epoch."""
    return snapshot.at * 1e9 - (snapshot.at_ns - instant_ns)
