"""Place of each operation of a plan, its cost elsewhere, its inputs and outputs, for the wire."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from nnhal.resolved import operation_name
from nnhal.types import OperandLifeTime
from nnhal.types.layout import is_scalar
from nnhal.v1 import framework_pb2 as wire
from nnhal_service.native.convert import nodes_of
from nnhal_service.partition import Candidate, holding_pins
from nnhal_service.runtime import SketchedPlan

_FRAMEWORK = "framework"
"""The name in place of a device for control flow that the framework walks itself."""
_NOT_IN_A_STEP = -1
_VALUES = frozenset(
    {OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT}
)
"""The lifetimes of operands that a run writes, or its client."""
_Place = tuple[int, int, int, str]
"""Subgraph, operation, step and device."""


def operations_to_wire(sketch: SketchedPlan) -> Iterator[wire.OperationExplanation]:
    """Explain the operations of main in its order, then those of subgraphs whose control flow the framework walks."""
    graphs, candidates = sketch.graphs, sketch.refined.candidates
    pins = holding_pins(sketch.imported.model, sketch.imported.operation_nodes, sketch.choice.pins)
    for subgraph, index, number, device in _places(sketch):
        operation = graphs[subgraph].operations[index]
        taking = [candidate for candidate in candidates if index not in candidate.refusals_in(subgraph)]
        costs = {} if subgraph else dict(_costs(taking, index))
        pin = None if subgraph else pins.get(index)
        yield wire.OperationExplanation(
            nodes=nodes_of(sketch, subgraph, index),
            operation=operation_name(sketch.imported.model, operation.type),
            device=device,
            step=number,
            modelled_ns=costs.get(device, 0.0),
            refusals=[
                wire.DeviceRefusal(device=candidate.name, reason=candidate.refusals_in(subgraph)[index])
                for candidate in candidates
                if candidate not in taking
            ],
            costs=[wire.DeviceCost(device=name, modelled_ns=cost) for name, cost in costs.items()],
            inputs=_values(sketch, subgraph, operation.inputs),
            outputs=_values(sketch, subgraph, operation.outputs),
            pin="" if pin is None else pin.match,
            has_open_dimensions=_has_open_dimensions(sketch, subgraph, (*operation.inputs, *operation.outputs)),
            number=None if subgraph else sketch.survey.origins[index],
            added=not subgraph and sketch.survey.origins[index] is None,
        )


def _places(sketch: SketchedPlan) -> list[_Place]:
    plan = sketch.plan
    places: list[_Place] = [
        (plan.subgraph_of(step), index, number, step.device)
        for number, step in enumerate(plan.steps)
        for index in step.operations
    ]
    placed = {index for subgraph, index, _, _ in places if not subgraph}
    walked = set(range(len(sketch.graphs[0].operations))) - placed
    places += [(0, index, _NOT_IN_A_STEP, _FRAMEWORK) for index in walked]
    return sorted(places, key=_reading_order)


def _reading_order(place: _Place) -> tuple[int, int]:
    subgraph, index, number, _ = place
    return (number + 1, index) if subgraph else (0, index)


def _costs(taking: Sequence[Candidate], index: int) -> Iterator[tuple[str, float]]:
    """The modelled time of an operation of main on each device that gives one."""
    for candidate in taking:
        cost = candidate.operation_ns[index] if candidate.operation_ns else None
        if cost:
            yield candidate.name, cost


def _has_open_dimensions(sketch: SketchedPlan, subgraph: int, operands: Collection[int]) -> bool:
    """Return whether the dimensions of a value among the operands are not known before a run."""
    described = sketch.graphs[subgraph].operands
    return any(
        described[operand].lifetime in _VALUES
        and not is_scalar(described[operand].type)
        and (0 in described[operand].dimensions or not described[operand].dimensions)
        for operand in operands
    )


def _values(sketch: SketchedPlan, subgraph: int, operands: Collection[int]) -> list[str]:
    """The names of those operands that are not constant, each once."""
    described = sketch.graphs[subgraph].operands
    values = [operand for operand in dict.fromkeys(operands) if described[operand].lifetime in _VALUES]
    if subgraph:
        return [f"operand {operand} of subgraph {subgraph}" for operand in values]
    return [sketch.survey.value_names[operand] for operand in values]
