"""One operation with what is known of its operands.

Model validation (types, constants, perhaps unknown dimensions), preparation (dimensions known), lowering and execution
(every value known) use the same view, so that each rule of an operation is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import general_failure, invalid_argument
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import MAX_RANK, Dimensions, is_scalar

_NO_VALUE = OperandLifeTime.NO_VALUE
T = TypeVar("T")


class UnknownYet(Exception):  # noqa: N818 - a state of knowledge, not an error
    """A value that a rule needs is not known before execution."""


class OperationContext:
    """An operation, its operands, and access to their values.

    ``value_of`` returns the array of an input by its position, or None if it is not known yet.
    """

    def __init__(
        self,
        type: OperationType,  # noqa: A002 - the HAL's own word
        place: str | Callable[[], str],
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        value_of: Callable[[int], Array | None],
        dimensions_of: Callable[[int], Dimensions] | None = None,
        relaxed: bool = False,
        is_final: bool = False,
    ) -> None:
        """``place`` names the operation in messages, or returns the name when there is one to write.

        ``dimensions_of`` returns those of an input at execution; ``is_final`` says that the operands have them already.
        """
        self.type = type
        self._place = place
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.relaxed = relaxed
        self._value_of = value_of
        self._dimensions_of = dimensions_of
        self.executing = is_final or dimensions_of is not None
        """True if dimensions are those of an execution: then a 0 is a length and not an unknown dimension."""
        self.found: dict[Callable[..., Any], Any] = {}
        """What functions have found out about the operation (see ``once``)."""

    @property
    def place(self) -> str:
        """Return what names the operation in messages, for example ``operation 3 (SOFTMAX)``."""
        return self._place if isinstance(self._place, str) else self._place()

    def has(self, index: int) -> bool:
        """Return whether an input is given: neither left out at the end nor NO_VALUE."""
        return index < len(self.inputs) and self.inputs[index].lifetime != _NO_VALUE

    def given(self, index: int) -> bool:
        """Like ``has``, but raises UnknownYet for an input of the model without a value: a request may omit it."""
        if self.has(index) and self.inputs[index].lifetime == OperandLifeTime.SUBGRAPH_INPUT:
            self.value(index)
        return self.has(index)

    def main_type(self, index: int = 0) -> int:
        return self.inputs[index].type

    def dimensions(self, index: int) -> Dimensions:
        """Return what is known of an input's dimensions: empty for a scalar and if the rank is unknown."""
        if self._dimensions_of is not None:
            return self._dimensions_of(index)
        return self.inputs[index].dimensions

    def known_dimensions(self, index: int) -> Dimensions:
        """Return an input's dimensions, all of them known; at execution a 0 is a known length. Raises UnknownYet."""
        dimensions = self.dimensions(index)
        if not self.executing and (not dimensions or 0 in dimensions):
            raise UnknownYet(self.input_name(index))
        return dimensions

    def ranked(self, index: int, rank: int | tuple[int, int] | None = None) -> Dimensions:
        """Return an input's dimensions and check its rank: a number, or lowest and highest. Raises UnknownYet."""
        dimensions = self.dimensions(index)
        if not dimensions:
            raise UnknownYet(self.input_name(index))
        low, high = (rank, rank) if isinstance(rank, int) else rank or (1, len(dimensions))
        if not low <= len(dimensions) <= high:
            expected = str(low) if low == high else f"{low} to {high}"
            invalid_argument(f"{self.input_name(index)} has rank {len(dimensions)}, expected {expected}")
        return dimensions

    def value(self, index: int) -> Array:
        """Return an input's array, 0-d for scalars. Raises UnknownYet."""
        value = self._value_of(index)
        if value is None:
            raise UnknownYet(self.input_name(index))
        return value

    def is_known(self, index: int) -> bool:
        """Return whether an input's value is known already."""
        return self.has(index) and self._value_of(index) is not None

    def integer(self, index: int, default: int | None = None) -> int:
        """Return the value of an INT32 scalar, ``default`` if it is left out. Raises UnknownYet."""
        if default is not None and not self.has(index):
            return default
        return int(self.value(index))

    def real(self, index: int) -> float:
        """Return the value of a float scalar. Raises UnknownYet."""
        return float(self.value(index))

    def boolean(self, index: int, default: bool = False) -> bool:
        """Return the value of a BOOL scalar, ``default`` if it is left out. Raises UnknownYet."""
        return bool(self.value(index)) if self.has(index) else default

    def integers(self, index: int) -> tuple[int, ...]:
        """Return the values of a TENSOR_INT32, flattened: at most two for each axis. Raises UnknownYet."""
        values = np.ravel(self.value(index))
        if values.size > 2 * MAX_RANK:
            invalid_argument(f"{self.input_name(index)} has {values.size} elements, expected at most {2 * MAX_RANK}")
        return tuple(int(v) for v in values)

    def input_name(self, index: int, names: type[IntEnum] | None = None) -> str:
        """Name an input for messages: ``operation 3 (SOFTMAX): input 1 (beta)``."""
        name = f" ({names(index).name.lower()})" if names is not None and index < len(names) else ""
        return f"{self.place}: input {index}{name}"

    def refuse(self, message: str) -> None:
        """Raise INVALID_ARGUMENT about the operation as a whole."""
        invalid_argument(f"{self.place}: {message}")

    def fail(self, message: str) -> None:
        """Raise GENERAL_FAILURE about the operation as a whole."""
        general_failure(f"{self.place}: {message}")


