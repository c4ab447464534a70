"""The datagrams of bursts, run channels and wired chains, as the device reads and writes them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from nnhal.codec import nanoseconds, result_to_wire, span_to_wire, staging_to_wire
from nnhal.codec.lengths import Lengths, lengths_from_wire
from nnhal.errors import HalError, invalid_argument
from nnhal.link import ProtocolError
from nnhal.link.numbers import number_field
from nnhal.types import ErrorStatus, ExecutionResult
from nnhal.v1 import burst_pb2, chain_pb2, types_pb2
from nnhal_devices.host.memory.staging import NO_STAGING, Staging
from nnhal_devices.host.runs.run_results import SUCCESS

_MAX_ERROR_CHARACTERS = 2000
_SUCCESS_ANSWER = burst_pb2.BurstAnswer(result=result_to_wire(SUCCESS)).SerializeToString()


def parse_call(message: bytes) -> burst_pb2.BurstCall:
    """Decode a call. Raises ProtocolError if the message is malformed."""
    try:
        return burst_pb2.BurstCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no BurstCall") from error


def encode_answer(result: ExecutionResult, staging: Staging) -> bytes:
    """Encode the answer to a call that has succeeded."""
    if result is SUCCESS and staging is NO_STAGING:
        return _SUCCESS_ANSWER
    return answer_of(result, staging).SerializeToString()


def encode_error(error: HalError) -> bytes:
    """Encode the answer to a call that has failed."""
    return error_answer(error.status, error.message).SerializeToString()


def encode_refusal(message: str) -> bytes:
    """Encode the answer to a datagram that is no valid call."""
    return encode_error(HalError(ErrorStatus.INVALID_ARGUMENT, message))


def answer_of(result: ExecutionResult, staging: Staging) -> burst_pb2.BurstAnswer:
    """Return the answer to a call that has succeeded."""
    return burst_pb2.BurstAnswer(
        result=result_to_wire(result),
        staging=staging_to_wire(staging.bytes, staging.duration_ns, staging.measured_copies),
        span=span_to_wire(staging.span),
    )


def error_answer(status: ErrorStatus, message: str) -> burst_pb2.BurstAnswer:
    """Return the answer to a call that has failed."""
    return burst_pb2.BurstAnswer(
        status=types_pb2.ErrorStatus.ValueType(status), message=message[:_MAX_ERROR_CHARACTERS]
    )


class AnswerEncoder:
    """Encodes the answers on one channel. An execution whose runs end alike has one result, which is encoded once."""

    def __init__(self) -> None:
        self._last = (SUCCESS, _SUCCESS_ANSWER)

    def __call__(self, result: ExecutionResult, staging: Staging) -> bytes:
        """Encode the answer to a call that has succeeded."""
        if staging is not NO_STAGING:
            return encode_answer(result, staging)
        last, answer = self._last
        if result is not last:
            answer = encode_answer(result, staging)
            self._last = (result, answer)
        return answer


class RunCalls:
    """Reads the calls of a process that may run one execution. Equal calls, which are the rule, are parsed once."""

    def __init__(self, handle: int) -> None:
        """``handle`` is that of the execution."""
        self._handle = handle
        self._last_message = b""
        self._last_deadline_ns = 0
        self.lengths: Lengths = ()
        """Those that the last call gives: one object as long as calls are equal."""

    def deadline_of(self, message: bytes) -> int:
        """Return the deadline of a call. Raises INVALID_ARGUMENT for any other call, ProtocolError if malformed."""
        if message != self._last_message:
            self._last_deadline_ns = self._parse(message)
            self._last_message = message
        return self._last_deadline_ns

    def _parse(self, message: bytes) -> int:
        call = parse_call(message)
        kind = call.WhichOneof("call")
        if kind is None:
            raise ProtocolError("a BurstCall without a call, expected run")
        if kind != "run":
            invalid_argument(f"got {kind} on a run channel, expected run")
        if call.run.execution != self._handle:
            invalid_argument(f"got execution {call.run.execution}, expected {self._handle}, which the channel is for")
        self.lengths = lengths_from_wire(call.run.lengths) if call.run.lengths else ()
        return nanoseconds(call.run, "deadline_ns")


class Gathering:
    """Collects one ring from each of several bells, run after run. Safe to use from several threads."""

    def __init__(self, bells: int) -> None:
        self._lock = threading.Lock()
        self._bells = bells
        self._rings: dict[int, bytes] = {}

    def add(self, bell: int, ring: bytes) -> Sequence[bytes]:
        """Add what a bell has rung; return all rings of the run if it was the last one, else none.

        Raises ProtocolError if the bell has rung already: a chain has one run at a time.
        """
        if self._bells == 1:
            return (ring,)
        with self._lock:
            if bell in self._rings:
                raise ProtocolError("a bell rang twice in one run")
            self._rings[bell] = ring
            if len(self._rings) < self._bells:
                return ()
            rings, self._rings = self._rings, {}
        return tuple(rings.values())


def parse_rings(messages: Sequence[bytes]) -> chain_pb2.Ring:
    """Decode the rings of one run and merge what they say of steps. Raises ProtocolError if one is malformed."""
    first, *others = messages
    ring = _parse(first)
    further = [_parse(message) for message in others if message != first]
    if further:
        steps = {answer.step: answer for each in (ring, *further) for answer in each.steps}
        del ring.steps[:]
        ring.steps.extend(steps[number] for number in sorted(steps))
    return ring


def failed_step(ring: chain_pb2.Ring) -> burst_pb2.BurstAnswer | None:
    """Return the answer of the first step that has failed in a run."""
    return next((step.answer for step in ring.steps if step.answer.status), None)


def encode_chain_answer(ring: chain_pb2.Ring) -> bytes:
    """Encode the answer to the call of a run that has ended, with the number of the call if that has one."""
    number = number_field(ring.call_number) if ring.HasField("call_number") else b""
    if not ring.steps:
        return _SUCCESS_ANSWER + number
    failed = failed_step(ring)
    if failed is None:
        answer = burst_pb2.BurstAnswer(result=result_to_wire(SUCCESS), steps=ring.steps)
    else:
        answer = burst_pb2.BurstAnswer(status=failed.status, message=failed.message, steps=ring.steps)
    return answer.SerializeToString() + number


def _parse(message: bytes) -> chain_pb2.Ring:
    try:
        return chain_pb2.Ring.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no Ring") from error
