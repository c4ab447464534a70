"""What plans owe to the networks between this host and those of its remote devices."""

from __future__ import annotations

from nnhal.v1 import framework_pb2 as wire
from nnhal_service.fallback import CLIENT, Side
from nnhal_service.runtime import SketchedPlan


def link_to_wire(side: Side) -> wire.DeviceLink | None:
    """Return the network to a device; None if the device is of this host."""
    costs = side.costs
    if not costs.is_wire:
        return None
    return wire.DeviceLink(round_trip_ns=costs.round_trip_ns, ns_per_byte=costs.copy_ns_per_byte)


def side_of(sketch: SketchedPlan, step: int | None) -> Side:
    """Return the device of a step as one end of an edge; None stands for the client."""
    return CLIENT if step is None else sketch.sides[sketch.plan.steps[step].device]


def plan_wire_ns(sketch: SketchedPlan) -> float:
    """Return the modelled time of a run that goes by on networks: round trips, and the bytes of values."""
    total = sum(sketch.sides[step.device].costs.round_trip_ns for step in sketch.plan.steps)
    for value in sketch.values.values():
        source = side_of(sketch, value.writer).costs
        for destination, edge in zip(value.destinations, value.edges, strict=True):
            total += source.copy_ns_per_byte * edge.wire_down_bytes
            total += side_of(sketch, destination).costs.copy_ns_per_byte * edge.wire_up_bytes
    return total


def whole_model_wire_ns(sketch: SketchedPlan, device: str) -> float:
    """Return the same of a run with the whole model on one device; 0 if that is not possible or has no known time."""
    report, costs = sketch.refined.partitioning.report, sketch.sides[device].costs
    if report is None or device not in report.whole_model_hand_over_ns or not costs.is_wire:
        return 0.0
    return report.whole_model_hand_over_ns[device] - costs.hop_ns + costs.round_trip_ns
