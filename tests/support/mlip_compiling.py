"""Flow graphs, compiled as a whole for the MLIP and run on its simulator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import read_profile

TOLERANCES = {"fp16": 0.01, "int8": 0.12}
"""The largest distance from the reference, relative to the largest value."""
PROFILE = read_profile()


class GraphInFiles:
    """The subgraphs of a graph in files, with one set of values."""

    def __init__(self, graph: FlowGraph, seed: int = 0) -> None:
        self.partition = partition(graph)
        random = np.random.default_rng(seed)
        fed = {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}
        self.values: Mapping[str, Array] = evaluate(self.partition.graph, fed)
        self.files: list[SubgraphFiles] = [describe(self.partition, each) for each in self.partition.subgraphs]
        self.ranges = {name: (float(value.min()), float(value.max())) for name, value in self.values.items()}

    def compile(self, number: int = 0, **options: object) -> CompiledSubgraph:
        given = {"ranges": self.ranges, **options}
        return compile_files(self.files[number], MlipCompilerOptions(**given))  # type: ignore[arg-type]

    def check(self, compiled: CompiledSubgraph, quantize: str, number: int = 0) -> None:
        """Run a subgraph, with every byte's writer checked, and compare its outputs with the reference."""
        subgraph = self.partition.subgraphs[number]
        run = Simulator(compiled.binary, PROFILE, checked=True).run([self.values[name] for name in subgraph.inputs])
        assert run.timeline.total == compiled.cycles
        for name, output in zip(subgraph.outputs, run.outputs, strict=True):
            expected = self.values[name]
            limit = TOLERANCES[quantize] * max(float(np.abs(expected).max()), 1e-3)
            assert output.shape == expected.shape
            assert np.abs(output - expected).max() <= limit, name


def check_graph(graph: FlowGraph, quantize: str = "fp16", **options: object) -> list[CompiledSubgraph]:
    """Compile all subgraphs of a graph and check what they compute."""
    given = GraphInFiles(graph)
    found = []
    for number in range(len(given.files)):
        found.append(given.compile(number, quantize=quantize, **options))
        given.check(found[-1], quantize, number)
    return found
