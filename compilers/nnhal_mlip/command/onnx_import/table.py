"""Which converter takes which operator of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnhal_mlip.command.onnx_import import elementwise, images, linear, movement
from nnhal_mlip.command.onnx_import.node_import import NodeImport

CONVERTERS: Mapping[str, Callable[[NodeImport], bool]] = {
    "Add": elementwise.add,
    "AveragePool": images.average_pool,
    "BatchNormalization": elementwise.batch_normalization,
    "Clip": elementwise.clip,
    "Concat": movement.concat,
    "Conv": images.conv,
    "Div": elementwise.divide,
    "Dropout": elementwise.dropout,
    "Flatten": movement.flatten,
    "Gemm": linear.gemm,
    "GlobalAveragePool": images.global_average_pool,
    "GlobalMaxPool": images.global_max_pool,
    "Identity": elementwise.identity,
    "LeakyRelu": elementwise.leaky_relu,
    "MatMul": linear.matmul,
    "MaxPool": images.max_pool,
    "Mul": elementwise.multiply,
    "Pad": movement.pad,
    "ReduceMean": movement.reduce_mean,
    "Relu": elementwise.relu,
    "Reshape": movement.reshape,
    "Sigmoid": elementwise.sigmoid,
    "Softmax": elementwise.softmax,
    "Squeeze": movement.squeeze,
    "Sub": elementwise.subtract,
    "Sum": elementwise.total,
    "Tanh": elementwise.tanh,
    "Transpose": movement.transpose,
    "Unsqueeze": movement.unsqueeze,
}
"""A converter returns False, before it has added anything, if Relay's operator cannot do what the node asks."""
