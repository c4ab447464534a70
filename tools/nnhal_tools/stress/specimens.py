"""The models that are prepared, and what they compute. Values are small integers, so every result is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from nnhal.arrays import Array
from nnhal.remote import RemoteDevice
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_conformance.graph import F32, I32, Q8, SpecimenBuilder, operand_of
from nnhal_tools.stress.memory import KINDS, BlockKind, block_of
from nnhal_tools.stress.outcomes import FAILURE, MISSED, OK, Statuses

_WIDTH = 7
_ROWS = 5
_VALID = 1
_ENDLESS = 0.2
"""Probability that a loop never ends."""
_BEYOND = 0.25
"""Probability that a lookup exceeds its table."""
_FILTERS = np.arange(6, dtype=np.float32).reshape(3, 1, 1, 2)
_BIAS = np.array([1, 2, 3], np.float32)


@dataclass(frozen=True, slots=True)
class Sample:
    """Values for one execution, and how it must end: with ``expected``, or with one of ``statuses``."""

    inputs: tuple[Array, ...]
    expected: Array | None
    statuses: Statuses = OK


@dataclass(frozen=True, slots=True)
class Specimen:
    """A model with one output, and how to compute it."""

    name: str
    """Name in reports."""
    model: Model
    """The model; 0 in its dimensions stands for any size."""
    compute: Callable[[Sequence[Array]], Array | Statuses]
    """Computes the output from inputs, or the statuses with which the execution must fail."""
    draw: Callable[[Random, int], tuple[Array, ...]]
    """Draws inputs, of a given size if that is unknown."""
    loops: bool = False
    """Whether it has a loop."""

    @property
    def inputs(self) -> tuple[Operand, ...]:
        main = self.model.main
        return tuple(main.operands[index] for index in main.input_indexes)

    @property
    def output(self) -> Operand:
        main = self.model.main
        return main.operands[main.output_indexes[0]]

    @property
    def is_open(self) -> bool:
        """True if only the request determines the dimensions of inputs and output."""
        return 0 in self.output.dimensions

    def operand(self, position: int) -> Operand:
        """An input, or the output if ``position`` is the number of inputs."""
        return self.inputs[position] if position < len(self.inputs) else self.output

    def dimensions(self, position: int, size: int) -> Dimensions:
        """Dimensions of an input or the output, with ``size`` in place of unknown ones."""
        return tuple(axis or size for axis in self.operand(position).dimensions)

    def sample(self, random: Random, size: int) -> Sample:
        """Draw inputs and compute the output."""
        return self.evaluate(self.draw(random, size))

    def evaluate(self, inputs: tuple[Array, ...]) -> Sample:
        """Return how an execution with these values must end."""
        result = self.compute(inputs)
        return Sample(inputs, None, result) if isinstance(result, frozenset) else Sample(inputs, result)


def create_specimens(random: Random) -> list[Specimen]:
    """Create all models. Their constants lie in new memory of each kind."""
    return [
        _addition("add", F32, 4),
        _addition("add of 8 bits", Q8, 4),
        _addition("add of open size", F32, 0),
        _rectifier(F32),
        _rectifier(Q8),
        _lookup(),
        _loop(),
        *(_convolution(kind, random) for kind in KINDS),
    ]


def addition_for(device: RemoteDevice, specimens: Sequence[Specimen]) -> Specimen:
    """Return the addition of floats, or that of 8-bit values if the device does not support floats. Raises HalError."""
    floats, quantised = specimens[:2]
    return floats if all(device.supported_operations(floats.model)) else quantised


def whole_numbers(random: Random, code: int, dimensions: Dimensions) -> Array:
    """Random values of a tensor."""
    generator = np.random.default_rng(random.getrandbits(32))
    return generator.integers(-99, 100, dimensions).astype(ELEMENT_TYPES[code])


def _addition(name: str, code: OperandType, rows: int) -> Specimen:
    program = SpecimenBuilder()
    main = program.graph()
    dimensions = (rows, _WIDTH)
    terms = [main.input(code, dimensions) for _ in range(2)]
    none = main.constant(OperandType.INT32, 0)
    main.returns(main.operation(OperationType.ADD, [*terms, none], operand_of(code, dimensions)))

    def compute(terms: Sequence[Array]) -> Array:
        if code == F32:
            return terms[0] + terms[1]
        return np.clip(terms[0].astype(np.int32) + terms[1], -128, 127).astype(np.int8)

    def draw(random: Random, size: int) -> tuple[Array, ...]:
        return tuple(whole_numbers(random, code, (rows or size, _WIDTH)) for _ in range(2))

    return Specimen(name, program.model(), compute, draw)


def _rectifier(code: OperandType) -> Specimen:
    program = SpecimenBuilder()
    main = program.graph()
    value = main.input(code, (4, _WIDTH))
    main.returns(main.operation(OperationType.RELU, [value], operand_of(code, (4, _WIDTH))))
    return Specimen(
        "relu of 8 bits" if code == Q8 else "relu",
        program.model(),
        lambda inputs: np.maximum(inputs[0], 0),
        lambda random, _: (whole_numbers(random, code, (4, _WIDTH)),),
    )


def _lookup() -> Specimen:
    """A lookup that fails if an index exceeds the table."""
    program = SpecimenBuilder()
    main = program.graph()
    table = np.arange(_ROWS * _WIDTH).reshape(_ROWS, _WIDTH)
    rows = main.input(I32, (4,))
    found = Operand(F32, (4, _WIDTH))
    main.returns(main.operation(OperationType.EMBEDDING_LOOKUP, [rows, main.constant(F32, table)], found))

    def compute(inputs: Sequence[Array]) -> Array | Statuses:
        (rows,) = inputs
        return FAILURE if (rows >= _ROWS).any() or (rows < 0).any() else table[rows].astype(np.float32)

    def draw(random: Random, _: int) -> tuple[Array, ...]:
        rows = np.array([random.randrange(_ROWS) for _ in range(4)], np.int32)
        if random.random() < _BEYOND:
            rows[random.randrange(4)] = random.choice((_ROWS, 1 << 30))
        return (rows,)

    return Specimen("lookup", program.model(), compute, draw)


def _loop() -> Specimen:
    """A loop that repeats without changing its values while the first one is less than the second."""
    program = SpecimenBuilder()
    main, condition, body = program.graph(), program.graph(), program.graph()
    one, truth = Operand(I32, (1,)), Operand(OperandType.TENSOR_BOOL8, (1,))
    numbers = [main.input(I32, (1,)) for _ in range(2)]
    loop = [main.reference(condition), main.reference(body), *numbers]
    main.returns(main.operation(OperationType.WHILE, loop, one))
    pair = [condition.input(I32, (1,)) for _ in range(2)]
    condition.returns(condition.operation(OperationType.LESS, pair, truth))
    same, _ = body.input(I32, (1,)), body.input(I32, (1,))
    adding = [same, body.constant(I32, [0]), body.constant(OperandType.INT32, 0)]
    body.returns(body.operation(OperationType.ADD, adding, one))

    def compute(inputs: Sequence[Array]) -> Array | Statuses:
        return MISSED if inputs[0][0] < inputs[1][0] else inputs[0]

    def draw(random: Random, _: int) -> tuple[Array, ...]:
        limit = random.randrange(100)
        count = limit - 1 if random.random() < _ENDLESS else limit + random.randrange(10)
        return np.array([count], np.int32), np.array([limit], np.int32)

    return Specimen("loop", program.model(), compute, draw, loops=True)


def _convolution(kind: BlockKind, random: Random) -> Specimen:
    """A convolution with filters of one pixel, whose filters and bias lie in a pool."""
    program = SpecimenBuilder()
    main = program.graph()
    image = main.input(F32, (1, 4, 4, 2))
    filters, bias = main.constant(F32, _FILTERS), main.constant(F32, _BIAS)
    options = [main.constant(OperandType.INT32, number) for number in (_VALID, 1, 1, 0)]
    main.returns(main.operation(OperationType.CONV_2D, [image, filters, bias, *options], Operand(F32, (1, 4, 4, 3))))
    return Specimen(
        f"convolution, constants in {kind.value}",
        _in_pool(program.model(), kind, random),
        lambda inputs: (inputs[0] @ _FILTERS[:, 0, 0, :].T + _BIAS).astype(np.float32),
        lambda random, _: (whole_numbers(random, F32, (1, 4, 4, 2)),),
    )


def _in_pool(model: Model, kind: BlockKind, random: Random) -> Model:
    """The model with its constants in a pool, after some other bytes."""
    lead = 4 * random.randrange(20)
    block = block_of(bytes(lead) + model.operand_values, kind, random)

    def moved(operand: Operand) -> Operand:
        if operand.lifetime != OperandLifeTime.CONSTANT_COPY:
            return operand
        location = DataLocation(0, lead + operand.location.offset, operand.location.length)
        return replace(operand, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)

    operands = tuple(moved(operand) for operand in model.main.operands)
    return replace(model, main=replace(model.main, operands=operands), operand_values=b"", pools=(block.memory,))
