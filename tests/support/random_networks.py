"""Random networks of 8-bit operations with branches, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from nnhal.operations.operand_types import I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from tests.support.models import Recipe
from tests.support.npu import SAME, VALID

_SCALE, _ZERO_POINT, _WEIGHT_SCALE = 0.125, 3, 0.015625
_LARGEST = 24
"""Rows and columns."""
_LIKE = Operand(Q8AS, (), _SCALE, _ZERO_POINT)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a network that is being drawn."""

    operand: int
    rows: int
    columns: int
    channels: int


@dataclass
class Drawing:
    """A network that is being drawn."""

    draw: st.DrawFn
    recipe: Recipe = field(default_factory=Recipe)
    values: list[Value] = field(default_factory=list)
    read: set[int] = field(default_factory=set)

    def pick(self) -> Value:
        """Pick a value, which is read now: often one of the last."""
        last = len(self.values) - 1
        found = self.values[max(0, last - self.draw(st.integers(0, 3)))]
        self.read.add(found.operand)
        return found

    def add(self, operation: OperationType, inputs: list[int], rows: int, columns: int, channels: int) -> None:
        made = self.recipe.operation(operation, inputs, _LIKE)
        self.values.append(Value(made, rows, columns, channels))

    def weights(self, *dimensions: int) -> int:
        seed = self.draw(st.integers(0, 7))
        values = np.random.default_rng(seed).integers(-20, 21, dimensions)
        return self.recipe.constant(Q8AS, values, _WEIGHT_SCALE, 0)

    def bias(self, count: int) -> int:
        return self.recipe.constant(I32, np.arange(count) * 9, _SCALE * _WEIGHT_SCALE)


@st.composite
def random_networks(draw: st.DrawFn) -> ResolvedModel:
    """Draw a network of 1 to 9 operations on one or two images."""
    drawing = Drawing(draw)
    sides = st.integers(3, 16)
    for _ in range(draw(st.integers(1, 2))):
        rows, columns, channels = draw(sides), draw(sides), draw(st.integers(1, 20))
        operand = drawing.recipe.input(Q8AS, (1, rows, columns, channels), _SCALE, _ZERO_POINT)
        drawing.values.append(Value(operand, rows, columns, channels))
    for step in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=9)):
        step(drawing)
    made = [value.operand for value in drawing.values if value.operand not in drawing.read]
    inputs = {value.operand for value in drawing.values[:2]}
    outputs = [operand for operand in made if operand not in inputs] or [drawing.values[-1].operand]
    if outputs[0] in inputs:
        _relu(drawing)
        outputs = [drawing.values[-1].operand]
    return drawing.recipe.build(*outputs)


