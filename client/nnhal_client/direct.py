"""Bursts of a client's own to a device: runs without the framework in between."""

from __future__ import annotations

import time
from collections.abc import Generator

from google.protobuf.message import DecodeError

from nnhal.errors import HalError, TransportError
from nnhal.link import Channel
from nnhal.remote.calls import Calls
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import burst_pb2
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.reports import RunReport

Exchanges = Generator[tuple[Channel, bytes], bytes, RunReport]
"""A run as datagrams: each goes out on its channel, and the answer, or how that failed, comes in in return."""


class DirectBurst:
    """Runs a binding on its device. The device closes the channel when the framework ends the binding."""

    def __init__(self, calls: Calls, message: wire.DirectBurst) -> None:
        """Raises TransportError where the framework is gone."""
        self.may_fall_back = message.may_fall_back
        self.channel = calls.take_channel(message.channel_descriptor_id)
        self._call = burst_run(message.execution, NO_DEADLINE)
        self._good = b""

    def exchanges(self) -> Exchanges:
        """One run. Raises HalError where the device refuses, TransportError for an answer that is none."""
        started = time.perf_counter_ns()
        answer = yield self.channel, self._call
        if answer != self._good:  # answers to runs that go well are the same
            _require_success(answer)
            self._good = answer
        duration = time.perf_counter_ns() - started
        return RunReport(duration, len(self._call) + len(answer), (), {}, direct=True)

    def close(self) -> None:
        """Give it up; harmless when repeated."""
        self.channel.close()


def _require_success(message: bytes) -> None:
    try:
        answer = burst_pb2.BurstAnswer.FromString(message)
    except DecodeError as error:
        raise TransportError(f"the device answered {len(message)} bytes that are no BurstAnswer") from error
    if answer.status:
        raise HalError(ErrorStatus(answer.status), answer.message)
    if not answer.result.output_sufficient_size:
        raise HalError(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, "an output does not fit its memory")
