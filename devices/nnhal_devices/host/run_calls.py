"""Calls that may run one execution and nothing else of its session."""

from __future__ import annotations

from nnhal.codec import nanoseconds
from nnhal.errors import invalid_argument
from nnhal.link import ProtocolError
from nnhal_devices.host.burst_messages import parse_call


class RunCalls:
    """Reads the calls of a process that may run one execution. Equal calls, which are the rule, are parsed once."""

    def __init__(self, handle: int) -> None:
        """``handle`` is that of the execution."""
        self._handle = handle
        self._last_message = b""
        self._last_deadline_ns = 0

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
        return nanoseconds(call.run, "deadline_ns")
