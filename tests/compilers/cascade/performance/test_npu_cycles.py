"""Cycles of the multipliers and of the output."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import accelerator
from nnhal_cascade.performance.npu_cycles import block_cycles, decoding_cycles, output_cycles
from nnhal_cascade.performance.workload import PartWorkload, workload_of
from tests.support.cascader_parts import one_part


def workload(
    kind: PartKind,
    depth: int,
    kernel: Kernel | None = None,
    *,
    inputs: int = 1,
    operation: str = "",
    activation: Activation = Activation.NONE,
    element_bytes: int = 1,
) -> PartWorkload:
    graph = one_part(
        kind,
        ((16, 16, depth),) * inputs,
        (16, 16, depth),
        kernel=kernel,
        operation=operation,
        activation=activation,
        element_bytes=element_bytes,
    )
    return workload_of(graph, graph.parts[0])


def cycles(name: str, asked: PartWorkload, block: Shape, held: int) -> float:
    """Cycles of one block whose input block holds some channels."""
    npu = accelerator(name)
    rows, columns, channels = (np.array([extent]) for extent in block)
    depth = asked.inputs[0].shape.channels
    found = block_cycles(
        npu, asked, npu.block_unit, (rows, columns, channels), np.array([held]), depth, decoding_cycles(npu)
    )
    return float(found[0])


@pytest.mark.parametrize(
    ("name", "kind", "depth", "kernel", "block", "held", "expected"),
    [
        # 8 x 4 units of 1 x 2 x 8, two deep: 4 cycles for each of 9 elements, for each 32 of 96 channels.
        ("u55-128", PartKind.CONVOLUTION, 96, Kernel(3, 3), Shape(8, 8, 16), 32, 4 * 32 * 2 * 9 * 3),
        # By elements of the kernel: 32 and 8 of them in steps of 4.
        ("u55-32", PartKind.CONVOLUTION, 1, Kernel(10, 4), Shape(6, 10, 16), 8, 4 * 60 * 4 * (8 + 2)),
        ("u55-256", PartKind.DEPTHWISE, 32, Kernel(3, 3), Shape(14, 14, 16), 16, 4 * 49 * 2 * 3),
        ("u55-128", PartKind.POOLING, 32, Kernel(2, 1), Shape(4, 8, 16), 16, 4 * 16 * 2),
        ("u55-128", PartKind.POOLING, 32, Kernel(3, 3), Shape(4, 8, 16), 16, 9 * 16 * 2),
        # One unit: the weights of 8 channels take 32 cycles to decode, and each step waits 2 for its sum.
        ("u55-128", PartKind.CONVOLUTION, 32, Kernel(3, 3), Shape(1, 2, 8), 32, (32 + 2) * 9),
        ("u55-128", PartKind.CONVOLUTION, 32, Kernel(3, 3), Shape(1, 2, 16), 32, (32 * 9 + 2 * 8) * 2),
    ],
)
def test_a_block_takes_a_step_for_each_element_of_the_kernel(
    name: str, kind: PartKind, depth: int, kernel: Kernel, block: Shape, held: int, expected: int
) -> None:
    assert cycles(name, workload(kind, depth, kernel), block, held) == expected


def test_elements_of_16_bits_take_twice_as_long_by_channel() -> None:
    block = Shape(8, 8, 16)
    narrow, wide = (
        cycles("u55-128", workload(PartKind.DEPTHWISE, 32, Kernel(3, 3), element_bytes=size), block, 16)
        for size in (1, 2)
    )
    assert wide == 2 * narrow


def test_the_smallest_accelerator_waits_for_wide_sums_of_a_column() -> None:
    block = Shape(4, 1, 8)
    asked = workload(PartKind.CONVOLUTION, 32, Kernel(), element_bytes=2)
    plain = cycles("u55-32", workload(PartKind.CONVOLUTION, 32, Kernel()), block, 32)
    assert cycles("u55-32", asked, block, 32) == plain + 7 * 2


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (workload(PartKind.CONVOLUTION, 16), 0.5),
        (workload(PartKind.CONVOLUTION, 16, activation=Activation.CLAMP), 0.5),
        (workload(PartKind.CONVOLUTION, 16, activation=Activation.TABLE), 1.0),
        (workload(PartKind.CONVOLUTION, 16, element_bytes=2), 0.75),
        (workload(PartKind.POOLING, 16, operation="MAX_POOL_2D"), 0.25),
        (workload(PartKind.ELEMENTWISE, 16, operation="ADD", inputs=2), 1.5),
        (workload(PartKind.ELEMENTWISE, 16, operation="MUL", inputs=2), 0.75),
        (workload(PartKind.ELEMENTWISE, 16, operation="MUL", inputs=2, element_bytes=4), 0.75),
        (workload(PartKind.ELEMENTWISE, 16, operation="ABS", element_bytes=4), 1.25),
    ],
)
def test_an_element_of_the_output_takes_as_long_as_its_operation_or_its_activation(
    asked: PartWorkload, expected: float
) -> None:
    assert output_cycles(accelerator("u55-128"), asked) == expected
