"""Every way in which a request gets to a device, under one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.codec import config_to_wire, result_from_wire
from nnhal.errors import HalError
from nnhal.types import ErrorStatus, ExecutionConfig, ExecutionResult, Request
from nnhal.v1 import burst_pb2, execution_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from tests.support.wire import WireDevice

PLAIN = ExecutionConfig()


class WireBurst:
    """A burst with its channel."""

    def __init__(self, wire: WireDevice, prepared: int) -> None:
        message = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=prepared)
        answer = wire.call(wire.prepared_model.ConfigureExecutionBurst, message)
        self.handle = answer.burst
        self.channel = wire.take_channel(answer.channel_descriptor_id)

    def exchange(self, call: burst_pb2.BurstCall) -> ExecutionResult:
        """Send a call over the channel and decode what comes back. Raises HalError."""
        self.channel.send(call.SerializeToString())
        answer = burst_pb2.BurstAnswer.FromString(self.channel.receive())
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return result_from_wire(answer.result)


class Target:
    """A prepared model with a burst, and the arguments that executions of it have besides their request."""

    def __init__(self, wire: WireDevice, prepared: int) -> None:
        self.wire = wire
        self.prepared = prepared
        self.burst = WireBurst(wire, prepared)

    def plain(
        self, request: Request, config: ExecutionConfig, deadline_ns: int
    ) -> prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest:
        """The message of executeSynchronously."""
        return prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest(
            prepared_model=self.prepared,
            request=self.wire.request(request),
            measure_timing=config.measure_timing,
            loop_timeout_duration_ns=config.loop_timeout_duration_ns,
            deadline_ns=deadline_ns,
        )

    def burst_plain(
        self, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
    ) -> burst_pb2.BurstServiceExecuteSynchronouslyRequest:
        """The message of a burst's executeSynchronously."""
        return burst_pb2.BurstServiceExecuteSynchronouslyRequest(
            burst=self.burst.handle,
            request=self.wire.request(request),
            memory_identifier_tokens=tokens,
            measure_timing=config.measure_timing,
            loop_timeout_duration_ns=config.loop_timeout_duration_ns,
            deadline_ns=deadline_ns,
        )

    def burst_with_config(
        self, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
    ) -> burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest:
        """The message of a burst's executeSynchronouslyWithConfig."""
        return burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest(
            burst=self.burst.handle,
            request=self.wire.request(request),
            memory_identifier_tokens=tokens,
            config=config_to_wire(config),
            deadline_ns=deadline_ns,
        )


EntryPoint = Callable[[Target, Request, ExecutionConfig, int], ExecutionResult]
BurstEntryPoint = Callable[[Target, Request, Sequence[int], ExecutionConfig, int], ExecutionResult]


def synchronously(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """executeSynchronously."""
    wire = target.wire
    message = target.plain(request, config, deadline_ns)
    return result_from_wire(wire.call(wire.prepared_model.ExecuteSynchronously, message).result)


def with_config(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """executeSynchronouslyWithConfig."""
    wire = target.wire
    message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
        prepared_model=target.prepared,
        request=wire.request(request),
        config=config_to_wire(config),
        deadline_ns=deadline_ns,
    )
    return result_from_wire(wire.call(wire.prepared_model.ExecuteSynchronouslyWithConfig, message).result)


def bind(target: Target, request: Request, config: ExecutionConfig = PLAIN) -> int:
    """The handle of a reusable execution."""
    wire = target.wire
    message = prepared_pb2.CreateReusableExecutionRequest(
        prepared_model=target.prepared, request=wire.request(request), config=config_to_wire(config)
    )
    return wire.call(wire.prepared_model.CreateReusableExecution, message).execution


def reusably(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """createReusableExecution and its executeSynchronously."""
    wire = target.wire
    message = execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(
        execution=bind(target, request, config), deadline_ns=deadline_ns
    )
    return result_from_wire(wire.call(wire.execution.ExecuteSynchronously, message).result)


def reusably_in_a_burst(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """createReusableExecution, run on the channel of a burst."""
    run = burst_pb2.BurstRun(execution=bind(target, request, config), deadline_ns=deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(run=run))


def burst_call(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """A burst's executeSynchronously over gRPC."""
    wire = target.wire
    message = target.burst_plain(request, tokens, config, deadline_ns)
    return result_from_wire(wire.call(wire.burst.ExecuteSynchronously, message).result)


def burst_call_with_config(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """A burst's executeSynchronouslyWithConfig over gRPC."""
    wire = target.wire
    message = target.burst_with_config(request, tokens, config, deadline_ns)
    return result_from_wire(wire.call(wire.burst.ExecuteSynchronouslyWithConfig, message).result)


def burst_channel(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """A burst's executeSynchronously over its channel."""
    message = target.burst_plain(request, tokens, config, deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(execute=message))


def burst_channel_with_config(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """A burst's executeSynchronouslyWithConfig over its channel."""
    message = target.burst_with_config(request, tokens, config, deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(execute_with_config=message))


def _without_identity(entry: BurstEntryPoint) -> EntryPoint:
    def run(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
        return entry(target, request, [-1] * len(request.pools), config, deadline_ns)

    return run


BURST_ENTRY_POINTS: dict[str, BurstEntryPoint] = {
    "burst, gRPC": burst_call,
    "burst, gRPC, config": burst_call_with_config,
    "burst, channel": burst_channel,
    "burst, channel, config": burst_channel_with_config,
}
ENTRY_POINTS: dict[str, EntryPoint] = {
    "sync": synchronously,
    "sync, config": with_config,
    "reusable": reusably,
    "reusable, channel": reusably_in_a_burst,
    **{name: _without_identity(entry) for name, entry in BURST_ENTRY_POINTS.items()},
}
