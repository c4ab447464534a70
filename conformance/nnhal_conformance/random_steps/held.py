"""Objects that clients hold on a device, and allowed ends of calls: the small model for comparing answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.codec.memory import memory_to_wire
from nnhal.errors import HalError
from nnhal.fence import Fence, FenceState, Signal, create_fence
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import DataLocation, ErrorStatus, Memory, RequestArgument
from nnhal.v1 import buffer_pb2, burst_pb2, memory_pb2
from nnhal_conformance.channels import BurstChannel, LaunchChannel
from nnhal_conformance.channels import Launch as RawLaunch
from nnhal_conformance.device import Bound, Prepared
from nnhal_conformance.random_steps.models import is_endless
from nnhal_conformance.rule import FAILURE, INVALID, MISSED, BrokenRuleError, offered, require
from nnhal_conformance.rules.caching import CacheFiles
from nnhal_conformance.rules.pools import KINDS
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.small_models import SmallModel, SmallRequest

NONE = ErrorStatus.NONE
Statuses = frozenset[ErrorStatus]


def statuses(*of: ErrorStatus) -> Statuses:
    return frozenset(of)


def outcome(call: Callable[[], Any], allowed: Statuses, what: object, forbidden: str = "") -> tuple[ErrorStatus, Any]:
    """Make a call, and return its status and its answer.

    Raises BrokenRuleError for a status that is not allowed, or for a message that no device may have.
    """
    status, answer, said = NONE, None, "success"
    try:
        answer = call()
    except HalError as error:
        status, said = error.status, str(error)
        require(not forbidden or error.message != forbidden, f"{what}: a defect of the device ({error})", "none")
        require(bool(error.message), f"{what}: {status.name} without a message", "the reason")
    require(status in allowed, f"{what}: {said}", names_of(allowed))
    return status, answer


def names_of(allowed: Statuses) -> str:
    return " or ".join(each.name for each in sorted(allowed))


def filled(create: Callable[[int], Memory], values: Array) -> Memory:
    """Memory that holds values."""
    memory = create(values.nbytes)
    open_pool(memory, writable=True).write(0, values.reshape(-1).view(np.uint8))
    return memory


class Held:
    """Something that steps use. Its text is the expression that stands for it in a script of steps."""

    def __init__(self, client: Client) -> None:
        self.client, self.text, self.is_released = client, "", False

    @property
    def is_live(self) -> bool:
        """True until it is released or its session ends."""
        return self.client.is_open and not self.is_released

    def __repr__(self) -> str:
        return self.text


class Client(Held):
    """A session."""

    def __init__(self, session: DeviceSession) -> None:
        super().__init__(self)
        self.session, self.is_open = session, True
        self._launcher: LaunchChannel | None = None

    @property
    def launcher(self) -> LaunchChannel:
        """Its launch channel, which is opened when it is first used. Raises NotOfferedError."""
        self._launcher = self._launcher or LaunchChannel(self.session)
        return self._launcher


class Model(Held):
    """A prepared small model."""

    def __init__(self, client: Client, small: SmallModel, handle: int) -> None:
        super().__init__(client)
        self.small, self.prepared = small, Prepared(client.session, small, handle)

    def use(self) -> object:
        """Execute it. Raises HalError."""
        return self.prepared.execute(self.prepared.work().request)

    def release(self) -> None:
        self.prepared.release()


class Buffer(Held):
    """A buffer of the device, with what it holds."""

    def __init__(self, small: SmallModel, handle: int, token: int, roles: frozenset[tuple[Model, bool]]) -> None:
        """``roles`` are models, each with whether the buffer is written, as the output, or read, as the first input."""
        super().__init__(next(iter(roles))[0].client)
        require(handle > 0 and token > 0, f"buffer {handle}, token {token}", "both above 0")
        self.small, self.handle, self.token, self.roles = small, handle, token, roles
        self.content: Array | None = None
        """Its values; None if it is uninitialised."""
        self.is_known = True
        """True if that is certain: otherwise it holds anything, or nothing."""
        self.users: list[Launch] = []
        """Launches that use it and have not been settled."""

    def became(self, content: Array | None, is_known: bool = True) -> None:
        """Note what it holds."""
        self.content, self.is_known = content, is_known

    @property
    def readable(self) -> Statuses:
        """The statuses of a call that reads it and has no other fault."""
        if not self.is_known:
            return statuses(NONE, FAILURE)
        return statuses(NONE if self.content is not None else FAILURE)

    @property
    def is_small(self) -> bool:
        """True unless it holds values with which a model might exceed its type."""
        return self.content is None or float(np.abs(self.content.astype(np.float64)).max()) <= 100

    def copy_from(self, memory: Memory, dimensions: tuple[int, ...] = ()) -> object:
        """Fill it. Raises HalError."""
        message = buffer_pb2.CopyFromRequest(buffer=self.handle, src=self._wire(memory), dimensions=dimensions)
        return self.client.session.call(self.client.session.buffer.CopyFrom, message)

    def copy_to(self, size: int) -> Array:
        """Read it. Raises HalError."""
        memory = create_ashmem(size)
        message = buffer_pb2.CopyToRequest(buffer=self.handle, dst=self._wire(memory))
        self.client.session.call(self.client.session.buffer.CopyTo, message)
        return open_pool(memory, writable=False).read(0, size)

    def use(self) -> object:
        """Read it. Raises HalError."""
        return self.copy_to(self.small.bytes)

    def release(self) -> None:
        message = buffer_pb2.BufferServiceReleaseRequest(buffer=self.handle)
        self.client.session.call(self.client.session.buffer.Release, message)

    def _wire(self, memory: Memory) -> memory_pb2.Memory:
        return memory_to_wire(memory, self.client.session.link.issue)


@dataclass(frozen=True)
class Ending:
    """Allowed ends of an execution: some statuses, and this output if it succeeds and that is known."""

    allowed: Statuses
    output: Array | None = None


class Work(SmallRequest):
    """A request in memory of one kind, the first input and the output of which may lie in buffers of the device."""

    def __init__(self, model: Model, kind: str, source: Buffer | None = None, target: Buffer | None = None) -> None:
        size = self.bytes_of(model.small)
        super().__init__(model.small, KINDS[kind](size))
        self.model, self.kind, self.source, self.target = model, kind, source, target
        self.is_truncated = False
        self._size, self._before = size, np.empty(0, np.uint8)
        request = self.request
        whole = RequestArgument(DataLocation(1))
        if source is not None:
            request = replace(request, inputs=(whole, *request.inputs[1:]), pools=(self.memory, source.token))
        if target is not None:
            whole = RequestArgument(DataLocation(len(request.pools)))
            request = replace(request, outputs=(whole,), pools=(*request.pools, target.token))
        self.request = request
        self.fill()

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers that it uses."""
        return [buffer for buffer in (self.source, self.target) if buffer is not None]

    def fill(self, seed: int = 1) -> None:
        """Write inputs and paint the output, unless its file is gone."""
        if not self.is_truncated:
            super().fill(seed)
            self._before = self._pool.read(0, self._size)

    def ending(self, pending: frozenset[Buffer] = frozenset()) -> Ending:
        """Return how an execution must end by what buffers hold now. Those that are ``pending`` will hold something."""
        fits = all(buffer.is_live and (self.model, writes) in buffer.roles for buffer, writes in self._uses())
        if not fits or (self.source is not None and self.source is self.target):
            return Ending(statuses(INVALID, *(FAILURE for buffer in self.buffers if buffer.content is None)))
        allowed, values = statuses(NONE), list(self._values)
        if self.source is not None and self.source not in pending:
            allowed = self.source.readable
            if self.source.content is not None:
                values[0] = self.source.content
        if self.is_truncated:
            return Ending(allowed | {NONE, FAILURE, INVALID})
        if self.source is not None and (self.source in pending or not (self.source.is_known and self.source.is_small)):
            return Ending(allowed)
        if is_endless(self.small, values):
            return Ending(frozenset(MISSED) if NONE in allowed else allowed)
        return Ending(allowed, self.small.compute(values))

    def conclude(self, status: ErrorStatus, ending: Ending) -> None:
        """Check output and memory after an execution, and note what it did to its buffer."""
        output = ending.output
        if status is NONE and output is not None and self.target is None:
            at = self.small.mismatch(self._raw(), output)
            if at is not None:
                got, wanted = (array.reshape(-1)[at] for array in (self.small.array(self._raw()), output))
                raise BrokenRuleError(f"got output {got:g} of {self} at {at}, expected {wanted:g}")
        self._require_only_output_changed()
        if self.target is not None and (self.model, True) in self.target.roles:
            if status is NONE:
                self.target.became(output, is_known=output is not None)
            elif status is not INVALID:
                self.target.became(self.target.content, is_known=False)

    def __str__(self) -> str:
        return f"{self.small.name}"

    def _uses(self) -> list[tuple[Buffer, bool]]:
        found = ((self.source, False), (self.target, True))
        return [(buffer, writes) for buffer, writes in found if buffer is not None]

    def _require_only_output_changed(self) -> None:
        if self.is_truncated:
            return
        changed = self._pool.read(0, self._size) != self._before
        if self.target is None:
            changed[self._places[-1].offset :][: self.small.bytes] = False
        where = np.flatnonzero(changed)
        require(not len(where), f"{len(where)} bytes changed from byte {[*where[:1]]} of the memory of {self}", "none")


