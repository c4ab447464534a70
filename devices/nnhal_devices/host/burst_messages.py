"""The datagrams of bursts, as the device reads and writes them."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.codec import result_to_wire, span_to_wire, staging_to_wire
from nnhal.link import ProtocolError
from nnhal.types import ErrorStatus, ExecutionResult
from nnhal.v1 import burst_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_devices.host.run_results import SUCCESS
from nnhal_devices.host.staging import NO_STAGING, Staging


def parse_call(message: bytes) -> wire.BurstCall:
    """Decode a call. Raises ProtocolError if the message is malformed."""
    try:
        return wire.BurstCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no BurstCall") from error


def encode_answer(result: ExecutionResult, staging: Staging) -> bytes:
    """Encode the answer to a call that has succeeded."""
    if result is SUCCESS and staging is NO_STAGING:
        return _SUCCESS_ANSWER
    return answer_of(result, staging).SerializeToString()


def encode_error(status: ErrorStatus, message: str) -> bytes:
    """Encode the answer to a call that has failed."""
    return error_answer(status, message).SerializeToString()


def encode_refusal(message: str) -> bytes:
    """Encode the answer to a datagram that is no valid call."""
    return encode_error(ErrorStatus.INVALID_ARGUMENT, message)


def answer_of(result: ExecutionResult, staging: Staging) -> wire.BurstAnswer:
    """Return the answer to a call that has succeeded."""
    return wire.BurstAnswer(
        result=result_to_wire(result),
        staging=staging_to_wire(staging.bytes, staging.duration_ns, staging.measured_copies),
        span=span_to_wire(staging.span),
    )


def error_answer(status: ErrorStatus, message: str) -> wire.BurstAnswer:
    """Return the answer to a call that has failed."""
    return wire.BurstAnswer(status=types_pb2.ErrorStatus.ValueType(status), message=message[:_MAX_ERROR_CHARACTERS])


_MAX_ERROR_CHARACTERS = 2000
_SUCCESS_ANSWER = wire.BurstAnswer(result=result_to_wire(SUCCESS)).SerializeToString()


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
