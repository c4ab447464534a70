"""What a part asks of the NPU, apart from its place in a graph: equal parts have equal workloads."""

from __future__ import annotations

from enum import Enum, auto
from math import ceil
from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.geometry.box import Shape
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import Activation, CascaderGraph, Kernel, Part, PartKind

SUB_KERNEL = 8
"""Rows and columns of the largest kernel that the NPU applies in one go; larger ones are cut."""

_WITH_ACCUMULATORS = frozenset(PartKind) - {PartKind.ELEMENTWISE, PartKind.COPY}
_CONVOLUTIONS = frozenset({PartKind.CONVOLUTION, PartKind.TRANSPOSE_CONVOLUTION})
_SUMS_CHANNELS = _CONVOLUTIONS | {PartKind.VECTOR_PRODUCT, PartKind.REDUCE_SUM}


class TensorLayout(Enum):
    """The order of a tensor's elements in memory, which decides how long the bursts are."""

    ROW_MAJOR = auto()
    """[row][column][channel]."""
    BRICKS = auto()
    """[row][16 channels][column][channel of the 16]."""


class PartWorkload(NamedTuple):
    """What decides the cost of a part's stripes."""

    kind: PartKind
    operation: str
    """The HAL's name of the main operation."""
    kernel: Kernel
    activation: Activation
    inputs: tuple[Shape, ...]
    """The whole tensors."""
    input_bytes: int
    """Of an element of the first input."""
    output_bytes: int
    """Of an element of the output."""
    weight_bytes: int
    """For one channel of the output, as they are stored."""
    scale_bytes: int
    """For one channel of the output."""
    passes: int

    @property
    def has_accumulators(self) -> bool:
        """Whether sums of products are built, in accumulators of the NPU's own memory."""
        return self.kind in _WITH_ACCUMULATORS

    @property
    def is_convolution(self) -> bool:
        """Whether it is a convolution over all channels; a transposed one is one over a larger input."""
        return self.kind in _CONVOLUTIONS

    @property
    def sums_channels(self) -> bool:
        """Whether an element of the output depends on all channels of the input."""
        return self.kind in _SUMS_CHANNELS

    @property
    def wide_accumulators(self) -> bool:
        """Whether accumulators have 40 bits and not 32."""
        return self.input_bytes == 2 and self.has_accumulators and self.kind is not PartKind.POOLING

    @property
    def input_bits(self) -> int:
        """Bits of an element of the first input."""
        return 8 * self.input_bytes

    @property
    def sub_kernels(self) -> tuple[int, ...]:
        """The elements of each of the kernels that this one is cut into."""
        return tuple(height * width for height in _cut(self.kernel.height) for width in _cut(self.kernel.width))

    def input_for(self, output: Shape) -> Shape:
        """The extents of the first input that a stripe needs if no border cuts it off."""
        whole = self.inputs[0] if self.inputs else output
        kernel = self.kernel
        nearest = kernel.upscale > 1 and self.kind is not PartKind.TRANSPOSE_CONVOLUTION
        rows = (output.rows - 1) * kernel.stride_y + reach(kernel.height, kernel.dilation_y) + nearest
        columns = (output.columns - 1) * kernel.stride_x + reach(kernel.width, kernel.dilation_x) + nearest
        return Shape(
            min(ceil(rows / kernel.upscale), whole.rows),
            min(ceil(columns / kernel.upscale), whole.columns),
            whole.channels if self.sums_channels else min(output.channels, whole.channels),
        )


def workload_of(graph: CascaderGraph, part: Part) -> PartWorkload:
    """Return what a part of a graph asks of the NPU."""
    inputs = [graph.tensors[each.tensor] for each in part.inputs]
    output = graph.tensors[part.output]
    constants = part.constants
    return PartWorkload(
        kind=part.kind,
        operation=part.operation,
        kernel=part.kernel,
        activation=part.activation,
        inputs=tuple(tensor.shape for tensor in inputs),
        input_bytes=inputs[0].element_bytes if inputs else output.element_bytes,
        output_bytes=output.element_bytes,
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


def _cut(size: int) -> tuple[int, ...]:
    return tuple(min(SUB_KERNEL, size - start) for start in range(0, size, SUB_KERNEL))
