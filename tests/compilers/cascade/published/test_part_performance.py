"""The published performance of a part."""

from __future__ import annotations

import json
import os
from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import Accelerator, accelerator
from nnhal_cascade.performance.blocks import BlockSet, fitting_blocks, prefers_part_kernel
from nnhal_cascade.performance.npu_cycles import block_cycles, decoding_cycles
from nnhal_cascade.performance.workload import PartWorkload, reach, workload_of
from tests.support.cascader_parts import one_part

_BASE_CYCLES = {"MAX_POOL_2D": 1, "MINIMUM": 2, "MAXIMUM": 2, "MUL": 3, "ADD": 6, "SUB": 6}
"""Cycles of one output unit for an element, by operation; those of any other take 2."""
_ADDITION_TO_32_BITS = 3
"""The figures of an addition or a subtraction whose output has elements of 32 bits."""


class PublishedBlock(NamedTuple):
    """A block that fits into the NPU's own memory; its cycles are those of one block."""

    output: Shape
    input: Shape
    compute_cycles: int
    output_cycles: int


class PartPerformance(NamedTuple):
    """Cost of a part with its stripes."""

    block: PublishedBlock
    cycles: int
    read: tuple[int, ...]
    """Bytes of the input, then of weights and of scales if there are any."""
    written: int
    """Bytes."""


