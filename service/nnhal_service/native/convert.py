"""Between the wire of the native service and the framework's own types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from math import prod
from typing import TypeVar

from nnhal.codec.bounds import MAX_DEVICES, MAX_PINS, at_most
from nnhal.codec.memory import location_from_wire
from nnhal.codec.model import extension_names_from_wire
from nnhal.codec.reports import ledger_entry_to_wire, step_report_to_wire
from nnhal.codec.request import hints_from_wire
from nnhal.errors import HalError, TransportError, invalid_argument
from nnhal.reports import CLIENT_STEP
from nnhal.resolved import operation_name
from nnhal.types import CACHE_TOKEN_BYTES, ErrorStatus, ExecutionPreference, Hints, Priority
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_frontends import ModelFormat, StatePair
from nnhal_frontends.imported import ImportedTensor
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import (
    OutputReport,
    OutputTooSmallError,
    RunReport,
    SketchedPlan,
    TensorBinding,
)

E = TypeVar("E", bound=IntEnum)
_STRATEGIES: dict[int, Strategy] = {
    wire.PARTITIONER_UNSPECIFIED: Strategy.LEAST_TIME,
    wire.PARTITIONER_LEAST_TIME: Strategy.LEAST_TIME,
    wire.PARTITIONER_NNAPI: Strategy.NNAPI,
    wire.PARTITIONER_CPU_ONLY: Strategy.CPU_ONLY,
}
_FALLBACKS: dict[int, Fallback] = {
    wire.FALLBACK_UNSPECIFIED: Fallback.ALLOW,
    wire.FALLBACK_ALLOW: Fallback.ALLOW,
    wire.FALLBACK_WARN: Fallback.WARN,
    wire.FALLBACK_DENY: Fallback.DENY,
}


@contextmanager
def gone_is_unavailable() -> Iterator[None]:
    """Report a device that is gone as DEVICE_UNAVAILABLE: to the client, TransportError is about the framework."""
    try:
        yield
    except TransportError as error:
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, str(error)) from error


def format_from_wire(code: int) -> ModelFormat | None:
    """Decode a model's format; None if it is to be found from the content. Raises INVALID_ARGUMENT if unknown."""
    if code == wire.MODEL_FORMAT_UNSPECIFIED:
        return None
    if code not in wire.ModelFormat.values():
        invalid_argument(f"model format {code}, expected one of {', '.join(wire.ModelFormat.keys())}")
    return ModelFormat(code)


def options_from_wire(message: wire.LoadModelRequest) -> Options:
    """Decode how a model is to be partitioned. Raises INVALID_ARGUMENT."""
    if message.partitioner not in _STRATEGIES or message.fallback not in _FALLBACKS:
        invalid_argument(f"partitioner {message.partitioner} and fallback {message.fallback}, expected 0 to 3 each")
    if message.min_nodes_per_partition < 0:
        invalid_argument(f"min_nodes_per_partition is {message.min_nodes_per_partition}, expected 0 or more")
    options = Options(
        _STRATEGIES[message.partitioner],
        pins_from_wire(message.pins),
        max(1, message.min_nodes_per_partition),
        _FALLBACKS[message.fallback],
    )
    if message.HasField("preference"):
        options = replace(options, preference=_known(ExecutionPreference, message.preference, "execution preference"))
    if message.HasField("priority"):
        options = replace(options, priority=_known(Priority, message.priority, "priority"))
    if message.HasField("deadline_ns"):
        options = replace(options, deadline_ns=message.deadline_ns)
    return replace(options, hints=hints_of(message), relaxed=message.relaxed)


def pins_from_wire(pins: Sequence[wire.Pin]) -> tuple[Pin, ...]:
    """Decode pins. Raises INVALID_ARGUMENT if they are too many."""
    return tuple(Pin(pin.match, pin.device) for pin in at_most(MAX_PINS, pins, "pins"))


def devices_from_wire(names: Sequence[str]) -> Sequence[str]:
    """Return the names of devices. Raises INVALID_ARGUMENT if they are too many."""
    return at_most(MAX_DEVICES, names, "devices")


def partitioner_from_wire(code: int) -> Strategy | None:
    """Decode how a model is to be split; None if the caller does not say. Raises INVALID_ARGUMENT if unknown."""
    if code not in _STRATEGIES:
        invalid_argument(f"partitioner {code}, expected 0 to 3")
    return None if code == wire.PARTITIONER_UNSPECIFIED else _STRATEGIES[code]


def hints_of(message: wire.LoadModelRequest | wire.BindRequest) -> Hints:
    return Hints(hints_from_wire(message.hints), extension_names_from_wire(message.hint_extensions))


def _known(kind: type[E], code: int, what: str) -> E:
    """Return the member of an enumeration. Raises INVALID_ARGUMENT if the code is unknown."""
    codes = {member.value for member in kind}
    if code not in codes:
        invalid_argument(f"{what} {code}, expected one of {sorted(codes)}")
    return kind(code)


def cache_token_from_wire(message: wire.LoadModelRequest) -> bytes:
    """Decode a model's cache token; it is empty if nothing is to be cached. Raises INVALID_ARGUMENT."""
    if len(message.cache_token) not in (0, CACHE_TOKEN_BYTES):
        invalid_argument(f"a cache token of {len(message.cache_token)} bytes, expected {CACHE_TOKEN_BYTES}, or none")
    return message.cache_token


def binding_from_wire(message: wire.TensorBinding) -> TensorBinding:
    """Decode a tensor binding, without the memory that it names."""
    return TensorBinding(
        message.name, location_from_wire(message.location), tuple(message.dimensions), omitted=message.omitted
    )


