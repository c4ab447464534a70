"""IBurst from afar, over its channel."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from google.protobuf.message import DecodeError

from nnhal.codec import copies_from_wire, request_to_wire, span_from_wire
from nnhal.errors import DeadObjectError, HalError, TransportError, general_failure
from nnhal.fence import Fence
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.remote.answers import checked_result, require_span, require_staging, stated_by_request
from nnhal.remote.calls import Calls
from nnhal.remote.config import bounded_config_to_wire
from nnhal.remote.execution import RemoteExecution, burst_run
from nnhal.remote.identifiers import MemoryIdentifiers
from nnhal.types import NO_DEADLINE, NO_SPAN, Copy, ErrorStatus, ExecutionConfig, ExecutionResult, Request, Span
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2 as wire

_PLAIN = ExecutionConfig()


class BurstOutcome(NamedTuple):
    """What came out of an execution, what the device had to copy for it, and when, where the execution measures."""

    result: ExecutionResult
    staged_bytes: int = 0
    staging_ns: int = 0
    span: Span = NO_SPAN
    copies: tuple[Copy, ...] = ()


class RemoteBurst:
    """A burst of this session. One execution at a time: a second one is refused with GENERAL_FAILURE."""

    def __init__(self, calls: Calls, handle: int, channel: Channel, outputs: Sequence[Dimensions] = ()) -> None:
        """``outputs`` are the dimensions of the model's outputs, where the model is known."""
        self._calls = calls
        self._channel = channel
        self._outputs = outputs
        self._identifiers = MemoryIdentifiers()
        self._busy = threading.Lock()
        self._last: tuple[bytes, Sequence[Dimensions], BurstOutcome] = (b"", (), BurstOutcome(ExecutionResult()))
        self.handle = handle

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the channel, both ways."""
        return self._channel.bytes_sent + self._channel.bytes_received

    def run(self, execution: RemoteExecution, deadline_ns: int = NO_DEADLINE) -> BurstOutcome:
        """Run a reusable execution of the burst's prepared model.

        Raises HalError where the device refuses or answers nonsense, DeadObjectError where it is gone.
        """
        if deadline_ns == NO_DEADLINE:
            return self._outcome(self._exchange(execution.run_without_deadline), execution.outputs)
        return self._outcome(self._exchange(burst_run(execution.handle, deadline_ns)), execution.outputs)

    def execute(
        self,
        request: Request,
        tokens: Sequence[int] | None = None,
        config: ExecutionConfig = _PLAIN,
        deadline_ns: int = NO_DEADLINE,
    ) -> BurstOutcome:
        """executeSynchronouslyWithConfig. Raises as ``run``.

        ``tokens`` name the request's pools, -1 those without identity. Without them the burst gives each memory a name
        of its own, and has the device forget it when nobody here holds the memory any more. One burst is to be used in
        one of the two ways only.
        """
        arguments = wire.BurstServiceExecuteSynchronouslyWithConfigRequest(
            request=request_to_wire(request, self._calls.issue),
            memory_identifier_tokens=self._identifiers.of(request.pools) if tokens is None else tokens,
            config=bounded_config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        answer = self._exchange(wire.BurstCall(execute_with_config=arguments).SerializeToString())
        return self._outcome(answer, stated_by_request(request, self._outputs))

    def execute_fenced(self, request: Request, wait_for: Sequence[Fence] = ()) -> NoReturn:
        """What every kind of execution has, and a burst has not: GENERAL_FAILURE (contract row BU-15)."""
        general_failure(f"{self._calls.place}: a burst launches nothing; expected a prepared model or an execution")

    def release_memory_resource(self, token: int) -> None:
        """releaseMemoryResource."""
        self._parse(self._exchange(_release(token)))

    def close(self) -> None:
        """Close the channel; that releases the burst over there."""
        self._channel.close()

    def _exchange(self, message: bytes) -> bytes:
        if not self._busy.acquire(False):
            general_failure("the burst runs an execution already; one at a time is allowed")
        try:
            if self._identifiers.lost:
                self._release_lost()
            self._channel.send(message)
            return self._channel.receive()
        except ChannelClosedError as error:
            raise DeadObjectError(f"{self._calls.place}: {error}") from error
        except ProtocolError as error:
            raise TransportError(f"{self._calls.place}: {error}") from error
        finally:
            self._busy.release()

    def _release_lost(self) -> None:
        """Have the device forget the memory that nobody here holds any more."""
        for token in self._identifiers.take_lost():
            self._channel.send(_release(token))
            with suppress(HalError):  # nothing can be done about it, and the next call has no part in it
                self._parse(self._channel.receive())

    def _outcome(self, answer: bytes, stated: Sequence[Dimensions]) -> BurstOutcome:
        # Answers without timing are mostly the same. Shapes that were right for one execution may be wrong for another.
        message, known, outcome = self._last
        if answer == message and (stated is known or not outcome.result.output_shapes):
            return outcome
        outcome = self._decode(answer, stated)
        self._last = (answer, stated, outcome)
        return outcome

    def _decode(self, message: bytes, stated: Sequence[Dimensions]) -> BurstOutcome:
        answer = self._parse(message)
        result, staging = checked_result(answer.result, stated, self._calls.place), answer.staging
        span, copies = span_from_wire(answer.span), copies_from_wire(staging.copies)
        require_staging(staging.bytes, staging.duration_ns, copies, self._calls.place)
        require_span(span, self._calls.place)
        return BurstOutcome(result, staging.bytes, staging.duration_ns, span, copies)

    def _parse(self, message: bytes) -> wire.BurstAnswer:
        try:
            answer = wire.BurstAnswer.FromString(message)
        except DecodeError as error:
            raise TransportError(f"{self._calls.place}: {len(message)} bytes, no BurstAnswer") from error
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return answer


def _release(token: int) -> bytes:
    arguments = wire.ReleaseMemoryResourceRequest(memory_identifier_token=token)
    return wire.BurstCall(release_memory_resource=arguments).SerializeToString()
