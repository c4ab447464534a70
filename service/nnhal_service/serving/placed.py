"""Where the operations of a served model are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nnhal_service.runtime import PreparedPlan, RunReport


class Placed(NamedTuple):
    """Where a plan has the operations of its steps: each with their number, and all of them by device.

    ``steps`` are the devices of the steps, none where control flow is walked.
    """

    prepared: PreparedPlan
    operations: Sequence[tuple[str, int]]
    devices: str
    steps: tuple[str, ...]

    @classmethod
    def by(cls, prepared: PreparedPlan) -> Placed:
        """Of a plan."""
        operations = [(step.device, len(step.operations)) for step in prepared.plan.steps]
        steps = () if prepared.plan.walk is not None else tuple(device for device, _ in operations)
        return cls(prepared, operations, _counted(operations), steps)

    def devices_of(self, report: RunReport) -> str:
        """All operations by device, as a run that was measured had them."""
        places = {step.step: step.device for step in report.steps}
        if report.fell_back and len(places) == 1:  # the whole model ran as one step
            places = dict.fromkeys(range(len(self.operations)), *places.values())
        return _counted((device, self.operations[number][1]) for number, device in places.items())


def _counted(operations: Iterable[tuple[str, int]]) -> str:
    """Operations by device, in the order of their first steps."""
    counts: Counter[str] = Counter()
    for device, count in operations:
        counts[device] += count
    return ",".join(f"{device}:{count}" for device, count in counts.items())
