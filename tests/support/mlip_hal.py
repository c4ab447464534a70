"""Models of the HAL that mlip supports, in each of its types, for each operation at least one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import F16, F32, I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_mlip.support import supported_operations
from tests.support import npu
from tests.support.models import Recipe
from tests.support.npu import SAME, VALID

is_taken = partial(npu.is_taken, ask=supported_operations)
refusal = partial(npu.refusal, ask=supported_operations)

TYPES = (F16, F32, Q8A, Q8AS)
"""The types of activations; float32 in relaxed models."""
ZERO_POINTS = {Q8A: 128, Q8AS: 0}
SCALE = 0.05
"""Of inputs, and of outputs unless another is given."""
_WEIGHT_SCALE = 0.02
_IMAGE = (1, 6, 5, 4)


class MlipRecipe(Recipe):
    """A recipe in one of mlip's types. Its numbers are real ones, which are quantised as the type needs it."""

    def __init__(self, code: OperandType, seed: int = 0) -> None:
        super().__init__()
        self.code = code
        self._random = np.random.default_rng(seed)

    def tensor(self, dimensions: Dimensions, scale: float = SCALE) -> int:
        return self.input(self.code, dimensions, *self._quantisation(scale))

    def like(self, scale: float = SCALE, dimensions: Dimensions = ()) -> Operand:
        return Operand(self.code, dimensions, *self._quantisation(scale))

    def values(self, dimensions: Dimensions, scale: float = SCALE) -> int:
        """Add a constant tensor of random values."""
        return self._stored(self._random.uniform(-1, 1, dimensions), scale)

    def weights(self, dimensions: Dimensions, channels: Sequence[float] = (), axis: int = 0) -> int:
        """Add weights, quantised per channel if scales are given."""
        values = self._random.uniform(-1, 1, dimensions) / np.sqrt(np.prod(dimensions) / max(dimensions))
        if not channels:
            return self._stored(values, _WEIGHT_SCALE)
        return self.constant(Q8C, np.round(values / max(channels)), channels=ChannelQuant(tuple(channels), axis))

    def bias(self, count: int, per_channel: bool = False) -> int:
        values = self._random.uniform(-1, 1, count)
        if self.code not in ZERO_POINTS:
            return self.constant(self.code, values)
        scale = float(np.float32(SCALE) * np.float32(_WEIGHT_SCALE))
        return self.constant(I32, np.round(values / scale), 0.0 if per_channel else scale)

    def finish(self, *outputs: int) -> ResolvedModel:
        """Return the model, relaxed if it is of float32."""
        return self.build(*outputs, relaxed=self.code == F32)

    def _stored(self, values: Array, scale: float) -> int:
        if self.code in ZERO_POINTS:
            values = np.clip(np.round(values / scale), -127, 127) + ZERO_POINTS[self.code]
        return self.constant(self.code, values, *self._quantisation(scale))

    def _quantisation(self, scale: float) -> tuple[float, int]:
        return (scale, ZERO_POINTS[self.code]) if self.code in ZERO_POINTS else (0.0, 0)


def random_inputs(model: ResolvedModel, seed: int = 0) -> list[Array]:
    """Return values in [-2, 2] for the inputs of a model; all bytes for 8-bit ones."""
    generator, main = np.random.default_rng(seed), model.model.main
    found = []
    for index in main.input_indexes:
        operand = main.operands[index]
        element = ELEMENT_TYPES[operand.type]
        if element.kind == "f":
            found.append(generator.uniform(-2, 2, operand.dimensions).astype(element))
        else:
            found.append(generator.integers(0, 256, operand.dimensions).astype(np.uint8).view(element))
    return found


