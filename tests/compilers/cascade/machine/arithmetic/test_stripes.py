"""Every operation, for any box of its output, computes what cpu_ref computes for the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.graph.matchers.build import ACTIVATIONS, MATCHERS, VIEWS
from nnhal_cascade.machine.arithmetic import STRIPE_KERNELS
from nnhal_cascade.machine.arithmetic.kernel import shape_of
from nnhal_cascade.machine.part_program import Given, Programs
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.support.agreement import inputs_of, like, single
from tests.support.ethos_u import EACH_EXAMPLE, examples
from tests.support.models import run_on
from tests.support.npu import convolution
from tests.support.searching import search

TYPES = pytest.mark.parametrize("code", [Q8A, Q8AS], ids=["unsigned", "signed"])
KINDS = OperationType


def boxes_of(shape: Shape) -> st.SearchStrategy[Box]:
    return st.builds(Box, *(intervals(length) for length in shape))


def intervals(length: int) -> st.SearchStrategy[Interval]:
    return st.tuples(st.integers(0, length - 1), st.integers(1, length)).map(
        lambda drawn: Interval(drawn[0], max(drawn[0] + 1, drawn[1]))
    )


def slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*interval) for interval in box)


class Whole:
    """A model of one operation, and what cpu_ref makes of it."""

    def __init__(self, model: ResolvedModel) -> None:
        self.graph: CascaderGraph = build_graph(model)
        main = model.model.main
        arrays = dict(zip(main.input_indexes, inputs_of(model), strict=True))
        results = run_on(CpuRef(), model, *arrays.values())
        arrays |= dict(zip(main.output_indexes, results, strict=True))
        self.tensors = {
            self.graph.tensor_of[operand]: values.reshape(shape_of(values.shape)) for operand, values in arrays.items()
        }
        programs = Programs(self.graph, model)
        self.programs = [programs.program(part) for part in self.graph.parts]

    def assert_box_is_right(self, part: Part, box: Box) -> None:
        needed = [each.needs(box) for each in part.inputs]
        given = [
            Given(each, self.tensors[source.tensor][slices(each)])
            for source, each in zip(part.inputs, needed, strict=True)
        ]
        got = self.programs[part.index].run(box, given)
        expected = self.tensors[part.output][slices(box)]
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_every_operation_of_the_compiler_has_a_form_for_stripes() -> None:
    moving = {KINDS.MIRROR_PAD, KINDS.REVERSE, KINDS.SPACE_TO_DEPTH, KINDS.DEPTH_TO_SPACE, KINDS.TILE, KINDS.TRANSPOSE}
    small = {KINDS.BATCH_MATMUL, KINDS.PACK, KINDS.REDUCE_MAX, KINDS.REDUCE_MIN, KINDS.REDUCE_SUM}
    assert {*MATCHERS, *ACTIVATIONS, *VIEWS} - set(STRIPE_KERNELS) == moving | small, "these are computed as a whole"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), EACH_EXAMPLE)
@search(4)
@given(st.data())
def test_any_box_of_an_example(name: str, code: OperandType, data: st.DataObject) -> None:
    whole = Whole(examples(code)[name])
    for part in whole.graph.parts:
        whole.assert_box_is_right(part, data.draw(boxes_of(whole.graph.tensors[part.output].shape)))


SIDES = st.integers(1, 4)
SMALL = st.integers(1, 3)


def draw_box(data: st.DataObject, whole: Whole) -> None:
    """Check boxes of a model of one part, of one output."""
    (part,) = whole.graph.parts
    shape = whole.graph.tensors[part.output].shape
    for _ in range(3):
        whole.assert_box_is_right(part, data.draw(boxes_of(shape)))


def drawn_window(data: st.DataObject, dilated: bool = True) -> tuple[list[int], list[int], list[int], list[int]]:
    """Draw sizes, strides and dilations of height and width, and an image that the window fits on with its paddings."""
    sizes, strides = [data.draw(SIDES) for _ in "hw"], [data.draw(SMALL) for _ in "hw"]
    dilations = [data.draw(SMALL) if dilated else 1 for _ in "hw"]
    return sizes, strides, dilations, [data.draw(st.integers(1, 7)) for _ in "hw"]


@search(15)
@given(st.data(), st.sampled_from([Q8A, Q8AS]), st.booleans())
def test_convolutions_of_any_window(data: st.DataObject, code: OperandType, depthwise: bool) -> None:
    sizes, strides, dilations, image = drawn_window(data)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    (top, bottom), (left, right) = ([data.draw(st.integers(0, each)) for _ in "ab"] for each in reach)
    assume(top + image[0] + bottom >= reach[0] and left + image[1] + right >= reach[1])
    paddings = [left, right, top, bottom]
    channels, filters, multiplier = data.draw(SMALL), data.draw(SMALL), data.draw(SMALL)
    last = [0, False, dilations[1], dilations[0]]
    if depthwise:
        dimensions = (1, *sizes, channels * multiplier)
        parameters, operation = [*paddings, *strides[::-1], multiplier, *last], KINDS.DEPTHWISE_CONV_2D
    else:
        dimensions = (filters, *sizes, channels)
        parameters, operation = [*paddings, *strides[::-1], *last], KINDS.CONV_2D
    outputs = dimensions[3 if depthwise else 0]
    scales = [0.25 + 0.05 * channel for channel in range(outputs)] if data.draw(st.booleans()) else []
    model = convolution(code, dimensions, parameters, (1, *image, channels), operation, channel_scales=scales)
    draw_box(data, Whole(model))


@search(10)
@given(st.data(), st.sampled_from([Q8A, Q8AS]))
def test_transpose_convolutions_of_any_window(data: st.DataObject, code: OperandType) -> None:
    sizes, strides, _, image = drawn_window(data, dilated=False)
    (top, bottom), (left, right) = ([data.draw(st.integers(0, each - 1)) for _ in "ab"] for each in sizes)
    made = [
        (length - 1) * stride + size - before - after
        for length, stride, size, (before, after) in zip(
            image, strides, sizes, ((top, bottom), (left, right)), strict=True
        )
    ]
    assume(min(made) > 0)
    channels, filters = data.draw(SMALL), data.draw(SMALL)
    parameters = [left, right, top, bottom, *strides[::-1], 0, False]
    model = convolution(code, (filters, *sizes, channels), parameters, (1, *image, channels), KINDS.TRANSPOSE_CONV_2D)
    draw_box(data, Whole(model))


@search(10)
@given(st.data(), st.sampled_from([KINDS.AVERAGE_POOL_2D, KINDS.MAX_POOL_2D]))
def test_poolings_of_any_window(data: st.DataObject, operation: OperationType) -> None:
    sizes, strides, _, image = drawn_window(data, dilated=False)
    top, left = (data.draw(st.integers(0, size - 1)) for size in sizes)
    bottom, right = (data.draw(st.integers(0, size - 1)) for size in sizes)
    assume(top + image[0] + bottom >= sizes[0] and left + image[1] + right >= sizes[1])
    starts = [
        (length + before + after - size) // stride * stride - before
        for length, size, stride, before, after in zip(image, sizes, strides, (top, left), (bottom, right), strict=True)
    ]
    assume(starts[0] < image[0] and starts[1] < image[1])
    parameters = [left, right, top, bottom, *strides[::-1], *sizes[::-1], data.draw(st.integers(0, 3))]
    draw_box(data, Whole(single(operation, Q8AS, [(1, *image, data.draw(SMALL))], parameters)))


@search(10)
@given(st.data(), st.booleans(), st.sampled_from([(False, False), (True, False), (False, True)]))
def test_resizing_to_any_size(data: st.DataObject, bilinear: bool, flags: tuple[bool, bool]) -> None:
    image = (1, data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7)), 2)
    operation = KINDS.RESIZE_BILINEAR if bilinear else KINDS.RESIZE_NEAREST_NEIGHBOR
    sizes = [data.draw(st.integers(1, 15)), data.draw(st.integers(1, 15))]
    draw_box(data, Whole(single(operation, Q8A, [image], [*sizes, False, *flags])))


@search(10)
@given(st.data())
def test_slices_and_paddings_of_any_place(data: st.DataObject) -> None:
    extents = [1, *(data.draw(st.integers(1, 5)) for _ in range(3))]
    begins = [data.draw(st.integers(0, extent - 1)) for extent in extents]
    sizes = [data.draw(st.integers(1, extent - begin)) for extent, begin in zip(extents, begins, strict=True)]
    draw_box(data, Whole(single(KINDS.SLICE, Q8A, [tuple(extents)], [begins, sizes])))
    paddings = [[0, 0], *([data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))] for _ in range(3))]
    draw_box(data, Whole(single(KINDS.PAD, Q8A, [tuple(extents)], [paddings])))


def test_a_concatenation_of_other_quantisations() -> None:
    model = single(KINDS.CONCATENATION, Q8A, [(1, 4, 3, 2), (1, 4, 3, 1)], [3], like(Q8A, scale=0.07))
    whole = Whole(model)
    whole.assert_box_is_right(whole.graph.parts[0], Box(Interval(1, 3), Interval(0, 3), Interval(1, 3)))


@TYPES
def test_sums_that_float32_does_not_hold(code: OperandType) -> None:
    model = convolution(code, (2, 5, 5, 2048), [1, 1, 1, 0], (1, 7, 6, 2048), scales=(0.5, 0.25, 300.0))
    whole = Whole(model)
    whole.assert_box_is_right(whole.graph.parts[0], Box(Interval(2, 7), Interval(0, 6), Interval(1, 2)))
