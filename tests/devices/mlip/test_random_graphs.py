"""Random graphs from the partition to a simulated run: what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from nnhal_mlip.compiler.compiler import CompiledSubgraph
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_mlip.simulator.report import program_bound
from tests.support.flow_graphs import random_inputs
from tests.support.mlip_runs import (
    PROFILE,
    compile_subgraph,
    computed_alone,
    distance,
    layer_by_layer,
    layers,
    ranges_of,
    run_steps,
)
from tests.support.mlip_subgraphs import random_graph
from tests.support.random_flow_graphs import random_flow_graph

FP16_LAYER, FP16_NETWORK = 2**-9, 2**-7
"""Layers here have few channels, whose errors do not cancel; some results are small since their sums do."""
INT8_LAYER = 2**-3


def graph_of(kind: str, seed: int) -> FlowGraph:
    return random_flow_graph(seed) if kind == "host" else random_graph(seed)


SOME = [(kind, seed) for kind in ("host", "layers") for seed in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), SOME)
def test_layers_of_random_graphs_are_the_reference(kind: str, seed: int) -> None:
    graph, random = graph_of(kind, seed), np.random.default_rng(seed)
    inputs = random_inputs(graph, seed)
    found = layer_by_layer(partition(graph))
    ranges = ranges_of(found.graph, inputs)
    for quantize, tolerance in (("fp16", FP16_LAYER), ("int8", INT8_LAYER)):
        run = run_steps(
            found,
            inputs,
            quantize=quantize,
            ranges=ranges,
            num_tiles=int(random.choice([1, 2, 4, 8])),
            ocm_size=int(random.choice([OCM_BYTES // 16, OCM_BYTES // 8, OCM_BYTES])),
            page_bytes=int(random.choice([1024, 4096, 16384])),
        )
        for layer in layers(found):
            wanted = computed_alone(found.graph, layer, run.values)
            assert distance(run.values[layer.output], wanted) <= tolerance, (quantize, layer.user_names)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), SOME)
@pytest.mark.parametrize("beyond_public", [True, False])
def test_outputs_of_random_graphs_are_the_reference(kind: str, seed: int, beyond_public: bool) -> None:
    graph = graph_of(kind, seed)
    found = partition(graph, FlowOptions(beyond_public=beyond_public, revert=False))
    inputs = random_inputs(graph, seed)
    run, wanted = run_steps(found, inputs), evaluate(graph, inputs)
    for user, value in found.graph.outputs.items():
        assert distance(run.values[value], wanted[graph.outputs[user]]) <= FP16_NETWORK, user


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [SOME[1], SOME[2], SOME[-6], SOME[-4]])
def test_nothing_that_should_help_makes_a_random_graph_slower(kind: str, seed: int) -> None:
    graph = graph_of(kind, seed)
    inputs = random_inputs(graph, seed)
    found = partition(graph)
    cycles = all_cycles(found, ranges_of(found.graph, inputs))
    for (quantize, pinned, tiles), these in cycles.items():
        for other in ((quantize, pinned, tiles // 2), (quantize, False, tiles), ("fp16", pinned, tiles)):
            assert all(one <= least for one, least in zip(these, cycles.get(other, these), strict=True))


def all_cycles(
    found: FlowPartition, ranges: Mapping[str, tuple[float, float]]
) -> dict[tuple[str, bool, int], list[int]]:
    """Return the cycles of each subgraph by type, pinning and tiles; those that do not fit with pinned weights are out.

    They must not be less than the bound.
    """
    cycles = {}
    for quantize in ("fp16", "int8"):
        for pinned in (False, True):
            for tiles in (1, 2, 4, 8):
                try:
                    compiled = compiled_by(found, quantize=quantize, wb_pin_ocm=pinned, num_tiles=tiles, ranges=ranges)
                except MisfitOfTilesError:
                    assert pinned
                    continue
                assert all(each.cycles >= program_bound(each.program, PROFILE) for each in compiled)
                cycles[quantize, pinned, tiles] = [each.cycles for each in compiled]
    return cycles


def compiled_by(found: FlowPartition, **options: object) -> list[CompiledSubgraph]:
    return [compile_subgraph(found, subgraph, **options) for subgraph in found.subgraphs]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), SOME[::4])
def test_two_compilations_of_a_random_graph_are_the_same_bytes(kind: str, seed: int) -> None:
    def binaries() -> list[bytes]:
        graph = graph_of(kind, seed)
        found = partition(graph)
        ranges = ranges_of(found.graph, random_inputs(graph, seed))
        return [
            each.binary
            for quantize in ("fp16", "int8")
            for each in compiled_by(found, quantize=quantize, ranges=ranges)
        ]

    assert binaries() == binaries()
