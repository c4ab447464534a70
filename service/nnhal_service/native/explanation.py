"""The explanation of a plan, for the wire."""

from __future__ import annotations

from dataclasses import replace

from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal.v1 import framework_pb2 as wire
from nnhal_service.fallback import Edge, PassedValue, edge_ns, lay_out
from nnhal_service.native.convert import nodes_of, operation_name, step_to_wire
from nnhal_service.runtime import PreparedPlan

_FRAMEWORK = "framework"
"""The name in place of a device for control flow that the framework walks itself."""
_NOT_IN_A_STEP = -1


def explanation_to_wire(prepared: PreparedPlan) -> wire.ModelExplanation:
    """Explain why a plan places a model as it does. Asks the devices how they optimise their steps."""
    report = prepared.refined.partitioning.report
    model = prepared.imported.model
    between = [value for value in prepared.values.values() if value.operand in prepared.memory.layout.placements]
    return wire.ModelExplanation(
        operations=_operations(prepared),
        steps=_steps(prepared),
        edges=[edge for value in prepared.values.values() for edge in _edges(prepared, value)],
        devices=[
            wire.DeviceExplanation(
                name=name,
                realisation=description.realisation if description else "",
                modelled_timing=description.modelled_timing if description else False,
            )
            for name, description in prepared.descriptions.items()
        ],
        modelled_ns=report.cost.total_ns if report else 0.0,
        counterfactuals=_counterfactuals(prepared),
        fallback_bytes=prepared.memory.layout.total_bytes,
        constant_bytes=len(model.operand_values) + sum(validate_pool(pool, "constants") for pool in model.pools),
        client_bytes=sum(prepared.byte_size(n) for n in {*model.main.input_indexes, *model.main.output_indexes}),
        fallback_bytes_unaligned=lay_out(between, align=False).total_bytes,
    )


def _operations(prepared: PreparedPlan) -> list[wire.OperationExplanation]:
    """Explain the operations of main in its order, then those of subgraphs whose control flow the framework walks."""
    plan = prepared.plan
    places = [
        (plan.subgraph_of(step), index, number, step.device)
        for number, step in enumerate(plan.steps)
        for index in step.operations
    ]
    placed = {index for subgraph, index, _, _ in places if not subgraph}
    walked = set(range(len(prepared.graphs[0].operations))) - placed
    places += [(0, index, _NOT_IN_A_STEP, _FRAMEWORK) for index in walked]
    return [_operation(prepared, *place) for place in sorted(places, key=_reading_order)]


def _reading_order(place: tuple[int, int, int, str]) -> tuple[int, int]:
    subgraph, index, number, _ = place
    return (number + 1, index) if subgraph else (0, index)


def _operation(
    prepared: PreparedPlan, subgraph: int, index: int, number: int, device: str
) -> wire.OperationExplanation:
    candidates = prepared.refined.candidates
    costs = {candidate.name: candidate.operation_ns for candidate in candidates}.get(device, ())
    return wire.OperationExplanation(
        nodes=nodes_of(prepared, subgraph, index),
        operation=operation_name(prepared, prepared.graphs[subgraph].operations[index]),
        device=device,
        step=number,
        modelled_ns=(costs[index] or 0.0) if costs and not subgraph else 0.0,
        refusals=[
            wire.DeviceRefusal(device=candidate.name, reason=refusals[index])
            for candidate in candidates
            for refusals in [candidate.refusals_in(subgraph)]
            if index in refusals
        ],
    )


def _steps(prepared: PreparedPlan) -> list[wire.StepExplanation]:
    report = prepared.refined.partitioning.report
    costs = [cost.launch_ns + cost.compute_ns for cost in report.cost.steps] if report else [0.0] * len(prepared.parts)
    explained = []
    for step, part, cost in zip(prepared.plan.steps, prepared.parts, costs, strict=True):
        try:
            views = part.member.remote.optimize_subgraph(step.model)
            optimizations = [replacement for _, replacement in views.substitutions]
        except HalError:  # a device without a backend
            optimizations = []
        explained.append(
            wire.StepExplanation(
                device=step.device,
                operations=len(step.operations),
                modelled_ns=cost,
                optimizations=optimizations,
            )
        )
    return explained


def _edges(prepared: PreparedPlan, value: PassedValue) -> list[wire.EdgeExplanation]:
    cost = edge_ns(prepared.sides)
    source = value.writer
    name = prepared.imported.operand_names[value.operand] or f"operand {value.operand}"
    return [
        _edge(
            name,
            source,
            destination,
            replace(edge, reason=edge.reason + value.note),
            cost(_device(prepared, source), _device(prepared, destination), value.size),
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
    )


def _device(prepared: PreparedPlan, step: int | None) -> str | None:
    return None if step is None else prepared.plan.steps[step].device


def _counterfactuals(prepared: PreparedPlan) -> list[wire.Counterfactual]:
    report = prepared.refined.partitioning.report
    found = []
    for candidate in prepared.refined.candidates:
        modelled = report.whole_model_ns.get(candidate.name, 0.0) if report else 0.0
        refused = min(candidate.refusals, default=None)
        if not modelled and refused is None:
            continue  # it takes the whole model, for which no time was modelled
        reason = "" if refused is None else f"operation {refused}: {candidate.refusals[refused]}"
        found.append(
            wire.Counterfactual(device=candidate.name, modelled_ns=modelled, reason="" if modelled else reason)
        )
    return found
