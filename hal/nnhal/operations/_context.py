"""One operation with what is known of its operands.

The same view serves model validation (types, constants, perhaps unknown dimensions), preparation (dimensions known),
lowering, and execution (every value known), so that each rule of an operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import general_failure, invalid_argument
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import Dimensions, is_scalar


class UnknownYet(Exception):  # noqa: N818 - a state of knowledge and no error
    """A value that a rule needs is not known before execution."""


class OperationContext:
    """An operation, its operands, and a way to ask for their values.

    ``place`` names the operation in messages, as in ``operation 3 (SOFTMAX)``. ``value_of`` gives the array of an input
    by its position, or None where it is not known yet.
    """

    def __init__(
        self,
        type: OperationType,  # noqa: A002 - the HAL's own word
        place: str,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        value_of: Callable[[int], Array | None],
        dimensions_of: Callable[[int], Dimensions] | None = None,
        relaxed: bool = False,
    ) -> None:
        self.type = type
        self.place = place
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.relaxed = relaxed
        self._value_of = value_of
        self._dimensions_of = dimensions_of

    @property
    def executing(self) -> bool:
        """Whether dimensions are those of an execution: a 0 among them is a length then, and not an unknown one."""
        return self._dimensions_of is not None

    def has(self, index: int) -> bool:
        """Whether an input is given: neither left out at the end nor NO_VALUE."""
        return index < len(self.inputs) and self.inputs[index].lifetime != OperandLifeTime.NO_VALUE

    def given(self, index: int) -> bool:
        """As ``has``, but raises UnknownYet where only the request will tell: it may omit inputs of the model."""
        if self.has(index) and self.inputs[index].lifetime == OperandLifeTime.SUBGRAPH_INPUT and not self.executing:
            raise UnknownYet(self.input_name(index))
        return self.has(index)

    def main_type(self, index: int = 0) -> int:
        """The type of an input."""
        return self.inputs[index].type

    def dimensions(self, index: int) -> Dimensions:
        """What is known of an input's dimensions; empty where its rank is unknown, and for scalars."""
        if self._dimensions_of is not None:
            return self._dimensions_of(index)
        return self.inputs[index].dimensions

    def known_dimensions(self, index: int) -> Dimensions:
        """An input's dimensions with no axis open (a zero-sized tensor's zeros count as known at execution).

        Raises UnknownYet.
        """
        dimensions = self.dimensions(index)
        if self._dimensions_of is None and (not dimensions or 0 in dimensions):
            raise UnknownYet(self.input_name(index))
        return dimensions

    def ranked(self, index: int, rank: int | tuple[int, int] | None = None) -> Dimensions:
        """An input's dimensions, of known rank: a given one, or from lowest to highest. Raises UnknownYet."""
        dimensions = self.dimensions(index)
        if not dimensions:
            raise UnknownYet(self.input_name(index))
        low, high = (rank, rank) if isinstance(rank, int) else rank or (1, len(dimensions))
        if not low <= len(dimensions) <= high:
            expected = str(low) if low == high else f"{low} to {high}"
            invalid_argument(f"{self.input_name(index)} has rank {len(dimensions)}, expected {expected}")
        return dimensions

    def value(self, index: int) -> Array:
        """An input's array: 0-d for scalars. Raises UnknownYet."""
        value = self._value_of(index)
        if value is None:
            raise UnknownYet(self.input_name(index))
        return value

    def is_known(self, index: int) -> bool:
        """Whether an input's value is known already."""
        return self.has(index) and self._value_of(index) is not None

    def integer(self, index: int, default: int | None = None) -> int:
        """The value of an INT32 scalar; ``default`` where it is left out."""
        if default is not None and not self.has(index):
            return default
        return int(self.value(index))

    def real(self, index: int) -> float:
        """The value of a float scalar."""
        return float(self.value(index))

    def boolean(self, index: int, default: bool = False) -> bool:
        """The value of a BOOL scalar; ``default`` where it is left out."""
        return bool(self.value(index)) if self.has(index) else default

    def integers(self, index: int) -> tuple[int, ...]:
        """The values of a TENSOR_INT32, flattened."""
        return tuple(int(v) for v in np.ravel(self.value(index)))

    def input_name(self, index: int, names: type[IntEnum] | None = None) -> str:
        """An input in messages: ``operation 3 (SOFTMAX): input 1 (beta)``."""
        name = f" ({names(index).name.lower()})" if names is not None and index < len(names) else ""
        return f"{self.place}: input {index}{name}"

    def refuse(self, message: str) -> None:
        """Raise INVALID_ARGUMENT about the operation as a whole."""
        invalid_argument(f"{self.place}: {message}")

    def fail(self, message: str) -> None:
        """Raise GENERAL_FAILURE about the operation as a whole."""
        general_failure(f"{self.place}: {message}")


