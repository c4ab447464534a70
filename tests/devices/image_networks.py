"""Small networks of images for the rewriting of cpu_acc, and the sessions of their graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from nnhal.arrays import Array
from nnhal.operations.operand_types import F32, I32
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.blocked import rewrite
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.cpu_acc.proto import model_of
from nnhal_devices.cpu_acc.session import create_session, session_options
from tests.support.models import Recipe
from tests.support.rounding import tolerance_of

_SAME = 1
_NHWC = False
_BLOCKED = "com.microsoft.nchwc"


class Network:
    """A recipe for a model of float images with channels last. Methods return operands; weights are random."""

    def __init__(self, seed: int = 0) -> None:
        self.recipe = Recipe()
        self._generator = np.random.default_rng(seed)
        self.channels: dict[int, int] = {}

    def image(self, size: int, channels: int) -> int:
        return self._known(self.recipe.input(F32, (1, size, size, channels)), channels)

    def dense(self, given: int, channels: int, window: int = 1, stride: int = 1, activation: int = 0) -> int:
        """Add a CONV_2D."""
        weights = self._random(channels, window, window, self.channels[given]) / window
        inputs = [given, self.recipe.constant(F32, weights), self.recipe.constant(F32, self._random(channels))]
        return self.add(OperationType.CONV_2D, channels, *inputs, *self._whole(_SAME, stride, stride, activation))

    def depthwise(self, given: int, stride: int = 1, activation: int = 0) -> int:
        """Add a DEPTHWISE_CONV_2D with a window of 3."""
        channels = self.channels[given]
        inputs = [given, self.recipe.constant(F32, self._random(1, 3, 3, channels))]
        inputs.append(self.recipe.constant(F32, self._random(channels)))
        whole = self._whole(_SAME, stride, stride, 1, activation)
        return self.add(OperationType.DEPTHWISE_CONV_2D, channels, *inputs, *whole)

    def add(self, operation: OperationType, channels: int, *inputs: int) -> int:
        return self._known(self.recipe.operation(operation, list(inputs), Operand(F32)), channels)

    def pool(self, given: int, operation: OperationType = OperationType.MAX_POOL_2D) -> int:
        return self.add(operation, self.channels[given], given, *self._whole(_SAME, 2, 2, 2, 2, 0))

    def slopes(self, given: int) -> int:
        slope = self.recipe.constant(F32, self._random(1, 1, self.channels[given]))
        return self.add(OperationType.PRELU, self.channels[given], given, slope)

    def more_channels(self, given: int, added: int) -> int:
        paddings = self.recipe.constant(I32, [[0, 0], [0, 0], [0, 0], [0, added]])
        return self.add(OperationType.PAD, self.channels[given] + added, given, paddings)

    def resize(self, given: int, size: int) -> int:
        inputs = [given, *self._whole(size, size), self.recipe.constant(OperandType.BOOL, _NHWC)]
        return self.add(OperationType.RESIZE_BILINEAR, self.channels[given], *inputs)

    def combine(self, operation: OperationType, first: int, second: int, activation: int = 0) -> int:
        return self.add(operation, self.channels[first], first, second, *self._whole(activation))

    def constant(self, *dimensions: int) -> int:
        return self.recipe.constant(F32, self._random(*dimensions))

    def unary(self, operation: OperationType, given: int) -> int:
        """Add an operation on single elements without parameters."""
        return self.add(operation, self.channels[given], given)

    def extreme(self, operation: OperationType, given: int, bound: float) -> int:
        """Add a MAXIMUM or MINIMUM with one constant."""
        return self.add(operation, self.channels[given], given, self.recipe.constant(F32, [bound]))

    def concatenate(self, *given: int) -> int:
        channels = sum(self.channels[each] for each in given)
        return self.add(OperationType.CONCATENATION, channels, *given, *self._whole(3))

    def _known(self, operand: int, channels: int) -> int:
        self.channels[operand] = channels
        return operand

    def _whole(self, *values: int) -> list[int]:
        return self.recipe.integers(*values)

    def _random(self, *dimensions: int) -> Array:
        return self._generator.standard_normal(dimensions).astype(np.float32) / 2


def plain(model: ResolvedModel) -> LoweredGraph:
    """Return the graph before it is rewritten."""
    return lower(model, propagate_dimensions(model))


def rewritten(model: ResolvedModel, block: int) -> LoweredGraph:
    """Return the graph for blocks of so many channels."""
    graph = plain(model)
    rewrite(graph, block)
    return graph


def results(graph: LoweredGraph, image: Array) -> list[Array]:
    (name,) = graph.inputs
    session = create_session(graph, threads=1)
    return [np.asarray(result) for result in session.runtime.run(None, {name: image})]


def optimized(graph: LoweredGraph, folder: Path) -> list[str]:
    """Return the types of the nodes that ONNX Runtime makes of a graph, with a star if they are blocked."""
    path = folder / "optimized.onnx"
    options = session_options(threads=1)
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model_of(graph).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [node.op_type + "*" * (node.domain == _BLOCKED) for node in onnx.load(path).graph.node]


def assert_same_results(model: ResolvedModel, block: int, image: Array) -> LoweredGraph:
    """Check that rewriting changes no result, and return the rewritten graph."""
    graph = rewritten(model, block)
    for got, expected in zip(results(graph, image), results(plain(model), image), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance_of(model.model, expected))
    return graph
