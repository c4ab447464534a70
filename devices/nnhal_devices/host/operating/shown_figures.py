"""A driver's figures as messages."""

from __future__ import annotations

from nnhal.v1 import admin_pb2 as wire
from nnhal_devices.backend import Backend
from nnhal_devices.figures import MemoryFigure, RooflineFigure, TimeFigure, WorkloadFigures


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
    """Return the message for a prepared model's figures."""
    return wire.WorkloadFigures(
        memories=[_memory(memory) for memory in figures.memories],
        times=[_time(time) for time in figures.times],
        roofline=None if figures.roofline is None else _roofline(figures.roofline),
    )


def _memory(memory: MemoryFigure) -> wire.MemoryFigure:
    return wire.MemoryFigure(
        name=memory.name,
        limit_bytes=memory.limit_bytes,
        unit=memory.unit,
        spans=[
            wire.MemorySpan(
                name=span.name,
                address=span.address,
                bytes=span.bytes,
                begin=span.begin,
                end=span.end,
                kind=span.kind,
            )
            for span in memory.spans
        ],
    )


def _time(time: TimeFigure) -> wire.TimeFigure:
    return wire.TimeFigure(
        name=time.name,
        unit=time.unit,
        lanes=time.lanes,
        spans=[
            wire.TimeSpan(lane=span.lane, name=span.name, begin=span.begin, end=span.end, kind=span.kind)
            for span in time.spans
        ],
    )


def _roofline(roofline: RooflineFigure) -> wire.RooflineFigure:
    return wire.RooflineFigure(
        peak=roofline.peak,
        bandwidth=roofline.bandwidth,
        unit=roofline.unit,
        layers=[
            wire.RooflineLayer(name=layer.name, intensity=layer.intensity, rate=layer.rate) for layer in roofline.layers
        ],
    )
