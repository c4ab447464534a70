"""Models of one operation that ethos_u supports, for each operation at least one, and the networks of NNHAL_MODELS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.memory import read_pools
from nnhal.operations.operand_types import I32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_cascade.support import supported_operations
from nnhal_frontends.tflite import import_tflite
from tests.support import npu
from tests.support.agreement import QUANTIZATION, like, single
from tests.support.models import Recipe
from tests.support.npu import SAME, VALID, convolution

is_taken = partial(npu.is_taken, ask=supported_operations)
refusal = partial(npu.refusal, ask=supported_operations)
assert_limit = partial(npu.assert_limit, ask=supported_operations)

NETWORKS = {
    "mobilenet_v1_1.0_224": 30,
    "mobilenet_v1_1.0_224_body": 27,
    "mobilenet_v1_0.25_96": 30,
    "mobilenet_v2_1.0_224": 65,
    "ds_cnn_kws": 12,
    "two_conv_rfc": 2,
}
"""The networks, and how many parts they have."""
_FOLDER = os.environ.get("NNHAL_MODELS", "")
needs_networks = pytest.mark.skipif(not _FOLDER, reason="NNHAL_MODELS names no folder of TFLite networks")

_IMAGE = (1, 6, 5, 4)
_SIGMOID = {Q8A: Operand(Q8A, (), 1 / 256, 0), Q8AS: Operand(Q8AS, (), 1 / 256, -128)}
_TANH = {Q8A: Operand(Q8A, (), 1 / 128, 128), Q8AS: Operand(Q8AS, (), 1 / 128, 0)}


def network(name: str) -> ResolvedModel:
    imported = import_tflite((Path(_FOLDER) / f"{name}.tflite").read_bytes())
    constants = inline_constants(imported.model, read_pools(imported.model.pools))
    return ResolvedModel(imported.model, constants, dict(enumerate(imported.operand_names)))


@cache
def examples(code: OperandType) -> dict[str, ResolvedModel]:
    """Return a model of one operation for each name. The names begin with the operation's."""
    wide = like(code, scale=0.5)

    def one(
        operation: OperationType,
        *parameters: Any,
        dimensions: Sequence[Dimensions] = (_IMAGE,),
        outputs: Sequence[Operand] = (),
    ) -> ResolvedModel:
        return single(operation, code, dimensions, parameters, *outputs)

    kinds = OperationType
    matrices: dict[str, ResolvedModel] = {}
    if code == Q8AS:
        # The HAL has no product of unsigned matrices.
        matrices = {
            "BATCH_MATMUL": one(kinds.BATCH_MATMUL, False, False, dimensions=((3, 2, 4), (3, 4, 5)), outputs=(wide,)),
            "BATCH_MATMUL of the transposed": one(
                kinds.BATCH_MATMUL, True, True, dimensions=((1, 3, 4, 2), (1, 3, 5, 4)), outputs=(wide,)
            ),
        }
    return {
        **matrices,
        "ADD": one(kinds.ADD, 0, dimensions=(_IMAGE, _IMAGE)),
        "ADD of a row": one(kinds.ADD, 0, dimensions=(_IMAGE, (1, 1, 5, 1))),
        "ADD of channels": one(kinds.ADD, 1, dimensions=((4,), _IMAGE)),
        "ADD of a constant": _with_constant(code, kinds.ADD, _IMAGE, (4,), 0),
        "AVERAGE_POOL_2D SAME": one(kinds.AVERAGE_POOL_2D, SAME, 2, 1, 3, 4, 0),
        "AVERAGE_POOL_2D VALID": one(kinds.AVERAGE_POOL_2D, VALID, 5, 6, 5, 6, 1),
        "CONCATENATION of channels": one(kinds.CONCATENATION, 3, dimensions=(_IMAGE, (1, 6, 5, 2), (1, 6, 5, 1))),
        "CONCATENATION of rows": one(kinds.CONCATENATION, 1, dimensions=(_IMAGE, (1, 2, 5, 4))),
        "CONCATENATION of vectors": one(kinds.CONCATENATION, 0, dimensions=((3, 4), (2, 4))),
        "CONV_2D SAME": convolution(code, (3, 3, 3, 4), [SAME, 2, 1, 1], _IMAGE),
        "CONV_2D VALID": convolution(code, (3, 4, 2, 4), [VALID, 1, 2, 0], _IMAGE),
        "CONV_2D with dilation": convolution(code, (3, 3, 2, 4), [SAME, 1, 1, 0, False, 2, 2], _IMAGE),
        "CONV_2D with paddings": convolution(code, (3, 3, 3, 4), [0, 2, 1, 0, 1, 2, 0], _IMAGE),
        "CONV_2D per channel": convolution(
            code, (3, 1, 1, 4), [SAME, 1, 1, 0], _IMAGE, channel_scales=(0.2, 0.25, 0.3)
        ),
        "DEPTHWISE_CONV_2D": convolution(code, (1, 3, 3, 4), [SAME, 1, 2, 1, 0], _IMAGE, kinds.DEPTHWISE_CONV_2D),
        "DEPTHWISE_CONV_2D of one channel": convolution(
            code, (1, 3, 2, 6), [VALID, 1, 1, 6, 0], (1, 6, 5, 1), kinds.DEPTHWISE_CONV_2D
        ),
        "DEPTH_TO_SPACE": one(kinds.DEPTH_TO_SPACE, 2),
        "EXPAND_DIMS": one(kinds.EXPAND_DIMS, 0, dimensions=((3, 4),)),
        "FULLY_CONNECTED": _fully_connected(code, (1, 6, 5, 4), 120),
        "FULLY_CONNECTED of rows": _fully_connected(code, (3, 8), 8),
        "FULLY_CONNECTED of odd rows": _fully_connected(code, (1, 2, 3, 4), 8),
        "HARD_SWISH": one(kinds.HARD_SWISH),
        "LOGISTIC": one(kinds.LOGISTIC, outputs=(_SIGMOID[code],)),
        "MAXIMUM": one(kinds.MAXIMUM, dimensions=(_IMAGE, (1, 6, 1, 4))),
        "MAX_POOL_2D": one(kinds.MAX_POOL_2D, SAME, 3, 2, 2, 3, 0),
        "MEAN of rows and columns": one(kinds.MEAN, [1, 2], 1),
        "MEAN without the axes": one(kinds.MEAN, [1, 2], 0),
        "MEAN of rows": one(kinds.MEAN, [1], 0),
        "MEAN of columns": one(kinds.MEAN, [2], 0),
        "MEAN of channels": one(kinds.MEAN, [3], 1),
        "MINIMUM": one(kinds.MINIMUM, dimensions=((1,), _IMAGE)),
        "MIRROR_PAD": one(kinds.MIRROR_PAD, [[0, 0], [1, 2], [0, 0], [2, 3]], 0),
        "MUL": one(kinds.MUL, 0, dimensions=(_IMAGE, _IMAGE), outputs=(wide,)),
        "MUL by a constant": _with_constant(code, kinds.MUL, _IMAGE, (1,), 0),
        "PACK of matrices": _packed(code, 0, (3, 4), (3, 4)),
        "PACK of images": _packed(code, 1, (1, 3, 4), (1, 3, 4), (1, 3, 4)),
        "PACK of channels": _packed(code, 2, (3, 4), (3, 4)),
        "PAD": one(kinds.PAD, [[0, 0], [1, 2], [0, 1], [2, 0]]),
        "PAD_V2": one(kinds.PAD_V2, [[0, 1], [1, 0]], 5, dimensions=((3, 4),)),
        "PRELU": one(kinds.PRELU, dimensions=(_IMAGE, (1, 1, 1, 4)), outputs=(wide,)),
        "PRELU with one slope": _with_constant(code, kinds.PRELU, _IMAGE, (1,)),
        "REDUCE_MAX of rows and columns": one(kinds.REDUCE_MAX, [1, 2], True),
        "REDUCE_MIN of channels": one(kinds.REDUCE_MIN, [-1], False),
        "RELU": one(kinds.RELU),
        "RELU1": one(kinds.RELU1),
        "RELU6": one(kinds.RELU6),
        "RESHAPE": one(kinds.RESHAPE, [1, 120]),
        "RESIZE_BILINEAR": one(kinds.RESIZE_BILINEAR, 10, 12),
        "RESIZE_BILINEAR of centres": one(kinds.RESIZE_BILINEAR, 10, 12, False, False, True),
        "RESIZE_BILINEAR of corners": one(kinds.RESIZE_BILINEAR, 17, 21, False, True, False),
        "RESIZE_NEAREST_NEIGHBOR": one(kinds.RESIZE_NEAREST_NEIGHBOR, 20, 24, False),
        "RESIZE_NEAREST_NEIGHBOR of corners": one(kinds.RESIZE_NEAREST_NEIGHBOR, 9, 11, False, True, False),
        "REVERSE": one(kinds.REVERSE, [2]),
        "RSQRT": one(kinds.RSQRT),
        "SLICE": one(kinds.SLICE, [0, 1, 2, 1], [1, 3, -1, 2]),
        "SOFTMAX": one(kinds.SOFTMAX, 0.1, outputs=(_SIGMOID[code],)),
        "SPACE_TO_DEPTH": one(kinds.SPACE_TO_DEPTH, 2, dimensions=((1, 6, 4, 3),)),
        "SPLIT of channels": one(kinds.SPLIT, 3, 2, outputs=(like(code),) * 2),
        "SPLIT of rows": one(kinds.SPLIT, 1, 3, outputs=(like(code),) * 3),
        "SQUEEZE": one(kinds.SQUEEZE, [1], dimensions=((1, 1, 5, 4),)),
        "STRIDED_SLICE": one(kinds.STRIDED_SLICE, [0, 1, 0, 0], [1, 5, 4, -1], [1, 1, 1, 1], 0, 4, 0),
        "STRIDED_SLICE of a row": one(kinds.STRIDED_SLICE, [0, 1, 0, 0], [1, 2, 5, 4], [1, 1, 1, 1], 0, 0, 2),
        "STRIDED_SLICE of a column": one(kinds.STRIDED_SLICE, [0, 0, 2, 0], [1, 6, 3, 4], [1, 1, 1, 1], 0, 0, 4),
        "STRIDED_SLICE with strides": one(kinds.STRIDED_SLICE, [0, 2, 0, 0], [1, 6, 5, 4], [1, 3, 2, 2], 0, 0, 0),
        "STRIDED_SLICE of every second column": one(
            kinds.STRIDED_SLICE, [0, 3, 0, 0], [1, 4, 5, 4], [1, 1, 2, 1], 0, 0, 2
        ),
        "SUB": one(kinds.SUB, 2, dimensions=(_IMAGE, (6, 1, 1))),
        "TANH": one(kinds.TANH, outputs=(_TANH[code],)),
        "TILE": one(kinds.TILE, [1, 1, 2, 3]),
        "TRANSPOSE": one(kinds.TRANSPOSE, [0, 2, 1, 3]),
        "TRANSPOSE of a matrix": one(kinds.TRANSPOSE, [1, 0], dimensions=((3, 4),)),
        "TRANSPOSE_CONV_2D SAME": _transposed(code, (3, 3, 3, 2), [1, 8, 6, 3], SAME),
        "TRANSPOSE_CONV_2D VALID": _transposed(code, (3, 5, 3, 2), [1, 11, 7, 3], VALID),
    }