class Execution(Held):
    """A reusable execution of a request."""

    def __init__(self, work: Work, bound: Bound) -> None:
        super().__init__(work.model.client)
        self.work, self.bound = work, bound
        self.launch: Launch | None = None
        """Its last launch, if that was not settled."""
        self._channel: BurstChannel | None = None

    @property
    def channel(self) -> BurstChannel:
        """Its run channel, which is opened when it is first used. Raises NotOfferedError."""
        self._channel = self._channel or self.bound.run_channel()
        return self._channel

    def use(self) -> object:
        """Run it. Raises HalError."""
        return self.bound.run()

    def release(self) -> None:
        """Release it, which closes its run channel."""
        self.bound.release()
        if self._channel is not None:
            self._channel.channel.require_end()


class Burst(Held):
    """A burst, with requests whose memory it may have cached under tokens."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.client)
        self.model, self.channel = model, model.prepared.burst()
        self.works: dict[int, Work] = {}

    def use(self) -> object:
        """Have it forget memory, over gRPC. Raises HalError."""
        message = burst_pb2.ReleaseMemoryResourceRequest(burst=self.channel.handle, memory_identifier_token=1)
        return self.client.session.call(self.client.session.burst.ReleaseMemoryResource, message)

    def release(self) -> None:
        """Close its channel and release its handle. Raises NotOfferedError if only the former is possible."""
        session, message = self.client.session, burst_pb2.BurstServiceReleaseRequest(burst=self.channel.handle)
        self.is_released = True
        self.channel.channel.close()
        offered(lambda: session.call(session.burst.Release, message), "bursts are released by closing their channel")


class Gate(Held):
    """A fence of the client, which holds launches until it signals or fails."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.signal: Signal
        self.fence: Fence
        self.signal, self.fence = create_fence()

    @property
    def is_pending(self) -> bool:
        """True until it has ended."""
        return self.fence.state is FenceState.PENDING

    def end(self, well: bool) -> None:
        """Signal it, or have it fail."""
        if self.is_pending:
            (self.signal.send if well else self.signal.fail)()


