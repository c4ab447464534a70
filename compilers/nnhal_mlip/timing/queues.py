"""Times of the two queues of a program: the DMA engine's transfers, and the tiles' stages.

A transfer begins when the one before it is done and the stages are that it waits for; a stage likewise. In a stage the
copies come first, then each tile does its tasks in turn, each after its issue; a barrier ends the stage. A program ends
when both queues do. Transfers at start belong to no run: they are done when time begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal_mlip.program.program import MlipProgram
from nnhal_mlip.timing.cycles import (
    TileWork,
    UnitCycles,
    copy_cycles,
    transfer_cycles,
    work_cycles,
    work_of,
)
from nnhal_mlip.timing.profile import TimingProfile


class DeadlockError(NnhalError):
    """The queues of a program wait for each other for ever. The message says which transfer and which stage."""


@dataclass(frozen=True, slots=True)
class TransferSpan:
    """End of a transfer of a run, in cycles."""

    transfer: int
    """An index of ``MlipProgram.transfers``."""
    layer: int
    ready: int
    """When the DMA engine is done with the transfer before it, and waits."""
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TaskSpan:
    """Span of a task on a tile, in cycles."""

    stage: int
    task: int
    """An index of the stage's tasks."""
    tile: int
    layer: int
    issue: int
    """When its issue begins."""
    begin: int
    end: int
    units: UnitCycles
    """The time that each unit is busy between ``begin`` and ``end``."""


@dataclass(frozen=True, slots=True)
class StageSpan:
    """End of a stage, in cycles."""

    stage: int
    """An index of ``MlipProgram.stages``."""
    layer: int
    ready: int
    """When the stage before it is done, and the tiles wait for transfers."""
    begin: int
    copied: int
    """When its copies are done."""
    computed: int
    """When the last tile is done with its tasks."""
    end: int
    """When its barrier is."""
    tasks: tuple[TaskSpan, ...]


@dataclass(frozen=True, slots=True)
class ProgramTimeline:
    """A run of a program in modelled cycles. The firmware is apart."""

    transfers: tuple[TransferSpan, ...]
    """The transfers of a run, in order."""
    stages: tuple[StageSpan, ...]
    total: int
    start: int
    """The cycles of the transfers at start, once when the model is loaded."""


def timeline(program: MlipProgram, profile: TimingProfile) -> ProgramTimeline:
    """Return when a run does what.

    Raises:
        DeadlockError: the queues wait for each other for ever.
    """
    transfers, stages = program.transfers, program.stages
    known: dict[TileWork, UnitCycles] = {}
    transfer_spans: list[TransferSpan] = []
    stage_spans: list[StageSpan] = []
    transfer_ends = [0]
    """After 0, 1, … transfers."""
    stage_ends = [0]
    start = 0
    while len(transfer_ends) <= len(transfers) or len(stage_ends) <= len(stages):
        done = (len(transfer_ends) - 1, len(stage_ends) - 1)
        while len(transfer_ends) <= len(transfers):
            index = len(transfer_ends) - 1
            transfer = transfers[index]
            if transfer.after_stage >= len(stage_ends):
                break
            cycles = transfer_cycles(transfer, profile)
            ready = transfer_ends[-1]
            if transfer.at_start:
                start += cycles
                transfer_ends.append(ready)
                continue
            begin = max(ready, stage_ends[transfer.after_stage])
            transfer_spans.append(TransferSpan(index, transfer.layer, ready, begin, begin + cycles))
            transfer_ends.append(begin + cycles)
        while len(stage_ends) <= len(stages) and stages[len(stage_ends) - 1].after_transfers < len(transfer_ends):
            index = len(stage_ends) - 1
            arrived = transfer_ends[stages[index].after_transfers]
            span = _stage(program, index, stage_ends[-1], max(stage_ends[-1], arrived), profile, known)
            stage_spans.append(span)
            stage_ends.append(span.end)
        if done == (len(transfer_ends) - 1, len(stage_ends) - 1):
            raise _deadlock(program, *done)
    return ProgramTimeline(tuple(transfer_spans), tuple(stage_spans), max(transfer_ends[-1], stage_ends[-1]), start)


def _stage(
    program: MlipProgram,
    index: int,
    ready: int,
    begin: int,
    profile: TimingProfile,
    known: dict[TileWork, UnitCycles],
) -> StageSpan:
    stage = program.stages[index]
    copied = begin + copy_cycles(stage, profile)
    at = [copied] * program.tiles
    spans: list[TaskSpan] = []
    for number, task in enumerate(stage.tasks):
        work = work_of(task)
        units = known.get(work)
        if units is None:
            units = known[work] = work_cycles(work, profile)
        issue = at[task.tile]
        started = issue + profile.issue_cycles
        at[task.tile] = end = started + units.duration
        spans.append(TaskSpan(index, number, task.tile, stage.layer, issue, started, end, units))
    computed = max(at)
    return StageSpan(
        index, stage.layer, ready, begin, copied, computed, computed + profile.barrier_cycles, tuple(spans)
    )


def _deadlock(program: MlipProgram, transfers: int, stages: int) -> DeadlockError:
    if transfers == len(program.transfers):
        wanted = program.stages[stages].after_transfers
        return DeadlockError(f"stage {stages} waits for {wanted} transfers, expected at most {transfers}")
    wanted = program.transfers[transfers].after_stage
    if stages == len(program.stages):
        return DeadlockError(f"transfer {transfers} waits for {wanted} stages, expected at most {stages}")
    return DeadlockError(
        f"transfer {transfers} waits for {wanted} stages, and stage {stages} for "
        f"{program.stages[stages].after_transfers} transfers; expected one that can begin after {transfers} transfers "
        f"and {stages} stages"
    )
