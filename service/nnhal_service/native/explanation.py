"""The explanation of a plan, for the wire."""

from __future__ import annotations

from dataclasses import replace

from nnhal.v1 import framework_pb2 as wire
from nnhal_service.fallback import CLIENT, Edge, PassedValue, Side, lay_out, price_ns
from nnhal_service.native.convert import step_to_wire
from nnhal_service.native.explained_operations import operations_to_wire
from nnhal_service.runtime import SketchedPlan


def explanation_to_wire(sketch: SketchedPlan) -> wire.ModelExplanation:
    """Explain why a plan places a model as it does. Devices are asked only for what they have not answered yet."""
    report = sketch.refined.partitioning.report
    model = sketch.imported.model
    between = [value for value in sketch.values.values() if value.operand in sketch.layout.placements]
    return wire.ModelExplanation(
        operations=operations_to_wire(sketch),
        steps=_steps(sketch),
        edges=[edge for value in sketch.values.values() for edge in _edges(sketch, value)],
        devices=[
            wire.DeviceExplanation(
                name=name,
                realisation=description.realisation if description else "",
                modelled_timing=description.modelled_timing if description else False,
                link=link_to_wire(sketch.sides[name]),
            )
            for name, description in sketch.survey.descriptions.items()
        ],
        modelled_ns=report.cost.total_ns if report else 0.0,
        counterfactuals=_counterfactuals(sketch),
        fallback_bytes=sketch.layout.total_bytes,
        constant_bytes=sketch.constant_bytes,
        client_bytes=sum(sketch.byte_size(n) for n in {*model.main.input_indexes, *model.main.output_indexes}),
        fallback_bytes_unaligned=lay_out(between, align=False).total_bytes,
        arena_values=_arena_values(sketch),
        wire_ns=plan_wire_ns(sketch),
        image_layout=_image_layout(sketch),
    )


def _image_layout(sketch: SketchedPlan) -> wire.ImageLayoutExplanation | None:
    images = sketch.choice.images
    if images is None:
        return None
    return wire.ImageLayoutExplanation(
        channels_last=images.is_converted,
        wanting=images.wanting,
        other_ns=images.other_ns or 0.0,
        other_reason=images.other_reason,
    )


def _steps(sketch: SketchedPlan) -> list[wire.StepExplanation]:
    report, steps = sketch.refined.partitioning.report, sketch.plan.steps
    costs = [cost.launch_ns + cost.compute_ns for cost in report.cost.steps] if report else [0.0] * len(steps)
    return [
        wire.StepExplanation(
            device=step.device,
            operations=len(step.operations),
            modelled_ns=cost,
            optimizations=sketch.optimised(step),
            working_bytes=sketch.working_bytes(step),
        )
        for step, cost in zip(steps, costs, strict=True)
    ]


def _arena_values(sketch: SketchedPlan) -> list[wire.ArenaValue]:
    """The values between steps by their addresses."""
    placed = sorted(sketch.layout.placements.items(), key=lambda entry: (entry[1].kind, entry[1].offset, entry[0]))
    return [
        wire.ArenaValue(
            value=sketch.survey.value_names[operand],
            memory=place.kind,
            offset=place.offset,
            bytes=value.size,
            first_step=value.first,
            last_step=value.last,
        )
        for operand, place in placed
        for value in [sketch.values[operand]]
    ]


def _edges(sketch: SketchedPlan, value: PassedValue) -> list[wire.EdgeExplanation]:
    source = value.writer
    name = sketch.survey.value_names[value.operand]
    return [
        _edge(
            name,
            source,
            destination,
            replace(edge, reason=edge.reason + value.note),
            price_ns(edge, side_of(sketch, source), side_of(sketch, destination)),
        )
        for destination, edge in zip(value.destinations, value.edges, strict=True)
    ]


def _edge(name: str, source: int | None, destination: int | None, edge: Edge, cost: float) -> wire.EdgeExplanation:
    return wire.EdgeExplanation(
        value=name,
        source_step=step_to_wire(source),
        source=edge.source,
        destination_step=step_to_wire(destination),
        destination=edge.destination,
        strategy=edge.strategy.value,
        layer=edge.layer.value,
        memory=edge.kind,
        bytes=edge.bytes,
        copied_bytes=edge.copied_bytes,
        alignment=edge.alignment,
        sync=edge.sync,
        reason=edge.reason,
        modelled_ns=cost,
        wire_up_bytes=edge.wire_up_bytes,
        wire_down_bytes=edge.wire_down_bytes,
    )


def _counterfactuals(sketch: SketchedPlan) -> list[wire.Counterfactual]:
    report = sketch.refined.partitioning.report
    found = []
    for candidate in sketch.refined.candidates:
        modelled = report.whole_model_ns.get(candidate.name, 0.0) if report else 0.0
        refused = min(candidate.refusals, default=None)
        if not modelled and refused is None:
            continue  # it takes the whole model, for which no time was modelled
        reason = "" if refused is None else f"operation {refused}: {candidate.refusals[refused]}"
        found.append(
            wire.Counterfactual(
                device=candidate.name,
                modelled_ns=modelled,
                reason="" if modelled else reason,
                wire_ns=whole_model_wire_ns(sketch, candidate.name),
            )
        )
    return found


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
