"""Lowering: a function for each operation, which adds its ONNX nodes to the graph; a module for each family."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.branches import choose, is_if
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.lowering import (
    convolution,
    elementwise,
    extension,
    joining,
    matrix,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
)
from nnhal_devices.cpu_acc.lowering._emitter import Emitter
from nnhal_devices.cpu_acc.messages import is_one_run, is_run, message_of, opsets_of

Lowering = Callable[[Emitter], None]

LOWERINGS: dict[OperationType, Lowering] = {
    OperationType.ABS: elementwise.unary,
    OperationType.ADD: elementwise.arithmetic,
    OperationType.ARGMAX: reduction.arg_extremes,
    OperationType.ARGMIN: reduction.arg_extremes,
    OperationType.AVERAGE_POOL_2D: pooling.average_pool,
    OperationType.BATCH_MATMUL: matrix.batch_matmul,
    OperationType.BATCH_TO_SPACE_ND: movement.batch_to_space_nd,
    OperationType.CAST: elementwise.cast,
    OperationType.CHANNEL_SHUFFLE: movement.channel_shuffle,
    OperationType.CONCATENATION: joining.concatenation,
    OperationType.CONV_2D: convolution.conv_2d,
    OperationType.DEPTHWISE_CONV_2D: convolution.depthwise_conv_2d,
    OperationType.DEPTH_TO_SPACE: movement.depth_to_space,
    OperationType.DEQUANTIZE: elementwise.requantize,
    OperationType.DIV: elementwise.arithmetic,
    OperationType.ELU: elementwise.elu,
    OperationType.EQUAL: elementwise.pairwise,
    OperationType.EXP: elementwise.unary,
    OperationType.EXPAND_DIMS: movement.expand_dims,
    OperationType.FLOOR: elementwise.unary,
    OperationType.FULLY_CONNECTED: matrix.fully_connected,
    OperationType.GATHER: joining.gather,
    OperationType.GREATER: elementwise.pairwise,
    OperationType.GREATER_EQUAL: elementwise.pairwise,
    OperationType.GROUPED_CONV_2D: convolution.grouped_conv_2d,
    OperationType.HARD_SWISH: elementwise.unary,
    OperationType.INSTANCE_NORMALIZATION: normalization.instance_normalization,
    OperationType.L2_NORMALIZATION: normalization.l2_normalization,
    OperationType.L2_POOL_2D: pooling.l2_pool,
    OperationType.LESS: elementwise.pairwise,
    OperationType.LESS_EQUAL: elementwise.pairwise,
    OperationType.LOCAL_RESPONSE_NORMALIZATION: normalization.local_response_normalization,
    OperationType.LOG: elementwise.unary,
    OperationType.LOGICAL_AND: elementwise.pairwise,
    OperationType.LOGICAL_NOT: elementwise.unary,
    OperationType.LOGICAL_OR: elementwise.pairwise,
    OperationType.LOGISTIC: elementwise.unary,
    OperationType.LOG_SOFTMAX: normalization.log_softmax,
    OperationType.MAXIMUM: elementwise.pairwise,
    OperationType.MAX_POOL_2D: pooling.max_pool,
    OperationType.MEAN: reduction.mean_of,
    OperationType.MINIMUM: elementwise.pairwise,
    OperationType.MIRROR_PAD: movement.mirror_pad,
    OperationType.MUL: elementwise.arithmetic,
    OperationType.NEG: elementwise.unary,
    OperationType.NOT_EQUAL: elementwise.pairwise,
    OperationType.PACK: joining.pack,
    OperationType.PAD: movement.pad,
    OperationType.PAD_V2: movement.pad,
    OperationType.POW: elementwise.pairwise,
    OperationType.PRELU: elementwise.prelu,
    OperationType.QUANTIZE: elementwise.requantize,
    OperationType.REDUCE_ALL: reduction.extremes,
    OperationType.REDUCE_ANY: reduction.extremes,
    OperationType.REDUCE_MAX: reduction.extremes,
    OperationType.REDUCE_MIN: reduction.extremes,
    OperationType.REDUCE_PROD: reduction.sums,
    OperationType.REDUCE_SUM: reduction.sums,
    OperationType.RELU: elementwise.clamp,
    OperationType.RELU1: elementwise.clamp,
    OperationType.RELU6: elementwise.clamp,
    OperationType.RESHAPE: movement.reshape,
    OperationType.RESIZE_BILINEAR: resize.resize_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: resize.resize_nearest_neighbor,
    OperationType.REVERSE: joining.reverse,
    OperationType.RSQRT: elementwise.rsqrt,
    OperationType.SELECT: elementwise.select,
    OperationType.SIN: elementwise.unary,
    OperationType.SLICE: joining.slice_box,
    OperationType.SOFTMAX: normalization.softmax,
    OperationType.SPACE_TO_BATCH_ND: movement.space_to_batch_nd,
    OperationType.SPACE_TO_DEPTH: movement.space_to_depth,
    OperationType.SPLIT: joining.split,
    OperationType.SQRT: elementwise.unary,
    OperationType.SQUEEZE: movement.squeeze,
    OperationType.STRIDED_SLICE: joining.strided,
    OperationType.SUB: elementwise.arithmetic,
    OperationType.TANH: elementwise.unary,
    OperationType.TILE: joining.tile,
    OperationType.TRANSPOSE: movement.transpose,
    OperationType.TRANSPOSE_CONV_2D: convolution.transpose_conv_2d,
}
"""The lowering of every operation that cpu_acc runs. ``rules`` has the conditions."""


def lower(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> LoweredGraph:
    """Lower a model whose operations are all supported. ``dimensions`` are those of its operands."""
    graph = LoweredGraph(model, dimensions, opsets_of(model))
    if is_one_run(model.model):
        extension.run_alone(graph)
        return graph
    return _lowered(graph)


def _lowered(graph: LoweredGraph) -> LoweredGraph:
    model, known = graph.model, tuple(graph.dimensions)
    for operation in model.model.main.operations:
        if is_run(model.model, operation):
            graph.avoid(message_of(model, operation))
    for number, operation in enumerate(model.model.main.operations):
        if is_run(model.model, operation):
            extension.run(graph, operation, number)
            continue
        if is_if(operation):
            choose(graph, operation, number, _lowered)
            continue
        op = model.context(0, number, known, is_final=True)
        LOWERINGS[op.type](Emitter(op, operation, graph))
    graph.finish()
    return graph
