"""From an assignment, or from groups, to a plan."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.types import Model
from nnhal.types.layout import Dimensions
from nnhal_service.partition.grow import dependencies, grow
from nnhal_service.partition.plan import Plan
from nnhal_service.partition.step_model import StepMaker, whole


def split(model: Model, devices: Sequence[str], dimensions: Sequence[Dimensions], order: Sequence[str] = ()) -> Plan:
    """The plan of an assignment, by NNAPI's rule. Raises StepError where a step has no inputs or no outputs.

    ``devices`` of each operation, ``dimensions`` of each operand as far as known. ``order`` is that of all devices: of
    those that are ready the last one is taken first. Without it, they are in the order in which operations name them.
    """
    ordered = order or tuple(dict.fromkeys(devices))
    queues = [ordered.index(device) for device in devices]
    groups = grow(dependencies(model.main), queues)
    return plan_of(model, [(ordered[queue], operations) for queue, operations in groups], dimensions)


def plan_of(model: Model, groups: Sequence[tuple[str, Sequence[int]]], dimensions: Sequence[Dimensions]) -> Plan:
    """The plan of groups in an order of execution: of one group, the model as it is. Raises StepError as ``split``."""
    if len(groups) == 1:
        return Plan((whole(model, groups[0][0]),))
    maker = StepMaker(model, dimensions)
    return Plan(tuple(maker.step(device, operations) for device, operations in groups))
