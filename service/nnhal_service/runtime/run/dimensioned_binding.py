"""What a client has bound, in terms of a plan for certain dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nnhal_frontends.imported import ImportedModel
from nnhal_service.runtime.memory.bindings import TensorBinding
from nnhal_service.runtime.plan.dimensioned import InputDimensions
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.run.reports import OutputReport


class FittedOutputs(NamedTuple):
    """The bindings of outputs with exactly the bytes that they need."""

    bindings: Sequence[TensorBinding]
    settled: Sequence[OutputReport]
    """The dimensions of outputs that the model leaves open and the plan does not."""


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
        dimensions = binding.dimensions or declared.model.main.operands[tensor.operand].dimensions
        if 0 in dimensions:
            return None
        found.append(tuple(dimensions))
    return tuple(found)


def fitted_outputs(
    declared: ImportedModel, plan: PreparedPlan, outputs: Sequence[TensorBinding]
) -> FittedOutputs | None:
    """The outputs for a plan; None if one has too little memory, or none of the caller's."""
    tensors = {tensor.name: tensor for tensor in plan.imported.outputs}
    is_open = {t.name: 0 in declared.model.main.operands[t.operand].dimensions for t in declared.outputs}
    bindings, settled = [], []
    for binding in outputs:
        tensor = tensors.get(binding.name)
        if tensor is None or binding.memory is not None or binding.omitted:
            return None
        size, dimensions = plan.byte_size(tensor.operand), plan.dimensions[tensor.operand]
        if size and is_open[binding.name]:
            if binding.location.length < size:
                return None
            binding = replace(binding, location=replace(binding.location, length=size))
            settled.append(OutputReport(binding.name, dimensions, True))
        bindings.append(binding)
    return FittedOutputs(bindings, settled)
