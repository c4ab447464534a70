"""Questions to the device about models before it prepares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from nnhal.arrays import Bytes
from nnhal.errors import HalError, general_failure
from nnhal.remote.backend import ModelAssessment, assessment_from_wire, views_from_wire
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ErrorStatus, OptimizationViews
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remembered import Remembered
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.packing import ModelPacker, PackedForWire
from nnhal_devices.wire import chunks_of

_TRIES = 3
"""The device may drop constants, if others send theirs, before they are used."""


class MayLack(Protocol):
    """An answer that may say that constants are missing."""

    @property
    def missing(self) -> Iterable[wire.MissingConstant]:
        """Return what to send first."""
        ...


A = TypeVar("A", bound=MayLack)


def ask(connection: WireConnection, packed: PackedForWire, question: Callable[[], A]) -> A:
    """Ask about a model until the device lacks nothing, and return the answer. Raises HalError."""
    for _ in range(_TRIES):
        answer = question()
        missing = list(answer.missing)
        if not missing:
            return answer
        for constant in missing:
            _send(connection, packed.constants[constant.digest], constant)
    raise HalError(
        ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
        f"{connection.place} still lacks {len(missing)} constants after they were sent {_TRIES} times; expected it to "
        "keep all of one model (NNHAL_DEVICE_WIRE_CONSTANT_BYTES)",
    )


def _send(connection: WireConnection, content: Bytes, missing: wire.MissingConstant) -> None:
    connection.call(connection.stub.PutConstant, _parts(content, missing))


def _parts(content: Bytes, missing: wire.MissingConstant) -> Iterator[wire.PutConstantRequest]:
    start = missing.received_bytes
    yield wire.PutConstantRequest(digest=missing.digest, length=len(content), offset=start)
    for chunk in chunks_of([content[start:]]):
        yield wire.PutConstantRequest(chunk=chunk)


_KEPT_ANSWERS = 64
"""A host asks for the support of a model, for its costs, and again before it is optimised and prepared."""


class Questions:
    """Asks the device about models, about each once. Safe to use from several threads."""

    def __init__(self, connection: WireConnection, packer: ModelPacker) -> None:
        self._connection = connection
        self._packer = packer
        self._known: Remembered[ModelAssessment] = Remembered(_KEPT_ANSWERS)

    def support(self, model: ResolvedModel) -> Sequence[Support]:
        """Return whether the device supports each operation of main, and if not, why. Raises HalError."""
        return [
            SUPPORTED if answer.supported else Unsupported(answer.code, answer.got, answer.allowed, answer.hint)
            for answer in self._assess(self._packer.pack(model)).operations
        ]

    def operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        """Return the modelled nanoseconds of each operation of main. Raises HalError."""
        costs = self._assess(self._packer.pack(model)).operation_ns
        if not costs:
            general_failure(f"{self._connection.place} has no cost model for the model")
        return costs

    def together(self, model: ResolvedModel) -> Sequence[Sequence[int]]:
        """Return the operations of main that the device takes only together. Raises HalError."""
        return self._assess(self._packer.pack(model)).together

    def optimize(self, model: ResolvedModel) -> OptimizationViews:
        """Return what the device makes of a subgraph. Raises HalError."""
        connection, packed = self._connection, self._packer.pack(model)
        request = wire.OptimizeRequest(model=packed.message)
        answer = ask(connection, packed, lambda: connection.call(connection.stub.Optimize, request))
        return views_from_wire(answer.views, len(model.model.main.operations), connection.place)

    def _assess(self, packed: PackedForWire) -> ModelAssessment:
        connection = self._connection
        known = self._known.get(packed.digest)
        if known is not None:
            return known
        request = wire.AssessRequest(model=packed.message)
        answer = ask(connection, packed, lambda: connection.call(connection.stub.Assess, request))
        operations = len(packed.message.model.main.operations)
        return self._known.add(packed.digest, assessment_from_wire(answer.assessment, operations, connection.place))
