"""Models for benchmarks, built as HAL models."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.types import (
    DataLocation,
    FusedActivation,
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
from nnhal_tools.bench.mobilenet import BLOCKS

_IMAGE = (1, 224, 224, 3)
_CLASSES = 1000
_SAME = 1
_ALIGNMENT = 64
_SCALE, _ZERO_POINT = 1 / 128, 128
_INPUT, _OUTPUT = OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT


def relu(elements: int) -> Model:
    """One RELU of a float32 tensor [1, elements]."""

    def operand(lifetime: OperandLifeTime) -> Operand:
        return Operand(OperandType.TENSOR_FLOAT32, (1, elements), lifetime=lifetime)

    operands = (operand(OperandLifeTime.SUBGRAPH_INPUT), operand(OperandLifeTime.SUBGRAPH_OUTPUT))
    return Model(Subgraph(operands, (Operation(OperationType.RELU, (0,), (1,)),), (0,), (1,)))


def image_of(size: int) -> Dimensions:
    """Dimensions [1, height, width, 4] of ``size`` bytes, a power of two from 4 on, within an NPU's limits."""
    width = 1 << (size // 4).bit_length() // 2
    return 1, size // 4 // width, width, 4


def reshape(dimensions: Dimensions) -> Model:
    """One RESHAPE of a TENSOR_QUANT8_ASYMM to its own shape: it moves every byte and computes nothing."""
    shape = np.array(dimensions, np.int32)
    target = Operand(
        OperandType.TENSOR_INT32,
        shape.shape,
        lifetime=OperandLifeTime.CONSTANT_COPY,
        location=DataLocation(0, 0, shape.nbytes),
    )
    operands = _quantised(dimensions, _INPUT), target, _quantised(dimensions, _OUTPUT)
    operation = Operation(OperationType.RESHAPE, (0, 1), (2,))
    return Model(Subgraph(operands, (operation,), (0,), (2,)), operand_values=shape.tobytes())


def quantize(dimensions: Dimensions) -> Model:
    """One QUANTIZE from TENSOR_FLOAT32 to the input of ``reshape``."""
    operands = Operand(OperandType.TENSOR_FLOAT32, dimensions, lifetime=_INPUT), _quantised(dimensions, _OUTPUT)
    return Model(Subgraph(operands, (Operation(OperationType.QUANTIZE, (0,), (1,)),), (0,), (1,)))


def dequantize(dimensions: Dimensions) -> Model:
    """One DEQUANTIZE of the output of ``reshape`` to TENSOR_FLOAT32."""
    operands = _quantised(dimensions, _INPUT), Operand(OperandType.TENSOR_FLOAT32, dimensions, lifetime=_OUTPUT)
    return Model(Subgraph(operands, (Operation(OperationType.DEQUANTIZE, (0,), (1,)),), (0,), (1,)))


def mobilenet_v2(seed: int = 0) -> Model:
    """A MobileNet V2-like network in float32, NHWC, with random weights: 300 million multiply-adds."""
    return _Network(seed).build()


def request_for(model: Model) -> Request:
    """A request with one pool for all inputs and outputs, all of known size."""
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


class _Network:
    """Builds a model from operands, operations and weights."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._scalars: dict[int, int] = {}
        self._values = bytearray()
        self._weights: list[Array] = []
        self._weight_bytes = 0

    def build(self) -> Model:
        image = self._operand(Operand(OperandType.TENSOR_FLOAT32, _IMAGE, lifetime=OperandLifeTime.SUBGRAPH_INPUT))
        value = self._convolution(image, 32, 3, 2)
        for expansion, channels, repetitions, first_stride in BLOCKS:
            for repetition in range(repetitions):
                value = self._block(value, channels, expansion, first_stride if repetition == 0 else 1)
        value = self._convolution(value, 1280, 1, 1)
        _, height, width, channels = self._shape(value)
        pooled = self._tensor((1, 1, 1, channels))
        pool = [self._scalar(number) for number in (2, 1, 1, width, height, 0)]
        self._add(OperationType.AVERAGE_POOL_2D, [value, *pool], pooled)
        logits = self._tensor((1, _CLASSES))
        head = self._weight(_CLASSES, channels), self._weight(_CLASSES)
        self._add(OperationType.FULLY_CONNECTED, [pooled, *head, self._scalar(0)], logits)
        output = self._operand(
            Operand(OperandType.TENSOR_FLOAT32, (1, _CLASSES), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
        )
        beta = self._constant(Operand(OperandType.FLOAT32), np.float32(1).tobytes())
        self._add(OperationType.SOFTMAX, [logits, beta], output)
        pool_memory = create_ashmem(self._weight_bytes, "nnhal-bench")
        memory = open_pool(pool_memory, writable=True)
        offset = 0
        for weight in self._weights:
            memory.write(offset, weight.reshape(-1).view(np.uint8))
            offset += round_up(weight.nbytes, _ALIGNMENT)
        graph = Subgraph(tuple(self._operands), tuple(self._operations), (image,), (output,))
        return Model(graph, operand_values=bytes(self._values), pools=(pool_memory,))

    def _block(self, value: int, channels: int, expansion: int, stride: int) -> int:
        """An inverted residual: expand, filter each channel, project; added to its input if the shapes are equal."""
        width = self._shape(value)[3]
        inner = self._convolution(value, width * expansion, 1, 1) if expansion > 1 else value
        inner = self._depthwise(inner, stride)
        inner = self._convolution(inner, channels, 1, 1, FusedActivation.NONE)
        if stride != 1 or width != channels:
            return inner
        total = self._tensor(self._shape(value))
        self._add(OperationType.ADD, [value, inner, self._scalar(FusedActivation.NONE)], total)
        return total

    def _convolution(
        self, value: int, channels: int, size: int, stride: int, activation: int = FusedActivation.RELU6
    ) -> int:
        batch, height, width, depth = self._shape(value)
        output = self._tensor((batch, -(-height // stride), -(-width // stride), channels))
        weights = self._weight(channels, size, size, depth), self._weight(channels)
        scalars = [self._scalar(number) for number in (_SAME, stride, stride, activation)]
        self._add(OperationType.CONV_2D, [value, *weights, *scalars], output)
        return output

    def _depthwise(self, value: int, stride: int) -> int:
        batch, height, width, depth = self._shape(value)
        output = self._tensor((batch, -(-height // stride), -(-width // stride), depth))
        weights = self._weight(1, 3, 3, depth), self._weight(depth)
        scalars = [self._scalar(number) for number in (_SAME, stride, stride, 1, FusedActivation.RELU6)]
        self._add(OperationType.DEPTHWISE_CONV_2D, [value, *weights, *scalars], output)
        return output

    def _shape(self, operand: int) -> Dimensions:
        return self._operands[operand].dimensions

    def _add(self, code: OperationType, inputs: list[int], output: int) -> None:
        self._operations.append(Operation(code, tuple(inputs), (output,)))

    def _operand(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1

    def _tensor(self, dimensions: Dimensions) -> int:
        return self._operand(Operand(OperandType.TENSOR_FLOAT32, dimensions))

    def _constant(self, operand: Operand, value: bytes) -> int:
        location = DataLocation(0, len(self._values), len(value))
        self._values += value
        return self._operand(
            Operand(operand.type, operand.dimensions, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
        )

    def _scalar(self, value: int) -> int:
        if value not in self._scalars:
            self._scalars[value] = self._constant(Operand(OperandType.INT32), np.int32(value).tobytes())
        return self._scalars[value]

    def _weight(self, *shape: int) -> int:
        values = self._random.standard_normal(shape) * np.sqrt(2 / (int(np.prod(shape[1:])) or 1))
        weight = values.astype(np.float32)
        location = DataLocation(0, self._weight_bytes, weight.nbytes)
        self._weights.append(weight)
        self._weight_bytes += round_up(weight.nbytes, _ALIGNMENT)
        return self._operand(
            Operand(OperandType.TENSOR_FLOAT32, shape, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
        )
