"""Use of a run's cycles by tiles and the DMA engine, by layer, and the unit that the slowest tile waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal_mlip.program.program import MlipProgram
from nnhal_mlip.timing.cycles import UnitCycles
from nnhal_mlip.timing.queues import ProgramTimeline, StageSpan, TaskSpan


@dataclass(slots=True)
class TileUsage:
    """The cycles of a tile. Those from ``computing`` to ``idle`` are all there are: their sum is the run's."""

    array: int = 0
    """The array is busy."""
    irregular: int = 0
    """The irregular unit is busy."""
    read: int = 0
    """The load streams of its tasks are."""
    write: int = 0
    """The store stream of its tasks is."""
    computing: int = 0
    """In tasks, but for their issue."""
    issue: int = 0
    copying: int = 0
    """In copies between tiles, and waiting for those of others."""
    waiting_transfers: int = 0
    """For the DMA engine, before a stage."""
    waiting_tiles: int = 0
    """For the slowest tile of a stage."""
    barrier: int = 0
    idle: int = 0
    """After the last stage."""

    @property
    def total(self) -> int:
        parts = (self.computing, self.issue, self.copying, self.waiting_transfers, self.waiting_tiles, self.barrier)
        return sum(parts) + self.idle


@dataclass(slots=True)
class DmaUsage:
    """The cycles of the DMA engine. Their sum is the run's."""

    busy: int = 0
    waiting: int = 0
    """For a stage, before a transfer."""
    idle: int = 0
    """After the last transfer."""


@dataclass(frozen=True, slots=True)
class ProgramUsage:
    """The cycles of a run by layer. What is idle at its end is counted to the last layer that has anything to do."""

    tiles: Mapping[tuple[int, int], TileUsage]
    """By layer and tile; only of layers with a stage."""
    dma: Mapping[int, DmaUsage]
    """By layer; only of layers with a transfer."""


def usage(program: MlipProgram, times: ProgramTimeline) -> ProgramUsage:
    """Return what tiles and the DMA engine do with the cycles of a program's timeline."""
    tiles: dict[tuple[int, int], TileUsage] = {}
    dma: dict[int, DmaUsage] = {}
    for stage in times.stages:
        for tile in range(program.tiles):
            _add(tiles.setdefault((stage.layer, tile), TileUsage()), stage, tile)
    for span in times.transfers:
        use = dma.setdefault(span.layer, DmaUsage())
        use.busy += span.end - span.begin
        use.waiting += span.begin - span.ready
    if times.stages:
        last = times.stages[-1]
        for tile in range(program.tiles):
            tiles[last.layer, tile].idle += times.total - last.end
    if times.transfers:
        final = times.transfers[-1]
        dma[final.layer].idle += times.total - final.end
    return ProgramUsage(tiles, dma)


def _add(use: TileUsage, stage: StageSpan, tile: int) -> None:
    end = stage.copied
    for span in stage.tasks:
        if span.tile != tile:
            continue
        use.array += span.units.array
        use.irregular += span.units.irregular
        use.read += span.units.read
        use.write += span.units.write
        use.issue += span.begin - span.issue
        use.computing += span.end - span.begin
        end = span.end
    use.waiting_transfers += stage.begin - stage.ready
    use.copying += stage.copied - stage.begin
    use.waiting_tiles += stage.computed - end
    use.barrier += stage.end - stage.computed


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