class Launch(Held):
    """A launch that was accepted, the fences that it waits for, and the launches."""

    def __init__(self, work: Work, raw: RawLaunch, gates: list[Gate], after: list[Launch]) -> None:
        super().__init__(work.model.client)
        self.work, self.raw, self.gates, self.after = work, raw, gates, after
        self.has_succeeded = False
        for buffer in work.buffers:
            buffer.users.append(self)

    @property
    def is_doomed(self) -> bool:
        """True if something for which it waits has failed."""
        return any(gate.fence.state is FenceState.ERROR for gate in self.gates) or any(
            other.is_doomed or (other.is_released and not other.has_succeeded) for other in self.after
        )

    @property
    def is_held(self) -> bool:
        """True if it cannot have begun, since what it waits for is pending and has not failed."""
        waits = any(gate.is_pending for gate in self.gates) or any(other.is_held for other in self.after)
        return waits and not self.is_doomed and not self.is_released

    def settle(self) -> None:
        """Have all for which it waits end, wait for its own end, and check it."""
        if self.is_held and self.raw.fence is not None:
            has_ended = self.raw.fence.state is not FenceState.PENDING
            require(not has_ended, "the end of a launch before that of what it waits for", "its fence pending")
        for gate in self.gates:
            gate.end(well=True)
        for other in self.after:
            if not other.is_released:
                other.settle()
        self.is_released, is_doomed = True, self.is_doomed
        ending = Ending(statuses(FAILURE)) if is_doomed else self.work.ending()
        info = self.raw.end()
        status = ErrorStatus(info.error_status)
        what = f"a launch of {self.work} that ended with {status.name}"
        require(status in ending.allowed, f"{what} ({info.message})", names_of(ending.allowed))
        self.has_succeeded = status is NONE
        if self.raw.fence is not None:
            state = self.raw.fence.state
            require((state is FenceState.SIGNALLED) == self.has_succeeded, f"fence {state.name} of {what}", "the same")
        require(self.raw.info() == info, "another answer the second time", "always the same")
        for buffer in self.work.buffers:
            buffer.users.remove(self)
        self.work.conclude(status, ending)


class Cache(Held):
    """Files of a compilation that was saved."""

    def __init__(self, client: Client, small: SmallModel, files: CacheFiles, token: bytes) -> None:
        super().__init__(client)
        self.small, self.files, self.token = small, files, token