def once(find: Callable[[OperationContext], T]) -> Callable[[OperationContext], T]:
    """Have a function of an operation find its result out once: rules, support and lowering all ask for it."""

    @wraps(find)
    def found(op: OperationContext) -> T:
        if find not in op.found:
            op.found[find] = find(op)
        result: T = op.found[find]
        return result

    return found


class Signature:
    """Checks the types and counts of one operation, and determines the feature level that it needs.

    Every check raises HalError(INVALID_ARGUMENT) with what was got, what was expected and where.
    """

    def __init__(self, context: OperationContext) -> None:
        self.context = context
        self.inputs = context.inputs
        """The operands that the operation reads."""
        self.outputs = context.outputs
        """The operands that the operation writes."""
        self.level = 1
        self._names: type[IntEnum] | None = None

    def since(self, level: int) -> None:
        """Note that the operation uses something that exists from a feature level on."""
        if level > self.level:
            self.level = level

    def count(
        self,
        inputs: int | tuple[int, ...] | range,
        outputs: int | tuple[int, ...] = 1,
        names: type[IntEnum] | None = None,
    ) -> int:
        """Check the number of inputs and outputs, name the inputs, and return how many inputs there are."""
        self._names = names
        self._require_count("inputs", len(self.inputs), inputs)
        self._require_count("outputs", len(self.outputs), outputs)
        return len(self.inputs)

    def _require_count(self, what: str, got: int, allowed: int | tuple[int, ...] | range) -> None:
        counts = (allowed,) if isinstance(allowed, int) else allowed
        if got not in counts:
            expected = " or ".join(str(c) for c in counts) if len(counts) < 5 else f"{counts[0]} to {counts[-1]}"
            self.context.refuse(f"got {got} {what}, expected {expected}")

    def where(self, index: int) -> str:
        return self.context.input_name(index, self._names)

    def tensor(
        self,
        index: int,
        types: dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
        optional: bool = False,
    ) -> OperandType:
        """Check a tensor input: its type against ``{type: feature level}``, and its rank if it is known."""
        operand = self.inputs[index]
        if operand.lifetime == _NO_VALUE:
            if not optional:
                self._refuse_absent(index)
            return self._type(index, operand, types)
        code = self._type(index, operand, types)
        self._rank(index, operand, rank)
        return code

    def same(
        self, index: int, other: int, rank: int | tuple[int, int] | None = None, optional: bool = False
    ) -> OperandType:
        """Check that a tensor input has the type of another input."""
        return self.tensor(index, {_known(self.inputs[other].type): 1}, rank, optional)

    def scalar(self, index: int, type: OperandType, since: int = 1) -> None:  # noqa: A002
        """Check a scalar input. It may be left out at the end; ``count`` checks the number of inputs."""
        if index < len(self.inputs):
            self.tensor(index, {type: since})

    def output(
        self,
        index: int,
        types: OperandType | dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
    ) -> OperandType:
        operand = self.outputs[index]
        allowed = types if isinstance(types, dict) else {types: 1}
        code = self._type(index, operand, allowed, is_output=True)
        self._rank(index, operand, rank, is_output=True)
        return code

    def same_quantization(self, first: Operand, second: Operand, what: str) -> None:
        """Check that two operands have the same scale and zero point."""
        if (first.scale, first.zero_point) != (second.scale, second.zero_point):
            self.context.refuse(
                f"{what} have scale and zero point ({first.scale}, {first.zero_point}) "
                f"and ({second.scale}, {second.zero_point}), expected equal ones"
            )

    def _refuse_absent(self, index: int) -> None:
        invalid_argument(f"{self.where(index)} is NO_VALUE, expected a value")

    def _type(
        self, index: int, operand: Operand, allowed: dict[OperandType, int], is_output: bool = False
    ) -> OperandType:
        """Check a type, note the level that it needs, and return it."""
        if operand.type not in allowed:
            got = type_name(operand.type)
            expected = " or ".join(sorted(t.name for t in allowed))
            invalid_argument(f"{self._named(index, is_output)} is {got}, expected {expected}")
        code = _known(operand.type)
        self.since(allowed[code])
        return code

    def _rank(self, index: int, operand: Operand, rank: int | tuple[int, int] | None, is_output: bool = False) -> None:
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
            where = self._named(index, is_output)
            invalid_argument(f"{where} has rank {len(operand.dimensions)}, expected {expected}")

    def _named(self, index: int, is_output: bool) -> str:
        return f"{self.context.place}: output {index}" if is_output else self.where(index)


def _known(code: int) -> OperandType:
    return code if isinstance(code, OperandType) else OperandType(code)


def type_name(code: int) -> str:
    try:
        return OperandType(code).name
    except ValueError:
        return f"type {code:#x}" if code > 0 else f"type {code}"


def channel_quant(operand: Operand) -> ChannelQuant:
    """Return the per-channel quantisation of a validated TENSOR_QUANT8_SYMM_PER_CHANNEL operand."""
    if not isinstance(operand.extra_params, ChannelQuant):
        raise TypeError("not a per-channel operand")
    return operand.extra_params
