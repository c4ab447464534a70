"""Choice of the ended runs that are kept: the last ones, and some around each event."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.monitoring.events import MOMENT_SECONDS

_KEPT = 500
"""Runs that went well."""
_TROUBLED_KEPT = 100
"""Runs that failed or fell back: those that went well do not push them out."""
_MOMENTS = 32
"""The last events around which runs are kept."""
_OF_MOMENT = 25
"""Runs that are kept around an event, those that are nearest to it."""
Run = framework_admin_pb2.FinishedRun


def continued(known: Sequence[Run], more: Sequence[Run]) -> list[Run]:
    """Add runs to those that are known; a framework that was started again counts its runs anew."""
    is_new = bool(known and more and more[0].number <= known[-1].number)
    return [*more] if is_new else [*known, *more]


def kept_runs(finished: Sequence[Run], events_ns: Sequence[int]) -> tuple[Run, ...]:
    """Return the runs that are kept, in order.

    ``events_ns`` are the instants of events, ascending, by the clock of runs.
    """
    well = [run for run in finished if not (run.error or run.fell_back)]
    troubled = [run for run in finished if run.error or run.fell_back]
    older = [*well[:-_KEPT], *troubled[:-_TROUBLED_KEPT]]
    kept = [*well[-_KEPT:], *troubled[-_TROUBLED_KEPT:]]
    if older and events_ns:
        kept += _around(older, events_ns[-_MOMENTS:])
    return tuple(sorted(kept, key=lambda run: run.number))


def _around(runs: Sequence[Run], events_ns: Sequence[int]) -> list[Run]:
    """The runs that ended in the moment of an event."""
    near: dict[int, list[tuple[int, Run]]] = {}
    for run in runs:
        place = bisect_left(events_ns, run.ended_ns)
        distance, event = min((abs(run.ended_ns - at), at) for at in events_ns[max(0, place - 1) : place + 1])
        if distance <= MOMENT_SECONDS * 1e9:
            near.setdefault(event, []).append((distance, run))
    return [run for found in near.values() for _, run in sorted(found, key=lambda each: each[0])[:_OF_MOMENT]]
