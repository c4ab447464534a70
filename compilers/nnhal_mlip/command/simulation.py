"""Run a compiled network: its subgraphs on the simulator, the rest by the reference evaluator, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnhal.arrays import Array
from nnhal_mlip.command.calibration import graph_inputs
from nnhal_mlip.command.compiling import CompiledNetwork, HostStep
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.samples import ModelSample, read_sample
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.reference import compute, evaluate
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.simulator.simulator import SimulatedRun, Simulator
from nnhal_mlip.simulator.trace import TraceEvent, run_trace

SubgraphRunner = Callable[[FlowSubgraph, Mapping[str, Array]], dict[str, Array]]
"""Computes the outputs of a subgraph from its inputs, all real numbers by the names of their values."""


@dataclass(slots=True)
class SimulatedSubgraphs:
    """Runs subgraphs on the simulator, and keeps what each run took."""

    simulators: Mapping[str, Simulator]
    """By symbol."""
    runs: dict[str, SimulatedRun]

    def __call__(self, subgraph: FlowSubgraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one."""
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


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Outputs and figures of a simulated run."""

    outputs: Mapping[str, Array]
    """By the user's names, in the types of the user's model."""
    runs: Mapping[str, SimulatedRun]
    """The runs of each binary, by its symbol."""


def simulate(network: CompiledNetwork, given: Path) -> SimulationResult:
    """Run a network on the arrays of an npz file.

    Raises:
        OSError: a file cannot be read.
        NnhalError, ValueError: a file is not what it has to be.
    """
    model, found = network.model, network.partition
    sample = read_sample(given, model.inputs)
    runner = SimulatedSubgraphs(network.simulators(), {})
    outputs = model_outputs(model, found, execute(model, found, sample, runner))
    return SimulationResult(outputs, runner.runs)


def network_trace(network: CompiledNetwork) -> dict[str, Any]:
    """Return a trace of all binaries with the firmware's time before each, and of what the host computes, for Perfetto.

    All times are modelled, one behind the other.
    """
    profile = network.request.profile
    names: dict[tuple[Any, ...], TraceEvent] = {}
    """Of processes and threads, which all binaries share."""
    for what, row, name in (
        ("process_name", 0, "host and firmware (modelled)"),
        ("thread_name", 0, "host"),
        ("thread_name", 1, "firmware"),
    ):
        names[what, 0, row] = {"ph": "M", "name": what, "pid": 0, "tid": row, "args": {"name": name}}
    events: list[TraceEvent] = []
    now = 0.0
    for step in network.steps:
        if isinstance(step, HostStep):
            took = step.ns / 1000
            events.append({"ph": "X", "name": f"host: {step.name}", "pid": 0, "tid": 0, "ts": now, "dur": took})
            now += took
            continue
        start = now + profile.firmware_ns / 1000
        events.append(
            {"ph": "X", "name": f"firmware: {step.symbol}", "pid": 0, "tid": 1, "ts": now, "dur": start - now}
        )
        for event in run_trace(step.compiled.program, step.times, profile)["traceEvents"]:
            if event["ph"] == "M":
                names[event["name"], event["pid"], event["tid"]] = event
            else:
                events.append({**event, "ts": event["ts"] + start})
        now = start + profile.nanoseconds(step.times.total) / 1000
    facts = {"modelled": True, "profile": profile.name, "clock_hz": profile.clock_hz, "model": network.model.name}
    return {"traceEvents": [*names.values(), *events], "displayTimeUnit": "ns", "otherData": facts}
