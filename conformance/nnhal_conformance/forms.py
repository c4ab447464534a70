"""Other forms of the small model, and models of operations that end otherwise than by computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, Model, Operand, OperandType, OperationType, Request, RequestArgument
from nnhal_conformance.device import Prepared, Subject, supported
from nnhal_conformance.graph import F32, I32, SpecimenBuilder
from nnhal_conformance.rule import NotOfferedError
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.small_models import SHAPE, SmallModel, SmallRequest

_BOOL = OperandType.TENSOR_BOOL8
_PLACE = 256
COUNT = 7
"""Values that are gathered."""


def prepare_form(device: Subject, small: SmallModel, session: DeviceSession | None = None) -> Prepared:
    """Prepare another form of the small model. Raises NotOfferedError if the device does not support it."""
    session = session or device.session()
    try:
        is_supported = all(supported(session, small.model))
    except HalError as error:  # the operation has no such form
        raise NotOfferedError(f"{small.name} is invalid ({error.message})") from error
    if not is_supported:
        raise NotOfferedError(f"{small.name} is not supported: other devices get such models")
    return Prepared(session, small, session.prepare(small.model))


def prepare_open(device: Subject) -> Prepared:
    """Prepare the small model for any number of rows. Raises NotOfferedError."""
    return prepare_form(device, device.small.of("of any number of rows", dimensions=(0, *SHAPE[1:])))


def prepare_twice(device: Subject, small: SmallModel) -> Prepared:
    """Prepare a model with the operation of a small one twice. Raises NotOfferedError."""
    return prepare_form(device, replace(small, name=f"{small.name}, twice", model=small.twice()))


def joined(first: SmallRequest, second: SmallRequest) -> Request:
    """Return the request of an operation that is there twice."""

    def moved(arguments: Sequence[RequestArgument]) -> tuple[RequestArgument, ...]:
        return tuple(replace(each, location=replace(each.location, pool_index=1)) for each in arguments)

    one, other = first.request, second.request
    return Request(
        (*one.inputs, *moved(other.inputs)), (*one.outputs, *moved(other.outputs)), (*one.pools, *other.pools)
    )


class Bytes:
    """A pool with some arguments, one after the other."""

    def __init__(self, *sizes: int) -> None:
        self.memory = create_ashmem(_PLACE * len(sizes), "nnhal-check")
        self.arguments = [RequestArgument(DataLocation(0, _PLACE * n, size)) for n, size in enumerate(sizes)]
        self._pool = open_pool(self.memory, writable=True)

    def write(self, number: int, values: object, element: type[np.generic]) -> None:
        """Fill an argument."""
        self._pool.write(_PLACE * number, np.asarray(values, element).reshape(-1).view(np.uint8))

    def read(self, number: int, element: type[np.generic]) -> list[float]:
        """Return the values of an argument."""
        length = self.arguments[number].location.length
        return [float(value) for value in self._pool.read(_PLACE * number, length).view(element)]

    def request(self, outputs: int = 1) -> Request:
        """Return the request whose last arguments are the outputs."""
        return Request(tuple(self.arguments[:-outputs]), tuple(self.arguments[-outputs:]), (self.memory,))


def gathering() -> Model:
    """Return GATHER of 7 numbers by 7 indices, which fails if an index is too large."""
    program = SpecimenBuilder()
    main = program.graph()
    numbers = main.input(F32, (COUNT,))
    inputs = [numbers, main.constant(OperandType.INT32, 0), main.input(I32, (COUNT,))]
    main.returns(main.operation(OperationType.GATHER, inputs, Operand(F32, (COUNT,))))
    return program.model()


def gather_request(is_good: bool) -> Bytes:
    """Return memory of that model: 0 to 6, and indices that turn them, or of which one is too large."""
    given = Bytes(4 * COUNT, 4 * COUNT, 4 * COUNT)
    given.write(0, np.arange(COUNT), np.float32)
    given.write(1, np.arange(COUNT)[::-1] + (not is_good), np.int32)
    return given


def counting() -> Model:
    """Return ``i = 0; while i != n: i = i + 1``, which does not end in a test if n is -1."""
    program = SpecimenBuilder()
    main, condition, body = (program.graph() for _ in range(3))
    compared = [condition.input(I32, (1,)), condition.input(I32, (1,))]
    condition.returns(condition.operation(OperationType.NOT_EQUAL, compared, Operand(_BOOL, (1,))))
    terms = [body.input(I32, (1,)), body.constant(I32, [1]), body.constant(OperandType.INT32, 0)]
    body.input(I32, (1,))
    body.returns(body.operation(OperationType.ADD, terms, Operand(I32, (1,))))
    inputs = [main.reference(condition), main.reference(body), main.constant(I32, [0]), main.input(I32, (1,))]
    main.returns(main.operation(OperationType.WHILE, inputs, Operand(I32, (1,))))
    return program.model()


def count_request(rounds: int) -> Bytes:
    """Return memory of that model."""
    given = Bytes(4, 4)
    given.write(0, [rounds], np.int32)
    return given


def projecting() -> Model:
    """Return LSH_PROJECTION of 3 items with a weight each, which may be omitted."""
    program = SpecimenBuilder()
    main = program.graph()
    seeds = main.constant(F32, np.linspace(-3, 3, 64).reshape(2, 32))
    inputs = [seeds, main.input(I32, (3,)), main.input(F32, (3,)), main.constant(OperandType.INT32, 2)]
    main.returns(main.operation(OperationType.LSH_PROJECTION, inputs, Operand(I32, (64,))))
    return program.model()


def detecting() -> Model:
    """Return BOX_WITH_NMS_LIMIT of 3 boxes: those with a score above 0.5, whose number depends on the values."""
    program = SpecimenBuilder()
    main = program.graph()
    boxes = [[8 * n, 8 * n, 8 * n + 1, 8 * n + 1] * 2 for n in range(3)]
    scalars = [(OperandType.FLOAT32, 0.5), (OperandType.INT32, -1), (OperandType.INT32, 0)]
    scalars += [(OperandType.FLOAT32, 0.5)] * 3
    inputs = [main.input(F32, (3, 2)), main.constant(F32, boxes), main.constant(I32, [0] * 3)]
    inputs += [main.constant(code, value) for code, value in scalars]
    outputs = [Operand(F32, (0,)), Operand(F32, (0, 4)), Operand(I32, (0,)), Operand(I32, (0,))]
    main.returns(*main.operation_of_outputs(OperationType.BOX_WITH_NMS_LIMIT, inputs, *outputs))
    return program.model()


def detect_request(found: int, size: int = 64) -> Bytes:
    """Return memory of that model, of which each output has ``size`` bytes, and some scores that are high enough."""
    given = Bytes(24, *[size] * 4)
    given.write(0, [[0, 0.75 if number < found else 0.25] for number in range(3)], np.float32)
    return given
