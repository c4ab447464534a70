"""The addresses of runs that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nnhal.v1 import framework_admin_pb2 as wire


def runs_with_pages(runs: Iterable[wire.FinishedRun]) -> Iterator[tuple[str, wire.FinishedRun]]:
    """Yield runs with the paths of their pages, the newest first.

    A framework that was started again counts from 1 again, so an earlier run's address has the instant of its arrival.
    """
    known = set[int]()
    for run in runs:
        yield f"/runs/{run.number}" + (f"?arrived={run.arrived_ns}" if run.number in known else ""), run
        known.add(run.number)
