"""The ONNX operators that become operations of the NN HAL.

Constant, Dropout and everything else whose result is known before execution are gone before conversion; Identity is
left only where an input or a constant is an output too.
"""

from __future__ import annotations

from nnhal_service.frontends.onnx.ops import (
    activation,
    conv,
    elementwise,
    linear,
    pool,
    probability,
    quantization,
    shape,
)
from nnhal_service.frontends.onnx.ops._definition import Converter

__all__ = ["CONVERTERS", "Converter"]

CONVERTERS: dict[str, Converter] = {
    "Add": elementwise.ADD,
    "AveragePool": pool.AVERAGE_POOL,
    "BatchNormalization": elementwise.BATCH_NORMALIZATION,
    "Clip": activation.CLIP,
    "Concat": shape.CONCAT,
    "Conv": conv.CONV,
    "DequantizeLinear": quantization.DEQUANTIZE_LINEAR,
    "Div": elementwise.DIV,
    "Flatten": shape.RESHAPE,
    "Gemm": linear.GEMM,
    "GlobalAveragePool": pool.GLOBAL_AVERAGE_POOL,
    "Identity": shape.RESHAPE,
    "LogSoftmax": probability.LOG_SOFTMAX,
    "MatMul": linear.MATMUL,
    "MaxPool": pool.MAX_POOL,
    "Mul": elementwise.MUL,
    "Pad": shape.PAD,
    "QuantizeLinear": quantization.QUANTIZE_LINEAR,
    "ReduceMean": pool.REDUCE_MEAN,
    "Relu": activation.RELU,
    "Reshape": shape.RESHAPE,
    "Sigmoid": probability.SIGMOID,
    "Softmax": probability.SOFTMAX,
    "Squeeze": shape.RESHAPE,
    "Sub": elementwise.SUB,
    "Tanh": probability.TANH,
    "Transpose": shape.TRANSPOSE,
    "Unsqueeze": shape.RESHAPE,
}
"""Converters by operator, of ONNX's own domain."""
