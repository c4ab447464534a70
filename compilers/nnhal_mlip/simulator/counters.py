"""Counters of a run, made from the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nnhal_mlip.program.program import DdrRange, DdrTransfer, MlipProgram
from nnhal_mlip.program.sizes import bytes_of, tiles_of


@dataclass(frozen=True, slots=True)
class RunCounters:
    """Counters of one run of a program, or of one layer of it."""

    transfers: int
    """Between DDR and OCM, without those at the start."""
    stages: int
    tasks: int
    macs: int
    """Products of convolutions and dense layers that the user's model has."""
    ddr_read: Mapping[str, int]
    """Bytes, by the range of DDR: weights, inputs, scratch."""
    ddr_written: Mapping[str, int]
    """The same: outputs, scratch."""
    copied: int
    """Bytes that tiles receive from the OCM of a tile."""

    @property
    def ddr_bytes(self) -> int:
        return sum(self.ddr_read.values()) + sum(self.ddr_written.values())


def run_counters(program: MlipProgram) -> RunCounters:
    return _counted(program, range(len(program.layers)))


def layer_counters(program: MlipProgram) -> tuple[RunCounters, ...]:
    return tuple(_counted(program, range(layer, layer + 1)) for layer in range(len(program.layers)))


def _counted(program: MlipProgram, layers: range) -> RunCounters:
    transfers = [each for each in program.transfers if not each.at_start and each.layer in layers]
    stages = [stage for stage in program.stages if stage.layer in layers]
    copies = [copy for stage in stages for copy in stage.copies]
    return RunCounters(
        transfers=len(transfers),
        stages=len(stages),
        tasks=sum(len(stage.tasks) for stage in stages),
        macs=sum(program.layers[layer].macs for layer in layers),
        ddr_read=_by_range(each for each in transfers if not each.store),
        ddr_written=_by_range(each for each in transfers if each.store),
        copied=sum(bytes_of(copy.target_bytes) * len(tiles_of(copy.tiles)) for copy in copies),
    )


def _by_range(transfers: Iterable[DdrTransfer]) -> dict[str, int]:
    counts: Counter[DdrRange] = Counter()
    for transfer in transfers:
        counts[transfer.ddr] += bytes_of(transfer.ddr_bytes)
    return {range_.name.lower(): counts[range_] for range_ in sorted(counts)}
