"""Asking the device about models, and sending what it lacks of their constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from nnhal.arrays import Bytes
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.packing import PackedForWire
from nnhal_devices.wire.chunks import chunks_of

_TRIES = 3
"""The device may drop constants, if others send theirs, before they are used."""


class MayLack(Protocol):
    """An answer that may say that constants are missing."""

    @property
    def missing(self) -> Iterable[wire.MissingConstant]:
        """What to send first."""
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
