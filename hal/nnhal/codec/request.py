"""Conversion of requests, configs and results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnhal.codec.bounds import MAX_ARGUMENTS, MAX_HINTS, MAX_POOLS, at_most
from nnhal.codec.memory import Issue, Resolve, location_from_wire, location_to_wire, memory_from_wire, memory_to_wire
from nnhal.codec.model import extension_names_from_wire, extension_names_to_wire
from nnhal.codec.nanoseconds import nanoseconds
from nnhal.errors import invalid_argument
from nnhal.types import (
    NO_SPAN,
    UNAVAILABLE_TIMING,
    Copy,
    ErrorStatus,
    ExecutionConfig,
    ExecutionResult,
    FencedExecutionInfo,
    OutputShape,
    Request,
    RequestArgument,
    RequestMemoryPool,
    Span,
    Timing,
    TokenValuePair,
)
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
from nnhal.v1 import request_pb2 as wire
from nnhal.v1 import types_pb2


def request_to_wire(request: Request, issue: Issue) -> wire.Request:
    return wire.Request(
        inputs=[_argument_to_wire(argument) for argument in request.inputs],
        outputs=[_argument_to_wire(argument) for argument in request.outputs],
        pools=[_pool_to_wire(pool, issue) for pool in request.pools],
    )


def request_from_wire(message: wire.Request, resolve: Resolve) -> Request:
    """Decode a request. Raises INVALID_ARGUMENT if a pool has no kind, or if a list is too long."""
    inputs = at_most(MAX_ARGUMENTS, message.inputs, "inputs of the request")
    outputs = at_most(MAX_ARGUMENTS, message.outputs, "outputs of the request")
    pools = at_most(MAX_POOLS, message.pools, "pools of the request")
    return Request(
        tuple(map(argument_from_wire, inputs)),
        tuple(map(argument_from_wire, outputs)),
        tuple(_pool_from_wire(pool, resolve, index) for index, pool in enumerate(pools)),
    )


def _argument_to_wire(argument: RequestArgument) -> wire.RequestArgument:
    return wire.RequestArgument(
        has_no_value=argument.has_no_value,
        location=location_to_wire(argument.location),
        dimensions=argument.dimensions,
        varies=argument.varies,
    )


def argument_from_wire(message: wire.RequestArgument) -> RequestArgument:
    return RequestArgument(
        location_from_wire(message.location), tuple(message.dimensions), message.has_no_value, message.varies
    )


def _pool_to_wire(pool: RequestMemoryPool, issue: Issue) -> wire.RequestMemoryPool:
    if isinstance(pool, int):
        return wire.RequestMemoryPool(token=pool)
    return wire.RequestMemoryPool(pool=memory_to_wire(pool, issue))


def _pool_from_wire(message: wire.RequestMemoryPool, resolve: Resolve, index: int) -> RequestMemoryPool:
    kind = message.WhichOneof("kind")
    if kind == "token":
        return message.token
    if kind == "pool":
        return memory_from_wire(message.pool, resolve)
    invalid_argument(f"pool {index} of the request has no kind, expected pool or token")


def config_to_wire(config: ExecutionConfig) -> wire.ExecutionConfig:
    return wire.ExecutionConfig(
        measure_timing=config.measure_timing,
        loop_timeout_duration_ns=config.loop_timeout_duration_ns,
        execution_hints=hints_to_wire(config.execution_hints),
        extension_name_to_prefix=extension_names_to_wire(config.extension_name_to_prefix),
    )


def config_from_wire(message: wire.ExecutionConfig) -> ExecutionConfig:
    return ExecutionConfig(
        message.measure_timing,
        nanoseconds(message, "loop_timeout_duration_ns"),
        hints_from_wire(message.execution_hints),
        extension_names_from_wire(message.extension_name_to_prefix),
    )


def hints_to_wire(hints: Iterable[TokenValuePair]) -> list[types_pb2.TokenValuePair]:
    return [types_pb2.TokenValuePair(token=hint.token, value=hint.value) for hint in hints]


def hints_from_wire(messages: Sequence[types_pb2.TokenValuePair]) -> tuple[TokenValuePair, ...]:
    """Decode hints. Raises INVALID_ARGUMENT if they are too many."""
    return tuple(TokenValuePair(message.token, message.value) for message in at_most(MAX_HINTS, messages, "hints"))


def result_to_wire(result: ExecutionResult) -> wire.ExecutionResult:
    return wire.ExecutionResult(
        output_sufficient_size=result.output_sufficient_size,
        output_shapes=[
            wire.OutputShape(dimensions=shape.dimensions, is_sufficient=shape.is_sufficient)
            for shape in result.output_shapes
        ],
        timing=timing_to_wire(result.timing),
    )


def result_from_wire(message: wire.ExecutionResult) -> ExecutionResult:
    return ExecutionResult(
        message.output_sufficient_size,
        tuple(OutputShape(tuple(shape.dimensions), shape.is_sufficient) for shape in message.output_shapes),
        timing_from_wire(message.timing),
    )


def timing_to_wire(timing: Timing) -> wire.Timing:
    return wire.Timing(time_on_device_ns=timing.time_on_device_ns, time_in_driver_ns=timing.time_in_driver_ns)


def timing_from_wire(message: wire.Timing) -> Timing:
    timing = Timing(message.time_on_device_ns, message.time_in_driver_ns)
    return UNAVAILABLE_TIMING if timing == UNAVAILABLE_TIMING else timing


def staging_to_wire(staged_bytes: int, duration_ns: int, copies: Iterable[Copy] = ()) -> wire.Staging:
    """Encode what was copied for an execution, and when."""
    return wire.Staging(
        bytes=staged_bytes,
        duration_ns=duration_ns,
        copies=copies_to_wire(copies),
    )


def copies_to_wire(copies: Iterable[Copy]) -> list[wire.Copy]:
    return [
        wire.Copy(
            is_output=copy.is_output,
            bytes=copy.bytes,
            started_ns=copy.started_ns,
            ended_ns=copy.ended_ns,
            is_wire=copy.is_wire,
            injected=copy.injected,
        )
        for copy in copies
    ]


def copies_from_wire(messages: Sequence[wire.Copy]) -> tuple[Copy, ...]:
    return tuple(
        Copy(copy.is_output, copy.bytes, copy.started_ns, copy.ended_ns, copy.is_wire, copy.injected)
        for copy in messages
    )


def span_to_wire(span: Span) -> wire.Span | None:
    """Encode a span. Return None if it was not measured."""
    return None if span == NO_SPAN else wire.Span(started_ns=span.started_ns, ended_ns=span.ended_ns)


def span_from_wire(message: wire.Span) -> Span:
    """Decode a span. Instant 0 stands for one that was not measured."""
    return Span(message.started_ns, message.ended_ns) if message.started_ns or message.ended_ns else NO_SPAN


def info_to_wire(info: FencedExecutionInfo) -> callback_pb2.GetExecutionInfoResponse:
    return callback_pb2.GetExecutionInfoResponse(
        error_status=types_pb2.ErrorStatus.ValueType(info.status),
        timing_launched=timing_to_wire(info.timing_launched),
        timing_fenced=timing_to_wire(info.timing_fenced),
        message=info.message,
        staging=staging_to_wire(info.staged_bytes, info.staging_ns, info.copies),
        span=span_to_wire(info.span),
    )


def info_from_wire(message: callback_pb2.GetExecutionInfoResponse) -> FencedExecutionInfo:
    return FencedExecutionInfo(
        ErrorStatus(message.error_status),
        timing_from_wire(message.timing_launched),
        timing_from_wire(message.timing_fenced),
        message.message,
        message.staging.bytes,
        message.staging.duration_ns,
        span_from_wire(message.span),
        copies_from_wire(message.staging.copies),
    )
