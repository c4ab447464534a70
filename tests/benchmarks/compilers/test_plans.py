"""Vela's schedules as plans."""

from __future__ import annotations

from benchmarks.compilers.plans import nearest_plans
from benchmarks.compilers.reports import VelaBuffer, VelaOperation, VelaSchedule
from nnhal_cascade.geometry.accesses import AffineRow
from nnhal_cascade.geometry.box import Axis, Interval, Shape
from nnhal_cascade.graph.cascader_graph import (
    CascaderGraph,
    CascaderTensor,
    Part,
    PartConstants,
    PartInput,
    PartKind,
)
from nnhal_cascade.plans.plan import WeightsIn


class _Same:
    def needs(self, wanted: Interval) -> Interval:
        return wanted

    def affine(self) -> AffineRow:
        return AffineRow(1, 0, 0)


def _chain(*shapes: Shape, last: str = "CONV_2D") -> CascaderGraph:
    """Parts with constants, one after the other, from the first shape to the last; ``last`` has none."""
    tensors = tuple(CascaderTensor(index, f"t{index}", shape, index) for index, shape in enumerate(shapes))
    count = len(shapes) - 1
    parts = tuple(
        Part(
            index,
            f"part {index}",
            PartKind.CONVOLUTION,
            (index,),
            (PartInput(index, _Same(), _Same(), _Same()),),
            index + 1,
            constants=PartConstants(9, 10) if index < count - 1 else None,
            operation="CONV_2D" if index < count - 1 else last,
        )
        for index in range(count)
    )
    return CascaderGraph(parts, tensors)


def _operation(
    index: int,
    output: Shape,
    rows: int,
    cascade: int = 0,
    buffer: VelaBuffer = VelaBuffer.NONE,
    slices: tuple[int, ...] = (),
) -> VelaOperation:
    return VelaOperation(index, "Conv2D", output, output._replace(rows=rows), cascade, buffer, slices)


def test_a_cascade_is_one_plan_with_the_rows_of_its_stripes() -> None:
    shape = Shape(8, 8, 16)
    schedule = VelaSchedule(
        (
            _operation(0, shape, 2, cascade=1, buffer=VelaBuffer.SINGLE, slices=(0, 16)),
            _operation(1, shape, 4, cascade=1),
            _operation(2, shape, 8),
        )
    )
    cascade, single = nearest_plans(schedule, _chain(shape, shape, shape, shape))
    assert (cascade.plan.parts, cascade.plan.stripes, cascade.plan.along) == ((0, 1), (2, 4), Axis.ROWS)
    assert cascade.plan.weights == (WeightsIn.RESIDENT, WeightsIn.STREAMED)
    assert (single.plan.parts, single.plan.stripes, single.plan.weights) == ((2,), (8,), (WeightsIn.NONE,))


def test_operations_of_no_cascade_are_plans_of_their_own() -> None:
    shape = Shape(8, 8, 16)
    schedule = VelaSchedule(tuple(_operation(index, shape, 8) for index in range(3)))
    assert [each.plan.parts for each in nearest_plans(schedule, _chain(*[shape] * 4))] == [(0,), (1,), (2,)]


def test_two_buffers_go_along_the_channels_in_velas_slices() -> None:
    shape = Shape(4, 4, 64)
    schedule = VelaSchedule(
        (_operation(0, shape, 4, buffer=VelaBuffer.DOUBLE, slices=(0, 16, 64)), _operation(1, shape, 4))
    )
    first, _ = nearest_plans(schedule, _chain(shape, shape, shape))
    assert (first.plan.along, first.plan.stripes) == (Axis.CHANNELS, (48,))
    assert first.plan.weights == (WeightsIn.DOUBLE_BUFFERED,)
    assert first.slices == (Interval(0, 16), Interval(16, 64))


def test_operations_that_vela_rewrites_have_no_counterpart() -> None:
    wide, narrow = Shape(8, 8, 16), Shape(8, 8, 8)
    graph = _chain(wide, wide, wide, narrow, last="SOFTMAX")
    rewritten = [VelaOperation(index, "Sub", narrow, narrow, 0) for index in (2, 3)]
    schedule = VelaSchedule((_operation(0, wide, 2, cascade=1), _operation(1, wide, 4, cascade=1), *rewritten))
    cascade, alone = nearest_plans(schedule, graph)
    assert (cascade.plan.parts, cascade.plan.stripes) == ((0, 1), (2, 4))
    assert (alone.plan.parts, alone.plan.stripes) == ((2,), (8,))


def test_parts_that_vela_has_at_another_place_run_uncut() -> None:
    shape, other = Shape(8, 8, 16), Shape(4, 4, 16)
    graph = _chain(shape, shape, other, shape)
    schedule = VelaSchedule((_operation(0, shape, 2, cascade=1), _operation(1, shape, 4, cascade=1)))
    first, second, third = nearest_plans(schedule, graph)
    assert [each.plan.parts for each in (first, second, third)] == [(0,), (1,), (2,)]
    assert second.plan.weights == (WeightsIn.RESIDENT,)
    assert second.plan.stripes == (4,)
