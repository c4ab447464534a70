"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from tflite import Pool2DOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._definition import Converter
from nnhal_frontends.tflite.ops.convolution import padding_scheme


def pooling(code: OperationType) -> Converter:
    def convert(b: OperatorBuilder) -> None:
        options = b.options(Pool2DOptions)
        window = (options.StrideW, options.StrideH, options.FilterWidth, options.FilterHeight)
        scheme, activation = padding_scheme(b, options.Padding), b.activation(options.FusedActivationFunction)
        b.finish(code, [b.input(0), scheme, *(b.int32(number) for number in window), activation])

    return convert
