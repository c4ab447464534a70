"""IBurst from afar, over its channel."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nnhal.codec import config_to_wire, request_to_wire, result_from_wire
from nnhal.errors import DeadObjectError, HalError, TransportError, general_failure
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.remote.calls import Calls
from nnhal.remote.execution import RemoteExecution, burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionConfig, ExecutionResult, Request
from nnhal.v1 import burst_pb2 as wire
from nnhal.v1 import burst_pb2_grpc

_PLAIN = ExecutionConfig()


class BurstOutcome(NamedTuple):
    """What came out of an execution, and what the device had to copy for it."""

    result: ExecutionResult
    staged_bytes: int = 0
    staging_ns: int = 0


class RemoteBurst:
    """A burst of this session. One execution at a time: a second one is refused with GENERAL_FAILURE."""

    def __init__(self, calls: Calls, handle: int, channel: Channel) -> None:
        self._calls = calls
        self._stub = burst_pb2_grpc.BurstServiceStub(calls.rpc)
        self._channel = channel
        self._busy = threading.Lock()
        self._last_message = b""
        self._last_outcome = BurstOutcome(ExecutionResult())
        self.handle = handle

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the channel, both ways."""
        return self._channel.bytes_sent + self._channel.bytes_received

    def run(self, execution: RemoteExecution, deadline_ns: int = NO_DEADLINE) -> BurstOutcome:
        """Run a reusable execution of the burst's prepared model.

        Raises HalError where the device refuses, DeadObjectError where it is gone.
        """
        if deadline_ns == NO_DEADLINE:
            return self._exchange(execution.run_without_deadline)
        return self._exchange(burst_run(execution.handle, deadline_ns))

    def execute(
        self,
        request: Request,
        tokens: Sequence[int],
        config: ExecutionConfig = _PLAIN,
        deadline_ns: int = NO_DEADLINE,
    ) -> BurstOutcome:
        """executeSynchronouslyWithConfig: ``tokens`` name the request's pools, -1 those without identity."""
        arguments = wire.BurstServiceExecuteSynchronouslyWithConfigRequest(
            request=request_to_wire(request, self._calls.issue),
            memory_identifier_tokens=tokens,
            config=config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        return self._exchange(wire.BurstCall(execute_with_config=arguments).SerializeToString())

    def release_memory_resource(self, token: int) -> None:
        """releaseMemoryResource."""
        arguments = wire.ReleaseMemoryResourceRequest(memory_identifier_token=token)
        self._exchange(wire.BurstCall(release_memory_resource=arguments).SerializeToString())

    def close(self) -> None:
        """Close the channel; that releases the burst over there."""
        self._channel.close()

    def _exchange(self, message: bytes) -> BurstOutcome:
        if not self._busy.acquire(False):
            general_failure("the burst runs an execution already; one at a time is allowed")
        try:
            self._channel.send(message)
            return self._outcome(self._channel.receive())
        except ChannelClosedError as error:
            raise DeadObjectError(f"{self._calls.endpoint.directory}: {error}") from error
        except ProtocolError as error:
            raise TransportError(f"{self._calls.endpoint.directory}: {error}") from error
        finally:
            self._busy.release()

    def _outcome(self, answer: bytes) -> BurstOutcome:
        if answer != self._last_message:  # answers without timing are mostly the same
            self._last_outcome = self._decode(answer)
            self._last_message = answer
        return self._last_outcome

    def _decode(self, message: bytes) -> BurstOutcome:
        try:
            answer = wire.BurstAnswer.FromString(message)
        except DecodeError as error:
            raise TransportError(f"{self._calls.endpoint.directory}: {len(message)} bytes, no BurstAnswer") from error
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return BurstOutcome(result_from_wire(answer.result), answer.staging.bytes, answer.staging.duration_ns)
