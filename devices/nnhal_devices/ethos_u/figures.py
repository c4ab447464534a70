"""Figures of a compiled network on ethos_u: its working memory, and its stripes and copies over time.

Names are the user's if the model has some. Otherwise operations are named by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_cascade.schedule.lives import memory_uses
from nnhal_cascade.schedule.replay import PlanReplay, TimedStripe, replay
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_devices.figures import (
    BY_SCHEDULE,
    MemoryFigure,
    MemorySpan,
    OperationTimes,
    TimedOperation,
    TimeFigure,
    TimeSpan,
    WorkloadFigures,
)

_UNIT = "cycles"
_DMA = "DMA"


def schedule_figures(schedule: Schedule, budget: int) -> WorkloadFigures:
    """Return the figures of a schedule that was made for ``budget`` bytes of the working memory."""
    replays = replay(schedule)
    memory = MemoryFigure(
        schedule.system.working.name.upper(),
        budget,
        _UNIT,
        tuple(MemorySpan(*use) for use in memory_uses(schedule, replays)),
    )
    lanes = (*(part.name for part in schedule.graph.parts), _DMA)
    time = TimeFigure("Stripes and copies of constants", _UNIT, lanes, tuple(_time(schedule, replays)))
    return WorkloadFigures((memory,), (time,))


def schedule_times(schedule: Schedule) -> OperationTimes:
    """Return the cycles in which the stripes of each part are computed: parts of a cascade take turns."""
    cycles = [0] * len(schedule.graph.parts)
    for ran in replay(schedule):
        for stripe in ran.stripes:
            cycles[stripe.run.part] += stripe.end - stripe.start
    times = (TimedOperation(part.name, part.operations, cycles[part.index]) for part in schedule.graph.parts)
    return OperationTimes(tuple(times), _UNIT, True, BY_SCHEDULE)


def _time(schedule: Schedule, replays: Sequence[PlanReplay]) -> Iterator[TimeSpan]:
    parts = schedule.graph.parts
    for plan, ran in zip(schedule.proposal.plans, replays, strict=True):
        now = ran.start
        for stripe in ran.stripes:
            part = stripe.run.part
            if stripe.start > now:
                yield TimeSpan(part, f"{parts[part].name} waits for its constants", now, stripe.start, "wait")
            name = f"{parts[part].name}: {_stripe_words(stripe, plan.along.name.lower())}"
            yield TimeSpan(part, name, stripe.start, stripe.end, "compute")
            now = stripe.end
        for copy in ran.copies:
            yield TimeSpan(len(parts), f"constants of {parts[copy.part].name}", copy.start, copy.end, "copy")


def _stripe_words(stripe: TimedStripe, axis: str) -> str:
    """Such as ``rows 0 to 7``."""
    interval = getattr(stripe.run.output, axis)
    return f"{axis} {interval.start} to {interval.stop - 1}"
