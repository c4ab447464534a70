"""Device memory: buffers that the device owns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, ErrorStatus, Request, RequestArgument
from nnhal.v1 import buffer_pb2, device_pb2, memory_pb2
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.rule import FAILURE, INVALID, NotOfferedError, offered, refused, require, rule
from nnhal_conformance.small_models import SHAPE
from nnhal_conformance.ways import ALL_RUNS, LAUNCHES, LaunchWay, RunWay, refused_run

GROUP = "buffers"
_PAGE = "memory.md#where-it-lies"
_WHOLE = RequestArgument(DataLocation(1))
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


class _Buffer:
    """A buffer for input 0 and for the output of a small model."""

    def __init__(self, device: Subject) -> None:
        """Raises NotOfferedError if the device allocates none."""
        self.held = device.prepare()
        self.made = self.of(self.held)
        self.size = self.held.small.bytes
        self.work = self.held.work()

    def reading(self, token: int = 0, argument: RequestArgument = _WHOLE) -> Request:
        """Return a request that reads it, or another buffer, as input 0."""
        request, token = self.work.request, token or self.made.token
        return replace(request, inputs=(argument, *request.inputs[1:]), pools=(self.work.memory, token))

    def writing(self, token: int = 0, argument: RequestArgument = _WHOLE) -> Request:
        """Return a request that writes it, or another buffer."""
        token = token or self.made.token
        return replace(self.work.request, outputs=(argument,), pools=(self.work.memory, token))

    def fill(self, seed: int) -> None:
        """Copy the values of input 0 to it."""
        self.copy_from(self.held.small.values(seed)[0].tobytes())

    def require_output_in_it(self) -> None:
        """Check that it holds the output of the request's inputs."""
        raw = np.frombuffer(self.copy_to(self.size), np.uint8)
        output = self.work.request.outputs[0].location
        open_pool(self.work.memory, writable=True).write(output.offset, raw)
        self.work.require_output()

    def of(self, held: Prepared) -> device_pb2.AllocateResponse:
        """Allocate another one."""
        try:
            made = allocate(held, [(0, 0)], [(0, 0)])
        except HalError as error:
            require(error.status == FAILURE, str(error), "a buffer or GENERAL_FAILURE")
            raise NotOfferedError(f"Allocate refuses ({error.message}): the framework stages values") from error
        require(made.buffer > 0 and made.token > 0, f"buffer {made.buffer}, token {made.token}", "both above 0")
        return made

    def copy_from(self, content: bytes, dimensions: Any = ()) -> object:
        """Fill it from memory."""
        memory = create_ashmem(len(content))
        open_pool(memory, writable=True).write(0, np.frombuffer(content, np.uint8))
        src = self.wire(memory)
        message = buffer_pb2.CopyFromRequest(buffer=self.made.buffer, src=src, dimensions=dimensions)
        return self.held.session.call(self.held.session.buffer.CopyFrom, message)

    def copy_to(self, size: int) -> bytes:
        """Read it."""
        memory = create_ashmem(size)
        message = buffer_pb2.CopyToRequest(buffer=self.made.buffer, dst=self.wire(memory))
        self.held.session.call(self.held.session.buffer.CopyTo, message)
        return open_pool(memory, writable=False).read(0, size).tobytes()

    def wire(self, memory: Any) -> memory_pb2.Memory:
        """Return ashmem as its session's calls name it."""
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


@rule(GROUP, _PAGE, "MD-47", "MD-38", "EX-14", over=ALL_RUNS)
def runs(device: Subject, way: RunWay) -> None:
    """A run reads a buffer, and another one writes it."""
    buffer = _Buffer(device)
    read, write = way(buffer.held, buffer.reading()), way(buffer.held, buffer.writing())
    for seed in (4, 5):
        buffer.work.fill(seed)
        buffer.fill(seed)
        read()
        buffer.work.require_output()
        buffer.work.fill(seed)
        write()
        buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-34", "MD-45", "MD-46", "MD-47", over=ALL_RUNS)
