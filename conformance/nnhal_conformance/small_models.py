"""Small models, so that a device supports at least one, and requests for them in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import (
    DataLocation,
    Memory,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
    Subgraph,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_conformance.graph import SpecimenBuilder
from nnhal_conformance.rule import BrokenRuleError

SHAPE = (5, 7)
"""No element type fills whole words of 8 or 16 bytes: a device that copies such words only leaves the end unwritten."""
_F32 = OperandType.TENSOR_FLOAT32
_SIGNED, _UNSIGNED = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_ASYMM
_ALIGNED = 256
"""The distance of arguments in a pool: as the most particular device wants them."""
_PAINT = 0x5A
_FLOAT_TOLERANCE = 1e-2
"""For devices that compute in float16. One of 8 bits may round to the next value."""
Compute = Callable[[Sequence[Array]], Array]


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A model of one operation, whose inputs and output have the same type and dimensions."""

    name: str
    """Its name in messages."""
    model: Model
    """The model."""
    compute: Compute
    """What the operation computes."""
    shape: Dimensions = SHAPE
    """Dimensions of its values, which the model may leave open."""

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.model.main.input_indexes)

    @property
    def output(self) -> Operand:
        return self.model.main.operands[self.model.main.output_indexes[0]]

    @property
    def bytes(self) -> int:
        """The bytes of one value."""
        return int(np.prod(self.shape)) * ELEMENT_TYPES[self.output.type].itemsize

    def values(self, seed: int) -> list[Array]:
        """Inputs: small whole numbers, so that every device computes the same."""
        count = int(np.prod(self.shape))
        element = ELEMENT_TYPES[self.output.type]
        given = [(np.arange(count) * (3 + n) + seed) % 10 for n in range(self.inputs)]
        return [each.reshape(self.shape).astype(element) for each in given]

    def array(self, raw: Array) -> Array:
        """Bytes as a value."""
        return raw.view(ELEMENT_TYPES[self.output.type]).reshape(self.shape)

    def mismatch(self, raw: Array, wanted: Array) -> int | None:
        """Return the place of the element that differs most from the wanted one; None if all are near enough."""
        got, wanted = self.array(raw).astype(np.float64), wanted.astype(np.float64)
        is_byte = ELEMENT_TYPES[self.output.type].itemsize == 1
        tolerance = 1.0 if is_byte else _FLOAT_TOLERANCE * max(1.0, float(np.abs(wanted).max()))
        if np.allclose(got, wanted, rtol=0, atol=tolerance):
            return None
        return int(np.argmax(np.abs(got - wanted).reshape(-1)))

    def with_operand(self, number: int, **fields: object) -> Model:
        """The model with another operand in place of one of its own."""
        operands = list(self.model.main.operands)
        operands[number] = replace(operands[number], **fields)  # type: ignore[arg-type]
        return replace(self.model, main=replace(self.model.main, operands=tuple(operands)))

    def of(self, what: str, **fields: Any) -> SmallModel:
        """The model whose inputs and output are other operands; ``what`` says in which way."""
        operands = list(self.model.main.operands)
        for number in (*self.model.main.input_indexes, *self.model.main.output_indexes):
            operands[number] = replace(operands[number], **fields)
        model = replace(self.model, main=replace(self.model.main, operands=tuple(operands)))
        return replace(self, name=f"{self.name} {what}", model=model)

    def of_rows(self, count: int) -> SmallModel:
        """The model for values of so many rows, which it leaves open."""
        return replace(self, shape=(count, *SHAPE[1:]))

    def twice(self) -> Model:
        """The model with its operation twice, each with inputs and an output of its own."""
        main = self.model.main
        (operation,) = main.operations
        own = (*main.input_indexes, *main.output_indexes)
        copies = {number: len(main.operands) + place for place, number in enumerate(own)}

        def copied(numbers: Sequence[int]) -> tuple[int, ...]:
            return tuple(copies.get(number, number) for number in numbers)

        second = replace(operation, inputs=copied(operation.inputs), outputs=copied(operation.outputs))
        both = Subgraph(
            (*main.operands, *(main.operands[number] for number in own)),
            (operation, second),
            (*main.input_indexes, *copied(main.input_indexes)),
            (*main.output_indexes, *copied(main.output_indexes)),
        )
        return replace(self.model, main=both)

    def of_open_output(self) -> Model:
        """The model whose output has dimensions that only an execution tells."""
        return self.with_operand(self.model.main.output_indexes[0], dimensions=(0,) * len(SHAPE))

    def of_constant(self, pool: Memory, offset: int) -> Model | None:
        """The model whose last input is a constant in a pool; None if it has only one input."""
        *kept, constant = self.model.main.input_indexes
        if not kept:
            return None
        location = DataLocation(0, offset, self.bytes)
        model = self.with_operand(constant, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
        return replace(model, main=replace(model.main, input_indexes=tuple(kept)), pools=(pool,))


def small_models() -> list[SmallModel]:
    """All small models; the first that a device supports is what it is asked to execute."""
    floats = [
        _binary("ADD of float32", OperationType.ADD, _F32, lambda v: v[0] + v[1]),
        _binary("MUL of float32", OperationType.MUL, _F32, lambda v: v[0] * v[1]),
        _unary("RELU of float32", OperationType.RELU, _F32),
        _fully_connected(),
        _binary("ADD of float16", OperationType.ADD, OperandType.TENSOR_FLOAT16, lambda v: v[0] + v[1]),
    ]
    bytes_ = [
        small
        for code, name in ((_SIGNED, "int8"), (_UNSIGNED, "uint8"))
        for small in (
            _binary(f"ADD of {name}", OperationType.ADD, code, lambda v: v[0] + v[1]),
            _unary(f"RELU of {name}", OperationType.RELU, code),
        )
    ]
    return [*floats, *bytes_]


def _operand(code: OperandType) -> Operand:
    return Operand(code, SHAPE, scale=1.0 if code in (_SIGNED, _UNSIGNED) else 0.0)


def _binary(name: str, kind: OperationType, code: OperandType, compute: Compute) -> SmallModel:
    program = SpecimenBuilder()
    main = program.graph()
    terms = [main.add_input(_operand(code)) for _ in range(2)]
    main.returns(main.operation(kind, [*terms, main.constant(OperandType.INT32, 0)], _operand(code)))
    return SmallModel(name, program.model(), compute)


def _unary(name: str, kind: OperationType, code: OperandType) -> SmallModel:
    program = SpecimenBuilder()
    main = program.graph()
    main.returns(main.operation(kind, [main.add_input(_operand(code))], _operand(code)))
    return SmallModel(name, program.model(), lambda v: np.maximum(v[0], 0))


def _fully_connected() -> SmallModel:
    program = SpecimenBuilder()
    main = program.graph()
    width = SHAPE[1]
    weights = np.arange(width * width).reshape(width, width) % 3
    given = main.add_input(_operand(_F32))
    constants = [main.constant(_F32, weights), main.constant(_F32, np.ones(width)), main.constant(OperandType.INT32, 0)]
    main.returns(main.operation(OperationType.FULLY_CONNECTED, [given, *constants], _operand(_F32)))
    return SmallModel(
        "FULLY_CONNECTED of float32", program.model(), lambda v: (v[0] @ weights.T + 1).astype(np.float32)
    )


class SmallRequest:
    """A request of a small model: its inputs and its output, one after the other in one pool."""

    def __init__(self, small: SmallModel, memory: Memory | None = None, lead: int = 0, step: int = 0) -> None:
        """Arguments begin after ``lead`` bytes, ``step`` bytes apart, or as far as any device wants them."""
        self.small = small
        step = step or -(-small.bytes // _ALIGNED) * _ALIGNED
        self.memory = create_ashmem(self.bytes_of(small, lead, step), "nnhal-check") if memory is None else memory
        self._places = [DataLocation(0, lead + n * step, small.bytes) for n in range(small.inputs + 1)]
        self._values: list[Array] = []
        self._is_shared = False
        self._pool = open_pool(self.memory, writable=True)
        dimensions = small.shape if 0 in small.output.dimensions else ()
        arguments = [RequestArgument(place, dimensions) for place in self._places]
        self.request = Request(tuple(arguments[:-1]), (arguments[-1],), (self.memory,))

    @staticmethod
    def bytes_of(small: SmallModel, lead: int = 0, step: int = _ALIGNED) -> int:
        """The bytes of its pool."""
        return lead + (small.inputs + 1) * max(step, small.bytes)

    def share_inputs(self) -> None:
        """Have all inputs be the first one, in one place."""
        first = self.request.inputs[0]
        self._places[:-1] = [first.location] * self.small.inputs
        self.request = replace(self.request, inputs=(first,) * self.small.inputs)
        self._is_shared = True

    def fill(self, seed: int = 1) -> None:
        """Write inputs, and paint the output."""
        values = self.small.values(seed)
        self._values = values[:1] * len(values) if self._is_shared else values
        for place, value in zip(self._places, self._values, strict=False):
            self._pool.write(place.offset, value.reshape(-1).view(np.uint8))
        self._pool.write(self._places[-1].offset, np.full(self.small.bytes, _PAINT, np.uint8))

    @property
    def is_untouched(self) -> bool:
        """True if nothing has been written to the output."""
        return bool((self._raw() == _PAINT).all())

    def require_output(self) -> None:
        """Check that the output is that of the inputs."""
        wanted = self.small.compute(self._values)
        if self.is_untouched:
            raise BrokenRuleError("success was answered and the output was not written, expected its values")
        for number, (place, given) in enumerate(zip(self._places, self._values, strict=False)):
            if not np.array_equal(self._pool.read(place.offset, place.length), given.reshape(-1).view(np.uint8)):
                raise BrokenRuleError(f"{self.small.name}: input {number} was changed, expected it as it was written")
        at = self.small.mismatch(self._raw(), wanted)
        if at is not None:
            written = np.flatnonzero(self._raw() != _PAINT)[-1] + 1
            if self.small.bytes - written >= ELEMENT_TYPES[self.small.output.type].itemsize:
                raise BrokenRuleError(
                    f"success was answered and nothing was written from byte {written} of {self.small.bytes} on, "
                    "expected its values"
                )
            got = self.small.array(self._raw())
            raise BrokenRuleError(
                f"{self.small.name}: got {got.reshape(-1)[at]:g} at {at}, expected {wanted.reshape(-1)[at]:g}"
            )

    def run(self, call: Callable[[], object], seed: int = 1) -> None:
        """Fill, run, and check the output."""
        self.fill(seed)
        call()
        self.require_output()

    def _raw(self) -> Array:
        return self._pool.read(self._places[-1].offset, self.small.bytes)
