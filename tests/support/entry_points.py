"""Every way to send a request to a device, under one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple, Protocol

from nnhal.codec import config_to_wire, info_from_wire, result_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    ExecutionConfig,
    ExecutionResult,
    FencedExecutionInfo,
    Request,
)
from nnhal.v1 import burst_pb2, execution_pb2
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
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
        """Send a call over the channel and decode the answer. Raises HalError."""
        self.channel.send(call.SerializeToString())
        answer = burst_pb2.BurstAnswer.FromString(self.channel.receive())
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return result_from_wire(answer.result)


class WireLaunches:
    """A launch channel."""

    def __init__(self, wire: WireDevice) -> None:
        answer = wire.call(wire.execution.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest())
        self.channel = wire.take_channel(answer.channel_descriptor_id)

    def exchange(
        self, call: execution_pb2.LaunchCall, descriptors: Sequence[Descriptor] = ()
    ) -> tuple[execution_pb2.LaunchAnswer, list[Descriptor]]:
        """Send a call and decode the answer. Raises HalError."""
        self.channel.send(call.SerializeToString(), descriptors)
        message, received = self.channel.receive_with_descriptors()
        answer = execution_pb2.LaunchAnswer.FromString(message)
        if answer.WhichOneof("answer") == "refused":
            raise HalError(ErrorStatus(answer.refused.status), answer.refused.message)
        return answer, received


class Target:
    """A prepared model with a burst, and the arguments of its executions besides the request."""

    def __init__(self, wire: WireDevice, prepared: int) -> None:
        self.wire = wire
        self.prepared = prepared
        self.burst = WireBurst(wire, prepared)

    @cached_property
    def launches(self) -> WireLaunches:
        return WireLaunches(self.wire)

    def plain(
        self, request: Request, config: ExecutionConfig, deadline_ns: int
    ) -> prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest:
        """Return the message of executeSynchronously."""
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
        """Return the message of a burst's executeSynchronously."""
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
        """Return the message of a burst's executeSynchronouslyWithConfig."""
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
    """Call executeSynchronously."""
    wire = target.wire
    message = target.plain(request, config, deadline_ns)
    return result_from_wire(wire.call(wire.prepared_model.ExecuteSynchronously, message).result)


def with_config(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """Call executeSynchronouslyWithConfig."""
    wire = target.wire
    message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
        prepared_model=target.prepared,
        request=wire.request(request),
        config=config_to_wire(config),
        deadline_ns=deadline_ns,
    )
    return result_from_wire(wire.call(wire.prepared_model.ExecuteSynchronouslyWithConfig, message).result)


def bind(target: Target, request: Request, config: ExecutionConfig = PLAIN) -> int:
    """Create a reusable execution and return its handle."""
    wire = target.wire
    message = prepared_pb2.CreateReusableExecutionRequest(
        prepared_model=target.prepared, request=wire.request(request), config=config_to_wire(config)
    )
    return wire.call(wire.prepared_model.CreateReusableExecution, message).execution