def uninitialised(device: Subject, way: RunWay) -> None:
    """Reading a buffer that holds nothing is GENERAL_FAILURE, for copies and runs; writing it then works."""
    buffer = _Buffer(device)
    buffer.work.fill()
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo")
    refused_run(way, buffer.held, buffer.reading(), FAILURE, what="an execution")
    require(buffer.work.is_untouched, "an output", "nothing written")
    way(buffer.held, buffer.writing())()
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "RE-06", "MD-45", "MD-46", "MD-47")
def changes(device: Subject) -> None:
    """A reusable execution sees what its buffers hold at each run, also after many runs alike."""
    buffer = _Buffer(device)
    held, work = buffer.held, buffer.work
    read, write = held.bind(buffer.reading()), held.bind(buffer.writing())
    for _ in range(2):
        refused(read.run, FAILURE, what="a run that reads nothing")
        for seed in range(4):
            work.fill(seed)
            buffer.fill(seed)
            read.run()
            work.require_output()
        write.run()
        refused(lambda: buffer.copy_from(b"x"), INVALID, what="a copy of 1 byte")


@rule(GROUP, _PAGE, "MD-43", "MD-44", over=ALL_RUNS)
def roles(device: Subject, way: RunWay) -> None:
    """A buffer is used in the roles that it was allocated for only."""
    buffer = _Buffer(device)
    held = buffer.held
    source, target = allocate(held, [(0, 0)]).token, allocate(held, (), [(0, 0)]).token
    refused_run(way, held, buffer.writing(source), INVALID, what="a buffer for an input, as output")
    refused_run(way, held, buffer.reading(target), INVALID, what="a buffer for the output, as input")
    buffer.work.fill()
    way(held, buffer.writing(target))()


@rule(GROUP, _PAGE, "MD-48", over=ALL_RUNS)
def input_and_output(device: Subject, way: RunWay) -> None:
    """A buffer that is input and output of one request is INVALID_ARGUMENT, and keeps what it holds."""
    buffer = _Buffer(device)
    buffer.fill(1)
    both = replace(buffer.reading(), outputs=(_WHOLE,))
    refused_run(way, buffer.held, both, INVALID)
    require(buffer.copy_to(buffer.size) == buffer.held.small.values(1)[0].tobytes(), "other bytes", "the same bytes")


@rule(GROUP, _PAGE, "MD-57", "RQ-10", over=ALL_RUNS)
def parts(device: Subject, way: RunWay) -> None:
    """An argument that is a part of a buffer is INVALID_ARGUMENT."""
    buffer = _Buffer(device)
    buffer.fill(1)
    for numbers in ((1, 0, 0), (0, 1, 0), (0, buffer.size, 0), (0, 0, 1)):
        part = RequestArgument(DataLocation(1, *numbers))
        for what, request in {"read": buffer.reading(argument=part), "written": buffer.writing(argument=part)}.items():
            refused_run(way, buffer.held, request, INVALID, what=f"{numbers}, {what}")


@rule(GROUP, "link.md#a-session", "MD-41", over=ALL_RUNS)
def of_others(device: Subject, way: RunWay) -> None:
    """The buffer of another session is unknown, and keeps what it holds."""
    theirs, buffer = _Buffer(device), _Buffer(device)
    theirs.fill(1)
    session, memory = buffer.held.session, create_ashmem(buffer.size)
    for what, request in {
        "read": buffer.reading(theirs.made.token),
        "written": buffer.writing(theirs.made.token),
    }.items():
        refused_run(way, buffer.held, request, INVALID, what=what)
    wire = buffer.wire(memory)
    copy_to = buffer_pb2.CopyToRequest(buffer=theirs.made.buffer, dst=wire)
    copy_from = buffer_pb2.CopyFromRequest(buffer=theirs.made.buffer, src=wire)
    refused(lambda: session.call(session.buffer.CopyTo, copy_to), INVALID, what="copyTo")
    refused(lambda: session.call(session.buffer.CopyFrom, copy_from), INVALID, what="copyFrom")
    session.call(session.buffer.Release, buffer_pb2.BufferServiceReleaseRequest(buffer=theirs.made.buffer))
    require(theirs.copy_to(theirs.size) == theirs.held.small.values(1)[0].tobytes(), "other bytes", "the same bytes")


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


