"""Figures of a driver on another host, from their messages."""

from __future__ import annotations

from nnhal.v1 import admin_pb2 as wire
from nnhal_devices.figures import (
    MemoryFigure,
    MemorySpan,
    RooflineFigure,
    RooflineLayer,
    TimeFigure,
    TimeSpan,
    WorkloadFigures,
)


def figures_from_wire(message: wire.WorkloadFigures) -> WorkloadFigures:
    """Return a prepared model's figures."""
    return WorkloadFigures(
        tuple(_memory(memory) for memory in message.memories),
        tuple(_time(time) for time in message.times),
        _roofline(message.roofline) if message.HasField("roofline") else None,
    )


def _memory(message: wire.MemoryFigure) -> MemoryFigure:
    spans = tuple(MemorySpan(s.name, s.address, s.bytes, s.begin, s.end, s.kind) for s in message.spans)
    return MemoryFigure(message.name, message.limit_bytes, message.unit, spans)


def _time(message: wire.TimeFigure) -> TimeFigure:
    spans = tuple(TimeSpan(s.lane, s.name, s.begin, s.end, s.kind) for s in message.spans)
    return TimeFigure(message.name, message.unit, tuple(message.lanes), spans)


def _roofline(message: wire.RooflineFigure) -> RooflineFigure:
    layers = tuple(RooflineLayer(layer.name, layer.intensity, layer.rate) for layer in message.layers)
    return RooflineFigure(message.peak, message.bandwidth, message.unit, layers)
