"""Requests in recordings: where arguments lie, and in which kinds of memory."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.codec.memory import location_to_wire
from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal.types import Memory, Request, RequestArgument
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import request_pb2
from nnhal_devices.backend import MemoryKind
from nnhal_devices.host.client_session import ClientSession
from nnhal_devices.host.device_memory import DeviceBuffer
from nnhal_devices.host.staging import kind_of

_TOKEN = "token"


def recorded_request(
    request: Request, number_of: Callable[[object], int], client: ClientSession
) -> wire.RecordedRequest:
    """Return a request as recordings have it; ``number_of`` is asked about its buffers."""
    arguments = request_pb2.Request(
        inputs=[_argument(argument) for argument in request.inputs],
        outputs=[_argument(argument) for argument in request.outputs],
    )
    kinds, sizes = [], []
    for pool in request.pools:
        buffer = client.find(pool, DeviceBuffer) if isinstance(pool, int) else None
        arguments.pools.add(**({"token": number_of(buffer)} if buffer is not None else {}))
        kinds.append(_TOKEN if isinstance(pool, int) else _name(kind_of(pool)))
        sizes.append(0 if isinstance(pool, int) else _size(pool))
    return wire.RecordedRequest(arguments=arguments, pool_kinds=kinds, pool_bytes=sizes)


def _argument(argument: RequestArgument) -> request_pb2.RequestArgument:
    return request_pb2.RequestArgument(
        has_no_value=argument.has_no_value,
        location=location_to_wire(argument.location),
        dimensions=argument.dimensions,
    )


def _name(kind: MemoryKind) -> str:
    return kind.name.lower()


def _size(pool: Memory) -> int:
    try:
        return validate_pool(pool, "the pool")
    except (HalError, OSError):  # of a request that was refused
        return 0