class Signature:
    """Checks the types and counts of one operation, and learns the feature level that it needs.

    Every check raises HalError(INVALID_ARGUMENT) with what was got, what was expected and where.
    """

    def __init__(self, context: OperationContext) -> None:
        self.context = context
        self.level = 1
        self._names: type[IntEnum] | None = None

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The operands that the operation reads."""
        return self.context.inputs

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that the operation writes."""
        return self.context.outputs

    def since(self, level: int) -> None:
        """Say that what the operation uses exists from a feature level on."""
        self.level = max(self.level, level)

    def count(
        self,
        inputs: int | tuple[int, ...] | range,
        outputs: int | tuple[int, ...] = 1,
        names: type[IntEnum] | None = None,
    ) -> int:
        """Check the number of inputs and outputs, name the inputs, and return how many inputs there are."""
        self._names = names
        for what, got, allowed in (("inputs", len(self.inputs), inputs), ("outputs", len(self.outputs), outputs)):
            counts = (allowed,) if isinstance(allowed, int) else tuple(allowed)
            if got not in counts:
                expected = " or ".join(str(c) for c in counts) if len(counts) < 5 else f"{counts[0]} to {counts[-1]}"
                self.context.refuse(f"got {got} {what}, expected {expected}")
        return len(self.inputs)

    def where(self, index: int) -> str:
        """An input in messages."""
        return self.context.input_name(index, self._names)

    def tensor(
        self,
        index: int,
        types: dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
        optional: bool = False,
    ) -> OperandType:
        """Check a tensor input: its type against ``{type: feature level}``, its rank where it is known."""
        operand = self.inputs[index]
        self._present(index, optional)
        self._type(self.where(index), operand, types)
        self.since(types[OperandType(operand.type)])
        if operand.lifetime != OperandLifeTime.NO_VALUE:
            self._rank(self.where(index), operand, rank)
        return OperandType(operand.type)

    def same(
        self, index: int, other: int, rank: int | tuple[int, int] | None = None, optional: bool = False
    ) -> OperandType:
        """Check that a tensor input is of the type of another input."""
        return self.tensor(index, {OperandType(self.inputs[other].type): 1}, rank, optional)

    def scalar(self, index: int, type: OperandType, since: int = 1) -> None:  # noqa: A002
        """Check a scalar input. One that is left out at the end is fine; count() has the last word on that."""
        if index >= len(self.inputs):
            return
        self._present(index, False)
        self._type(self.where(index), self.inputs[index], {type: since})
        self.since(since)

    def output(
        self,
        index: int,
        types: OperandType | dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
    ) -> OperandType:
        """Check the type of an output."""
        operand = self.outputs[index]
        allowed = types if isinstance(types, dict) else {types: 1}
        where = f"{self.context.place}: output {index}"
        self._type(where, operand, allowed)
        self.since(allowed[OperandType(operand.type)])
        self._rank(where, operand, rank)
        return OperandType(operand.type)

    def same_quantization(self, first: Operand, second: Operand, what: str) -> None:
        """Check that two operands have one scale and zero point."""
        if (first.scale, first.zero_point) != (second.scale, second.zero_point):
            self.context.refuse(
                f"{what} must have one scale and zero point, got ({first.scale}, {first.zero_point}) "
                f"and ({second.scale}, {second.zero_point})"
            )

    def _present(self, index: int, optional: bool) -> None:
        if not optional and self.inputs[index].lifetime == OperandLifeTime.NO_VALUE:
            invalid_argument(f"{self.where(index)} is NO_VALUE, expected a value")

    def _type(self, where: str, operand: Operand, allowed: dict[OperandType, int]) -> None:
        if operand.type not in allowed:
            got = type_name(operand.type)
            expected = " or ".join(sorted(t.name for t in allowed))
            invalid_argument(f"{where} is {got}, expected {expected}")

    def _rank(self, where: str, operand: Operand, rank: int | tuple[int, int] | None) -> None:
        if is_scalar(operand.type):
            return
        if not operand.dimensions:
            self.since(3)
            return
        if rank is None:
            return
        low, high = (rank, rank) if isinstance(rank, int) else rank
        if not low <= len(operand.dimensions) <= high:
            expected = str(low) if low == high else f"{low} to {high}"
            invalid_argument(f"{where} has rank {len(operand.dimensions)}, expected {expected}")


def type_name(code: int) -> str:
    """An operand type in messages."""
    try:
        return OperandType(code).name
    except ValueError:
        return f"type {code:#x}" if code > 0 else f"type {code}"


def channel_quant(operand: Operand) -> ChannelQuant:
    """The per-channel quantisation of a validated TENSOR_QUANT8_SYMM_PER_CHANNEL operand."""
    if not isinstance(operand.extra_params, ChannelQuant):
        raise TypeError("not a per-channel operand")
    return operand.extra_params
