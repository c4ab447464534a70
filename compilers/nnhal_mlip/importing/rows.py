"""Operations of whole rows: softmax, normalizations, and products of matrices that are both computed."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.operations.activation import SoftmaxInput
from nnhal.operations.matrix import BatchMatmulInput
from nnhal.operations.normalization import InstanceNormalizationInput
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation

_TO_CHANNELS_FIRST, _TO_CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def emit_softmax(op: HalOperation) -> str:
    """Add the nodes of a SOFTMAX, whose factor is a product before it."""
    data = _scaled(op, Operator.MULTIPLY, op.tensor(SoftmaxInput.INPUT), "beta", op.context.real(SoftmaxInput.BETA), 1)
    axis = op.context.integer(SoftmaxInput.AXIS, default=-1)
    return op.add(Operator.SOFTMAX, [data], {"axis": axis})


def emit_instance_normalization(op: HalOperation) -> str:
    """Add the nodes of an INSTANCE_NORMALIZATION: the pixels of each channel of an image are a row."""
    shape, first = op.output.shape, op.context.boolean(InstanceNormalizationInput.LAYOUT)
    data = op.tensor(InstanceNormalizationInput.INPUT)
    turned = op.output
    if not first and shape[3] > 1:
        turned = op.output._replace(shape=tuple(shape[axis] for axis in _TO_CHANNELS_FIRST))
        data = op.add(Operator.TRANSPOSE, [data], {"axes": _TO_CHANNELS_FIRST}, turned)
    pixels = prod(shape[2:] if first else shape[1:3])
    rows = op.output._replace(shape=(1, prod(shape) // pixels, pixels))
    data = op.add(Operator.RESHAPE, [data], {"newshape": rows.shape}, rows)
    epsilon = op.context.real(InstanceNormalizationInput.EPSILON)
    data = op.add(Operator.LAYER_NORM, [data], {"axis": -1, "epsilon": epsilon}, rows)
    data = op.add(Operator.RESHAPE, [data], {"newshape": turned.shape}, turned)
    if turned is not op.output:
        data = op.add(Operator.TRANSPOSE, [data], {"axes": _TO_CHANNELS_LAST})
    gamma, beta = (op.context.real(InstanceNormalizationInput[name]) for name in ("GAMMA", "BETA"))
    data = _scaled(op, Operator.MULTIPLY, data, "gamma", gamma, 1)
    return _scaled(op, Operator.ADD, data, "beta", beta, 0)


def emit_batch_matmul(op: HalOperation) -> str:
    turns = {
        "transpose_a": op.context.boolean(BatchMatmulInput.TRANSPOSE_FIRST),
        "transpose_b": op.context.boolean(BatchMatmulInput.TRANSPOSE_SECOND),
    }
    operands = [op.tensor(BatchMatmulInput.FIRST), op.tensor(BatchMatmulInput.SECOND)]
    return op.add(Operator.BATCH_MATMUL, operands, turns)


def _scaled(op: HalOperation, operator: Operator, data: str, what: str, number: float, idle: float) -> str:
    """Add a product or sum with a number, unless it changes nothing."""
    if number == idle:
        return data
    constant = op.constant(what, np.array(number, op.output.element_type).reshape(1))
    return op.add(operator, [data, constant])