def model_to_wire(name: str, prepared: SketchedPlan, defers_placements: bool = False) -> wire.ModelInfo:
    """Describe a loaded model, in full or without its placements."""
    placements = [
        wire.OperationPlacement(
            nodes=nodes_of(prepared, subgraph, index),
            operation=operation_name(prepared.imported.model, prepared.graphs[subgraph].operations[index].type),
            device=step.device,
            step=number,
        )
        for number, step in enumerate(() if defers_placements else prepared.plan.steps)
        for subgraph in [prepared.plan.subgraph_of(step)]
        for index in step.operations
    ]
    return wire.ModelInfo(
        name=name,
        inputs=[tensor_to_wire(prepared, tensor) for tensor in prepared.imported.inputs],
        outputs=[tensor_to_wire(prepared, tensor) for tensor in prepared.imported.outputs],
        placements=placements,
        steps=[step.device for step in prepared.plan.steps],
        arena_bytes=prepared.layout.total_bytes,
        states=[tensor_to_wire(prepared, state.before) for state in prepared.imported.states],
        optional_inputs=[_optional_to_wire(tensor) for tensor in prepared.imported.optional_inputs],
        signatures=prepared.imported.signatures,
        placements_deferred=defers_placements,
        memory_kind=prepared.client_memory.kind,
        alignment=prepared.client_memory.alignment,
    )


def nodes_of(plan: SketchedPlan, subgraph: int, operation: int) -> Sequence[str]:
    """Return the names of the nodes that an operation stands for; operations within control flow have none."""
    return () if subgraph else plan.imported.operation_nodes[operation]


def tensor_to_wire(prepared: SketchedPlan, tensor: ImportedTensor) -> wire.TensorInfo:
    """Describe an input, output or state of a model."""
    operand = prepared.imported.model.main.operands[tensor.operand]
    dimensions = prepared.dimensions[tensor.operand]
    return wire.TensorInfo(
        name=tensor.name,
        type=types_pb2.OperandType.ValueType(operand.type),
        dimensions=dimensions,
        byte_size=prepared.byte_size(tensor.operand),
        scale=operand.scale,
        zero_point=operand.zero_point,
        element_type="" if tensor.element_type.kind == "O" else tensor.element_type.name,
        scalar=tensor.element_type.kind != "O" and not tensor.shape and dimensions == (1,),
        tensor=tensor.index,
    )


def _optional_to_wire(tensor: ImportedTensor) -> wire.TensorInfo:
    is_value = tensor.element_type.kind == "O"
    return wire.TensorInfo(
        name=tensor.name,
        dimensions=tensor.shape or (() if is_value else (1,)),
        byte_size=0 if is_value else prod(tensor.shape) * tensor.element_type.itemsize,
        element_type="" if is_value else tensor.element_type.name,
        scalar=not is_value and not tensor.shape,
    )


def tensor_dimensions_from_wire(messages: Iterable[wire.TensorDimensions]) -> dict[int, Dimensions]:
    """Decode dimensions of tensors by their indices. Raises INVALID_ARGUMENT if a tensor is named twice."""
    found: dict[int, Dimensions] = {}
    for message in messages:
        if message.tensor in found:
            invalid_argument(f"dimensions of tensor {message.tensor} are given twice")
        found[message.tensor] = tuple(message.dimensions)
    return found


def dimensions_from_wire(messages: Iterable[wire.InputDimensions]) -> dict[str, Dimensions]:
    """Decode dimensions of inputs. Raises INVALID_ARGUMENT if an input is named twice or has no dimensions."""
    found: dict[str, Dimensions] = {}
    for message in messages:
        if message.name in found:
            invalid_argument(f"dimensions of input {message.name!r} are given twice")
        if not message.dimensions:
            invalid_argument(f"dimensions [] of input {message.name!r}, expected one for each axis, 0 if it stays open")
        found[message.name] = tuple(message.dimensions)
    return found


def states_from_wire(messages: Iterable[wire.StatePair]) -> tuple[StatePair, ...]:
    return tuple(
        StatePair(
            message.input,
            message.output,
            growing=growing_from_wire(message.growing),
        )
        for message in messages
    )


def growing_from_wire(messages: Iterable[wire.GrowingAxis]) -> dict[int, int | None]:
    """The axes that grow, with the most that each may have; None if there is no limit."""
    return {message.axis: message.most if message.HasField("most") else None for message in messages}


def insufficient_to_wire(error: OutputTooSmallError) -> wire.RunReport:
    """Encode the dimensions of the outputs, and which of them did not fit."""
    return wire.RunReport(outputs=outputs_to_wire(error.outputs))


def outputs_to_wire(outputs: Sequence[OutputReport]) -> list[wire.OutputReport]:
    return [wire.OutputReport(name=o.name, dimensions=o.dimensions, sufficient=o.sufficient) for o in outputs]


def report_to_wire(report: RunReport) -> wire.RunReport:
    return wire.RunReport(
        duration_ns=report.duration_ns,
        socket_bytes=report.socket_bytes,
        outputs=outputs_to_wire(report.outputs),
        steps=[step_report_to_wire(step) for step in report.steps],
        ledger=[ledger_entry_to_wire(entry) for entry in report.ledger],
        started_ns=report.started_ns,
        fell_back=report.fell_back,
    )


def step_to_wire(step: int | None) -> int:
    """Encode a step's number; -1 stands for the client."""
    return CLIENT_STEP if step is None else step
