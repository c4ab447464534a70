"""Work of a part for the NPU, apart from its place in a graph: equal parts have equal workloads."""

from __future__ import annotations

from enum import Enum, auto
from math import ceil
from typing import NamedTuple

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import (
    Activation,
    CascaderGraph,
    CascaderTensor,
    Kernel,
    Part,
    PartKind,
)
from nnhal_cascade.hardware.memory import MemoryRegion

BRICK = 16
"""Channels of a brick."""
SUB_KERNEL = 8
"""Rows and columns of the largest kernel that the NPU applies in one go; larger ones are cut."""

_WITH_ACCUMULATORS = frozenset(PartKind) - {PartKind.ELEMENTWISE, PartKind.COPY, PartKind.FEED}
_CONVOLUTIONS = frozenset({PartKind.CONVOLUTION, PartKind.TRANSPOSE_CONVOLUTION})
_SUMS_CHANNELS = _CONVOLUTIONS | {PartKind.VECTOR_PRODUCT, PartKind.REDUCE_SUM}


class TensorLayout(Enum):
    """The order of the elements within a row of a tensor, which decides how long the bursts are that move it.

    A row has the same bytes in both, so a plan and its addresses are the same.
    """

    ROW_MAJOR = auto()
    """[column][channel]."""
    BRICKS = auto()
    """[16 channels][column][channel of the 16]: NHCWB16."""


class MovedTensor(NamedTuple):
    """A tensor as far as the cost of moving it is concerned."""

    shape: Shape
    """The whole tensor."""
    element_bytes: int
    layout: TensorLayout


class PartWorkload(NamedTuple):
    """Facts that decide the cost of a part's stripes."""

    kind: PartKind
    operation: str
    """The HAL's name of the main operation."""
    kernel: Kernel
    activation: Activation
    inputs: tuple[MovedTensor, ...]
    output: MovedTensor
    weight_bytes: int
    """For one channel of the output, as they are stored."""
    scale_bytes: int
    """For one channel of the output."""
    passes: int

    @property
    def has_accumulators(self) -> bool:
        """Return whether sums of products are built, in accumulators of the NPU's own memory."""
        return self.kind in _WITH_ACCUMULATORS

    @property
    def is_convolution(self) -> bool:
        """Return whether it is a convolution over all channels; a transposed one is one over a larger input."""
        return self.kind in _CONVOLUTIONS

    @property
    def sums_channels(self) -> bool:
        """Return whether an element of the output depends on all channels of the input."""
        return self.kind in _SUMS_CHANNELS

    @property
    def input_bytes(self) -> int:
        """Of an element of the first input."""
        return self.inputs[0].element_bytes

    @property
    def wide_accumulators(self) -> bool:
        """Return whether accumulators have 40 bits and not 32."""
        return self.input_bytes == 2 and self.has_accumulators and self.kind is not PartKind.POOLING

    @property
    def repeats_rows(self) -> bool:
        """Return whether the upscaled input repeats each element, and has no zeros between them."""
        return self.kernel.upscale > 1 and self.kind is not PartKind.TRANSPOSE_CONVOLUTION

    @property
    def sub_kernels(self) -> tuple[int, ...]:
        """The elements of each of the kernels that this one is cut into."""
        return tuple(height * width for height in _cut(self.kernel.height) for width in _cut(self.kernel.width))

    def input_for(self, output: Shape) -> Shape:
        """The extents of the largest input that a stripe needs if padding is not cut off."""
        if not self.has_accumulators:
            return output
        whole = self.inputs[0].shape
        kernel = self.kernel
        rows = (output.rows - 1) * kernel.stride_y + reach(kernel.height, kernel.dilation_y) + self.repeats_rows
        columns = (output.columns - 1) * kernel.stride_x + reach(kernel.width, kernel.dilation_x) + self.repeats_rows
        return Shape(
            min(ceil(rows / kernel.upscale), whole.rows),
            min(ceil(columns / kernel.upscale), whole.columns),
            whole.channels if self.sums_channels else min(output.channels, whole.channels),
        )


def workload_of(graph: CascaderGraph, part: Part) -> PartWorkload:
    """Return what a part of a graph asks of the NPU."""
    constants = part.constants
    return PartWorkload(
        kind=part.kind,
        operation=part.operation,
        kernel=part.kernel,
        activation=part.activation,
        inputs=tuple(_operand(graph.tensors[each.tensor]) for each in part.inputs),
        output=_operand(graph.tensors[part.output]),
        weight_bytes=constants.weight_bytes if constants else 0,
        scale_bytes=constants.scale_bytes if constants else 0,
        passes=part.passes,
    )


def reach(size: int, dilation: int) -> int:
    """Return how many elements a kernel spans along an axis."""
    return (size - 1) * dilation + 1


def round_up(value: int, quantum: int) -> int:
    """Return the next multiple of a quantum."""
    return -(-value // quantum) * quantum


def _operand(tensor: CascaderTensor) -> MovedTensor:
    """A tensor in bricks if it fills them and is the NPU's own: those of the network are in the order of the model."""
    own = not (tensor.is_input or tensor.is_output)
    bricks = own and tensor.shape.channels % BRICK == 0
    return MovedTensor(tensor.shape, tensor.element_bytes, TensorLayout.BRICKS if bricks else TensorLayout.ROW_MAJOR)


def _cut(size: int) -> tuple[int, ...]:
    return tuple(min(SUB_KERNEL, size - start) for start in range(0, size, SUB_KERNEL))


class PricedStripe(NamedTuple):
    """Facts that decide the cost of a stripe."""

    workload: PartWorkload
    output: Shape
    """The extents of the stripe."""
    inputs: tuple[Shape, ...]
    """The extents of what it reads of each input, without padding."""
    sources: tuple[MemoryRegion, ...]
    """The region of each input."""
    destination: MemoryRegion
    constants: MemoryRegion | None
    """None if the part has no constants."""

    @property
    def macs(self) -> int:
        """Multiply-adds of one pass; those of padding count, since the NPU makes them."""
        if not self.workload.has_accumulators:
            return 0
        window = self.workload.kernel.height * self.workload.kernel.width
        return window * self.output.elements * (self.inputs[0].channels if self.workload.sums_channels else 1)