def padded_convolution(
    paddings: Sequence[Sequence[int]],
    kind: OperationType = OperationType.CONV_2D,
    parameters: Sequence[int] = (VALID, 2, 1),
    value: int | None = None,
    outputs: bool = False,
) -> ResolvedModel:
    """Return a PAD and a convolution of 3 x 3 on [1, 6, 5, 4]. The padded image is an output too if ``outputs``."""
    recipe, depthwise = Recipe(), kind == OperationType.DEPTHWISE_CONV_2D
    zero_point = QUANTIZATION[Q8A][1]
    given = [recipe.input(Q8A, _IMAGE, 0.5, zero_point), recipe.constant(I32, paddings)]
    values = [] if value is None else recipe.integers(value)
    image = recipe.operation(
        OperationType.PAD if value is None else OperationType.PAD_V2,
        [*given, *values],
        Operand(Q8A, (), 0.5, zero_point),
    )
    depth = 4 + sum(paddings[3])
    weights = np.random.default_rng(1).integers(100, 140, (1, 3, 3, depth) if depthwise else (4, 3, 3, depth))
    inputs = [
        image,
        recipe.constant(Q8A, weights, 0.25, zero_point),
        recipe.constant(I32, np.arange(depth if depthwise else 4) * 50, 0.125),
        *recipe.integers(*parameters, *([1] if depthwise else []), 1),
    ]
    convolved = recipe.operation(kind, inputs, Operand(Q8A, (), 20.0, 100))
    return recipe.build(*([image] if outputs else []), convolved)


