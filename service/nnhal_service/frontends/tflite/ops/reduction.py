"""Values along axes reduced to one."""

from __future__ import annotations

from tflite import ReducerOptions

from nnhal.types import OperationType
from nnhal_service.frontends.tflite.builder import OperatorBuilder
from nnhal_service.frontends.tflite.ops._definition import Converter


def mean(b: OperatorBuilder) -> None:
    """MEAN; in floats where the result has another scale."""
    keep = b.int32(b.options(ReducerOptions).KeepDims())
    if b.same_scale(b.input(0), b.result()):
        b.finish(OperationType.MEAN, [b.input(0), b.input(1), keep])
    else:
        b.finish_reals(OperationType.MEAN, [b.reals(0), b.input(1), keep])


def reduction(code: OperationType, in_reals: bool = False) -> Converter:
    """A reduction, in floats where the HAL has no other or the result has another scale."""

    def convert(b: OperatorBuilder) -> None:
        keep = b.boolean(b.options(ReducerOptions).KeepDims())
        if in_reals or not b.same_scale(b.input(0), b.result()):
            b.finish_reals(code, [b.reals(0), b.input(1), keep])
        else:
            b.finish(code, [b.input(0), b.input(1), keep])

    return convert


def arg_extremum(code: OperationType) -> Converter:
    """ARGMAX or ARGMIN. An index that TFLite has as int64 is int32."""

    def convert(b: OperatorBuilder) -> None:
        b.finish(code, [b.input(0), b.int32(b.integer(1, "axis"))])

    return convert
