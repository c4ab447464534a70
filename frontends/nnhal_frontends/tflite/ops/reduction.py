"""Reductions along axes."""

from __future__ import annotations

from tflite import ReducerOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder
from nnhal_frontends.tflite.ops._definition import Converter


def mean(b: OperatorBuilder) -> None:
    """MEAN, in floats if the result has another scale."""
    keep = b.int32(b.options(ReducerOptions).KeepDims)
    if b.same_scale(b.input(0), b.result()):
        b.finish(OperationType.MEAN, [b.input(0), b.input(1), keep])
    else:
        b.finish_reals(OperationType.MEAN, [b.reals(0), b.input(1), keep])


def reduction(code: OperationType, in_reals: bool = False) -> Converter:
    """Convert a reduction, in floats if the HAL has no other form or the result has another scale."""

    def convert(b: OperatorBuilder) -> None:
        keep = b.boolean(b.options(ReducerOptions).KeepDims)
        if in_reals or not b.same_scale(b.input(0), b.result()):
            b.finish_reals(code, [b.reals(0), b.input(1), keep])
        else:
            b.finish(code, [b.input(0), b.input(1), keep])

    return convert


def arg_extremum(code: OperationType) -> Converter:
    """Convert ARGMAX or ARGMIN. The indices are int32, also for int64 in TFLite."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.int32(b.integer(1, "axis"))])

    return convert
