"""Work of a part for the NPU."""

from __future__ import annotations

import pytest

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Kernel, PartKind
from nnhal_cascade.performance.workload import PartWorkload, TensorLayout, workload_of
from tests.support.cascader_parts import one_part


def workload(kind: PartKind, whole: tuple[int, int, int], kernel: Kernel, *, of_network: bool = False) -> PartWorkload:
    graph = one_part(kind, (whole,), whole, kernel=kernel, of_network=of_network)
    return workload_of(graph, graph.parts[0])


def test_a_large_kernel_is_cut_into_ones_of_eight() -> None:
    assert workload(PartKind.CONVOLUTION, (30, 30, 8), Kernel(10, 17)).sub_kernels == (64, 64, 8, 16, 16, 2)


@pytest.mark.parametrize(
    ("kind", "kernel", "rows", "columns", "channels"),
    [
        (PartKind.CONVOLUTION, Kernel(3, 3), 6, 7, 32),
        (PartKind.DEPTHWISE, Kernel(3, 3, 2, 2), 9, 11, 16),
        (PartKind.DEPTHWISE, Kernel(3, 3, 1, 1, 4, 4), 12, 13, 16),
        # An upscaled input repeats its elements: a stripe that starts on the second of two needs one more.
        (PartKind.POOLING, Kernel(1, 1, upscale=2), 3, 3, 16),
        (PartKind.TRANSPOSE_CONVOLUTION, Kernel(3, 3, upscale=2), 3, 4, 32),
        (PartKind.ELEMENTWISE, Kernel(), 4, 5, 16),
        (PartKind.POOLING, Kernel(60, 60), 40, 40, 16),
    ],
)
def test_a_stripe_needs_an_input_that_its_kernel_reaches_and_the_tensor_has(
    kind: PartKind, kernel: Kernel, rows: int, columns: int, channels: int
) -> None:
    assert workload(kind, (40, 40, 32), kernel).input_for(Shape(4, 5, 16)) == (rows, columns, channels)


@pytest.mark.parametrize(
    ("channels", "of_network", "layout"),
    [(16, False, TensorLayout.BRICKS), (24, False, TensorLayout.ROW_MAJOR), (16, True, TensorLayout.ROW_MAJOR)],
)
def test_tensors_between_parts_are_in_bricks_if_they_fill_them(
    channels: int, of_network: bool, layout: TensorLayout
) -> None:
    asked = workload(PartKind.DEPTHWISE, (8, 8, channels), Kernel(3, 3), of_network=of_network)
    assert asked.inputs[0].layout is asked.output.layout is layout