def invalid_allocations() -> dict[str, dict[str, Any]]:
    """Roles, models and dimensions that no buffer may have."""
    rows, columns = SHAPE
    wrong_roles: dict[str, Any] = {
        "model 1 of one": [(1, 0)],
        "model -1": [(-1, 0)],
        "argument 9999": [(0, 9999)],
        "argument -1": [(0, -1)],
        **{f"probability {p}": [(0, 0, p)] for p in (10.0, 0.0, -0.5, 1.5, float("nan"), float("inf"))},
        "the same role twice": [(0, 0), (0, 0)],
    }
    wrong_dimensions = ((rows,), (*SHAPE, 1), (rows + 1, columns), (rows, columns + 1), (-1, columns), (rows, -(2**31)))
    cases: dict[str, dict[str, Any]] = {"no roles": {}, "nothing": {"models": []}}
    for side in ("inputs", "outputs"):
        cases |= {f"{what}, {side}": {side: given} for what, given in wrong_roles.items()}
        cases |= {f"{given}, {side}": {side: [(0, 0)], "dimensions": given} for given in wrong_dimensions}
        cases[f"no models, {side}"] = {"models": [], side: [(0, 0)]}
    return cases


@rule(GROUP, _PAGE, "MD-01", "MD-02", "MD-03", "MD-04", "MD-05", "MD-06", "MD-07", "MD-13", "MD-14", "MD-40")
def invalid(device: Subject) -> None:
    """Roles, models and dimensions that cannot be are INVALID_ARGUMENT."""
    buffer = _Buffer(device)
    held, foreign = buffer.held, device.prepare()
    cases = invalid_allocations()
    for number in (0, -1, foreign.handle, 2**62):
        for models in ([number], [held.handle, number], [number, held.handle]):
            cases[f"models {models}"] = {"models": models, "inputs": [(0, 0)]}
    for what, case in cases.items():
        refused(partial(allocate, held, **case), INVALID, what=what)


@rule(GROUP, _PAGE, "MD-19", "MD-20", "MD-41", "MD-42", "MD-59", "RQ-11", "RQ-12", over=ALL_RUNS)
def tokens(device: Subject, way: RunWay) -> None:
    """Tokens differ while buffers live. Released and unknown ones are INVALID_ARGUMENT, as are those of another
    preparation of the model.
    """
    buffer = _Buffer(device)
    held = buffer.held
    buffer.fill(1)
    others = [buffer.of(held) for _ in range(3)]
    found = {each.token for each in (buffer.made, *others)}
    require(len(found) == 4, f"tokens {sorted(found)}", "4 that differ")
    bound = held.bind(buffer.writing(others[0].token))
    twin = device.prepare(session=held.session)
    for _ in range(2):
        release = buffer_pb2.BufferServiceReleaseRequest(buffer=others[0].buffer)
        held.session.call(held.session.buffer.Release, release)
    refused(bound.run, INVALID, what="a reusable execution with a released buffer")
    for what, token, by in (
        ("token -1", -1, held),
        ("an unknown token", 2**62, held),
        ("the token of a released buffer", others[0].token, held),
        ("a buffer of another prepared model", buffer.made.token, twin),
    ):
        for request in (buffer.reading(token), buffer.writing(token)):
            refused_run(way, by, request, INVALID, what=what)
    way(held, buffer.reading())()


@rule(GROUP, _PAGE, "MD-61")
def cached_in_bursts(device: Subject) -> None:
    """Memory tokens of device buffers are ignored in bursts."""
    buffer = _Buffer(device)
    burst = buffer.held.burst()
    buffer.fill(2)
    for memory_tokens in ([-1, -1], [0, 1], [5, 5], [7, 7]):
        buffer.work.run(partial(burst.execute, buffer.reading(), memory_tokens), 2)


