"""Checks of the answers of devices, which a client does not trust.

An answer that does not convert, or that violates the rules of results, is GENERAL_FAILURE (contract rows RS-04, RS-05,
RS-07). ``place`` names the device in messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.codec import info_from_wire, result_from_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import general_failure
from nnhal.fence import Fence
from nnhal.types import (
    NO_SPAN,
    Copy,
    ExecutionResult,
    FencedExecutionInfo,
    Model,
    OutputShape,
    Request,
    Span,
    Timing,
)
from nnhal.types.layout import Dimensions, combine, describe
from nnhal.v1 import fenced_execution_callback_pb2, request_pb2

_UNAVAILABLE = -1


def model_dimensions(model: Model) -> tuple[Dimensions, ...]:
    """Return the dimensions of a model's outputs as far as the model gives them."""
    operands = model.main.operands
    return tuple(operands[index].dimensions for index in model.main.output_indexes if 0 <= index < len(operands))


def request_dimensions(request: Request, model: Sequence[Dimensions]) -> tuple[Dimensions, ...]:
    """Return the dimensions of the outputs as far as a request and its model, if that is known, give them."""
    given = tuple(argument.dimensions for argument in request.outputs)
    if len(model) != len(given):
        return given
    return tuple(combine(first, second) or () for first, second in zip(model, given, strict=True))


def require_handle(handle: int, what: str, place: str) -> int:
    """Check a handle, which is above 0, and return it."""
    if handle <= 0:
        general_failure(f"{place} answered with {what} {handle}, expected a handle above 0")
    return handle


def checked_fence(descriptor: Descriptor, place: str) -> Fence:
    """Make a fence of a descriptor from a device, which is refused if the death of the device would not end it."""
    try:
        return Fence.received(descriptor)
    except (OSError, ValueError) as error:
        general_failure(f"{place} answered with {error}")


def checked_result(message: request_pb2.ExecutionResult, outputs: Sequence[Dimensions], place: str) -> ExecutionResult:
    """Check and decode the result of an execution. ``outputs`` are the dimensions that model and request give."""
    result = result_from_wire(message)
    _require_timing(result.timing, "timing", place)
    _require_shapes(result, outputs, place)
    return result


def checked_info(message: fenced_execution_callback_pb2.GetExecutionInfoResponse, place: str) -> FencedExecutionInfo:
    info = info_from_wire(message)
    launched, fenced = info.timing_launched, info.timing_fenced
    _require_timing(launched, "timing since the launch", place)
    _require_timing(fenced, "timing since the fences", place)
    _require_order(fenced.time_on_device_ns, launched.time_on_device_ns, "on the device since the fences", place)
    _require_order(fenced.time_in_driver_ns, launched.time_in_driver_ns, "in the driver since the fences", place)
    require_staging(info.staged_bytes, info.staging_ns, info.copies, place)
    require_span(info.span, place)
    return info


def require_staging(staged_bytes: int, duration_ns: int, copies: Sequence[Copy], place: str) -> None:
    if staged_bytes < 0 or duration_ns < 0:
        general_failure(f"{place} reports {staged_bytes} bytes copied in {duration_ns} ns, expected 0 or more of both")
    for copy in copies:
        _require_instants(copy.started_ns, copy.ended_ns, "a copy", place)
    if copies and (min(copy.bytes for copy in copies) < 0 or sum(copy.bytes for copy in copies) != staged_bytes):
        parts = [copy.bytes for copy in copies]
        general_failure(f"{place} reports {staged_bytes} bytes copied, but the copies in it have {parts}")


def require_span(span: Span, place: str) -> None:
    """Check the time that a device reports for its work on an execution."""
    if span != NO_SPAN:
        _require_instants(span.started_ns, span.ended_ns, "an execution", place)


def _require_instants(started_ns: int, ended_ns: int, what: str, place: str) -> None:
    if not 0 <= started_ns <= ended_ns:
        general_failure(
            f"{place} reports that {what} began at {started_ns} ns and ended at {ended_ns} ns, expected two instants "
            "in this order"
        )


def _require_timing(timing: Timing, what: str, place: str) -> None:
    on_device, in_driver = timing.time_on_device_ns, timing.time_in_driver_ns
    if min(on_device, in_driver) < _UNAVAILABLE:
        general_failure(f"{place} answered with a {what} of {on_device} and {in_driver} ns, expected -1 or more")
    _require_order(on_device, in_driver, f"of {what} on the device", place)


def _require_order(part: int, whole: int, what: str, place: str) -> None:
    if whole != _UNAVAILABLE and part > whole:
        general_failure(f"{place} answered with {part} ns {what}, expected at most {whole} ns, which include them")


def _require_shapes(result: ExecutionResult, outputs: Sequence[Dimensions], place: str) -> None:
    shapes = result.output_shapes
    if shapes and len(shapes) != len(outputs):
        general_failure(f"{place} answered with {len(shapes)} output shapes, expected none or {len(outputs)}")
    for number, (shape, expected) in enumerate(zip(shapes, outputs, strict=False)):
        _require_shape(number, shape, expected, place)
    fits = all(shape.is_sufficient for shape in shapes)
    if fits != result.output_sufficient_size:
        said = "all outputs fit" if result.output_sufficient_size else "some output does not fit"
        misfits = [number for number, shape in enumerate(shapes) if not shape.is_sufficient]
        general_failure(f"{place} answered that {said}, and its output shapes that these do not: {misfits}")


def _require_shape(number: int, shape: OutputShape, expected: Dimensions, place: str) -> None:
    dimensions = shape.dimensions
    if min(dimensions, default=0) < 0:
        general_failure(
            f"{place} answered with dimensions {list(dimensions)} of output {number}, expected 0 or more for each axis"
        )
    # An axis that is empty, or still unknown, is 0 and cannot be compared.
    if 0 not in dimensions and combine(expected, dimensions) is None:
        general_failure(
            f"{place} answered with dimensions {describe(dimensions)} of output {number}, model and request say "
            f"{describe(expected)}"
        )
