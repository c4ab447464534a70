"""Models for benchmarks, built as HAL models."""

from __future__ import annotations

import numpy as np

from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.types import (
    DataLocation,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Request,
    RequestArgument,
    Subgraph,
)
from nnhal.types.layout import Dimensions, byte_size

_ALIGNMENT = 64
_SCALE, _ZERO_POINT = 1 / 128, 128
_FLOAT = OperandType.TENSOR_FLOAT32
_INPUT, _OUTPUT = OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT


def relu(elements: int) -> Model:
    """Return one RELU of a float32 tensor [1, elements]."""
    operands = tuple(Operand(_FLOAT, (1, elements), lifetime=lifetime) for lifetime in (_INPUT, _OUTPUT))
    return Model(Subgraph(operands, (Operation(OperationType.RELU, (0,), (1,)),), (0,), (1,)))


def image_of(size: int) -> Dimensions:
    """Return dimensions [1, height, width, 4] of ``size`` bytes, a power of two from 4 on, within an NPU's limits."""
    width = 1 << (size // 4).bit_length() // 2
    return 1, size // 4 // width, width, 4


def reshape(dimensions: Dimensions) -> Model:
    """Return one RESHAPE of a TENSOR_QUANT8_ASYMM to its own shape: it moves every byte and computes nothing."""
    shape = np.array(dimensions, np.int32)
    location = DataLocation(0, 0, shape.nbytes)
    target = Operand(OperandType.TENSOR_INT32, shape.shape, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
    operands = _quantised(dimensions, _INPUT), target, _quantised(dimensions, _OUTPUT)
    operation = Operation(OperationType.RESHAPE, (0, 1), (2,))
    return Model(Subgraph(operands, (operation,), (0,), (2,)), operand_values=shape.tobytes())


def quantize(dimensions: Dimensions) -> Model:
    """Return one QUANTIZE from TENSOR_FLOAT32 to the input of ``reshape``."""
    operands = Operand(_FLOAT, dimensions, lifetime=_INPUT), _quantised(dimensions, _OUTPUT)
    return Model(Subgraph(operands, (Operation(OperationType.QUANTIZE, (0,), (1,)),), (0,), (1,)))


def dequantize(dimensions: Dimensions) -> Model:
    """Return one DEQUANTIZE of the output of ``reshape`` to TENSOR_FLOAT32."""
    operands = _quantised(dimensions, _INPUT), Operand(_FLOAT, dimensions, lifetime=_OUTPUT)
    return Model(Subgraph(operands, (Operation(OperationType.DEQUANTIZE, (0,), (1,)),), (0,), (1,)))


def layers(count: int, width: int) -> Model:
    """Return FULLY_CONNECTED layers on [1, width] floats, one after the other, with the same random weights."""
    weight_bytes, bias_bytes = width * width * 4, width * 4
    pool = create_ashmem(weight_bytes + bias_bytes, "nnhal-bench")
    weights = np.random.default_rng(3).normal(0, width**-0.5, (width, width)).astype(np.float32)
    open_pool(pool, writable=True).write(0, weights.reshape(-1).view(np.uint8))

    def constant(dimensions: tuple[int, ...], offset: int, length: int) -> Operand:
        location = DataLocation(0, offset, length)
        return Operand(_FLOAT, dimensions, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)

    lifetimes = (_INPUT, *[OperandLifeTime.TEMPORARY_VARIABLE] * (count - 1), _OUTPUT)
    operands = (
        constant((width, width), 0, weight_bytes),
        constant((width,), weight_bytes, bias_bytes),
        Operand(OperandType.INT32, lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 0, 4)),
        *(Operand(_FLOAT, (1, width), lifetime=lifetime) for lifetime in lifetimes),
    )
    operations = tuple(
        Operation(OperationType.FULLY_CONNECTED, (3 + layer, 0, 1, 2), (4 + layer,)) for layer in range(count)
    )
    return Model(Subgraph(operands, operations, (3,), (3 + count,)), operand_values=bytes(4), pools=(pool,))


def request_for(model: Model) -> Request:
    """Return a request with one pool for all inputs and outputs, all of known size."""
    main = model.main
    offset, arguments = 0, []
    for index in (*main.input_indexes, *main.output_indexes):
        size = byte_size(main.operands[index].type, main.operands[index].dimensions)
        arguments.append(RequestArgument(DataLocation(0, offset, size)))
        offset += round_up(size, _ALIGNMENT)
    inputs = len(main.input_indexes)
    return Request(tuple(arguments[:inputs]), tuple(arguments[inputs:]), (create_ashmem(offset, "nnhal-bench"),))


def _quantised(dimensions: Dimensions, lifetime: OperandLifeTime) -> Operand:
    return Operand(OperandType.TENSOR_QUANT8_ASYMM, dimensions, scale=_SCALE, zero_point=_ZERO_POINT, lifetime=lifetime)