def _with_constant(
    code: OperandType, operation: OperationType, image: Dimensions, constant: Dimensions, *parameters: int
) -> ResolvedModel:
    recipe, (scale, zero_point) = Recipe(), QUANTIZATION[code]
    values = np.random.default_rng(3).integers(-20, 20, constant) + zero_point
    inputs = [
        recipe.input(code, image, scale, zero_point),
        recipe.constant(code, values, scale, zero_point),
        *recipe.integers(*parameters),
    ]
    return recipe.build(recipe.operation(operation, inputs, like(code, scale=0.5)))


def _packed(code: OperandType, axis: int, *dimensions: Dimensions) -> ResolvedModel:
    recipe, (scale, zero_point) = Recipe(), QUANTIZATION[code]
    tensors = [recipe.input(code, each, scale, zero_point) for each in dimensions]
    return recipe.build(recipe.operation(OperationType.PACK, [*recipe.integers(axis), *tensors], like(code)))


def _fully_connected(code: OperandType, image: Dimensions, size: int) -> ResolvedModel:
    recipe, (scale, zero_point), units = Recipe(), QUANTIZATION[code], 5
    weights = np.random.default_rng(2).integers(-9, 10, (units, size)) + zero_point
    inputs = [
        recipe.input(code, image, scale, zero_point),
        recipe.constant(code, weights, 0.5, zero_point),
        recipe.constant(I32, np.arange(units), float(np.float32(scale) * np.float32(0.5))),
        *recipe.integers(0),
    ]
    return recipe.build(recipe.operation(OperationType.FULLY_CONNECTED, inputs, like(code, scale=2.0)))


def _transposed(code: OperandType, kernel: Dimensions, shape: list[int], scheme: int) -> ResolvedModel:
    image = (1, 4, 3, kernel[3])
    return convolution(code, kernel, [shape, scheme, 2, 2, 0, False], image, OperationType.TRANSPOSE_CONV_2D)


EACH_EXAMPLE = [(name, code) for code in (Q8A, Q8AS) for name in sorted(examples(code))]
"""Of every example the name and the type."""
