"""Simulate a compiled network on a user's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnhal.arrays import Array
from nnhal_mlip.command.compiling import subgraph_options
from nnhal_mlip.command.execution import SimulatedSubgraphs, execute, model_outputs
from nnhal_mlip.command.folder import CompiledFolder
from nnhal_mlip.command.layer_errors import LayerError, LayerProbes
from nnhal_mlip.command.plan_file import MlipPlan
from nnhal_mlip.command.samples import read_sample
from nnhal_mlip.simulator.simulator import SimulatedRun, Simulator
from nnhal_mlip.simulator.trace import TraceEvent, run_trace


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a run has given."""

    outputs: Mapping[str, Array]
    """By the user's names, in the types of the user's model."""
    runs: Mapping[str, SimulatedRun]
    """The runs of each binary, by its symbol."""
    simulators: Mapping[str, Simulator]
    errors: tuple[LayerError, ...]
    """By layer, if they were asked for."""


def simulate(folder: CompiledFolder, given: Path, compare: bool) -> SimulationResult:
    """Run a network on the arrays of an npz file; ``compare`` it with the float network too.

    Raises:
        OSError: a file cannot be read.
        NnhalError, ValueError: a file is not what it has to be.
    """
    simulators = folder.simulators()
    model, found = folder.model()
    sample = read_sample(given, model.inputs)
    runner = SimulatedSubgraphs(simulators, {})
    outputs = model_outputs(model, found, execute(model, found, sample, runner))
    errors: Sequence[LayerError] = ()
    if compare:
        ranges = folder.ranges()
        plan = folder.plan
        options = {
            each.symbol: subgraph_options(plan.target, plan.timing, found, each, ranges) for each in found.subgraphs
        }
        errors = LayerProbes(found, options).errors(model, [sample])
    return SimulationResult(outputs, runner.runs, simulators, tuple(errors))


def network_trace(plan: MlipPlan, simulators: Mapping[str, Simulator]) -> dict[str, Any]:
    """Return a trace of all binaries with the firmware's time before each, and of what the host computes, for Perfetto.

    All times are modelled, one behind the other.
    """
    profile = plan.timing
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
    for step in plan.steps:
        if step.host:
            took = step.host_ns / 1000
            events.append({"ph": "X", "name": f"host: {step.host}", "pid": 0, "tid": 0, "ts": now, "dur": took})
            now += took
            continue
        simulator = simulators[step.subgraph]
        start = now + profile.firmware_ns / 1000
        events.append(
            {"ph": "X", "name": f"firmware: {step.subgraph}", "pid": 0, "tid": 1, "ts": now, "dur": start - now}
        )
        for event in run_trace(simulator.program, simulator.timeline, profile)["traceEvents"]:
            if event["ph"] == "M":
                names[event["name"], event["pid"], event["tid"]] = event
            else:
                events.append({**event, "ts": event["ts"] + start})
        now = start + profile.nanoseconds(simulator.timeline.total) / 1000
    facts = {"modelled": True, "profile": profile.name, "clock_hz": profile.clock_hz, "model": plan.model_name}
    return {"traceEvents": [*names.values(), *events], "displayTimeUnit": "ns", "otherData": facts}
