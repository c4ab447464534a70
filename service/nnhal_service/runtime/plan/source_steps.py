"""Steps in the words of the user's file, for devices that prefer them: a step is then one operation of an extension.

The device's answers about single operations are about the HAL's. What it takes only in the file's words, such as an
operation of unknown dimensions, depends on the step: it must be one that these words can say.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Candidate, Plan, Step

NOT_ALONE = "the nodes of the file cannot be split where this step would be"


class SourceSteps:
    """The steps of one model in the words of its file. Safe to use from several threads."""

    def __init__(self, imported: ImportedModel, only: Mapping[str, Mapping[int, str]]) -> None:
        """``only`` has the devices that prefer such steps, with the operations of main that each takes only so, and why
        it declines the HAL's.
        """
        self._imported = imported
        self._only = only
        self._lock = threading.Lock()
        self._made: dict[tuple[int, ...], Step | None] = {}

    def of(self, step: Step) -> Step:
        """Return a step with its model in the file's words, if its device prefers that and they can say it."""
        if step.device not in self._only or step.scope or step.carried:
            return step
        return self._in_words(step) or step

    def failed(self, step: Step) -> Iterator[tuple[Sequence[int], str]]:
        """Yield the operations, by position in the step, that the device cannot take in this step, with the reason."""
        only = self._only.get(step.device, {}) if not step.scope else {}
        if only.keys().isdisjoint(step.operations) or self.of(step).source is not None:
            return
        for position, operation in enumerate(step.operations):
            if operation in only:
                yield [position], f"{only[operation]}; {NOT_ALONE}"

    def plan(self, plan: Plan) -> Plan:
        """Return the plan with its steps in the file's words, as far as these can say them."""
        return replace(plan, steps=tuple(self.of(step) for step in plan.steps)) if plan.walk is None else plan

    def _in_words(self, step: Step) -> Step | None:
        with self._lock:
            if step.operations not in self._made:
                form = self._imported.source
                model = None if form is None else form.model_of(step.model, step.inputs, step.outputs)
                self._made[step.operations] = None if model is None else replace(step, source=model)
            made = self._made[step.operations]
        return None if made is None else replace(step, source=made.source)


def taking_in_words(candidate: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Return a device that takes every operation, those that it refuses in the HAL's words at another's cost.

    It has modelled times only of what it takes in the HAL's words. For the rest it is not taken to be faster than the
    fastest of the other devices.
    """
    costs = list(candidate.operation_ns)
    for number in candidate.refusals if costs else ():
        known = [other.operation_ns[number] or 0.0 for other in others if other.operation_ns]
        costs[number] = min((cost for cost in known if cost), default=max(cost or 0.0 for cost in costs))
    return replace(candidate, refusals={}, operation_ns=costs)
