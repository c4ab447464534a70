"""A buffer of device memory, and requests that read and write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nnhal.codec import memory_to_wire
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, Memory, Request, RequestArgument
from nnhal.types.layout import Dimensions
from nnhal.v1 import buffer_pb2, device_pb2
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.rule import FAILURE, NotOfferedError, offered, refused, require
from nnhal_conformance.small_models import SmallRequest

WHOLE = RequestArgument(DataLocation(1))
"""An argument that is a whole buffer, which is the second pool of its request."""


def allocate(held: Prepared, inputs: Any = (), outputs: Any = (), **fields: Any) -> device_pb2.AllocateResponse:
    """Allocate with roles, each (model, argument, probability)."""
    message = device_pb2.AllocateRequest(
        prepared_models=fields.pop("models", [held.handle]),
        input_roles=[_role(*each) for each in inputs],
        output_roles=[_role(*each) for each in outputs],
        desc=device_pb2.BufferDesc(**fields),
    )
    return offered(lambda: held.session.call(held.session.device.Allocate, message), "the framework stages values")


def _role(model: int, argument: int, probability: float = 1.0) -> device_pb2.BufferRole:
    return device_pb2.BufferRole(model_index=model, io_index=argument, probability=probability)


class DeviceBuffer:
    """A buffer for input 0 and for the output of a small model."""

    def __init__(self, held: Prepared, made: device_pb2.AllocateResponse | None = None, **fields: Any) -> None:
        """Allocate it, with fields of its description, or take over one that was allocated.

        Raises NotOfferedError if the device allocates none.
        """
        self.held = held
        self.made = made or self.of(held, **fields)
        self.size = held.small.bytes
        self.work = held.work()

    @classmethod
    def on(cls, device: Subject) -> DeviceBuffer:
        """Allocate one for a small model of its own."""
        return cls(device.prepare())

    def reading(self, token: int = 0, argument: RequestArgument = WHOLE, work: SmallRequest | None = None) -> Request:
        """Return a request that reads it, or another buffer, as input 0."""
        work, token = work or self.work, token or self.made.token
        return replace(work.request, inputs=(argument, *work.request.inputs[1:]), pools=(work.memory, token))

    def writing(self, token: int = 0, argument: RequestArgument = WHOLE, work: SmallRequest | None = None) -> Request:
        """Return a request that writes it, or another buffer."""
        work, token = work or self.work, token or self.made.token
        return replace(work.request, outputs=(argument,), pools=(work.memory, token))

    def fill(self, seed: int, dimensions: Dimensions = ()) -> None:
        """Copy the values of input 0 to it."""
        rows = self.held.small.of_rows(dimensions[0]) if dimensions else self.held.small
        self.copy_from(rows.values(seed)[0].tobytes(), dimensions)

    def require_output_in_it(self, work: SmallRequest | None = None) -> None:
        """Check that it holds the output of the request's inputs."""
        work = work or self.work
        raw = np.frombuffer(self.copy_to(work.small.bytes), np.uint8)
        open_pool(work.memory, writable=True).write(work.request.outputs[0].location.offset, raw)
        work.require_output()

    def require_values(self, seed: int) -> None:
        """Check that it holds what ``fill`` has copied to it."""
        expected = self.held.small.values(seed)[0].tobytes()
        require(self.copy_to(self.size) == expected, "other bytes", "the same bytes")

    def require_nothing(self, size: int = 0) -> None:
        """Check that it holds nothing."""
        refused(lambda: self.copy_to(size or self.size), FAILURE, what="copyTo of a buffer that holds nothing")

    def of(self, held: Prepared, **fields: Any) -> device_pb2.AllocateResponse:
        """Allocate another one."""
        try:
            made = allocate(held, [(0, 0)], [(0, 0)], **fields)
        except HalError as error:
            require(error.status == FAILURE, str(error), "a buffer or GENERAL_FAILURE")
            raise NotOfferedError(f"Allocate refuses ({error.message}): the framework stages values") from error
        require(made.buffer > 0 and made.token > 0, f"buffer {made.buffer}, token {made.token}", "both above 0")
        return made

    def copy_from(self, content: bytes, dimensions: Any = ()) -> object:
        """Fill it from memory."""
        memory = create_ashmem(len(content))
        open_pool(memory, writable=True).write(0, np.frombuffer(content, np.uint8))
        return self.copy_from_memory(memory, dimensions)

    def copy_from_memory(self, memory: Memory, dimensions: Any = ()) -> object:
        """Fill it from a pool."""
        session = self.held.session
        src = memory_to_wire(memory, session.link.issue)
        message = buffer_pb2.CopyFromRequest(buffer=self.made.buffer, src=src, dimensions=dimensions)
        return session.call(session.buffer.CopyFrom, message)

    def copy_to(self, size: int) -> bytes:
        """Read it."""
        memory = create_ashmem(size)
        self.copy_to_memory(memory)
        return open_pool(memory, writable=False).read(0, size).tobytes()

    def copy_to_memory(self, memory: Memory) -> object:
        """Copy it to a pool."""
        session = self.held.session
        dst = memory_to_wire(memory, session.link.issue)
        return session.call(session.buffer.CopyTo, buffer_pb2.CopyToRequest(buffer=self.made.buffer, dst=dst))

    def release(self) -> None:
        message = buffer_pb2.BufferServiceReleaseRequest(buffer=self.made.buffer)
        self.held.session.call(self.held.session.buffer.Release, message)
