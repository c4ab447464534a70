"""Compiled networks compute what their graphs say, and nothing of them reads what it should not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.compiler.compiler import compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.simulator.report import perf_report
from nnhal_mlip.simulator.simulator import Simulator
from tests.support.flow_graphs import random_inputs
from tests.support.flow_networks import inception_block, mlp, resnet18, ssd_head
from tests.support.mlip_subgraphs import random_graph

TOLERANCE = {"fp16": 0.01, "int8": 0.3}
"""Of the largest value of an output; int8 by the ranges of a single input."""


class NetworkRun(NamedTuple):
    """Results of the subgraphs of a network."""

    simulators: list[Simulator]
    outputs: list[Array]
    """In the accelerator's types."""


def run(graph: FlowGraph, options: Mapping[str, object]) -> NetworkRun:
    """Run each subgraph on what the reference computes for it, and compare its outputs."""
    found = partition(graph)
    values = evaluate(found.graph, random_inputs(graph))
    ranges = {name: (float(array.min()), float(array.max())) for name, array in values.items()}
    settings = MlipCompilerOptions(ranges=ranges, **options)  # type: ignore[arg-type]
    done = NetworkRun([], [])
    for subgraph in found.subgraphs:
        binary = compile_files(describe(found, subgraph), settings).binary
        simulator = Simulator(binary, settings.profile, checked=True)
        given: list[Array] = [
            values[name].astype(np.float32).reshape(port.shape)
            for name, port in zip(subgraph.inputs, simulator.program.inputs, strict=True)
        ]
        outcome = simulator.run(given)
        for name, output in zip(subgraph.outputs, outcome.outputs, strict=True):
            expected = values[name].reshape(output.shape)
            limit = TOLERANCE[settings.quantize] * max(float(np.abs(expected).max()), 1e-3)
            np.testing.assert_allclose(output, expected, rtol=0, atol=limit)
        done.simulators.append(simulator)
        done.outputs.extend(outcome.raw)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
@pytest.mark.parametrize("tiles", [1, 8])
@pytest.mark.parametrize("network", [inception_block, ssd_head, mlp, lambda: resnet18(32, 10)])
def test_networks_compute_what_their_graphs_say(network: object, tiles: int, quantize: str) -> None:
    assert callable(network)
    for simulator in run(network(), {"quantize": quantize, "num_tiles": tiles}).simulators:
        report = perf_report(simulator.program, simulator.timeline, simulator.profile)
        assert report.total >= report.least
        assert all(use.total == report.total for use in report.by_tile)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_compute_what_they_say_in_little_memory(seed: int) -> None:
    options = {"num_tiles": (1, 2, 4, 8)[seed % 4], "ocm_size": 1 << 16, "page_bytes": 1024}
    for quantize in ("fp16", "int8"):
        assert run(random_graph(seed + 200), {**options, "quantize": quantize}).outputs


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_int8_is_the_same_however_the_work_is_divided(seed: int) -> None:
    outputs = [
        run(random_graph(seed), {"quantize": "int8", "num_tiles": tiles, "ocm_size": size, "page_bytes": 1024}).outputs
        for tiles, size in ((1, 1 << 20), (2, 1 << 16), (8, 1 << 18))
    ]
    for other in outputs[1:]:
        for one, another in zip(outputs[0], other, strict=True):
            np.testing.assert_array_equal(one, another)
