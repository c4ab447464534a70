"""Choose a device for each operation by NNAPI's rule.

The best device for an operation is the one with the least cost among those that support it. On a tie the earlier device
is chosen, except that the CPU wins ties. A pin overrides the cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import ExecutionPreference, Model
from nnhal_service.partition.candidate import Candidate
from nnhal_service.partition.performance import Performance
from nnhal_service.partition.pins import Pin
from nnhal_service.partition.support import supporting, without_unsized_control_flow


def best_devices(
    model: Model,
    names: Sequence[Sequence[str]],
    candidates: Sequence[Candidate],
    pins: Sequence[Pin],
    cpu: str,
    preference: ExecutionPreference,
) -> tuple[str, ...]:
    """Return the best device for each operation of main. A pin need not match anything.

    ``names`` are the user's node names of each operation. Raises PlacementError if no device takes an operation.
    """
    costs = {c.name: Performance(model, c.capabilities, preference) for c in candidates}
    able = supporting(model, names, without_unsized_control_flow(model, candidates, cpu), pins)
    return tuple(
        min(those, key=lambda c: (costs[c.name].cost(operation, model.main), c.name != cpu)).name
        for operation, those in zip(model.main.operations, able, strict=True)
    )
