"""The language of the tables of operations: a row is one form of one operation, and what is to come of it.

``f32[2, 0]`` is a tensor of which only the dimensions are known, 0 standing for an unknown one, and ``f32([1.5])`` one
whose values are known. Numbers are scalars, lists TENSOR_INT32 constants, and None is an operand that is left out. A
row that names several types is written in float32 and holds for each of them (``variations``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import B8, BOOL, F16, F32, FLOAT16, FLOAT32, I32, INT32, Q8A, Q8AS, Q8S, Q16A, Q16S
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.agreement import QUANTIZATION
from tests.support.operations import Given, absent, open_tensor, per_channel, scalar, tensor

__all__ = ["Given", "absent", "per_channel"]


class Constant(Given):
    """An input that models hold themselves: weights, unless a device computes with those that a run brings."""


class Numbers(Constant):
    """Integers that a row writes as a list, which models always hold themselves."""


class Bias(Constant):
    """A bias, written in float32: int32 for bytes, in the scale of the products."""


class Boxes(Given):
    """Corners of boxes, written in float32: eighths of pixels in 16 bits, if the scores are of bytes."""


class Anchors(Given):
    """Corners that may lie outside of an image, in the same way."""


class Layout(Given):
    """The flag that the images come channels last. The same row holds for channels first."""


LAST = Layout(Operand(BOOL), np.asarray(0, np.uint8))


@dataclass(frozen=True)
class Kind:
    """A type with a quantisation."""

    code: OperandType
    scale: float = 0.0
    zero_point: int = 0

    def at(self, scale: float, zero_point: int = 0) -> Kind:
        return Kind(self.code, scale, zero_point)

    def __getitem__(self, dimensions: int | Dimensions) -> Given:
        known = dimensions if isinstance(dimensions, tuple) else (dimensions,)
        return open_tensor(self.code, known, self.scale, self.zero_point)

    def of(self, reals: Any) -> Given:
        """Return a tensor of the bytes that stand for reals."""
        return self(np.round(np.asarray(reals) / self.scale) + self.zero_point)

    def about(self, reals: Any) -> Given:
        """Return an output of reals, which are rounded: those that are nearly a half go either way."""
        limits = np.iinfo(np.uint8 if self.code == Q8A else np.int8)
        steps = np.asarray(reals, np.float64) / self.scale + self.zero_point
        return replace(self(np.zeros(steps.shape)), value=np.clip(steps, limits.min, limits.max))

    def __call__(self, values: Any) -> Given:
        """Return a tensor of known values, or a scalar if the type is a scalar's."""
        if self.code in (INT32, FLOAT32, FLOAT16, BOOL):
            return scalar(self.code, values)
        return tensor(self.code, values, self.scale, self.zero_point)


f32, f16, i32, b8 = Kind(F32), Kind(F16), Kind(I32), Kind(B8)
q8a, q8as, q8s = (Kind(code, *QUANTIZATION[code]) for code in (Q8A, Q8AS, Q8S))
q16a, q16s = Kind(Q16A, 0.125), Kind(Q16S, 0.125)
half, integer, real = Kind(FLOAT16), Kind(INT32), Kind(FLOAT32)
TYPES = {"f32": F32, "f16": F16, "i32": I32, "b8": B8, "q8a": Q8A, "q8as": Q8AS}
"""The types that rows hold for."""
_OTHERS = {"q8s": Q8S, "q16a": Q16A, "q16s": Q16S}


class Verb(Enum):
    """What a row says of its form."""

    TAKES = "takes"
    GIVES = "gives"
    REFUSES = "refuses"
    WAITS = "waits"


