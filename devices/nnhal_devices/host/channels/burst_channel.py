"""Serving a burst's channel: a call is received, run and answered before the next one.

The common call is 'run execution 7'. Its datagram is the same each time, so its parsed form is kept, and nothing is
parsed or validated twice.
"""

from __future__ import annotations

from nnhal.codec import config_from_wire, nanoseconds, request_from_wire
from nnhal.codec.lengths import Lengths, lengths_from_wire
from nnhal.link import ProtocolError
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult
from nnhal.v1 import burst_pb2 as wire
from nnhal_devices.host.channels.messages import AnswerEncoder, encode_error, encode_refusal, parse_call
from nnhal_devices.host.memory.staging import NO_STAGING, Staging
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Wanted
from nnhal_devices.host.runs.run_results import SUCCESS
from nnhal_devices.host.sessions.client_session import ClientSession
from nnhal_hosting.rpc import answered_error


def serve_burst(burst: Burst, handle: int, client: ClientSession) -> int:
    """Open a channel for a burst and return the id of the client's end.

    It is served until either side closes it; then the burst, known to the client by ``handle``, is released. A run that
    is under way ends, and is answered if the client has closed its own direction only.
    """
    channel, theirs = client.make_channel()
    number = client.descriptors.offer(theirs, owner=handle)
    client.serve(
        channel,
        "burst",
        client.hooks.answer(_BurstServer(burst, client, lambda: not channel.hung_up).answer),
        encode_refusal,
        lambda: client.release(handle),
        lambda: burst.prepared.begins_at_once,
    )
    return number


class _BurstServer:
    def __init__(self, burst: Burst, client: ClientSession, is_wanted: Wanted) -> None:
        self._burst = burst
        self._is_wanted = is_wanted
        self._client = client
        self._encoded = AnswerEncoder()
        self._last_message = b""
        self._last_run: tuple[int, int, Lengths] = (0, NO_DEADLINE, ())

    def answer(self, message: bytes) -> bytes:
        """Answer one call. Raises ProtocolError if the message is malformed."""
        try:
            if message != self._last_message:
                call = parse_call(message)
                if call.WhichOneof("call") != "run":
                    return self._encoded(*self._call(call))
                self._last_message = message
                lengths = lengths_from_wire(call.run.lengths) if call.run.lengths else ()
                self._last_run = (call.run.execution, nanoseconds(call.run, "deadline_ns"), lengths)
            return self._encoded(*self._run(*self._last_run))
        except ProtocolError:
            raise
        except Exception as error:
            return encode_error(answered_error(error, "a call on a burst failed", client=self._client.session.title))

    def _run(self, handle: int, deadline_ns: int, lengths: Lengths) -> tuple[ExecutionResult, Staging]:
        return self._burst.run(self._client.execution(handle), deadline_ns, self._is_wanted, lengths)

    def _call(self, call: wire.BurstCall) -> tuple[ExecutionResult, Staging]:
        match call.WhichOneof("call"):
            case "execute":
                arguments = call.execute
                config = ExecutionConfig(arguments.measure_timing, nanoseconds(arguments, "loop_timeout_duration_ns"))
                return self._execute(arguments, config)
            case "execute_with_config":
                return self._execute(call.execute_with_config, config_from_wire(call.execute_with_config.config))
            case "release_memory_resource":
                self._burst.release_memory(call.release_memory_resource.memory_identifier_token)
                return SUCCESS, NO_STAGING
            case _:
                raise ProtocolError("a BurstCall without a call, expected one")

    def _execute(
        self,
        arguments: wire.BurstServiceExecuteSynchronouslyRequest
        | wire.BurstServiceExecuteSynchronouslyWithConfigRequest,
        config: ExecutionConfig,
    ) -> tuple[ExecutionResult, Staging]:
        request = request_from_wire(arguments.request, self._client.descriptors.get)
        deadline_ns = nanoseconds(arguments, "deadline_ns")
        return self._burst.execute(request, arguments.memory_identifier_tokens, config, deadline_ns, self._is_wanted)
