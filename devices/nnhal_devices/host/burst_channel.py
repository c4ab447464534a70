"""Serving a burst's channel: one thread that receives a call, runs it, and answers.

The common call is 'run execution 7'. Its datagram is the same each time, so what it stands for is kept, and nothing is
parsed or validated twice.
"""

from __future__ import annotations

import structlog
from google.protobuf.message import DecodeError

from nnhal.codec import config_from_wire, request_from_wire, result_to_wire
from nnhal.errors import HalError
from nnhal.link import ProtocolError, channel_pair
from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionConfig, ExecutionResult
from nnhal.v1 import burst_pb2 as wire
from nnhal.v1 import request_pb2, types_pb2
from nnhal_devices.host.bound_request import SUCCESS
from nnhal_devices.host.burst import Burst
from nnhal_devices.host.client import Client
from nnhal_devices.host.staging import NO_STAGING, Staging

_log = structlog.get_logger(__name__)


def serve_burst(burst: Burst, handle: int, client: Client) -> int:
    """Open a channel for a burst and return the id of the client's end.

    It is served until either side closes it; then the burst, known to the client by ``handle``, is released.
    """
    channel, theirs = channel_pair()
    number = client.descriptors.offer(theirs)
    client.serve(channel, "burst", _BurstServer(burst, client).answer, lambda: client.release(handle))
    return number


class _BurstServer:
    def __init__(self, burst: Burst, client: Client) -> None:
        self._burst = burst
        self._client = client
        self._last_message = b""
        self._last_run = (0, NO_DEADLINE)

    def answer(self, message: bytes) -> bytes:
        """The answer to one call. Raises ProtocolError for what is no call."""
        try:
            if message != self._last_message:
                call = _parse(message)
                if call.WhichOneof("call") != "run":
                    return _encode(*self._call(call))
                self._last_message = message
                self._last_run = (call.run.execution, call.run.deadline_ns)
            return _encode(*self._run(*self._last_run))
        except HalError as error:
            return _encode_error(error.status, error.message)
        except ProtocolError:
            raise
        except Exception:
            _log.exception("a call on a burst failed", pid=self._client.pid)
            return _encode_error(ErrorStatus.GENERAL_FAILURE, "the driver failed; its log says why")

    def _run(self, handle: int, deadline_ns: int) -> tuple[ExecutionResult, Staging]:
        return self._burst.run(self._client.execution(handle), deadline_ns)

    def _call(self, call: wire.BurstCall) -> tuple[ExecutionResult, Staging]:
        match call.WhichOneof("call"):
            case "execute":
                arguments = call.execute
                config = ExecutionConfig(arguments.measure_timing, arguments.loop_timeout_duration_ns)
                return self._execute(arguments, config)
            case "execute_with_config":
                return self._execute(call.execute_with_config, config_from_wire(call.execute_with_config.config))
            case "release_memory_resource":
                self._burst.release_memory(call.release_memory_resource.memory_identifier_token)
                return SUCCESS, NO_STAGING
            case _:
                raise ProtocolError("an empty call")

    def _execute(
        self,
        arguments: wire.BurstServiceExecuteSynchronouslyRequest
        | wire.BurstServiceExecuteSynchronouslyWithConfigRequest,
        config: ExecutionConfig,
    ) -> tuple[ExecutionResult, Staging]:
        request = request_from_wire(arguments.request, self._client.descriptors.get)
        return self._burst.execute(request, arguments.memory_identifier_tokens, config, arguments.deadline_ns)


def _parse(message: bytes) -> wire.BurstCall:
    try:
        return wire.BurstCall.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no BurstCall") from error


def _encode(result: ExecutionResult, staging: Staging) -> bytes:
    if result is SUCCESS and staging is NO_STAGING:
        return _SUCCESS_ANSWER
    return wire.BurstAnswer(
        result=result_to_wire(result), staging=request_pb2.Staging(bytes=staging.bytes, duration_ns=staging.duration_ns)
    ).SerializeToString()


def _encode_error(status: ErrorStatus, message: str) -> bytes:
    return wire.BurstAnswer(
        status=types_pb2.ErrorStatus.ValueType(status), message=message[:_MAX_ERROR_CHARACTERS]
    ).SerializeToString()


_MAX_ERROR_CHARACTERS = 2000
_SUCCESS_ANSWER = wire.BurstAnswer(result=result_to_wire(SUCCESS)).SerializeToString()
