"""The operators of a flow graph, with the names that Relay has for them.

Layouts are words such as NCHW, NHWC and OHWI. Paddings are top, left, bottom, right; sizes, strides and dilations are
height, width.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from nnhal_mlip.program.tables import TableKind


class Operator(StrEnum):
    """The operators that the flow knows. Any other text names one that only the host has, such as ``onnx.Erf``.

    Behind each are its inputs, and after a semicolon its attributes.
    """

    ADD = "add"
    """left, right, which broadcast as numpy's"""
    BATCH_MATMUL = "batch_matmul"
    """left, right, of equal ranks; transpose_a, transpose_b"""
    AVG_POOL2D = "avg_pool2d"
    """data; pool_size, strides, dilation, padding, ceil_mode, count_include_pad, layout"""
    BATCH_FLATTEN = "batch_flatten"
    """data"""
    BATCH_NORM = "batch_norm"
    """data, gamma, beta, mean, variance; axis, epsilon. The normalised data is its only result."""
    BIAS_ADD = "bias_add"
    """data, bias of rank 1; axis"""
    CLIP = "clip"
    """data; a_min, a_max"""
    CONCATENATE = "concatenate"
    """any number of tensors; axis"""
    CONV2D = "conv2d"
    """data, weight; strides, padding, dilation, groups, channels, kernel_size, data_layout, kernel_layout"""
    CONV2D_TRANSPOSE = "conv2d_transpose"
    """data, weight; strides, padding, output_padding, dilation, groups, channels, kernel_size, data_layout,
    kernel_layout"""
    COPY = "copy"
    """data"""
    DENSE = "dense"
    """data [.., I], weight [O, I]"""
    DIVIDE = "divide"
    """left, right"""
    DROPOUT = "dropout"
    """data"""
    ERF = "erf"
    """data"""
    GELU = "gelu"
    """data"""
    GELU_TANH = "gelu_tanh"
    """data"""
    GLOBAL_AVG_POOL2D = "global_avg_pool2d"
    """data; layout"""
    GLOBAL_MAX_POOL2D = "global_max_pool2d"
    """data; layout"""
    HARD_SIGMOID = "hard_sigmoid"
    """data; alpha, beta"""
    HARD_SWISH = "hard_swish"
    """data"""
    LAYER_NORM = "layer_norm"
    """data; axis, epsilon. Without gamma and beta: products and sums behind it are these."""
    LAYOUT_TRANSFORM = "layout_transform"
    """data; src_layout, dst_layout"""
    LEAKY_RELU = "leaky_relu"
    """data; alpha"""
    MAX_POOL2D = "max_pool2d"
    """data; pool_size, strides, dilation, padding, ceil_mode, layout"""
    MEAN = "mean"
    """data; axis, keepdims"""
    MULTIPLY = "multiply"
    """left, right"""
    PAD = "pad"
    """data; pad_width (before and after each axis, flat), pad_value, pad_mode (constant, edge, reflect)"""
    PRELU = "prelu"
    """data, alpha, which broadcasts to the data as numpy's do"""
    RELU = "relu"
    """data"""
    RESHAPE = "reshape"
    """data; newshape, without -1 and 0"""
    SIGMOID = "sigmoid"
    """data"""
    SILU = "silu"
    """data"""
    SOFTMAX = "softmax"
    """data; axis"""
    SQUEEZE = "squeeze"
    """data; axis (not empty)"""
    STRIDED_SLICE = "strided_slice"
    """data; axis, begin, end"""
    SUBTRACT = "subtract"
    """left, right"""
    TANH = "tanh"
    """data"""
    TRANSPOSE = "transpose"
    """data; axes"""
    UPSAMPLING = "upsampling"
    """data; scale_h, scale_w, layout. The nearest pixel, an integer number of times."""


TABLES: Mapping[str, TableKind] = {
    Operator.ERF: TableKind.ERF,
    Operator.GELU: TableKind.GELU,
    Operator.GELU_TANH: TableKind.GELU_TANH,
    Operator.HARD_SIGMOID: TableKind.HARD_SIGMOID,
    Operator.HARD_SWISH: TableKind.HARD_SWISH,
    Operator.LEAKY_RELU: TableKind.LEAKY_RELU,
    Operator.SIGMOID: TableKind.SIGMOID,
    Operator.SILU: TableKind.SILU,
    Operator.TANH: TableKind.TANH,
}
"""The operators that a table of a tile computes."""


def permutation(source: str, target: str) -> tuple[int, ...]:
    """Return the axes for a transposition from one layout to another.

    Raises ValueError if the words do not have the same letters, each once.
    """
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise ValueError(f"layouts {source} and {target}, expected the same letters, each once")
    return tuple(source.index(letter) for letter in target)


def image_axes(layout: str) -> tuple[int, int]:
    """Return the axes of height and width."""
    return layout.index("H"), layout.index("W")
