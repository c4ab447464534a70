"""Partitions that are compiled and simulated: step after step, as a whole or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.flow_partition import FlowKernel, FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.graph.reference.evaluation import compute
from nnhal_mlip.flow.partition.cutting import cut_out, steps
from nnhal_mlip.program.program import MAX_PORTS
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import TimingProfile, read_profile

PROFILE: TimingProfile = read_profile()
SMALL_OCM = 8 * 16384
"""Bytes of a tile's memory with which layers run in stripes and values spill."""


class RunOfSteps(NamedTuple):
    """Results of a partition."""

    values: dict[str, Array]
    """Real numbers: the inputs, and what steps hand out."""
    raw: dict[str, Array]
    """What subgraphs hand out, as fp16 or int8."""
    compiled: dict[str, CompiledSubgraph]
    """By the symbol of the subgraph."""

    @property
    def cycles(self) -> int:
        return sum(each.cycles for each in self.compiled.values())


def ranges_of(graph: FlowGraph, *samples: Mapping[str, Array]) -> dict[str, tuple[float, float]]:
    """Return the least and the largest number of each value over samples of the inputs."""
    found: dict[str, tuple[float, float]] = {}
    for sample in samples:
        for name, values in evaluate(graph, sample).items():
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = (min(low, float(values.min())), max(high, float(values.max())))
    return found


def compile_subgraph(partition: FlowPartition, subgraph: FlowSubgraph, **options: Any) -> CompiledSubgraph:
    return compile_files(describe(partition, subgraph), MlipCompilerOptions(profile=PROFILE, **options))


def run_steps(partition: FlowPartition, inputs: Mapping[str, Array], **options: Any) -> RunOfSteps:
    """Compile and simulate the subgraphs, and compute the host's nodes in float, one after the other."""
    graph = partition.graph
    run = RunOfSteps({**evaluate_constants(graph), **inputs}, {}, {})
    for step in steps(partition):
        given = [run.values[name] for name in step.inputs]
        if isinstance(step, FlowSubgraph):
            compiled = compile_subgraph(partition, step, **options)
            run.compiled[step.symbol] = compiled
            made = Simulator(compiled.binary, PROFILE, checked=True).run(given)
            run.values.update(zip(step.outputs, made.outputs, strict=True))
            run.raw.update(zip(step.outputs, made.raw, strict=True))
        else:
            run.values.update(zip(step.outputs, compute(graph, step, given), strict=True))
    return run


def evaluate_constants(graph: FlowGraph) -> dict[str, Array]:
    return evaluate(FlowGraph((), (), {}, graph.values, graph.constants), {})


def layer_by_layer(partition: FlowPartition) -> FlowPartition:
    """Return a partition of which every layer's result leaves the accelerator.

    A subgraph stays one if a binary has enough outputs for its layers. Otherwise it becomes several.
    """
    pieces = [
        subgraph.kernels[begin : begin + MAX_PORTS]
        for subgraph in partition.subgraphs
        for begin in range(0, len(subgraph.kernels), MAX_PORTS)
    ]
    return replace(
        partition,
        subgraphs=tuple(
            replace(subgraph, outputs=tuple(kernel.output for kernel in subgraph.kernels))
            for subgraph in cut_out(partition.graph, pieces)
        ),
    )


def layers(partition: FlowPartition) -> Iterator[FlowKernel]:
    return (kernel for subgraph in partition.subgraphs for kernel in subgraph.kernels)


def computed_alone(graph: FlowGraph, kernel: FlowKernel, values: Mapping[str, Array]) -> Array:
    """Return what a layer makes of given inputs in float."""
    made = {name for node in kernel.nodes for name in node.outputs}
    read = {name for node in kernel.nodes for name in node.inputs} - made
    inputs = tuple(sorted(name for name in read if name not in graph.constants))
    part = FlowGraph(kernel.nodes, inputs, {kernel.output: kernel.output}, graph.values, graph.constants)
    return evaluate(part, {name: values[name] for name in inputs})[kernel.output]


def distance(found: Array, wanted: Array) -> float:
    """Return the largest difference of two arrays, relative to the largest number that is wanted."""
    assert found.shape == wanted.shape
    largest = float(np.abs(wanted).max(initial=0.0))
    difference = float(np.abs(found.astype(np.float64) - wanted).max(initial=0.0))
    return difference / largest if largest else difference