class PublishedPart:
    """A part with one input and accumulators: a convolution, a depthwise one or a pooling of elements of 8 bits."""

    def __init__(self, accelerator: Accelerator, workload: PartWorkload, padding: tuple[int, int] = (0, 0)) -> None:
        """Take a part.

        Args:
            accelerator: Which it is.
            workload: The part.
            padding: Rows above, and columns left of the input.

        Raises:
            ValueError: no block of it fits into the NPU's own memory.
        """
        self._workload = workload
        self._padding = padding
        self.valid_blocks = _undominated(_blocks(accelerator, workload))
        """The blocks that fit, without those that another is larger than."""

    def block(self, stripe: Shape) -> PublishedBlock:
        """Return the block for stripes of the output: the fewest bytes of input and weights for one of its elements.

        They count half if two input blocks hold all that a stripe needs.
        """
        needed = prod(self._needed(stripe))
        best, least = self.valid_blocks[0], float("inf")
        for block in self.valid_blocks:
            read = self._read(block.output, stripe)
            cost = np.float32(read[0] * len(self._workload.sub_kernels) + sum(read[1:2])) / np.float32(stripe.elements)
            if needed <= 2 * block.input.elements:
                cost /= 2
            if cost < least:
                best, least = block, float(cost)
        return best

    def performance(self, stripe: Shape, rolling: bool) -> PartPerformance:
        """Return what the part costs in stripes: with rolling buffers no element is computed twice."""
        block = self.block(stripe)
        output = self._workload.output.shape
        stripes = tuple(-(-whole // each) for whole, each in zip(output, stripe, strict=True))
        blocks = np.float32(1)
        for whole, each, count, size in zip(output, stripe, stripes, block.output, strict=True):
            share = np.float32(whole) / np.float32(size) if rolling else np.float32(each) / np.float32(size) * count
            blocks *= max(share, np.float32(1))
        slow, fast = sorted((block.compute_cycles, block.output_cycles), reverse=True)
        return PartPerformance(
            block=block,
            cycles=int(np.float32(slow) * blocks + np.float32(fast)),
            read=tuple(each * prod(stripes) for each in self._read(block.output, stripe)),
            written=int(blocks * np.float32(block.output.elements)),
        )

    def _needed(self, output: Shape) -> tuple[int, int, int]:
        """The extents of the input for those of an output, without a border."""
        kernel = self._workload.kernel
        rows = (output.rows - 1) * kernel.stride_y + reach(kernel.height, kernel.dilation_y)
        columns = (output.columns - 1) * kernel.stride_x + reach(kernel.width, kernel.dilation_x)
        return (
            rows,
            columns,
            self._workload.inputs[0].shape.channels if self._workload.sums_channels else output.channels,
        )

    def _read(self, block: Shape, stripe: Shape) -> tuple[int, ...]:
        """The bytes that a stripe reads block by block: weights again for each block of rows and columns."""
        workload, kernel = self._workload, self._workload.kernel
        counts = [-(-whole // each) for whole, each in zip(stripe, block, strict=True)]
        strides = (block.rows * kernel.stride_y, block.columns * kernel.stride_x, block.channels)
        offsets = (-self._padding[0], -self._padding[1], 0)
        if workload.sums_channels:
            counts[2] = 1
        read = prod(
            _elements(*axis)
            for axis in zip(self._needed(block), self._needed(stripe), strides, counts, offsets, strict=True)
        )
        if not workload.weight_bytes:
            return (read,)
        weights = workload.weight_bytes * stripe.channels * counts[0] * counts[1]
        return read, weights, workload.scale_bytes * stripe.channels


def published_output_cycles(accelerator: Accelerator, workload: PartWorkload) -> float:
    """Return the cycles in which an element of an output of elements of 8 or 32 bits is made from ones of 8 bits."""
    units = accelerator.macs // 32
    to_32_bits = workload.output.element_bytes == 4
    base = _BASE_CYCLES.get(workload.operation, 2)
    if workload.operation in ("ADD", "SUB") and to_32_bits:
        base = _ADDITION_TO_32_BITS
    bandwidth = (0.75 if to_32_bits else 0.125) if workload.kind is PartKind.ELEMENTWISE else 0.0
    activation = {
        Activation.NONE: 0.0,
        Activation.CLAMP: accelerator.activation_cycles[1],
        Activation.TABLE: 2.0 if units == 1 else 1.0,
    }
    return max(base / units, activation[workload.activation], bandwidth)


def _blocks(accelerator: Accelerator, workload: PartWorkload) -> list[PublishedBlock]:
    """The blocks that fit, with their cycles, by rows, then columns, then channels."""
    blocks = fitting_blocks(accelerator, workload, workload.output.shape)
    depth = workload.inputs[0].shape.channels
    compute = block_cycles(
        accelerator,
        workload,
        accelerator.block_unit,
        (blocks.rows, blocks.columns, blocks.channels),
        blocks.input_channels,
        depth,
        decoding=0 if workload.kind is PartKind.DEPTHWISE else decoding_cycles(accelerator),
    )
    each = published_output_cycles(accelerator, workload)
    return sorted(_block(blocks, index, int(compute[index]), each, workload) for index in range(blocks.rows.size))


def _block(blocks: BlockSet, index: int, compute: int, each: float, workload: PartWorkload) -> PublishedBlock:
    output = blocks.output(index)
    channels = int(blocks.input_channels[index])
    if workload.sums_channels:
        channels = min(channels, workload.inputs[0].shape.channels)
    read = Shape(int(blocks.input_rows[index]), int(blocks.input_columns[index]), channels)
    return PublishedBlock(output, read, compute, ceil(each * output.elements))


def _undominated(blocks: list[PublishedBlock]) -> tuple[PublishedBlock, ...]:
    """The blocks that no other is at least as large as along each axis."""
    shapes = np.array([block.output for block in blocks])
    covered = np.all(shapes[None] >= shapes[:, None], axis=-1).sum(axis=1) > 1
    return tuple(block for block, by_another in zip(blocks, covered, strict=True) if not by_another)


def _elements(shape: int, extent: int, stride: int, count: int, offset: int) -> int:
    """The elements of windows along an axis; before the first and after the last of the extent there are none."""
    starts = (offset + stride * index for index in range(count))
    return sum(max(0, min(start + shape, extent) - max(start, 0)) for start in starts)


FOLDER = os.environ.get("NNHAL_CASCADE", "")
KINDS = {"conv": PartKind.CONVOLUTION, "dw": PartKind.DEPTHWISE}
U55 = ("u55-256", "u55-128", "u55-64", "u55-32")

Sizes = tuple[int, int, int]


def cases() -> list[Any]:
    """The cases that came out of TVM's own objects."""
    if not FOLDER:
        return [pytest.param({}, marks=pytest.mark.skip(reason="NNHAL_CASCADE names no folder of known-good cases"))]
    return list(json.loads((Path(FOLDER) / "known_good.json").read_text())["perf"])


def workload(
    kind: PartKind,
    kernel: Kernel,
    read: Sizes,
    output: Sizes,
    operation: str = "",
    activation: Activation = Activation.NONE,
) -> PartWorkload:
    graph = one_part(kind, (read,), output, kernel=kernel, operation=operation, activation=activation)
    return workload_of(graph, graph.parts[0])


@pytest.mark.parametrize("case", cases(), ids=str)
def test_parts_perform_as_published(case: dict[str, Any]) -> None:
    asked = workload(
        KINDS[case["op"]], Kernel(*case["kernel"], *case["stride"]), tuple(case["ifm"][1:]), tuple(case["ofm"][1:])
    )
    part = PublishedPart(accelerator(case["acc"].removeprefix("ethos-")), asked, tuple(case["pad"]))
    stripe = Shape(*case["stripe"][1:])
    block = part.block(stripe)
    assert prefers_part_kernel(asked) == case["part_kernel"]
    assert len(part.valid_blocks) == case["valid_blocks"]
    assert [1, *block.output] == case["block_out"]
    assert [1, *block.input] == case["block_in"]
    assert (block.compute_cycles, block.output_cycles) == (case["block_compute_cycles"], case["block_output_cycles"])
    for mode, rolling in (("rolling", True), ("recompute", False)):
        found = part.performance(stripe, rolling)
        assert {"cycles": found.cycles, "read": list(found.read), "write": found.written} == case[mode]


@pytest.mark.parametrize(
    ("kind", "kernel", "read", "output", "blocks"),
    [
        (
            PartKind.CONVOLUTION,
            Kernel(14, 14),
            (125, 63, 64),
            (112, 50, 128),
            ((16, 8, 16), (5, 8, 16), (6, 5, 16), (6, 5, 16)),
        ),
        (
            PartKind.CONVOLUTION,
            Kernel(3, 3, 1, 1, 2, 2),
            (62, 94, 32),
            (58, 90, 16),
            ((12, 10, 16), (10, 6, 16), (6, 5, 16), (6, 5, 16)),
        ),
        (
            PartKind.DEPTHWISE,
            Kernel(3, 3, 2, 2),
            (25, 10, 276),
            (13, 5, 276),
            ((14, 6, 16), (10, 6, 16), (8, 5, 16), (8, 5, 16)),
        ),
        (
            PartKind.POOLING,
            Kernel(7, 3, 2, 1),
            (317, 14, 21),
            (156, 12, 21),
            ((10, 12, 16), (10, 6, 16), (9, 6, 16), (9, 6, 16)),
        ),
    ],
)
def test_the_best_block_is_the_published_one(
    kind: PartKind, kernel: Kernel, read: Sizes, output: Sizes, blocks: tuple[Sizes, ...]
) -> None:
    asked = workload(kind, kernel, read, output, "AVERAGE_POOL_2D" if kind is PartKind.POOLING else "")
    found = [PublishedPart(accelerator(name), asked).block(Shape(*output)).output for name in U55]
    assert tuple(found) == blocks


@pytest.mark.parametrize(
    ("kind", "kernel", "read", "output", "cycles"),
    [
        (PartKind.CONVOLUTION, Kernel(3, 3), (18, 18, 96), (16, 16, 96), 167_733),
        (PartKind.CONVOLUTION, Kernel(10, 4, 2, 1), (58, 13, 1), (25, 10, 276), 174_105),
        (PartKind.DEPTHWISE, Kernel(3, 3, 2, 2), (25, 10, 276), (13, 5, 276), 17_590),
        (PartKind.DEPTHWISE, Kernel(4, 9), (28, 81, 42), (25, 73, 42), 173_414),
    ],
)
def test_cycles_are_near_those_measured_on_the_hardware(
    kind: PartKind, kernel: Kernel, read: Sizes, output: Sizes, cycles: int
) -> None:
    part = PublishedPart(accelerator("u55-128"), workload(kind, kernel, read, output))
    assert part.performance(Shape(*output), rolling=True).cycles == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "operation", "activation", "element_bytes", "cycles"),
    [
        (PartKind.CONVOLUTION, "CONV_2D", Activation.TABLE, 1, (1, 1, 1, 2)),
        (PartKind.POOLING, "MAX_POOL_2D", Activation.NONE, 1, (0.125, 0.25, 0.5, 1)),
        (PartKind.ELEMENTWISE, "ADD", Activation.NONE, 1, (0.75, 1.5, 3, 6)),
        (PartKind.ELEMENTWISE, "MUL", Activation.NONE, 1, (0.375, 0.75, 1.5, 3)),
        (PartKind.ELEMENTWISE, "MUL", Activation.NONE, 4, (0.75, 0.75, 1.5, 3)),
    ],
)
def test_an_element_of_the_output_takes_the_published_cycles(
    kind: PartKind, operation: str, activation: Activation, element_bytes: int, cycles: tuple[float, ...]
) -> None:
    asked = workload(kind, Kernel(), (8, 8, 16), (8, 8, 16), operation, activation)
    asked = asked._replace(output=asked.output._replace(element_bytes=element_bytes))
    assert tuple(published_output_cycles(accelerator(name), asked) for name in U55) == cycles


def test_a_small_convolution_takes_the_published_cycles() -> None:
    asked = workload(PartKind.CONVOLUTION, Kernel(3, 3), (8, 8, 4), (8, 8, 4))
    part = PublishedPart(accelerator("u55-256"), asked, padding=(1, 1))
    assert part.performance(Shape(8, 8, 4), rolling=True).cycles == 320
