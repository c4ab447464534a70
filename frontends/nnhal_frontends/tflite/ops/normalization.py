"""SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

from tflite import ActivationFunctionType, L2NormOptions, LocalResponseNormalizationOptions, SoftmaxOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._fixed import SIGNED_UNIT, UNIT, finish_fixed

_LAST = -1


def softmax(b: OperatorBuilder) -> None:
    """SOFTMAX along the last axis."""
    finish_fixed(b, OperationType.SOFTMAX, UNIT, [b.real_like(b.input(0), b.options(SoftmaxOptions).Beta)])


def log_softmax(b: OperatorBuilder) -> None:
    """LOG_SOFTMAX along the last axis, in floats."""
    x = b.reals(0)
    b.finish_reals(OperationType.LOG_SOFTMAX, [x, b.real_like(x, 1.0), b.int32(_LAST)])


def l2_normalization(b: OperatorBuilder) -> None:
    """L2_NORMALIZATION along the last axis."""
    activation = b.options(L2NormOptions).FusedActivationFunction
    if activation != ActivationFunctionType.NONE:
        raise b.unsupported(f"fused activation {activation}", "NONE")
    finish_fixed(b, OperationType.L2_NORMALIZATION, SIGNED_UNIT)


def local_response_normalization(b: OperatorBuilder) -> None:
    """LOCAL_RESPONSE_NORMALIZATION along the last axis."""
    options, x = b.options(LocalResponseNormalizationOptions), b.input(0)
    parameters = [b.real_like(x, number) for number in (options.Bias, options.Alpha, options.Beta)]
    b.finish(OperationType.LOCAL_RESPONSE_NORMALIZATION, [x, b.int32(options.Radius), *parameters])
