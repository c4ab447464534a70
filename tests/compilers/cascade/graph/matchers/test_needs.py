"""The box that a part needs contains every element on which its output depends, found by changing elements."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.arrays import Array
from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_cascade.geometry.box import Box, Interval
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_devices.cpu_ref.driver import CpuRef
from tests.support.agreement import inputs_of, single
from tests.support.ethos_u import EACH_EXAMPLE, examples, is_taken
from tests.support.models import run_on
from tests.support.npu import convolution
from tests.support.searching import search

TYPES = pytest.mark.parametrize("code", [Q8A, Q8AS], ids=["unsigned", "signed"])
MOST_ELEMENTS = 20
"""Elements of each input that are changed."""


def as_image(values: Array) -> Array:
    return values.reshape(((1,) * (3 - values.ndim) + values.shape)[-3:])


def chosen(dimensions: Dimensions) -> list[tuple[int, ...]]:
    places = list(product(*(range(extent) for extent in dimensions)))
    step = max(1, len(places) // MOST_ELEMENTS)
    return [*places[::step], places[-1]]


def assert_needs_enough(model: ResolvedModel) -> None:
    """Change elements of each input, and look for each part that writes a changed element of an output."""
    graph, main, before = build_graph(model), model.model.main, inputs_of(model)
    expected = run_on(CpuRef(), model, *before)
    changed = 0
    for position, operand in enumerate(main.input_indexes):
        for place in chosen(before[position].shape):
            for value in (np.iinfo(before[position].dtype).min, np.iinfo(before[position].dtype).max):
                after = [values.copy() for values in before]
                after[position][place] = value
                got = run_on(CpuRef(), model, *after)
                for index, one, other in zip(main.output_indexes, got, expected, strict=True):
                    image = tuple(int(i) for i in np.argwhere(as_image(marked(before[position], place)))[0])
                    for made in np.argwhere(as_image(one) != as_image(other)):
                        changed += 1
                        assert reads(graph, graph.tensor_of[operand], graph.tensor_of[index], image, made.tolist())
    assert changed


def marked(values: Array, place: tuple[int, ...]) -> Array:
    result = np.zeros(values.shape, bool)
    result[place] = True
    return result


def reads(graph: CascaderGraph, source: int, target: int, element: tuple[int, ...], made: list[int]) -> bool:
    """Return if the element of ``source`` is among what the part needs for the element of ``target``."""
    (part,) = (part for part in graph.parts if part.output == target)
    wanted = Box(*(Interval(n, n + 1) for n in made))
    boxes = [each.needs(wanted) for each in part.inputs if each.tensor == source]
    return any(all(a.start <= n < a.stop for a, n in zip(box, element, strict=True)) for box in boxes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), EACH_EXAMPLE)
def test_every_example(name: str, code: type) -> None:
    model = examples(code)[name]
    if build_graph(model).parts:
        assert_needs_enough(model)


side = st.integers(1, 4)


@search(5)
@given(data=st.data())
def test_convolutions_of_any_window(data: st.DataObject) -> None:
    filters, height, width = data.draw(side), data.draw(side), data.draw(side)
    strides, dilations = [data.draw(st.integers(1, 3)) for _ in range(2)], [data.draw(st.integers(1, 2)) for _ in "hw"]
    reach = [(size - 1) * dilation + 1 for size, dilation in zip((height, width), dilations, strict=True)]
    rows, columns = (data.draw(st.integers(each, each + 5)) for each in reach)
    before_h, after_h = (data.draw(st.integers(0, reach[0] - 1)) for _ in range(2))
    before_w, after_w = (data.draw(st.integers(0, reach[1] - 1)) for _ in range(2))
    paddings = [before_w, after_w, before_h, after_h]
    parameters = [*paddings, strides[1], strides[0], 0, False, dilations[1], dilations[0]]
    model = convolution(Q8A, (filters, height, width, 2), parameters, (1, rows, columns, 2))
    assert is_taken(model)
    assert_needs_enough(model)


@search(5)
@given(data=st.data())
def test_slices_and_paddings_of_any_place(data: st.DataObject) -> None:
    extents = [1, *(data.draw(st.integers(1, 5)) for _ in range(3))]
    begins = [data.draw(st.integers(0, extent - 1)) for extent in extents]
    sizes = [data.draw(st.integers(1, extent - begin)) for extent, begin in zip(extents, begins, strict=True)]
    assert_needs_enough(single(OperationType.SLICE, Q8A, [tuple(extents)], [begins, sizes]))
    paddings = [[0, 0], *([data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))] for _ in range(3))]
    assert_needs_enough(single(OperationType.PAD, Q8A, [tuple(extents)], [paddings]))