@dataclass(frozen=True)
class Row:
    """A form of an operation."""

    operation: OperationType
    """The operation."""
    verb: Verb
    """What happens to the form."""
    inputs: tuple[Given, ...]
    """The inputs."""
    outputs: tuple[Given, ...]
    """The outputs, with their inferred dimensions, or with the values that are computed."""
    levels: Mapping[OperandType, int] = field(default_factory=dict)
    """The feature level that each type needs; empty for a row whose types stay as they are written."""
    level: int | None = None
    """The feature level of such a row; None if it says nothing of that."""
    words: str = ""
    """A part of the reason for which the form is refused, as a regular expression."""
    near: float = 0.0
    """How far computed floats may be off, relatively and absolutely."""
    declined: frozenset[OperandType] = frozenset()
    """The types that cpu_acc declines, though it has the operation."""
    out: float | None = None
    """The scale of quantised outputs, if it is not the inputs'."""
    low: float | None = None
    """The least random value; None for values around 0."""
    images: int = 1
    """How many of the first inputs are images, and follow the layout."""
    alone: bool = False
    """Whether the values are those of cpu_ref only."""
    opens: bool = False
    """Whether cpu_acc takes any axis of the first input with an unknown length."""

    @property
    def operands(self) -> list[Operand]:
        return [each.operand for each in self.outputs]


Literal = Given | float | Sequence[Any] | None


def takes(
    operations: str,
    inputs: Sequence[Literal],
    outputs: Given | Sequence[Given],
    *,
    level: int | None = None,
    declined: str = "",
    out: float | None = None,
    low: float | None = None,
    images: int = 1,
    opens: bool = False,
    **levels: int,
) -> list[Row]:
    """Say that operations take a form from a feature level, and which dimensions it has. No other type is taken."""
    return [
        replace(
            row,
            levels={TYPES[name]: since for name, since in levels.items()},
            level=level,
            declined=frozenset((TYPES | _OTHERS)[name] for name in declined.split()),
            out=out,
            low=low,
            images=images,
            opens=opens,
        )
        for row in _rows(operations, Verb.TAKES, inputs, outputs)
    ]


def gives(
    operations: str,
    inputs: Sequence[Literal],
    outputs: Given | Sequence[Given],
    *,
    near: float = 0.0,
    images: int = 1,
    alone: bool = False,
) -> list[Row]:
    """Say which values operations compute."""
    return [
        replace(row, near=near, images=images, alone=alone) for row in _rows(operations, Verb.GIVES, inputs, outputs)
    ]


def refuses(
    operations: str,
    inputs: Sequence[Literal],
    outputs: Given | Sequence[Given],
    words: str,
    *,
    level: int | None = None,
) -> list[Row]:
    """Say why operations refuse a form: with the model, or if ``level`` is given when its dimensions are inferred."""
    return [replace(row, words=words, level=level) for row in _rows(operations, Verb.REFUSES, inputs, outputs)]


def waits(operations: str, inputs: Sequence[Literal], outputs: Given | Sequence[Given]) -> list[Row]:
    """Say that dimensions are unknown before an execution."""
    return _rows(operations, Verb.WAITS, inputs, outputs)


def table(*rows: Sequence[Row]) -> list[Row]:
    return [row for some in rows for row in some]


def const(given: Given) -> Constant:
    return Constant(given.operand, given.value)


def rounding(terms: int, magnitudes: Array) -> float:
    """Return how far float32 sums may be off: of so many terms, the sums of whose absolute values are given."""
    return float(np.finfo(np.float32).eps * terms * magnitudes.max())


def bias(length: int) -> Bias:
    return Bias(f32[length].operand)


def boxes(*dimensions: int) -> Boxes:
    return Boxes(f32[dimensions].operand)


def anchors(*dimensions: int) -> Anchors:
    return Anchors(f32[dimensions].operand)


def changed(inputs: Sequence[Literal], position: int, value: Literal) -> list[Literal]:
    """Return inputs with another one at a position."""
    return [*inputs[:position], value, *inputs[position + 1 :]]


def _rows(operations: str, verb: Verb, inputs: Sequence[Literal], outputs: Given | Sequence[Given]) -> list[Row]:
    given = tuple(_given(each) for each in inputs)
    made = (outputs,) if isinstance(outputs, Given) else tuple(outputs)
    return [Row(OperationType[name], verb, given, made) for name in operations.split()]


def _given(value: Literal) -> Given:
    if isinstance(value, Given):
        return value
    if value is None:
        return absent(F32)
    if isinstance(value, bool):
        return scalar(BOOL, value)
    if isinstance(value, int):
        return scalar(INT32, value)
    if isinstance(value, float):
        return scalar(FLOAT32, value)
    known = tensor(I32, np.asarray(value, np.int32))
    return Numbers(known.operand, known.value)
