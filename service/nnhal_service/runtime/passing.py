"""What passes between the steps of a plan, and the memory for as much of it as has a known size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.extensions import size_in_bytes
from nnhal.types import Model
from nnhal.types.layout import Dimensions
from nnhal_service.fallback import FallbackLayout, PassedValues, Side, lay_out, values_of
from nnhal_service.partition import Plan


def passed_values(
    model: Model,
    plan: Plan,
    sides: Mapping[str, Side],
    dimensions: Sequence[Dimensions],
    element_sizes: Mapping[int, int],
) -> PassedValues:
    """The values of a plan, of size 0 where ``dimensions``, those of main's operands, do not tell it.

    Where the runtime walks control flow, those that pass between steps within main, and between these and the client.
    """
    graph = model.main

    def size_of(operand: int) -> int:
        return size_in_bytes(graph.operands[operand].type, dimensions[operand], element_sizes)

    steps = [step if step.scope == 0 else replace(step, inputs=(), outputs=()) for step in plan.steps]
    return values_of(steps, sides, frozenset(graph.input_indexes), frozenset(graph.output_indexes), size_of)


def arena_of(plan: Plan, values: PassedValues) -> FallbackLayout:
    """Where the values lie that are the framework's and have a known size.

    In a walk of control flow none do: a loop comes by a step more than once, so that no value has a last reader.
    """
    ours = [value for value in values.values() if value.is_ours and value.size]
    return lay_out(ours if plan.walk is None else [])