@cache
def mlip_examples(code: OperandType) -> dict[str, ResolvedModel]:
    """Return a model of one operation for each name. The names begin with the operation's."""

    def one(
        kind: OperationType,
        *parameters: int | bool | Sequence[int] | Sequence[Sequence[int]],
        tensors: Sequence[Dimensions] = (_IMAGE,),
        scales: Sequence[float] = (),
        constant: Dimensions | None = None,
        output: float = SCALE,
    ) -> ResolvedModel:
        recipe = MlipRecipe(code)
        given = scales or (SCALE,) * len(tensors)
        inputs = [recipe.tensor(dimensions, scale) for dimensions, scale in zip(tensors, given, strict=True)]
        if constant is not None:
            inputs.append(recipe.values(constant))
        inputs += _parameters(recipe, parameters)
        return recipe.finish(recipe.operation(kind, inputs, recipe.like(output)))

    def convolved(
        kind: OperationType,
        filters: Dimensions,
        *parameters: int | bool,
        image: Dimensions = _IMAGE,
        channels: Sequence[float] = (),
    ) -> ResolvedModel:
        recipe, axis = MlipRecipe(code), 3 if kind == OperationType.DEPTHWISE_CONV_2D else 0
        quantised = channels if code in ZERO_POINTS else ()
        inputs = [
            recipe.tensor(image),
            recipe.weights(filters, quantised, axis),
            recipe.bias(filters[axis], bool(quantised)),
            *_parameters(recipe, parameters),
        ]
        return recipe.finish(recipe.operation(kind, inputs, recipe.like()))

    def connected(image: Dimensions, size: int, activation: int = 0) -> ResolvedModel:
        recipe = MlipRecipe(code)
        inputs = [recipe.tensor(image), recipe.weights((5, size)), recipe.bias(5), *recipe.integers(activation)]
        return recipe.finish(recipe.operation(OperationType.FULLY_CONNECTED, inputs, recipe.like()))

    kinds = OperationType
    return {
        **(_of_floats(one, code) if code in (F16, F32) else {}),
        "ADD": one(kinds.ADD, 0, tensors=(_IMAGE, _IMAGE), scales=(SCALE, 0.03), output=0.1),
        "ADD of a row": one(kinds.ADD, 1, tensors=(_IMAGE, (1, 1, 5, 1))),
        "ADD of channels": one(kinds.ADD, 3, tensors=((4,), _IMAGE)),
        "ADD of a constant": one(kinds.ADD, 2, constant=(4,)),
        "ADD of matrices": one(kinds.ADD, 0, tensors=((3, 7), (3, 7))),
        "AVERAGE_POOL_2D SAME": one(kinds.AVERAGE_POOL_2D, SAME, 2, 1, 3, 4, 0),
        "AVERAGE_POOL_2D VALID": one(kinds.AVERAGE_POOL_2D, VALID, 5, 6, 5, 6, 1),
        "AVERAGE_POOL_2D of a batch": one(kinds.AVERAGE_POOL_2D, VALID, 1, 1, 2, 2, 3, tensors=((3, 6, 5, 4),)),
        "AVERAGE_POOL_2D NCHW": one(kinds.AVERAGE_POOL_2D, VALID, 1, 1, 2, 2, 0, True),
        "CHANNEL_SHUFFLE": one(kinds.CHANNEL_SHUFFLE, 2, 3),
        "CHANNEL_SHUFFLE NCHW": one(kinds.CHANNEL_SHUFFLE, 3, 1),
        "CONCATENATION of channels": one(kinds.CONCATENATION, 3, tensors=(_IMAGE, (1, 6, 5, 2), (1, 6, 5, 1))),
        "CONCATENATION of rows": one(kinds.CONCATENATION, 1, tensors=(_IMAGE, (1, 2, 5, 4))),
        "CONCATENATION of vectors": one(kinds.CONCATENATION, 0, tensors=((3, 4), (2, 4)), scales=(SCALE, 0.1)),
        "CONCATENATION of one": one(kinds.CONCATENATION, 0, tensors=((3, 4),)),
        "CONV_2D SAME": convolved(kinds.CONV_2D, (3, 3, 3, 4), SAME, 2, 1, 1),
        "CONV_2D VALID": convolved(kinds.CONV_2D, (3, 4, 2, 4), VALID, 1, 2, 0),
        "CONV_2D with RELU6": convolved(kinds.CONV_2D, (3, 3, 3, 4), SAME, 1, 1, 3),
        "CONV_2D with RELU1": convolved(kinds.CONV_2D, (3, 1, 1, 4), SAME, 1, 1, 2),
        "CONV_2D with dilation": convolved(kinds.CONV_2D, (3, 3, 2, 4), SAME, 1, 1, 0, False, 2, 2),
        "CONV_2D with paddings": convolved(kinds.CONV_2D, (3, 3, 3, 4), 0, 2, 1, 0, 1, 2, 0),
        "CONV_2D per channel": convolved(kinds.CONV_2D, (3, 1, 1, 4), SAME, 1, 1, 0, channels=(0.02, 0.01, 0.015)),
        "CONV_2D NCHW": convolved(kinds.CONV_2D, (3, 3, 3, 6), SAME, 1, 1, 1, True),
        "CONV_2D of a batch": convolved(kinds.CONV_2D, (3, 3, 3, 4), SAME, 1, 1, 1, image=(8, 6, 5, 4)),
        "DEPTHWISE_CONV_2D": convolved(kinds.DEPTHWISE_CONV_2D, (1, 3, 3, 4), SAME, 1, 2, 1, 0),
        "DEPTHWISE_CONV_2D per channel": convolved(
            kinds.DEPTHWISE_CONV_2D, (1, 3, 3, 4), SAME, 1, 1, 1, 3, channels=(0.02, 0.01, 0.015, 0.02)
        ),
        "DEPTHWISE_CONV_2D of one channel": convolved(
            kinds.DEPTHWISE_CONV_2D, (1, 3, 2, 6), VALID, 1, 1, 6, 0, image=(1, 6, 5, 1)
        ),
        "DEPTHWISE_CONV_2D with a multiplier": convolved(
            kinds.DEPTHWISE_CONV_2D, (1, 3, 3, 8), SAME, 1, 1, 2, 0, channels=(0.02, 0.01, 0.015, 0.02) * 2
        ),
        "EXPAND_DIMS": one(kinds.EXPAND_DIMS, 0, tensors=((3, 4),)),
        "FULLY_CONNECTED": connected(_IMAGE, 120),
        "FULLY_CONNECTED of rows": connected((3, 8), 8, 1),
        "FULLY_CONNECTED of odd rows": connected((1, 2, 3, 4), 8, 3),
        "GROUPED_CONV_2D of one group": convolved(kinds.GROUPED_CONV_2D, (4, 3, 3, 4), SAME, 1, 1, 1, 0, False),
        "GROUPED_CONV_2D of channels": convolved(kinds.GROUPED_CONV_2D, (4, 3, 3, 1), SAME, 1, 1, 4, 0, False),
        "GROUPED_CONV_2D of two groups": convolved(
            kinds.GROUPED_CONV_2D, (6, 3, 3, 2), SAME, 1, 1, 2, 1, False, channels=(0.02, 0.01, 0.015) * 2
        ),
        "MAXIMUM": one(kinds.MAXIMUM, constant=(1,)),
        "MINIMUM": one(kinds.MINIMUM, constant=(1, 1)),
        "MAX_POOL_2D": one(kinds.MAX_POOL_2D, SAME, 3, 2, 2, 3, 0),
        "HARD_SWISH": one(kinds.HARD_SWISH),
        "MUL": one(kinds.MUL, 0, tensors=(_IMAGE, _IMAGE), scales=(SCALE, 0.03), output=0.1),
        "MUL by a gate": one(kinds.MUL, 3, tensors=(_IMAGE, (1, 1, 1, 4))),
        "MUL by a constant": one(kinds.MUL, 0, constant=(4,)),
        "TANH": one(kinds.TANH, output=1 / 128),
        "MAX_POOL_2D with RELU6": one(kinds.MAX_POOL_2D, SAME, 1, 1, 3, 3, 3),
        "MEAN of rows and columns": one(kinds.MEAN, [1, 2], 1),
        "MEAN without the axes": one(kinds.MEAN, [-2, 1], 0),
        "PAD": one(kinds.PAD, [[0, 0], [1, 2], [0, 1], [2, 0]]),
        "PAD of a vector": one(kinds.PAD, [[2, 3]], tensors=((4,),)),
        "PAD_V2": _padded(code),
        "PRELU of one slope": one(kinds.PRELU, constant=(1,)),
        "REDUCE_MAX of rows and columns": one(kinds.REDUCE_MAX, [1, 2], True),
        "REDUCE_MAX NCHW": one(kinds.REDUCE_MAX, [2, 3], False),
        "RELU": one(kinds.RELU),
        "RELU1": one(kinds.RELU1),
        "RELU6": one(kinds.RELU6),
        "RESHAPE": one(kinds.RESHAPE, [1, 120]),
        "RESHAPE of rank 3": one(kinds.RESHAPE, [-1], tensors=((2, 3, 4),)),
        "RESIZE_NEAREST_NEIGHBOR": one(kinds.RESIZE_NEAREST_NEIGHBOR, 10, 18, False),
        "RESIZE_NEAREST_NEIGHBOR NCHW": one(kinds.RESIZE_NEAREST_NEIGHBOR, 8, 5, True, False, True),
        "SLICE": one(kinds.SLICE, [0, 1, 0, 2], [1, 4, -1, 2]),
        "SPLIT": _split(code),
        "SQUEEZE": one(kinds.SQUEEZE, [1], tensors=((1, 1, 5, 4),)),
        "SQUEEZE of all": one(kinds.SQUEEZE, [0, 1], tensors=((1, 1),)),
        "STRIDED_SLICE": one(kinds.STRIDED_SLICE, [0, 1, -2, 3], [1, 4, 5, 4], [1, 1, 1, 1], 1, 4, 8),
        "TRANSPOSE": one(kinds.TRANSPOSE, [0, 3, 1, 2]),
        "TRANSPOSE of a matrix": one(kinds.TRANSPOSE, [1, 0], tensors=((3, 5),)),
        "TRANSPOSE that is idle": one(kinds.TRANSPOSE, [0, 1, 2, 3]),
        "TRANSPOSE_CONV_2D": convolved(kinds.TRANSPOSE_CONV_2D, (3, 2, 2, 4), 0, 0, 0, 0, 2, 2, 1, False),
        "TRANSPOSE_CONV_2D NCHW": convolved(kinds.TRANSPOSE_CONV_2D, (3, 2, 3, 6), 0, 0, 0, 0, 3, 2, 0, True),
    }


