"""A driver's figures as messages."""

from __future__ import annotations

from dataclasses import asdict

from nnhal.v1 import admin_pb2 as wire
from nnhal_devices.backend import Backend
from nnhal_devices.figures import OperationTimes, WorkloadFigures


def device_figures_to_wire(backend: Backend) -> list[wire.DeviceFigure]:
    """Return the messages for a driver's figures of this moment."""
    return [wire.DeviceFigure(name=f.name, value=f.value, unit=f.unit) for f in backend.figures()]


def temperature_of(backend: Backend) -> float | None:
    """Return the temperature of the emulated hardware, in degrees Celsius; None if it emulates none."""
    return None if backend.temperature is None else backend.temperature()


def limits_to_wire(backend: Backend) -> list[wire.OperationLimit]:
    """Return the messages for what a driver says of its operations."""
    return [
        wire.OperationLimit(operation=limit.operation.name, conditions=limit.conditions)
        for limit in backend.operation_limits()
    ]


def figures_to_wire(figures: WorkloadFigures) -> wire.WorkloadFigures:
    """Return the message for a prepared model's figures, whose fields have the same names."""
    return wire.WorkloadFigures(**asdict(figures))


def operation_times_to_wire(times: OperationTimes, operation_count: int) -> wire.MeasureOperationsResponse:
    """Return the message for the times of a prepared model that has so many operations."""
    return wire.MeasureOperationsResponse(**asdict(times), operation_count=operation_count)