@rule(GROUP, _PAGE, "MD-62", over=LAUNCHES)
def refused_at_once(device: Subject, launch: LaunchWay) -> None:
    """A launch with buffers that it cannot use is refused, though it would wait for fences."""
    buffer = _Buffer(device)
    twin = device.prepare(session=buffer.held.session)
    foreign = buffer.of(twin).token
    _, pending = create_fence()
    cases: dict[str, tuple[Request, ErrorStatus]] = {
        "an empty buffer": (buffer.reading(), FAILURE),
        "a buffer of another preparation": (buffer.reading(foreign), INVALID),
        "such a buffer as output": (buffer.writing(foreign), INVALID),
        "one buffer as input and output": (replace(buffer.reading(), outputs=(_WHOLE,)), INVALID),
    }
    waiting = [pending.descriptor]
    for what, (request, status) in cases.items():
        refused_run(launch, buffer.held, request, status, what=what, wait_for=waiting)


@rule(GROUP, _PAGE, "MD-62", "FC-12", over=LAUNCHES)
def launched(device: Subject, launch: LaunchWay) -> None:
    """The output of a launch is in its buffer when the fence signals, and may be read by a launch behind it."""
    buffer = _Buffer(device)
    signal, pending = create_fence()
    buffer.work.fill(1)
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    assert writing.fence is not None
    reading = launch(buffer.held, buffer.reading())([writing.fence.descriptor])
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo before the launch has begun")
    require(buffer.work.is_untouched, "an output before the fence has signalled", "nothing written")
    signal.send()
    writing.require_success()
    reading.require_success()
    require(not buffer.work.is_untouched, "nothing written", "the output of the launch behind it")
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-55", "MD-62", "FC-12", over=LAUNCHES)
def never_launched(device: Subject, launch: LaunchWay) -> None:
    """If a fence fails, the launch and those behind it do not run, and their output buffers hold nothing."""
    buffer = _Buffer(device)
    buffer.fill(1)
    signal, pending = create_fence()
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    require(buffer.copy_to(buffer.size) == buffer.held.small.values(1)[0].tobytes(), "other bytes", "the same bytes")
    signal.fail()
    writing.require_error(FAILURE)
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo")


@rule(GROUP, _PAGE, "MD-62", over=LAUNCHES)
def read_too_early(device: Subject, launch: LaunchWay) -> None:
    """A launch that reads a buffer before the one that writes it has ended fails; the other one goes on."""
    buffer = _Buffer(device)
    signal, pending = create_fence()
    buffer.work.fill(1)
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    launch(buffer.held, buffer.reading())().require_error(FAILURE)
    signal.send()
    writing.require_success()
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-58", over=LAUNCHES)
def released_while_used(device: Subject, launch: LaunchWay) -> None:
    """A buffer that is released while a launch uses it still serves it."""
    buffer = _Buffer(device)
    session = buffer.held.session
    buffer.work.fill(1)
    buffer.fill(1)
    signal, pending = create_fence()
    reading = launch(buffer.held, buffer.reading())([pending.descriptor])
    session.call(session.buffer.Release, buffer_pb2.BufferServiceReleaseRequest(buffer=buffer.made.buffer))
    refused(lambda: buffer.copy_to(buffer.size), INVALID, what="copyTo of a released buffer")
    signal.send()
    reading.require_success()
    buffer.work.require_output()


@rule(GROUP, "link.md#when-a-session-ends")
def end(device: Subject) -> None:
    """Buffers end with their session, and new ones hold nothing of them."""
    buffer = _Buffer(device)
    buffer.fill(2)
    buffer.held.session.close()
    other = _Buffer(device)
    refused(lambda: other.copy_to(other.size), FAILURE, what="a buffer that was just made")
