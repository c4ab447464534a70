"""The client's end of a run channel: direct runs of one execution."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.errors import HalError, TransportError
from nnhal.link import Channel
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import burst_pb2


class RemoteRunChannel:
    """A run channel, which the device closes when the binding ends. The caller sends calls and receives answers."""

    def __init__(self, channel: Channel, execution: int, may_fall_back: bool) -> None:
        """``may_fall_back`` says whether a failed run may be repeated through the framework."""
        self.channel = channel
        self.may_fall_back = may_fall_back
        self._execution = execution
        self._call = burst_run(execution, NO_DEADLINE)
        self._good = b""

    def call(self, deadline_ns: int = NO_DEADLINE) -> bytes:
        """The datagram that runs the execution once."""
        return self._call if deadline_ns == NO_DEADLINE else burst_run(self._execution, deadline_ns)

    def check(self, answer: bytes) -> None:
        """Raise HalError if the device has refused the run, TransportError if its answer is malformed."""
        if answer != self._good:  # all runs that succeed have the same answer: it is decoded once
            _require_success(answer)
            self._good = answer


def _require_success(message: bytes) -> None:
    try:
        answer = burst_pb2.BurstAnswer.FromString(message)
    except DecodeError as error:
        raise TransportError(f"the device answered {len(message)} bytes that are no BurstAnswer") from error
    if answer.status:
        raise HalError(ErrorStatus(answer.status), answer.message)
    if not answer.result.output_sufficient_size:
        raise HalError(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, "an output does not fit its memory")
