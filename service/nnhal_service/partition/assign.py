"""Which device takes each operation: NNAPI's rule.

The best device of an operation is the one with the least cost among those that support it; on a tie the earlier one,
except that the CPU wins ties. A pin overrides the cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import ExecutionPreference, Model
from nnhal_service.partition.candidate import Candidate as Candidate
from nnhal_service.partition.candidate import Pin
from nnhal_service.partition.performance import Performance
from nnhal_service.partition.support import CPU, require_pins, supporting, without_open_control_flow


def assign(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    pins: Sequence[Pin] = (),
    *,
    cpu: str = CPU,
    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
) -> tuple[str, ...]:
    """The device of each operation of main. ``names`` are the user's node names of each. Raises PlacementError."""
    require_pins(model, names, candidates, pins)
    return best_devices(model, names, candidates, pins, cpu, preference)


def best_devices(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    pins: Sequence[Pin],
    cpu: str,
    preference: ExecutionPreference,
) -> tuple[str, ...]:
    """As ``assign``, for a graph in which a pin need not match anything. Raises PlacementError where nobody can."""
    costs = {c.name: Performance(model, c.capabilities, preference) for c in candidates}
    able = supporting(model, names, without_open_control_flow(model, candidates, cpu), pins)
    return tuple(
        min(those, key=lambda c: (costs[c.name].cost(operation, model.main), c.name != cpu)).name
        for operation, those in zip(model.main.operations, able, strict=True)
    )
