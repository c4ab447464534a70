"""Run a network: its subgraphs on the simulator, the rest by the reference evaluator, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from nnhal.arrays import Array
from nnhal_mlip.command.calibration import graph_inputs
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.samples import ModelSample
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.reference import compute, evaluate
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.simulator.simulator import SimulatedRun, Simulator


class SubgraphRunner(Protocol):
    """Computes values of a subgraph."""

    def __call__(self, subgraph: FlowSubgraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the real numbers of its outputs at least, by the names of the values."""
        ...


@dataclass(slots=True)
class SimulatedSubgraphs:
    """Runs subgraphs on the simulator, and keeps what each run took."""

    simulators: Mapping[str, Simulator]
    """By symbol."""
    runs: dict[str, SimulatedRun]

    def __call__(self, subgraph: FlowSubgraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        run = self.simulators[subgraph.symbol].run([inputs[name] for name in subgraph.inputs])
        self.runs[subgraph.symbol] = run
        return dict(zip(subgraph.outputs, run.outputs, strict=True))


def execute(model: FlowModel, found: FlowPartition, sample: ModelSample, runner: SubgraphRunner) -> dict[str, Array]:
    """Return all values that are known of a run, by their names in the graph, as real numbers.

    Raises:
        ValueError: an input is not what the model takes.
        NnhalError: something cannot be computed.
    """
    graph = found.graph
    values = evaluate(replace(graph, nodes=()), graph_inputs(model, sample))  # constants and inputs as real numbers
    for step in steps(found):
        if isinstance(step, FlowSubgraph):
            values.update(runner(step, values))
        else:
            results = compute(graph, step, [values[name] for name in step.inputs])
            values.update(zip(step.outputs, results, strict=True))
    return values


def model_outputs(model: FlowModel, found: FlowPartition, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a run by the user's names, in the types of the user's model."""
    own = ((port, port.own(values[found.graph.outputs[port.value]])) for port in model.outputs)
    return {port.name: array if port.shape else array.reshape(()) for port, array in own}
