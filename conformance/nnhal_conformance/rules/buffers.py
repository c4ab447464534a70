"""Device memory: buffers that the device owns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, RequestArgument
from nnhal.v1 import buffer_pb2, device_pb2, memory_pb2
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.rule import FAILURE, INVALID, NotOfferedError, offered, refused, require, rule
from nnhal_conformance.small_models import SHAPE

GROUP = "buffers"
_PAGE = "memory.md#where-it-lies"
_WHOLE = RequestArgument(DataLocation())


def _allocate(held: Prepared, inputs: Any = (), outputs: Any = (), **fields: Any) -> device_pb2.AllocateResponse:
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


class _Buffer:
    """A buffer for input 0 and for the output of a small model."""

    def __init__(self, device: Subject) -> None:
        """Raises NotOfferedError if the device allocates none."""
        self.held = device.prepare()
        self.made = self.of(self.held)
        self.size = self.held.small.bytes

    def of(self, held: Prepared) -> device_pb2.AllocateResponse:
        """Allocate another one."""
        try:
            made = _allocate(held, [(0, 0)], [(0, 0)])
        except HalError as error:
            require(error.status == FAILURE, str(error), "a buffer or GENERAL_FAILURE")
            raise NotOfferedError(f"Allocate refuses ({error.message}): the framework stages values") from error
        require(made.buffer > 0 and made.token > 0, f"buffer {made.buffer}, token {made.token}", "both above 0")
        return made

    def copy_from(self, content: bytes, dimensions: Any = ()) -> object:
        """Fill it from memory."""
        memory = create_ashmem(len(content))
        open_pool(memory, writable=True).write(0, np.frombuffer(content, np.uint8))
        src = self._wire(memory)
        message = buffer_pb2.CopyFromRequest(buffer=self.made.buffer, src=src, dimensions=dimensions)
        return self.held.session.call(self.held.session.buffer.CopyFrom, message)

    def copy_to(self, size: int) -> bytes:
        """Read it."""
        memory = create_ashmem(size)
        message = buffer_pb2.CopyToRequest(buffer=self.made.buffer, dst=self._wire(memory))
        self.held.session.call(self.held.session.buffer.CopyTo, message)
        return open_pool(memory, writable=False).read(0, size).tobytes()

    def _wire(self, memory: Any) -> memory_pb2.Memory:
        number = self.held.session.link.issue(memory.descriptor)
        return memory_pb2.Memory(ashmem=memory_pb2.Ashmem(descriptor_id=number, size=memory.size))


@rule(GROUP, _PAGE, "MD-16", "MD-28", "MD-29", "MD-38")
def copies(device: Subject) -> None:
    """A buffer holds what was copied to it."""
    buffer = _Buffer(device)
    content = bytes(range(buffer.size % 251)).ljust(buffer.size, b"\x07")
    buffer.copy_from(content)
    require(buffer.copy_to(buffer.size) == content, "other bytes", "those that were copied to it")
    buffer.copy_from(content[::-1], SHAPE)
    require(buffer.copy_to(buffer.size) == content[::-1], "other bytes", "those that were copied to it")


@rule(GROUP, _PAGE, "MD-47", "MD-38", "EX-14")
def runs(device: Subject) -> None:
    """A run reads a buffer, and another one writes it."""
    buffer = _Buffer(device)
    held, work = buffer.held, buffer.held.work()
    work.fill(4)
    buffer.copy_from(held.small.values(4)[0].tobytes())
    pools = (work.memory, buffer.made.token)
    whole = replace(_WHOLE, location=DataLocation(1))
    held.execute(replace(work.request, inputs=(whole, *work.request.inputs[1:]), pools=pools))
    work.require_output()
    held.execute(replace(work.request, outputs=(whole,), pools=pools))
    raw = np.frombuffer(buffer.copy_to(buffer.size), np.uint8)
    output = work.request.outputs[0].location
    open_pool(work.memory, writable=True).write(output.offset, raw)
    work.require_output()


@rule(GROUP, _PAGE, "MD-34", "MD-45", "MD-46")
def uninitialised(device: Subject) -> None:
    """Reading a buffer that holds nothing is GENERAL_FAILURE, for copies and runs; writing it then works."""
    buffer = _Buffer(device)
    held, work = buffer.held, buffer.held.work()
    work.fill()
    pools = (work.memory, buffer.made.token)
    whole = replace(_WHOLE, location=DataLocation(1))
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo")
    reading = replace(work.request, inputs=(whole, *work.request.inputs[1:]), pools=pools)
    refused(lambda: held.execute(reading), FAILURE, what="an execution")
    held.execute(replace(work.request, outputs=(whole,), pools=pools))
    buffer.copy_to(buffer.size)


@rule(GROUP, _PAGE, "MD-21", "MD-25", "MD-26", "MD-27", "MD-35", "MD-37", "MD-40")
def sizes(device: Subject) -> None:
    """Copies of another size or of other dimensions are INVALID_ARGUMENT; after a failed copy it holds nothing."""
    buffer = _Buffer(device)
    size, rows, columns = buffer.size, *SHAPE
    refused(lambda: buffer.copy_from(bytes(size // 2)), INVALID, what="half the size")
    refused(lambda: buffer.copy_from(bytes(2 * size)), INVALID, what="twice the size")
    for dimensions in ((rows,), (rows + 1, columns), (0, columns), (-1, columns)):
        refused(partial(buffer.copy_from, bytes(size), dimensions), INVALID, what=f"dimensions {dimensions}")
    refused(lambda: buffer.copy_to(size), FAILURE, what="copyTo after a copyFrom that failed")
    buffer.copy_from(bytes(size))
    refused(lambda: buffer.copy_to(size // 2), INVALID, what="copyTo of half the size")
    refused(lambda: buffer.copy_to(2 * size), INVALID, what="copyTo of twice the size")


@rule(GROUP, _PAGE, "MD-01", "MD-03", "MD-04", "MD-05", "MD-06", "MD-07", "MD-13", "MD-14", "MD-40")
def invalid(device: Subject) -> None:
    """Roles, models and dimensions that cannot be are INVALID_ARGUMENT or GENERAL_FAILURE."""
    buffer = _Buffer(device)
    held, role = buffer.held, (0, 0)
    cases: dict[str, dict[str, Any]] = {
        "no roles": {},
        "no models": {"models": [], "inputs": [role]},
        "a model that is not there": {"models": [2**62], "inputs": [role]},
        "model 1 of one": {"inputs": [(1, 0)]},
        "input 9999": {"inputs": [(0, 9999)]},
        "output 9999": {"outputs": [(0, 9999)]},
        "probability 10": {"inputs": [(0, 0, 10.0)]},
        "probability 0": {"outputs": [(0, 0, 0.0)]},
        "the same role twice": {"inputs": [role, role]},
        "dimensions without the last axis": {"inputs": [role], "dimensions": SHAPE[:1]},
        "other dimensions": {"inputs": [role], "dimensions": (SHAPE[0] + 1, SHAPE[1])},
        "negative dimensions": {"inputs": [role], "dimensions": (-1, SHAPE[1])},
    }
    for what, given in cases.items():
        refused(partial(_allocate, held, **given), INVALID, FAILURE, what=what)


@rule(GROUP, _PAGE, "MD-19", "MD-20", "MD-41", "MD-42", "MD-57", "MD-59", "RQ-10", "RQ-11", "RQ-12")
def tokens(device: Subject) -> None:
    """Tokens differ while buffers live; released, unknown or foreign ones and parts of buffers are INVALID_ARGUMENT."""
    buffer = _Buffer(device)
    held, work = buffer.held, buffer.held.work()
    buffer.copy_from(bytes(buffer.size))
    others = [buffer.of(held) for _ in range(3)]
    found = {each.token for each in (buffer.made, *others)}
    require(len(found) == 4, f"tokens {sorted(found)}", "4 that differ")
    whole = replace(_WHOLE, location=DataLocation(1))
    part = replace(_WHOLE, location=DataLocation(1, 0, buffer.size))

    def reading(token: int, argument: RequestArgument = whole, by: Prepared = held) -> object:
        inputs = (argument, *work.request.inputs[1:])
        return by.execute(replace(work.request, inputs=inputs, pools=(work.memory, token)))

    twin = device.prepare(session=held.session)
    release = buffer_pb2.BufferServiceReleaseRequest(buffer=others[0].buffer)
    held.session.call(held.session.buffer.Release, release)
    refused(lambda: reading(0), INVALID, what="token 0")
    refused(lambda: reading(2**62), INVALID, what="an unknown token")
    refused(lambda: reading(others[0].token), INVALID, what="the token of a released buffer")
    refused(lambda: reading(buffer.made.token, part), INVALID, what="a part of a buffer")
    refused(lambda: reading(buffer.made.token, by=twin), INVALID, what="a buffer of another prepared model")
    reading(buffer.made.token)


@rule(GROUP, "link.md#when-a-session-ends", "MD-61")
def bursts_and_end(device: Subject) -> None:
    """Buffers serve bursts and reusable executions, and end with their session."""
    buffer = _Buffer(device)
    held, work = buffer.held, buffer.held.work()
    whole = replace(_WHOLE, location=DataLocation(1))
    buffer.copy_from(held.small.values(2)[0].tobytes())
    pools = (work.memory, buffer.made.token)
    request = replace(work.request, inputs=(whole, *work.request.inputs[1:]), pools=pools)
    burst = held.burst()
    work.run(lambda: burst.execute(request, [0, 1]), 2)
    bound = held.bind(request)
    work.run(lambda: burst.run(bound), 2)
    held.session.close()
    other = _Buffer(device)
    refused(lambda: other.copy_to(other.size), FAILURE, what="a buffer that was just made")
