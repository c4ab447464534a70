"""Ways to run a request and to launch one: each method and each channel, under one signature.

A way is made for a prepared model and a request. Its fields are those of the call and of its config: ``deadline_ns``,
``measure_timing``, ``loop_timeout_duration_ns``, ``execution_hints``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Model, Request
from nnhal.v1 import burst_pb2, device_pb2, request_pb2, types_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.channels import BurstChannel, Launch, LaunchChannel, split
from nnhal_conformance.device import Prepared
from nnhal_conformance.rule import offered, refused
from nnhal_conformance.session import DeviceSession, config_of

Run = Callable[..., request_pb2.ExecutionResult]
Launcher = Callable[..., Launch]
"""Takes descriptors of fences to wait for, and fields."""
RunWay = Callable[[Prepared, Request], Run]
LaunchWay = Callable[[Prepared, Request], Launcher]
_ONLY_WITH_CONFIG = "only the calls with a config are made by the framework"
_ONLY_CHANNELS = "only clients without the channel miss it"


def _request(held: Prepared, request: Request) -> Run:
    return lambda **fields: held.execute(request, **fields)


def _plain(held: Prepared, request: Request) -> Run:
    def run(**fields: Any) -> request_pb2.ExecutionResult:
        message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyRequest(
            prepared_model=held.handle, request=held.encoded(request), **{"deadline_ns": -1, **fields}
        )
        stub = held.session.prepared_model
        return offered(lambda: held.session.call(stub.ExecuteSynchronously, message), _ONLY_WITH_CONFIG).result

    return run


def _reusable(held: Prepared, request: Request) -> Run:
    def run(**fields: Any) -> request_pb2.ExecutionResult:
        call = split(fields)
        return held.bind_with(request, call.pop("config")).run(**call)

    return run


def _burst(held: Prepared, request: Request) -> Run:
    burst = held.burst()
    return lambda **fields: burst.execute(request, **fields).result


def _burst_plain(held: Prepared, request: Request) -> Run:
    burst = held.burst()

    def run(**fields: Any) -> request_pb2.ExecutionResult:
        message = burst_pb2.BurstServiceExecuteSynchronouslyRequest(
            request=held.encoded(request),
            memory_identifier_tokens=[-1] * len(request.pools),
            **{"deadline_ns": -1, **fields},
        )
        return burst.answered(burst_pb2.BurstCall(execute=message)).result

    return run


def _burst_call(held: Prepared, request: Request) -> Run:
    burst = held.burst()

    def run(**fields: Any) -> request_pb2.ExecutionResult:
        message = burst.message(request, **fields)
        message.burst = burst.handle
        stub = held.session.burst
        return offered(lambda: held.session.call(stub.ExecuteSynchronouslyWithConfig, message), _ONLY_CHANNELS).result

    return run


def _channel_of_execution(opened: Callable[[Prepared, Any], BurstChannel]) -> RunWay:
    def way(held: Prepared, request: Request) -> Run:
        def run(**fields: Any) -> request_pb2.ExecutionResult:
            call = split(fields)
            bound = held.bind_with(request, call.pop("config"))
            return opened(held, bound).run(bound, **call).result

        return run

    return way


RUNS: dict[str, RunWay] = {
    "request": _request,
    "plain": _plain,
    "reusable": _reusable,
    "burst": _burst,
    "burst-plain": _burst_plain,
    "burst-call": _burst_call,
    "burst-reusable": _channel_of_execution(lambda held, _: held.burst()),
    "run-channel": _channel_of_execution(lambda _, bound: bound.run_channel()),
}
"""Ways to run a request and wait for its end."""
PLAIN_RUNS = ("plain", "burst-plain")
"""Ways without a config, and so without hints."""


def _launch(held: Prepared, request: Request) -> Launcher:
    return lambda wait_for=(), **fields: held.launch(request, wait_for, **fields)


def _plain_launch(held: Prepared, request: Request) -> Launcher:
    def launch(wait_for: Any = (), **fields: Any) -> Launch:
        message = prepared_pb2.PreparedModelServiceExecuteFencedRequest(
            prepared_model=held.handle,
            request=held.encoded(request),
            wait_for_descriptor_ids=[held.session.link.issue(each) for each in wait_for],
            **{"deadline_ns": -1, "duration_ns": -1, **fields},
        )
        stub = held.session.prepared_model
        answer = offered(lambda: held.session.call(stub.ExecuteFenced, message), _ONLY_WITH_CONFIG)
        return Launch.of(held.session, answer.result)

    return launch


def _reusable_launch(held: Prepared, request: Request) -> Launcher:
    bound = held.bind(request)
    return lambda wait_for=(), **fields: bound.launch(wait_for, **fields)


def _channel_launch(held: Prepared, request: Request) -> Launcher:
    bound, channel = held.bind(request), LaunchChannel(held.session)
    return lambda wait_for=(), **fields: channel.launch(bound.handle, wait_for, **fields)


RELAUNCHES: dict[str, LaunchWay] = {
    "reusable": _reusable_launch,
    "launch-channel": _channel_launch,
}
"""Ways to launch a reusable execution, again and again."""
LAUNCHES: dict[str, LaunchWay] = {
    "request": _launch,
    "plain": _plain_launch,
    **RELAUNCHES,
}
"""Ways to launch a request."""


def _to_the_end(way: LaunchWay) -> RunWay:
    def made(held: Prepared, request: Request) -> Run:
        launch = way(held, request)

        def run(**fields: Any) -> request_pb2.ExecutionResult:
            info = launch(**fields).end()
            if info.error_status:
                raise HalError(ErrorStatus(info.error_status), info.message)
            return request_pb2.ExecutionResult(output_sufficient_size=True, timing=info.timing_launched)

        return run

    return made


ALL_RUNS = RUNS | {f"launch-{name}": _to_the_end(way) for name, way in LAUNCHES.items()}
"""Ways to run a request, those that launch it and wait for its fence too."""


def refused_run(
    way: RunWay | LaunchWay, held: Prepared, request: Request, *statuses: ErrorStatus, what: str = "", **fields: Any
) -> None:
    """Check that a request is refused: when it is made reusable, or when it is run or launched."""
    refused(lambda: way(held, request)(**fields), *statuses, what=what)


Prepare = Callable[..., tuple[list[device_pb2.Preparation], HalError | None]]
"""Takes a session, a model and fields; returns what came, and how the call failed."""


def by_config(
    session: DeviceSession, model: Model, **fields: Any
) -> tuple[list[device_pb2.Preparation], HalError | None]:
    """Prepare a model by the call with a config."""
    if "token" in fields:
        fields["cache_token"] = fields.pop("token")
    message = device_pb2.PrepareModelWithConfigRequest(model=session.model(model), config=config_of(**fields))
    return session.preparation(session.device.PrepareModelWithConfig, message)


def _plainly(
    session: DeviceSession, model: Model, **fields: Any
) -> tuple[list[device_pb2.Preparation], HalError | None]:
    given = {
        "preference": types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
        "priority": types_pb2.PRIORITY_MEDIUM,
        "deadline_ns": -1,
        "token": bytes(32),
    }
    message = device_pb2.PrepareModelRequest(model=session.model(model), **{**given, **fields})
    return offered(lambda: session.preparation(session.device.PrepareModel, message), _ONLY_WITH_CONFIG)


PREPARATIONS: dict[str, Prepare] = {"config": by_config, "plain": _plainly}
"""Ways to prepare a model."""
