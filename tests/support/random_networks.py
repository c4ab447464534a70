"""Random int8 networks with branches, and random ways to cascade them."""

from __future__ import annotations

from hypothesis import strategies as st

from nnhal.operations._types import Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_devices.ethos_u.cascader.geometry.box import Axis, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn
from tests.support.agreement import like
from tests.support.npu import SAME
from tests.support.small_networks import Network

_MOST_OPERATIONS = 8
_MOST_ELEMENTS = 4000
_Shape = tuple[int, int, int]
_WHOLE = 1 << 20


class _RandomNetwork:
    """A network that grows by drawn operations on drawn tensors."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        image = (draw(st.integers(4, 9)), draw(st.integers(4, 9)), draw(st.integers(1, 4)))
        self._network = Network(*image)
        self._shapes: dict[int, _Shape] = {self._network.image: image}
        self._read: set[int] = set()

    def grow(self) -> None:
        """Add an operation. A late tensor is a likely input, so that networks are deep and have branches."""
        given = self._draw(st.sampled_from(list(self._shapes)[-3:]))
        alike = [other for other, shape in self._shapes.items() if shape == self._shapes[given]]
        adding = [self._convolution, self._depthwise, self._pooling, self._activation, self._resizing, self._padding]
        if len(alike) > 1:
            adding += [self._sum, self._concatenation] * 2
        made, shape = self._draw(st.sampled_from(adding))(given, self._shapes[given])
        self._shapes[made] = shape
        self._read.add(given)

    def build(self) -> ResolvedModel:
        """Return the network. What nothing reads is an output."""
        return self._network.recipe.build(*(operand for operand in self._shapes if operand not in self._read))

    def _convolution(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        rows, columns, depth = shape
        channels, side, stride = (self._draw(st.integers(1, 3)) for _ in "csk")
        made = self._network.conv(given, depth, channels, side, SAME, stride)
        return made, (-(-rows // stride), -(-columns // stride), channels)

    def _depthwise(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        rows, columns, channels = shape
        side, stride = (self._draw(st.integers(1, 3)) for _ in "sk")
        made = self._network.depthwise(given, channels, side, stride)
        return made, (-(-rows // stride), -(-columns // stride), channels)

    def _pooling(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        rows, columns, channels = shape
        kind = self._draw(st.sampled_from([OperationType.MAX_POOL_2D, OperationType.AVERAGE_POOL_2D]))
        parameters = self._network.recipe.integers(SAME, 2, 1, 2, 3, 0)
        made = self._network.recipe.operation(kind, [given, *parameters], like(Q8AS))
        return made, (rows, -(-columns // 2), channels)

    def _activation(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        return self._network.relu(given), shape

    def _resizing(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        rows, columns, channels = shape
        if 4 * rows * columns * channels > _MOST_ELEMENTS:
            return self._activation(given, shape)
        kind = self._draw(st.sampled_from([OperationType.RESIZE_NEAREST_NEIGHBOR, OperationType.RESIZE_BILINEAR]))
        recipe = self._network.recipe
        inputs = [given, *recipe.integers(2 * columns, 2 * rows), recipe.constant(OperandType.BOOL, False)]
        return recipe.operation(kind, inputs, like(Q8AS)), (2 * rows, 2 * columns, channels)

    def _padding(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        paddings = self._network.recipe.constant(OperandType.TENSOR_INT32, [[0, 0], [1, 0], [0, 2], [0, 0]])
        made = self._network.recipe.operation(OperationType.PAD, [given, paddings], like(Q8AS))
        return made, (shape[0] + 1, shape[1] + 2, shape[2])

    def _sum(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        return self._network.add(given, self._other(shape)), shape

    def _concatenation(self, given: int, shape: _Shape) -> tuple[int, _Shape]:
        inputs = [given, self._other(shape), *self._network.recipe.integers(3)]
        made = self._network.recipe.operation(OperationType.CONCATENATION, inputs, like(Q8AS))
        return made, (shape[0], shape[1], 2 * shape[2])

    def _other(self, shape: _Shape) -> int:
        other: int = self._draw(st.sampled_from([each for each, held in self._shapes.items() if held == shape]))
        self._read.add(other)
        return other


@st.composite
def random_networks(draw: st.DrawFn) -> ResolvedModel:
    """Draw a network of up to 8 operations on one image."""
    network = _RandomNetwork(draw)
    for _ in range(draw(st.integers(1, _MOST_OPERATIONS))):
        network.grow()
    return network.build()


@st.composite
def random_plans(draw: st.DrawFn, graph: CascaderGraph) -> tuple[list[Plan], list[bool]]:
    """Draw plans over all parts of a graph, and for each whether it runs backwards."""
    plans: list[Plan] = []
    start = 0
    while start < len(graph.parts):
        stop = draw(st.integers(start + 1, len(graph.parts)))
        plans.append(_plan(draw, graph, range(start, stop)))
        start = stop
    return plans, [draw(st.booleans()) for _ in plans]


def _plan(draw: st.DrawFn, graph: CascaderGraph, parts: range) -> Plan:
    alone = len(parts) == 1
    along = draw(st.sampled_from(list(Axis) if alone else [Axis.ROWS, Axis.COLUMNS]))
    places = [WeightsIn.STREAMED, WeightsIn.RESIDENT]
    if alone and along == Axis.CHANNELS:
        places.append(WeightsIn.DOUBLE_BUFFERED)
    weights = (draw(st.sampled_from(places)) if graph.parts[part].constants else WeightsIn.NONE for part in parts)
    stripes = (draw(st.sampled_from([1, 1, 2, 3, _WHOLE])) for _ in parts)
    last = graph.tensors[graph.parts[parts[-1]].output].shape
    return Plan(tuple(parts), tuple(stripes), tuple(weights), (whole(last),), along)
