"""Reductions along axes."""

from __future__ import annotations

import numpy as np
from tflite import ReducerOptions

from nnhal.types import OperationType
from nnhal.types.layout import describe
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._definition import Converter

_EXTREMES = (OperationType.REDUCE_MAX, OperationType.REDUCE_MIN)


def mean(b: OperatorBuilder) -> None:
    """MEAN, in floats if the result has another scale."""
    _require_elements(b)
    keep = b.int32(b.options(ReducerOptions).KeepDims)
    if b.same_scale(b.input(0), b.result()):
        b.finish(OperationType.MEAN, [b.input(0), b.input(1), keep])
    else:
        b.finish_reals(OperationType.MEAN, [b.reals(0), b.input(1), keep])


def reduction(code: OperationType, in_reals: bool = False) -> Converter:
    """Convert a reduction, in floats if the HAL has no other form or the result has another scale."""

    def convert(b: OperatorBuilder) -> None:
        if code in _EXTREMES and not b.is_quantized(b.input(0)):
            _require_elements(b)
        keep = b.boolean(b.options(ReducerOptions).KeepDims)
        if in_reals or not b.same_scale(b.input(0), b.result()):
            b.finish_reals(code, [b.reals(0), b.input(1), keep])
        else:
            b.finish(code, [b.input(0), b.input(1), keep])

    return convert


def _require_elements(b: OperatorBuilder) -> None:
    """Refuse to reduce axes that may be empty: LiteRT's mean of nothing is NaN or code 0, its extremes are finite."""
    dimensions, axes = b.shape(0), b.constant(1)
    reduced = dimensions if axes is None else [dimensions[b.axis(axis, len(dimensions))] for axis in np.ravel(axes)]
    if 0 in reduced:
        raise b.unsupported(f"axes of {describe(dimensions)} that may be empty", "lengths that are known")


def arg_extremum(code: OperationType) -> Converter:
    """Convert ARGMAX or ARGMIN. The indices are int32, also for int64 in TFLite."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.int32(b.integer(1, "axis"))])

    return convert
