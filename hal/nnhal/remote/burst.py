"""The proxy of a device's IBurst, over its channel."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from google.protobuf.message import DecodeError

from nnhal.codec import copies_from_wire, request_to_wire, span_from_wire
from nnhal.codec.lengths import Lengths
from nnhal.errors import DeadObjectError, HalError, TransportError, general_failure
from nnhal.fence import Fence
from nnhal.injected import injected_faults_of
from nnhal.link import CallChannel, ChannelClosedError, ProtocolError, Traffic
from nnhal.remote.answers import checked_result, request_dimensions, require_span, require_staging
from nnhal.remote.calls import Calls
from nnhal.remote.config import bounded_config_to_wire
from nnhal.remote.execution import RemoteExecution, burst_run
from nnhal.remote.identifiers import MemoryIdentifiers
from nnhal.types import NO_DEADLINE, NO_SPAN, Copy, ErrorStatus, ExecutionConfig, ExecutionResult, Request, Span
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2 as wire

_PLAIN = ExecutionConfig()


class BurstOutcome(NamedTuple):
    """The result of an execution on a burst, and what the device had to copy for it."""

    result: ExecutionResult
    """The result of the execution."""
    staged_bytes: int = 0
    """Bytes that the device had to copy."""
    staging_ns: int = 0
    """The time that the copying took."""
    span: Span = NO_SPAN
    """When the device worked, if the execution measures."""
    copies: tuple[Copy, ...] = ()
    """When the device copied, if the execution measures."""


class RemoteBurst:
    """A burst of this session. It runs one execution at a time; a second one is refused with GENERAL_FAILURE."""

    def __init__(self, calls: Calls, handle: int, channel: CallChannel, outputs: Sequence[Dimensions] = ()) -> None:
        """Take over ``channel``. ``outputs`` are the dimensions of the model's outputs, if the model is known."""
        self._calls = calls
        self._channel = channel
        self._outputs = outputs
        self._identifiers = MemoryIdentifiers()
        self._busy = threading.Lock()
        self._last: tuple[bytes | None, Sequence[Dimensions], BurstOutcome] = (
            None,
            (),
            BurstOutcome(ExecutionResult()),
        )
        self.handle = handle
        self.is_over = False
        """True if the channel has ended or ``stop`` was called: another burst has to be configured for further runs."""

    @property
    def traffic(self) -> Traffic:
        """Bytes that went over the channel; other channels may count there too."""
        return self._channel.traffic

    @traffic.setter
    def traffic(self, shared: Traffic) -> None:
        self._channel.traffic = shared

    def run(self, execution: RemoteExecution, deadline_ns: int = NO_DEADLINE) -> BurstOutcome:
        """Run a reusable execution of the burst's prepared model.

        Raises HalError if the device refuses or its answer is invalid, DeadObjectError if the device is gone.
        """
        self.start(execution, deadline_ns)
        return self.finish(execution)

    def start(self, execution: RemoteExecution, deadline_ns: int = NO_DEADLINE, lengths: Lengths = ()) -> None:
        """Begin what ``run`` does, and return without the answer, which ``finish`` takes. Raises as ``run``.

        ``lengths`` are the dimensions of inputs in this run, which the device must have agreed to take.
        """
        is_plain = deadline_ns == NO_DEADLINE and not lengths
        self._send(execution.run_without_deadline if is_plain else burst_run(execution.handle, deadline_ns, lengths))

    def fileno(self) -> int:
        """The descriptor of the channel, which can be read when the answer to ``start`` has come."""
        return self._channel.fileno()

    def finish(self, execution: RemoteExecution) -> BurstOutcome:
        """Wait for the answer to ``start``. Raises as ``run``."""
        try:
            answer = self._channel.receive()
        except (ChannelClosedError, ProtocolError) as error:
            raise self._failure(error) from error
        finally:
            self._busy.release()
        message, known, outcome = self._last
        if answer == message and known is execution.outputs:
            return outcome
        return self._outcome(answer, execution.outputs)

    def execute(
        self,
        request: Request,
        tokens: Sequence[int] | None = None,
        config: ExecutionConfig = _PLAIN,
        deadline_ns: int = NO_DEADLINE,
    ) -> BurstOutcome:
        """Execute a request (executeSynchronouslyWithConfig). Raises the same errors as ``run``.

        ``tokens`` name the request's pools; -1 stands for a pool that the device is not to cache. Without ``tokens``
        the burst gives each memory a token of its own, and has the device forget it once this process no longer holds
        the memory. Use a burst in one of the two ways only.
        """
        arguments = wire.BurstServiceExecuteSynchronouslyWithConfigRequest(
            request=request_to_wire(request, self._calls.issue),
            memory_identifier_tokens=self._identifiers.of(request.pools) if tokens is None else tokens,
            config=bounded_config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        answer = self._exchange(wire.BurstCall(execute_with_config=arguments).SerializeToString())
        return self._outcome(answer, request_dimensions(request, self._outputs))

    def execute_fenced(self, request: Request, wait_for: Sequence[Fence] = ()) -> NoReturn:
        """Refuse with GENERAL_FAILURE: a burst has no fenced executions (contract row BU-15)."""
        general_failure(f"{self._calls.place}: a burst cannot launch; expected a prepared model or an execution")

    def release_memory_resource(self, token: int) -> None:
        """Have the device forget memory that it cached under a token (releaseMemoryResource)."""
        self._parse(self._exchange(_release(token)))

    def stop(self) -> None:
        """Have the device end the run under way, if there is one, in any thread. Its answer still comes."""
        self.is_over = True
        self._channel.end_sending()

    def close(self) -> None:
        """Close the channel, which releases the burst on the device."""
        self._channel.close()

    def _exchange(self, message: bytes) -> bytes:
        self._send(message)
        try:
            return self._channel.receive()
        except (ChannelClosedError, ProtocolError) as error:
            raise self._failure(error) from error
        finally:
            self._busy.release()

    def _send(self, message: bytes) -> None:
        """Send a call; the burst is busy until its answer is received, unless this raises."""
        if not self._busy.acquire(False):
            general_failure("the burst runs an execution already; one at a time is allowed")
        try:
            if self._identifiers.lost:
                self._release_lost()
            self._channel.send(message)
        except BaseException as error:
            self._busy.release()
            if isinstance(error, ChannelClosedError | ProtocolError):
                raise self._failure(error) from error
            raise

    def _failure(self, error: ChannelClosedError | ProtocolError) -> TransportError:
        self.is_over = True
        kind = DeadObjectError if isinstance(error, ChannelClosedError) else TransportError
        return kind(f"{self._calls.place}: {error}")

    def _release_lost(self) -> None:
        """Have the device forget the memory that this process no longer holds."""
        for token in self._identifiers.take_lost():
            self._channel.send(_release(token))
            with suppress(HalError):  # not an error of the next call, whose caller could do nothing about it
                self._parse(self._channel.receive())

    def _outcome(self, answer: bytes, outputs: Sequence[Dimensions]) -> BurstOutcome:
        # Answers without timing are mostly equal, so that the last one is kept decoded. Its shapes must be checked
        # again, since shapes that were right for one execution may be wrong for another.
        message, known, outcome = self._last
        if answer == message and (outputs is known or not outcome.result.output_shapes):
            return outcome
        outcome = self._decode(answer, outputs)
        self._last = (answer, outputs, outcome)
        return outcome

    def _decode(self, message: bytes, outputs: Sequence[Dimensions]) -> BurstOutcome:
        return checked_outcome(self._parse(message), outputs, self._calls.place)

    def _parse(self, message: bytes) -> wire.BurstAnswer:
        try:
            answer = wire.BurstAnswer.FromString(message)
        except DecodeError as error:
            raise TransportError(f"{self._calls.place}: {len(message)} bytes that are not a BurstAnswer") from error
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return answer


def checked_outcome(answer: wire.BurstAnswer, outputs: Sequence[Dimensions], place: str) -> BurstOutcome:
    """Check and decode the answer to an execution that has succeeded. Raises GENERAL_FAILURE if it is invalid.

    ``outputs`` are the dimensions that model and request give; ``place`` names the device in messages.
    """
    staging = answer.staging
    span, copies = span_from_wire(answer.span), copies_from_wire(staging.copies)
    try:
        result = checked_result(answer.result, outputs, place)
    except HalError as error:
        raise HalError(error.status, error.message + injected_faults_of(copies)) from error
    require_staging(staging.bytes, staging.duration_ns, copies, place)
    require_span(span, place)
    return BurstOutcome(result, staging.bytes, staging.duration_ns, span, copies)


def _release(token: int) -> bytes:
    arguments = wire.ReleaseMemoryResourceRequest(memory_identifier_token=token)
    return wire.BurstCall(release_memory_resource=arguments).SerializeToString()
