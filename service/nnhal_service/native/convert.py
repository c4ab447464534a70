"""Between the wire of the native service and the framework's own types."""

from __future__ import annotations

from nnhal.codec.memory import location_from_wire
from nnhal.resolved import describe_operation
from nnhal.types.layout import byte_size
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.partition import Pin
from nnhal_service.runtime import PreparedPlan, RunReport, TensorBinding


def pin_from_wire(message: wire.Pin) -> Pin:
    """Decode a pin."""
    return Pin(message.match, message.device)


def binding_from_wire(message: wire.TensorBinding) -> TensorBinding:
    """Decode a tensor binding."""
    return TensorBinding(message.name, location_from_wire(message.location), tuple(message.dimensions))


def model_to_wire(name: str, prepared: PreparedPlan) -> wire.ModelInfo:
    """Describe a loaded model."""
    operations = prepared.imported.model.main.operations
    placements = [
        wire.OperationPlacement(
            nodes=prepared.imported.operation_nodes[index],
            operation=describe_operation(operations[index], index).partition("(")[2].rstrip(")"),
            device=step.device,
            step=number,
        )
        for number, step in enumerate(prepared.plan.steps)
        for index in step.operations
    ]
    return wire.ModelInfo(
        name=name,
        inputs=[_tensor_to_wire(prepared, tensor) for tensor in prepared.imported.inputs],
        outputs=[_tensor_to_wire(prepared, tensor) for tensor in prepared.imported.outputs],
        placements=placements,
        steps=[step.device for step in prepared.plan.steps],
        arena_bytes=prepared.arena.size,
    )


def _tensor_to_wire(prepared: PreparedPlan, tensor: ImportedTensor) -> wire.TensorInfo:
    operand = prepared.imported.model.main.operands[tensor.operand]
    dimensions = prepared.dimensions[tensor.operand]
    return wire.TensorInfo(
        name=tensor.name,
        type=types_pb2.OperandType.ValueType(operand.type),
        dimensions=dimensions,
        byte_size=byte_size(operand.type, dimensions),
        scale=operand.scale,
        zero_point=operand.zero_point,
    )


def report_to_wire(report: RunReport) -> wire.RunReport:
    """Encode what a run took."""
    return wire.RunReport(
        duration_ns=report.duration_ns,
        socket_bytes=report.socket_bytes,
        steps=[
            wire.StepReport(
                device=step.device,
                duration_ns=step.duration_ns,
                time_on_device_ns=step.time_on_device_ns,
                time_in_driver_ns=step.time_in_driver_ns,
                copied_bytes=step.copied_bytes,
                copy_duration_ns=step.copy_duration_ns,
            )
            for step in report.steps
        ],
    )