def _of_floats(one: Callable[..., ResolvedModel], code: OperandType) -> dict[str, ResolvedModel]:
    kinds = OperationType
    return {
        "BATCH_MATMUL": one(kinds.BATCH_MATMUL, False, False, tensors=((2, 3, 6, 5), (2, 3, 5, 4))),
        "BATCH_MATMUL of turned matrices": one(kinds.BATCH_MATMUL, True, True, tensors=((3, 5, 6), (3, 4, 5))),
        "BATCH_MATMUL of one matrix": one(kinds.BATCH_MATMUL, False, True, tensors=((8, 33), (7, 33))),
        "CAST": one(kinds.CAST),
        "INSTANCE_NORMALIZATION": _normalized(code, (2, 6, 5, 4), False),
        "INSTANCE_NORMALIZATION NCHW": _normalized(code, (1, 3, 6, 5), True),
        "INSTANCE_NORMALIZATION of vectors": _normalized(code, (8, 1, 1, 16), False),
        "DIV by a constant": one(kinds.DIV, 0, constant=(4,)),
        "LOGISTIC": one(kinds.LOGISTIC),
        "PRELU of channels": one(kinds.PRELU, constant=(4,)),
        "SOFTMAX": _softened(code, 1.0),
        "SOFTMAX of rows": _softened(code, 0.5, 1),
        "SUB": one(kinds.SUB, 1, tensors=(_IMAGE, _IMAGE)),
        "SUB of a constant": one(kinds.SUB, 0, constant=(4,)),
    }


