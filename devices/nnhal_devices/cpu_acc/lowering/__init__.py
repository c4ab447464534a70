"""Lowering: for each operation a function that adds its ONNX nodes to the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.graph import Graph
from nnhal_devices.cpu_acc.lowering import (
    binary,
    concatenation,
    convolution,
    fully_connected,
    mean,
    pad,
    pooling,
    quantize,
    reshape,
    softmax,
    unary,
)
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

Lowering = Callable[[Emitter], None]

LOWERINGS: dict[OperationType, Lowering] = {
    OperationType.ADD: binary.binary,
    OperationType.AVERAGE_POOL_2D: pooling.average_pool,
    OperationType.CONCATENATION: concatenation.concatenation,
    OperationType.CONV_2D: convolution.conv_2d,
    OperationType.DEPTHWISE_CONV_2D: convolution.depthwise_conv_2d,
    OperationType.DEQUANTIZE: quantize.convert,
    OperationType.DIV: binary.binary,
    OperationType.FULLY_CONNECTED: fully_connected.fully_connected,
    OperationType.L2_POOL_2D: pooling.l2_pool,
    OperationType.LOGISTIC: unary.unary,
    OperationType.MAX_POOL_2D: pooling.max_pool,
    OperationType.MEAN: mean.mean,
    OperationType.MUL: binary.binary,
    OperationType.PAD: pad.pad,
    OperationType.PAD_V2: pad.pad,
    OperationType.QUANTIZE: quantize.convert,
    OperationType.RELU: unary.clamp,
    OperationType.RELU1: unary.clamp,
    OperationType.RELU6: unary.clamp,
    OperationType.RESHAPE: reshape.reshape,
    OperationType.SOFTMAX: softmax.softmax,
    OperationType.SUB: binary.binary,
    OperationType.TANH: unary.unary,
}
"""Every operation that cpu_acc runs; ``support`` says under which conditions."""


def lower(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> Graph:
    """The graph of a model of which every operation is supported. ``dimensions`` are those of its operands."""
    graph = Graph(model, dimensions)
    known = tuple(dimensions)
    for number, operation in enumerate(model.model.main.operations):
        op = model.context(0, number, known)
        LOWERINGS[op.type](Emitter(op, operation, graph))
    graph.finish()
    return graph
