"""Lowering: a function for each operation, which adds its ONNX nodes to the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.lowering import (
    batch_matmul,
    binary,
    blocks,
    cast,
    concatenation,
    convolution,
    extension,
    fully_connected,
    normalization,
    pad,
    pooling,
    reduction,
    reshape,
    resize,
    slicing,
    softmax,
    transpose,
    unary,
)
from nnhal_devices.cpu_acc.lowering._emitter import Emitter
from nnhal_devices.cpu_acc.messages import is_one_run, is_run, opsets_of

Lowering = Callable[[Emitter], None]

LOWERINGS: dict[OperationType, Lowering] = {
    OperationType.ABS: unary.unary,
    OperationType.ADD: binary.arithmetic,
    OperationType.ARGMAX: reduction.arg_extremes,
    OperationType.ARGMIN: reduction.arg_extremes,
    OperationType.AVERAGE_POOL_2D: pooling.average_pool,
    OperationType.BATCH_MATMUL: batch_matmul.batch_matmul,
    OperationType.BATCH_TO_SPACE_ND: blocks.batch_to_space_nd,
    OperationType.CAST: cast.cast,
    OperationType.CHANNEL_SHUFFLE: transpose.channel_shuffle,
    OperationType.CONCATENATION: concatenation.concatenation,
    OperationType.CONV_2D: convolution.conv_2d,
    OperationType.DEPTHWISE_CONV_2D: convolution.depthwise_conv_2d,
    OperationType.DEPTH_TO_SPACE: blocks.depth_to_space,
    OperationType.DEQUANTIZE: cast.requantize,
    OperationType.DIV: binary.arithmetic,
    OperationType.ELU: unary.elu,
    OperationType.EQUAL: binary.pairwise,
    OperationType.EXP: unary.unary,
    OperationType.EXPAND_DIMS: reshape.expand_dims,
    OperationType.FLOOR: unary.unary,
    OperationType.FULLY_CONNECTED: fully_connected.fully_connected,
    OperationType.GATHER: slicing.gather,
    OperationType.GREATER: binary.pairwise,
    OperationType.GREATER_EQUAL: binary.pairwise,
    OperationType.GROUPED_CONV_2D: convolution.grouped_conv_2d,
    OperationType.HARD_SWISH: unary.unary,
    OperationType.INSTANCE_NORMALIZATION: normalization.instance_normalization,
    OperationType.L2_NORMALIZATION: normalization.l2_normalization,
    OperationType.L2_POOL_2D: pooling.l2_pool,
    OperationType.LESS: binary.pairwise,
    OperationType.LESS_EQUAL: binary.pairwise,
    OperationType.LOCAL_RESPONSE_NORMALIZATION: normalization.local_response_normalization,
    OperationType.LOG: unary.unary,
    OperationType.LOGICAL_AND: binary.pairwise,
    OperationType.LOGICAL_NOT: unary.unary,
    OperationType.LOGICAL_OR: binary.pairwise,
    OperationType.LOGISTIC: unary.unary,
    OperationType.LOG_SOFTMAX: softmax.log_softmax,
    OperationType.MAXIMUM: binary.pairwise,
    OperationType.MAX_POOL_2D: pooling.max_pool,
    OperationType.MEAN: reduction.mean_of,
    OperationType.MINIMUM: binary.pairwise,
    OperationType.MIRROR_PAD: pad.mirror_pad,
    OperationType.MUL: binary.arithmetic,
    OperationType.NEG: unary.unary,
    OperationType.NOT_EQUAL: binary.pairwise,
    OperationType.PACK: concatenation.pack,
    OperationType.PAD: pad.pad,
    OperationType.PAD_V2: pad.pad,
    OperationType.POW: binary.pairwise,
    OperationType.PRELU: binary.prelu,
    OperationType.QUANTIZE: cast.requantize,
    OperationType.REDUCE_ALL: reduction.extremes,
    OperationType.REDUCE_ANY: reduction.extremes,
    OperationType.REDUCE_MAX: reduction.extremes,
    OperationType.REDUCE_MIN: reduction.extremes,
    OperationType.REDUCE_PROD: reduction.sums,
    OperationType.REDUCE_SUM: reduction.sums,
    OperationType.RELU: unary.clamp,
    OperationType.RELU1: unary.clamp,
    OperationType.RELU6: unary.clamp,
    OperationType.RESHAPE: reshape.reshape,
    OperationType.RESIZE_BILINEAR: resize.resize_bilinear,
    OperationType.RESIZE_NEAREST_NEIGHBOR: resize.resize_nearest_neighbor,
    OperationType.REVERSE: slicing.reverse,
    OperationType.RSQRT: unary.rsqrt,
    OperationType.SELECT: binary.select,
    OperationType.SIN: unary.unary,
    OperationType.SLICE: slicing.slice_box,
    OperationType.SOFTMAX: softmax.softmax,
    OperationType.SPACE_TO_BATCH_ND: blocks.space_to_batch_nd,
    OperationType.SPACE_TO_DEPTH: blocks.space_to_depth,
    OperationType.SPLIT: slicing.split,
    OperationType.SQRT: unary.unary,
    OperationType.SQUEEZE: reshape.squeeze,
    OperationType.STRIDED_SLICE: slicing.strided,
    OperationType.SUB: binary.arithmetic,
    OperationType.TANH: unary.unary,
    OperationType.TILE: concatenation.tile,
    OperationType.TRANSPOSE: transpose.transpose,
    OperationType.TRANSPOSE_CONV_2D: convolution.transpose_conv_2d,
}
"""The lowering of every operation that cpu_acc runs. ``rules`` has the conditions."""


def lower(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> LoweredGraph:
    """Lower a model of which every operation is supported. ``dimensions`` are those of its operands."""
    graph = LoweredGraph(model, dimensions, opsets_of(model))
    if is_one_run(model.model):
        extension.run_alone(graph)
        return graph
    known = tuple(dimensions)
    for number, operation in enumerate(model.model.main.operations):
        if is_run(model.model, operation):
            extension.run(graph, operation, number)
            continue
        op = model.context(0, number, known)
        LOWERINGS[op.type](Emitter(op, operation, graph))
    graph.finish()
    return graph
