"""Requests in recordings: where arguments lie, and in which kinds of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nnhal.codec.memory import location_to_wire
from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal.memory.hardware_buffer import describe_buffer, is_blob
from nnhal.types import Ashmem, HardwareBuffer, MappableFile, Memory, Request, RequestArgument, RequestMemoryPool
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import request_pb2
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.memory.staging import kind_of
from nnhal_devices.host.sessions.client_session import ClientSession

_TOKEN, _IMAGE = "token", "hardware_buffer"


class PoolForm(NamedTuple):
    """A pool without its memory."""

    kind: str
    size: int
    buffer: DeviceBuffer | None
    """The buffer, if it is one that the session has."""


class RequestForm(NamedTuple):
    """A request without its memory, whose descriptors must not be kept open for the sake of a recording."""

    inputs: tuple[RequestArgument, ...]
    outputs: tuple[RequestArgument, ...]
    pools: tuple[PoolForm, ...]


def form_of(request: Request, client: ClientSession, was_refused: bool = False) -> RequestForm:
    """Return the form of a request of a session. If it ``was_refused``, pools that are not valid have no size."""

    def form(pool: RequestMemoryPool) -> PoolForm:
        if isinstance(pool, int):
            return PoolForm(_TOKEN, 0, client.find(pool, DeviceBuffer))
        try:
            if was_refused:
                validate_pool(pool, "the pool")
            return PoolForm(_kind(pool), _size(pool), None)
        except (HalError, OSError, ValueError):
            return PoolForm(kind_of(pool).value, 0, None)

    return RequestForm(request.inputs, request.outputs, tuple(map(form, request.pools)))


def recorded_request(form: RequestForm, number_of: Callable[[object], int]) -> wire.RecordedRequest:
    """Return a request as recordings have it; ``number_of`` is asked about its buffers."""
    arguments = request_pb2.Request(
        inputs=[_argument(argument) for argument in form.inputs],
        outputs=[_argument(argument) for argument in form.outputs],
        pools=[_pool(pool, number_of) for pool in form.pools],
    )
    return wire.RecordedRequest(
        arguments=arguments,
        pool_kinds=[pool.kind for pool in form.pools],
        pool_bytes=[pool.size for pool in form.pools],
    )


def _pool(pool: PoolForm, number_of: Callable[[object], int]) -> request_pb2.RequestMemoryPool:
    if pool.buffer is None:
        return request_pb2.RequestMemoryPool()
    return request_pb2.RequestMemoryPool(token=number_of(pool.buffer))


def _argument(argument: RequestArgument) -> request_pb2.RequestArgument:
    return request_pb2.RequestArgument(
        has_no_value=argument.has_no_value,
        location=location_to_wire(argument.location),
        dimensions=argument.dimensions,
        varies=argument.varies,
    )


def _kind(pool: Memory) -> str:
    if isinstance(pool, HardwareBuffer) and not is_blob(pool):
        return _IMAGE
    return kind_of(pool).value


def _size(pool: Memory) -> int:
    """The bytes of a pool."""
    if isinstance(pool, Ashmem):
        return pool.size
    return pool.length if isinstance(pool, MappableFile) else describe_buffer(pool).byte_size
