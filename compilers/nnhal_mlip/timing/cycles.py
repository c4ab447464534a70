"""The cycles of work on a tile and on the DMA engine, by the figures of a profile.

A task takes as long as the busiest of its tile's array or irregular unit and of the streams from and to OCM, all of
which work side by side. The array holds a block of output positions x output channels while the reduction streams by;
a block takes at least the time in which its results leave. A compiler asks for a share of a layer and a simulator for
a task: both become a ``TileWork`` first, so that the same work costs the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from nnhal_mlip.program.program import (
    DdrTransfer,
    LayerSplit,
    ProgramStage,
    TaskKind,
    TensorType,
    TileTask,
)
from nnhal_mlip.program.sizes import TYPE_BYTES, bytes_of, ceil_divide, tiles_of
from nnhal_mlip.timing.profile import TimingProfile

ROW_PASSES = 3
"""How often a row of channels is read for a softmax (largest, sum, quotient) or a normalization (mean, variance)."""


class TileWork(NamedTuple):
    """Work of one task, as far as its time depends on it."""

    kind: TaskKind
    type: TensorType
    """The type of the inputs; it decides the rates."""
    positions: int
    """The positions of the output: batch x height x width."""
    channels: int
    """The channels of the output."""
    reduction: int
    """How many products or elements make one output: height x width of the window, by input channels if the array sums
    over them. 1 for sums, products and copies; for what computes rows of channels, how often these are read.
    """
    input_bytes: int
    """The bytes of one element, of all inputs together; on the array, of one of them."""
    output_bytes: int
    """The bytes of one element."""


class UnitCycles(NamedTuple):
    """Cycles of each unit of a tile for a task."""

    array: int
    irregular: int
    read: int
    write: int

    @property
    def duration(self) -> int:
        """Of the task, but for its issue."""
        return max(self)

    @property
    def bound(self) -> str:
        """The unit that the others wait for; of equals the first."""
        return self._fields[self.index(max(self))]


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The work of a layer."""

    kind: TaskKind
    type: TensorType
    batch: int
    height: int
    """The height of the output, as all here; a dense layer's output is 1 x 1."""
    width: int
    channels: int
    reduction: int = 1
    """As in ``TileWork``."""
    inputs: int = 1
    """How many tensors of the output's shape and type a sum, product or copy reads."""

    @property
    def macs(self) -> int:
        """Multiply-adds. Only convolutions have any."""
        if self.kind not in (TaskKind.CONVOLUTION, TaskKind.DEPTHWISE, TaskKind.MATMUL):
            return 0
        return self.batch * self.height * self.width * self.channels * self.reduction

    def share(self, split: LayerSplit, tiles: int) -> TileWork:
        """Return the work of the tile that has most if the layer is split evenly over tiles."""
        rows, channels = self.height, self.channels
        if split is LayerSplit.ROWS:
            rows = ceil_divide(rows, tiles)
        else:
            channels = ceil_divide(channels, tiles)
        size = TYPE_BYTES[self.type]
        positions = self.batch * rows * self.width
        return TileWork(self.kind, self.type, positions, channels, self.reduction, size * self.inputs, size)


def work_of(task: TileTask) -> TileWork:
    *positions, channels = task.output.shape
    match task.kind:
        case TaskKind.CONVOLUTION:
            reduction = prod(task.window.kernel) * task.inputs[0].shape[3]
        case TaskKind.MATMUL:
            reduction = task.inputs[0].shape[3]
        case TaskKind.SUM | TaskKind.COPY | TaskKind.PRODUCT:
            reduction = 1
        case TaskKind.SOFTMAX | TaskKind.NORMALIZATION:
            reduction = ROW_PASSES
        case _:
            reduction = prod(task.window.kernel)
    read = sum(TYPE_BYTES[view.type] for view in task.inputs) // (1 + (task.kind is TaskKind.MATMUL))
    output = task.output.type
    return TileWork(task.kind, task.inputs[0].type, prod(positions), channels, reduction, read, TYPE_BYTES[output])


def work_cycles(work: TileWork, profile: TimingProfile) -> UnitCycles:
    """Return how long the units are busy with work, without its issue."""
    elements = work.positions * work.channels
    write = ceil_divide(elements * work.output_bytes, profile.write_bytes)
    match work.kind:
        case TaskKind.CONVOLUTION | TaskKind.MATMUL:
            rows, columns = profile.array_positions, profile.array_channels
            blocks = ceil_divide(work.positions, rows) * ceil_divide(work.channels, columns)
            leaving = ceil_divide(rows * columns * work.output_bytes, profile.write_bytes)
            array = blocks * max(ceil_divide(work.reduction, profile.products(work.type)), leaving)
            operands = blocks * work.reduction * (rows + columns) * work.input_bytes
            return UnitCycles(array, 0, ceil_divide(operands, profile.read_bytes), write)
        case TaskKind.SUM | TaskKind.COPY | TaskKind.PRODUCT:
            # These are as fast as the streams are. The unit is busy for all that time.
            read = ceil_divide(elements * work.input_bytes, profile.read_bytes)
            return UnitCycles(0, max(read, write), read, write)
        case _:
            taps = elements * work.reduction
            irregular = ceil_divide(taps, profile.elements(work.type))
            return UnitCycles(0, irregular, ceil_divide(taps * work.input_bytes, profile.read_bytes), write)


def layer_cycles(shape: LayerShape, split: LayerSplit, tiles: int, profile: TimingProfile) -> int:
    """Return the cycles of a layer that is one stage, one task on each tile: from its issue to after its barrier."""
    return stage_cycles(work_cycles(shape.share(split, tiles), profile).duration, profile)


def stage_cycles(duration: int, profile: TimingProfile) -> int:
    """Return the cycles of a stage whose longest task takes ``duration`` after it is issued."""
    return duration + profile.issue_cycles + profile.barrier_cycles


def bytes_cycles(count: int, profile: TimingProfile) -> int:
    """Return the cycles of a transfer of bytes between DDR and OCM, however many tiles receive them."""
    return ceil_divide(count, profile.ddr_bytes) + profile.ddr_start_cycles


def transfer_cycles(transfer: DdrTransfer, profile: TimingProfile) -> int:
    return bytes_cycles(bytes_of(transfer.ddr_bytes), profile)


def copy_cycles(stage: ProgramStage, profile: TimingProfile) -> int:
    """Return the cycles of a stage's copies: an issue, then the busiest stream of any tile. 0 if it has none."""
    if not stage.copies:
        return 0
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    for copy in stage.copies:
        count = bytes_of(copy.source_bytes)
        read[copy.source] = read.get(copy.source, 0) + count
        for tile in tiles_of(copy.tiles):
            written[tile] = written.get(tile, 0) + count
    return profile.issue_cycles + max(
        ceil_divide(max(read.values()), profile.read_bytes), ceil_divide(max(written.values()), profile.write_bytes)
    )