def _normalized(code: OperandType, shape: Dimensions, channels_first: bool) -> ResolvedModel:
    recipe = MlipRecipe(code)
    kind = OperandType.FLOAT16 if code == F16 else OperandType.FLOAT32
    numbers = [recipe.constant(kind, number) for number in (1.5, -0.25, 1e-3)]
    inputs = [recipe.tensor(shape), *numbers, recipe.constant(OperandType.BOOL, channels_first)]
    return recipe.finish(recipe.operation(OperationType.INSTANCE_NORMALIZATION, inputs, recipe.like()))


def _softened(code: OperandType, beta: float, *axis: int) -> ResolvedModel:
    """A softmax with an operation behind it, since the last one of a model stays on the host."""
    recipe = MlipRecipe(code)
    factor = recipe.constant(OperandType.FLOAT16 if code == F16 else OperandType.FLOAT32, beta)
    inputs = [recipe.tensor(_IMAGE), factor, *recipe.integers(*axis)]
    softened = recipe.operation(OperationType.SOFTMAX, inputs, recipe.like())
    return recipe.finish(recipe.operation(OperationType.RELU6, [softened], recipe.like()))


def _split(code: OperandType) -> ResolvedModel:
    recipe = MlipRecipe(code)
    inputs = [recipe.tensor(_IMAGE), *recipe.integers(-1, 2)]
    parts = recipe.operation(OperationType.SPLIT, inputs, recipe.like(), recipe.like())
    return recipe.finish(parts, parts + 1)


def _padded(code: OperandType) -> ResolvedModel:
    recipe = MlipRecipe(code)
    paddings = recipe.constant(I32, [[0, 1], [1, 0]])
    kind = {F16: OperandType.FLOAT16, F32: OperandType.FLOAT32}.get(code, OperandType.INT32)
    value = recipe.constant(kind, ZERO_POINTS.get(code, 0))
    inputs = [recipe.tensor((3, 4)), paddings, value]
    return recipe.finish(recipe.operation(OperationType.PAD_V2, inputs, recipe.like()))


def _parameters(recipe: Recipe, values: Sequence[int | bool | Sequence[int] | Sequence[Sequence[int]]]) -> list[int]:
    return [
        recipe.constant(OperandType.BOOL, value)
        if isinstance(value, bool)
        else recipe.constant(OperandType.INT32 if isinstance(value, int) else I32, value)
        for value in values
    ]


EACH_EXAMPLE = [(code, name) for code in TYPES for name in mlip_examples(code)]
