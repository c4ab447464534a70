"""A single operation for tests of definitions: its operands, and the values of those that are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import DEFINITIONS, OperationContext, Signature
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions


@dataclass(frozen=True)
class Given:
    """An input: its operand, and its value if that is known."""

    operand: Operand
    value: Array | None = None


def tensor(code: OperandType, values: Any, scale: float = 0.0, zero_point: int = 0) -> Given:
    array = np.asarray(values).astype(ELEMENT_TYPES[code])
    return Given(Operand(code, array.shape, scale, zero_point), array)


def per_channel(values: Any, scales: Sequence[float], channel_dim: int) -> Given:
    """Return a TENSOR_QUANT8_SYMM_PER_CHANNEL whose value is known."""
    known = tensor(OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL, values)
    return Given(replace(known.operand, extra_params=ChannelQuant(tuple(scales), channel_dim)), known.value)


def open_tensor(code: OperandType, dimensions: Dimensions, scale: float = 0.0, zero_point: int = 0) -> Given:
    """Return a tensor whose value is unknown, and some of whose dimensions may be unknown."""
    return Given(Operand(code, dimensions, scale, zero_point))


def scalar(code: OperandType, value: float) -> Given:
    return Given(Operand(code), np.asarray(value, ELEMENT_TYPES[code]))


def integers(*values: int) -> list[Given]:
    """Return INT32 scalars whose values are known."""
    return [scalar(OperandType.INT32, value) for value in values]


def boolean(value: bool) -> Given:
    return scalar(OperandType.BOOL, value)


def absent(code: OperandType) -> Given:
    return Given(Operand(code, lifetime=OperandLifeTime.NO_VALUE))


def output(code: OperandType, dimensions: Dimensions = (), scale: float = 0.0, zero_point: int = 0) -> Operand:
    """Return an output; one of unknown rank makes an operation need feature level 3."""
    return Operand(code, dimensions, scale, zero_point)


def level_of(code: OperationType, inputs: Sequence[Given], *outputs: Operand) -> int:
    """Validate an operation and return the feature level that it needs. Raises HalError."""
    signature = Signature(context(code, inputs, outputs))
    signature.since(DEFINITIONS[code].since)
    DEFINITIONS[code].validate(signature)
    return signature.level


def dimensions_of(code: OperationType, inputs: Sequence[Given], *outputs: Operand) -> tuple[Dimensions, ...]:
    """Return what is known of the outputs' dimensions before execution. Raises HalError or UnknownYet."""
    return DEFINITIONS[code].prepare(context(code, inputs, outputs))


def context(
    code: OperationType, inputs: Sequence[Given], outputs: Sequence[Operand], executing: bool = False
) -> OperationContext:
    """Return an operation as validation sees it, or as an execution does, in which every value is known."""
    return OperationContext(
        code,
        f"operation 0 ({code.name})",
        [given.operand for given in inputs],
        outputs,
        lambda index: inputs[index].value,
        (lambda index: () if (value := inputs[index].value) is None else value.shape) if executing else None,
    )
