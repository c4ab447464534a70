"""The ranges of a float network's values on samples, from which int8 has its scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.samples import ModelSample
from nnhal_mlip.flow.flow_partition import FlowPartition
from nnhal_mlip.flow.graph.reference import evaluate

ValueRanges = Mapping[str, tuple[float, float]]
"""The least and the largest number of each value, by its name in the graph."""


def graph_inputs(model: FlowModel, sample: ModelSample) -> dict[str, Array]:
    """Return a sample as values of the graph. Raises ValueError if an array is not what the model takes."""
    shape = model.graph.shape  # which has an axis for a scalar
    return {port.value: port.real(sample[port.name]).reshape(shape(port.value)) for port in model.inputs}


def calibrate(model: FlowModel, found: FlowPartition, samples: Sequence[ModelSample]) -> ValueRanges:
    """Return the ranges of all float values that subgraphs read and compute, by the reference evaluator.

    Raises ValueError if a value is infinite or NaN.
    """
    wanted = dict.fromkeys(
        name
        for subgraph in found.subgraphs
        for name in (*subgraph.inputs, *(kernel.output for kernel in subgraph.kernels))
        if found.graph.values[name].element_type.kind == "f"
    )
    ranges: dict[str, tuple[float, float]] = {}
    for number, sample in enumerate(samples):
        values = evaluate(found.graph, graph_inputs(model, sample))
        for name in wanted:
            low, high = float(np.min(values[name])), float(np.max(values[name]))
            if not np.isfinite([low, high]).all():
                raise ValueError(f"sample {number}: value '{name}' is from {low} to {high}, expected finite numbers")
            before = ranges.get(name, (low, high))
            ranges[name] = (min(low, before[0]), max(high, before[1]))
    return ranges
