"""Memory that a client has bound, by a plan for its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from nnhal.types.layout import combine
from nnhal_frontends.imported import ImportedModel
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.dimensioned import DimensionedPlan, DimensionedPlans, InputDimensions
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.reports import OutputReport

_RUNS = 8
"""Runs with the same dimensions after which a plan for them is worth its preparation."""


class PlannedBinding(NamedTuple):
    """The plans that a context follows, and what it binds to them."""

    plans: ActivePlan
    outputs: Sequence[TensorBinding]
    settled: Sequence[OutputReport] = ()
    """The dimensions of outputs that the model leaves open and the plan does not."""
    ended: Callable[[], object] = lambda: None
    """To be called when the context follows the plans no longer."""
    insufficient: Sequence[OutputReport] = ()
    """The dimensions of outputs for which a plan for the dimensions of the inputs was not taken: they do not fit."""


class DimensionedBinding:
    """The way of one context to a plan for its dimensions. Used by the run in flight of the context only."""

    def __init__(
        self,
        store: DimensionedPlans,
        declared: ImportedModel,
        dimensions: InputDimensions,
        outputs: Sequence[TensorBinding],
    ) -> None:
        self._store = store
        self._declared = declared
        self._dimensions = dimensions
        self._outputs = outputs
        self._runs = 0
        self.insufficient: Sequence[OutputReport] = ()
        """The outputs that do not fit the plan, after ``planned``."""

    @property
    def is_there(self) -> bool:
        """Return whether there is a plan."""
        return self._store.has(self._dimensions)

    @property
    def is_put_off(self) -> bool:
        """Return whether there may be a plan later, when all devices are there."""
        return not self.is_there and self._store.is_put_off

    @property
    def is_ready(self) -> bool:
        """Return whether there is a plan by now. Every few runs, one is asked for that another thread prepares."""
        self._runs += 1
        if self._runs % _RUNS == 0:
            self._store.want(self._dimensions)
        return self._runs >= _RUNS and self.is_there

    def planned(self) -> PlannedBinding | None:
        """The binding by the plan, which is prepared if there is none; None if there can be none, or it does not fit.

        What is returned holds the plan until ``ended`` is called.
        """
        held = self._store.hold(self._dimensions)
        if held is None:
            return None
        planned = self._fitted(held)
        if planned is None:
            self._store.drop(held)
        return planned

    def _fitted(self, held: DimensionedPlan) -> PlannedBinding | None:
        """The outputs with exactly the bytes that they need; None if one has no memory of the caller's, or too little,
        which ``insufficient`` tells.
        """
        plan = held.plans.original
        tensors = {tensor.name: tensor for tensor in plan.imported.outputs}
        declared = self._declared.model.main.operands
        is_open = {t.name: 0 in declared[t.operand].dimensions for t in self._declared.outputs}
        bindings, settled = list[TensorBinding](), list[OutputReport]()
        for binding in self._outputs:
            tensor = tensors.get(binding.name)
            if tensor is None or binding.memory is not None or binding.omitted:
                return None
            size, dimensions = plan.byte_size(tensor.operand), plan.dimensions[tensor.operand]
            if size and is_open[binding.name]:
                settled.append(OutputReport(binding.name, dimensions, binding.location.length >= size))
                binding = replace(binding, location=replace(binding.location, length=size))
            bindings.append(binding)
        self.insufficient = [output for output in settled if not output.sufficient]
        if self.insufficient:
            return None
        return PlannedBinding(held.plans, bindings, settled, lambda: self._store.drop(held))


def settled_outputs(plan: PreparedPlan) -> list[OutputReport]:
    """Outputs of a model's own plan that the model leaves open, but whose dimensions follow from those that it gives.

    Devices get them as known, and so report nothing of them.
    """
    declared = plan.imported.model.main.operands
    return [
        OutputReport(tensor.name, plan.dimensions[tensor.operand], sufficient=True)
        for tensor in plan.imported.outputs
        if 0 in declared[tensor.operand].dimensions and plan.byte_size(tensor.operand)
    ]


def bound_dimensions(declared: ImportedModel, inputs: Sequence[TensorBinding]) -> InputDimensions | None:
    """The dimensions of all inputs; None unless each has memory of the caller's, and dimensions without a 0.

    Memory of a domain was allocated for the steps of the model's own plan.
    """
    given = {binding.name: binding for binding in inputs}
    found = []
    for tensor in declared.inputs:
        binding = given.get(tensor.name)
        if binding is None or binding.memory is not None or binding.omitted:
            return None
        operand = declared.model.main.operands[tensor.operand].dimensions
        dimensions = binding.dimensions or operand
        if 0 in dimensions or combine(tuple(dimensions), operand) is None:  # the model's own plan refuses those
            return None
        found.append(tuple(dimensions))
    return tuple(found)