def reusably(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """Call createReusableExecution, and executeSynchronously of the execution."""
    wire = target.wire
    message = execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(
        execution=bind(target, request, config), deadline_ns=deadline_ns
    )
    return result_from_wire(wire.call(wire.execution.ExecuteSynchronously, message).result)


def reusably_in_a_burst(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
    """Call createReusableExecution, and run the execution on a burst's channel."""
    run = burst_pb2.BurstRun(execution=bind(target, request, config), deadline_ns=deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(run=run))


def burst_call(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """Call a burst's executeSynchronously over gRPC."""
    wire = target.wire
    message = target.burst_plain(request, tokens, config, deadline_ns)
    return result_from_wire(wire.call(wire.burst.ExecuteSynchronously, message).result)


def burst_call_with_config(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """Call a burst's executeSynchronouslyWithConfig over gRPC."""
    wire = target.wire
    message = target.burst_with_config(request, tokens, config, deadline_ns)
    return result_from_wire(wire.call(wire.burst.ExecuteSynchronouslyWithConfig, message).result)


def burst_channel(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """Call a burst's executeSynchronously over its channel."""
    message = target.burst_plain(request, tokens, config, deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(execute=message))


def burst_channel_with_config(
    target: Target, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """Call a burst's executeSynchronouslyWithConfig over its channel."""
    message = target.burst_with_config(request, tokens, config, deadline_ns)
    return target.burst.exchange(burst_pb2.BurstCall(execute_with_config=message))


class Launched(NamedTuple):
    """A launched execution: its fence, None if it has ended already, and its getExecutionInfo."""

    fence: Fence | None
    info: Callable[[], FencedExecutionInfo]

    def end(self) -> FencedExecutionInfo:
        if self.fence is not None:
            with suppress(FenceError):
                self.fence.wait()
        return self.info()


class LaunchPoint(Protocol):
    """A way to launch a request."""

    def __call__(
        self,
        target: Target,
        request: Request,
        wait_for: Sequence[Fence] = (),
        config: ExecutionConfig = PLAIN,
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
    ) -> Launched:
        """Launch. Raises HalError if the launch is refused."""
        ...


class Relaunch(Protocol):
    """A way to launch a reusable execution."""

    def __call__(
        self,
        target: Target,
        execution: int,
        wait_for: Sequence[Fence] = (),
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
    ) -> Launched:
        """Launch. Raises HalError if the launch is refused."""
        ...


def fence_ids(wire: WireDevice, fences: Sequence[Fence]) -> list[int]:
    return [wire.link.issue(fence.descriptor) for fence in fences]


def launched(wire: WireDevice, result: prepared_pb2.FencedExecutionResult) -> Launched:
    number = result.sync_fence_descriptor_id

    def info() -> FencedExecutionInfo:
        message = callback_pb2.GetExecutionInfoRequest(callback=result.callback)
        return info_from_wire(wire.call(wire.callback.GetExecutionInfo, message))

    return Launched(Fence(wire.link.take(number)) if number else None, info)


def fenced(
    target: Target,
    request: Request,
    wait_for: Sequence[Fence] = (),
    config: ExecutionConfig = PLAIN,
    deadline_ns: int = NO_DEADLINE,
    duration_ns: int = NO_DEADLINE,
) -> Launched:
    wire = target.wire
    message = prepared_pb2.PreparedModelServiceExecuteFencedRequest(
        prepared_model=target.prepared,
        request=wire.request(request),
        wait_for_descriptor_ids=fence_ids(wire, wait_for),
        measure_timing=config.measure_timing,
        deadline_ns=deadline_ns,
        loop_timeout_duration_ns=config.loop_timeout_duration_ns,
        duration_ns=duration_ns,
    )
    return launched(wire, wire.call(wire.prepared_model.ExecuteFenced, message).result)


def fenced_with_config(
    target: Target,
    request: Request,
    wait_for: Sequence[Fence] = (),
    config: ExecutionConfig = PLAIN,
    deadline_ns: int = NO_DEADLINE,
    duration_ns: int = NO_DEADLINE,
) -> Launched:
    wire = target.wire
    message = prepared_pb2.PreparedModelServiceExecuteFencedWithConfigRequest(
        prepared_model=target.prepared,
        request=wire.request(request),
        wait_for_descriptor_ids=fence_ids(wire, wait_for),
        config=config_to_wire(config),
        deadline_ns=deadline_ns,
        duration_ns=duration_ns,
    )
    return launched(wire, wire.call(wire.prepared_model.ExecuteFencedWithConfig, message).result)


def relaunch_call(
    target: Target,
    execution: int,
    wait_for: Sequence[Fence] = (),
    deadline_ns: int = NO_DEADLINE,
    duration_ns: int = NO_DEADLINE,
) -> Launched:
    """Call a reusable execution's executeFenced over gRPC."""
    wire = target.wire
    message = execution_pb2.ExecutionServiceExecuteFencedRequest(
        execution=execution,
        wait_for_descriptor_ids=fence_ids(wire, wait_for),
        deadline_ns=deadline_ns,
        duration_ns=duration_ns,
    )
    return launched(wire, wire.call(wire.execution.ExecuteFenced, message).result)


def relaunch_on_channel(
    target: Target,
    execution: int,
    wait_for: Sequence[Fence] = (),
    deadline_ns: int = NO_DEADLINE,
    duration_ns: int = NO_DEADLINE,
) -> Launched:
    """Call a reusable execution's executeFenced over a launch channel."""
    launch = execution_pb2.Launch(execution=execution, deadline_ns=deadline_ns, duration_ns=duration_ns)
    _, descriptors = target.launches.exchange(
        execution_pb2.LaunchCall(launch=launch), [fence.descriptor for fence in wait_for]
    )

    def info() -> FencedExecutionInfo:
        call = execution_pb2.LaunchCall(info=execution_pb2.LaunchInfo(execution=execution))
        return info_from_wire(target.launches.exchange(call)[0].info)

    return Launched(Fence(descriptors[0]) if descriptors else None, info)


def _bound(relaunch: Relaunch) -> LaunchPoint:
    def launch(
        target: Target,
        request: Request,
        wait_for: Sequence[Fence] = (),
        config: ExecutionConfig = PLAIN,
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
    ) -> Launched:
        return relaunch(target, bind(target, request, config), wait_for, deadline_ns, duration_ns)

    return launch


def _to_the_end(launch: LaunchPoint) -> EntryPoint:
    """Return an entry point that launches, waits and gets the execution's info; its timing is that since the launch."""

    def run(target: Target, request: Request, config: ExecutionConfig, deadline_ns: int) -> ExecutionResult:
        info = launch(target, request, (), config, deadline_ns).end()
        if info.status != ErrorStatus.NONE:
            raise HalError(info.status, info.message)
        return ExecutionResult(timing=info.timing_launched)

    return run


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
RELAUNCHES: dict[str, Relaunch] = {
    "reusable, fenced": relaunch_call,
    "reusable, launch channel": relaunch_on_channel,
}
LAUNCH_POINTS: dict[str, LaunchPoint] = {
    "fenced": fenced,
    "fenced, config": fenced_with_config,
    **{name: _bound(relaunch) for name, relaunch in RELAUNCHES.items()},
}
FENCED_ENTRY_POINTS: dict[str, EntryPoint] = {name: _to_the_end(launch) for name, launch in LAUNCH_POINTS.items()}
ALL_ENTRY_POINTS = ENTRY_POINTS | FENCED_ENTRY_POINTS
