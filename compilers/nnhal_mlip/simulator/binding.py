"""What the tiles' time is spent on: the unit that the slowest tile of each stage waits for, or what is around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nnhal_mlip.program.program import MlipProgram
from nnhal_mlip.timing.cycles import UnitCycles
from nnhal_mlip.timing.queues import ProgramTimeline, StageSpan, TaskSpan

DMA, COPIES, ISSUE = "DMA", "copies", "issue"
_UNITS = {"array": "array", "irregular": "irregular", "read": "reads", "write": "writes"}


def binding_cycles(program: MlipProgram, times: ProgramTimeline) -> list[Mapping[str, int]]:
    """Return for each layer what its cycles on the tiles are spent on, without what takes none.

    ``DMA`` is the wait for transfers, ``issue`` that of tasks and barriers. In a stage, the tile that is done last
    counts. The sum is the time from the end of the stages before to the last barrier.
    """
    layers: list[Counter[str]] = [Counter() for _ in program.layers]
    for stage in times.stages:
        spent = layers[stage.layer]
        spent[DMA] += stage.begin - stage.ready
        spent[COPIES] += stage.copied - stage.begin
        spent[ISSUE] += stage.end - stage.computed
        for task in _slowest(stage):
            spent[ISSUE] += task.begin - task.issue
            spent[bound_of(task.units)] += task.end - task.begin
    return [{name: cycles for name, cycles in sorted(spent.items()) if cycles} for spent in layers]


def bound_of(units: UnitCycles) -> str:
    """Return what binds a task. Sums and copies are as fast as the streams, which keep the irregular unit busy."""
    streams = max(units.read, units.write)
    if units.bound == "irregular" and streams == units.irregular:
        return "reads" if units.read == streams else "writes"
    return _UNITS[units.bound]


def _slowest(stage: StageSpan) -> list[TaskSpan]:
    """The tasks of the tile that is done last."""
    if not stage.tasks:
        return []
    last = max(stage.tasks, key=lambda task: task.end).tile
    return [task for task in stage.tasks if task.tile == last]