def _window(drawing: Drawing, value: Value, largest: int = 3) -> tuple[int, int, int, int, int, int, int] | None:
    """Scheme, strides x and y, kernel height and width, and the rows and columns that follow."""
    draw = drawing.draw
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    stride_x, stride_y = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    scheme = draw(st.sampled_from((SAME, VALID)))
    if scheme == SAME:
        rows, columns = -(-value.rows // stride_y), -(-value.columns // stride_x)
    else:
        rows, columns = (value.rows - height) // stride_y + 1, (value.columns - width) // stride_x + 1
    if value.rows < height or value.columns < width:
        return None
    return scheme, stride_x, stride_y, height, width, rows, columns


def _convolution(drawing: Drawing) -> None:
    value = drawing.pick()
    window = _window(drawing, value)
    if window is None:
        return
    scheme, stride_x, stride_y, height, width, rows, columns = window
    channels = drawing.draw(st.integers(1, 36))
    inputs = [
        value.operand,
        drawing.weights(channels, height, width, value.channels),
        drawing.bias(channels),
        *drawing.recipe.integers(scheme, stride_x, stride_y, drawing.draw(st.sampled_from((0, 1, 3)))),
    ]
    drawing.add(OperationType.CONV_2D, inputs, rows, columns, channels)


def _depthwise(drawing: Drawing) -> None:
    value = drawing.pick()
    window = _window(drawing, value)
    if window is None:
        return
    scheme, stride_x, stride_y, height, width, rows, columns = window
    inputs = [
        value.operand,
        drawing.weights(1, height, width, value.channels),
        drawing.bias(value.channels),
        *drawing.recipe.integers(scheme, stride_x, stride_y, 1, 0),
    ]
    drawing.add(OperationType.DEPTHWISE_CONV_2D, inputs, rows, columns, value.channels)


def _pool(drawing: Drawing) -> None:
    value = drawing.pick()
    window = _window(drawing, value)
    if window is None:
        return
    scheme, stride_x, stride_y, height, width, rows, columns = window
    operation = drawing.draw(st.sampled_from((OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D)))
    inputs = [value.operand, *drawing.recipe.integers(scheme, stride_x, stride_y, width, height, 0)]
    drawing.add(operation, inputs, rows, columns, value.channels)


def _transposed(drawing: Drawing) -> None:
    value = drawing.pick()
    rows, columns, channels = value.rows * 2, value.columns * 2, drawing.draw(st.integers(1, 8))
    if max(rows, columns) > _LARGEST:
        return
    shape = drawing.recipe.constant(I32, [1, rows, columns, channels])
    layout = drawing.recipe.constant(OperandType.BOOL, False)
    inputs = [
        value.operand,
        drawing.weights(channels, 3, 3, value.channels),
        drawing.bias(channels),
        shape,
        *drawing.recipe.integers(SAME, 2, 2, 0),
        layout,
    ]
    drawing.add(OperationType.TRANSPOSE_CONV_2D, inputs, rows, columns, channels)


def _sum(drawing: Drawing) -> None:
    one = drawing.pick()
    others = [each for each in drawing.values if each.operand != one.operand and _shape(each) == _shape(one)]
    other = drawing.draw(st.sampled_from(others)) if others else one
    drawing.read.add(other.operand)
    inputs = [one.operand, other.operand, *drawing.recipe.integers(0)]
    drawing.add(OperationType.ADD, inputs, one.rows, one.columns, one.channels)


def _scaled_by_channel(drawing: Drawing) -> None:
    value = drawing.pick()
    values = np.arange(value.channels) - value.channels // 2
    factors = drawing.recipe.constant(Q8AS, values, 0.0625, 0)
    inputs = [value.operand, factors, *drawing.recipe.integers(0)]
    drawing.add(OperationType.MUL, inputs, value.rows, value.columns, value.channels)


def _joined(drawing: Drawing) -> None:
    one = drawing.pick()
    others = [each for each in drawing.values if (each.rows, each.columns) == (one.rows, one.columns)]
    other = drawing.draw(st.sampled_from(others))
    drawing.read.add(other.operand)
    inputs = [one.operand, other.operand, *drawing.recipe.integers(3)]
    drawing.add(OperationType.CONCATENATION, inputs, one.rows, one.columns, one.channels + other.channels)


def _stacked(drawing: Drawing) -> None:
    one = drawing.pick()
    if one.rows * 2 > _LARGEST:
        return
    inputs = [one.operand, one.operand, *drawing.recipe.integers(1)]
    drawing.add(OperationType.CONCATENATION, inputs, one.rows * 2, one.columns, one.channels)


def _resized(drawing: Drawing) -> None:
    value = drawing.pick()
    rows, columns = value.rows * 2, value.columns * 2
    if max(rows, columns) > _LARGEST:
        return
    operation = drawing.draw(st.sampled_from((OperationType.RESIZE_NEAREST_NEIGHBOR, OperationType.RESIZE_BILINEAR)))
    layout = drawing.recipe.constant(OperandType.BOOL, False)
    inputs = [value.operand, *drawing.recipe.integers(columns, rows), layout]
    drawing.add(operation, inputs, rows, columns, value.channels)


def _padded(drawing: Drawing) -> None:
    value = drawing.pick()
    before, after = drawing.draw(st.integers(0, 2)), drawing.draw(st.integers(0, 2))
    borders = drawing.recipe.constant(I32, [[0, 0], [before, after], [after, before], [0, 0]])
    total = before + after
    drawing.add(OperationType.PAD, [value.operand, borders], value.rows + total, value.columns + total, value.channels)


def _sliced(drawing: Drawing) -> None:
    value = drawing.pick()
    if value.rows < 2:
        return
    first = drawing.draw(st.integers(0, value.rows - 1))
    rows = value.rows - first
    start = drawing.recipe.constant(I32, [0, first, 0, 0])
    size = drawing.recipe.constant(I32, [1, rows, value.columns, value.channels])
    drawing.add(OperationType.SLICE, [value.operand, start, size], rows, value.columns, value.channels)


def _relu(drawing: Drawing) -> None:
    value = drawing.pick()
    operation = drawing.draw(st.sampled_from((OperationType.RELU, OperationType.RELU6)))
    drawing.add(operation, [value.operand], value.rows, value.columns, value.channels)


def _mean(drawing: Drawing) -> None:
    value = drawing.pick()
    axes = drawing.recipe.constant(I32, [1, 2])
    inputs = [value.operand, axes, *drawing.recipe.integers(1)]
    drawing.add(OperationType.MEAN, inputs, 1, 1, value.channels)


def _shape(value: Value) -> tuple[int, int, int]:
    return value.rows, value.columns, value.channels


_STEPS: list[Callable[[Drawing], None]] = [
    _convolution,
    _convolution,
    _convolution,
    _depthwise,
    _depthwise,
    _pool,
    _transposed,
    _sum,
    _sum,
    _scaled_by_channel,
    _joined,
    _stacked,
    _resized,
    _padded,
    _sliced,
    _relu,
    _mean,
]
