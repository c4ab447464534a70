from __future__ import annotations

import numpy as np
import pytest

from nnhal_devices.mlip.flow.partition.biases import spread_biases
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.flow_outcomes import evaluate_outputs, publicly, subgraph_outcomes


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_one_number_behind_a_convolution_is_a_bias_of_it(shape: tuple[int, ...]) -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.relu(g.op("add", g.conv(g.input(1, 6, 6, 3), 4), g.constant(np.full(shape, 1.5)))))
    inputs = random_inputs(graph)
    (spread,) = evaluate_outputs(spread_biases(graph), inputs).values()
    (whole,) = evaluate_outputs(graph, inputs).values()
    np.testing.assert_array_equal(spread, whole)
    assert [each.layers for each in subgraph_outcomes(publicly(graph))] == [("Conv2D",)]


def test_one_number_behind_a_dense_layer_is_a_bias_of_it() -> None:
    g = GraphOf()
    graph = g.build(g.op("add", g.dense(g.input(1, 6), 4), g.constant(np.full((), 2.0))))
    assert [each.layers for each in subgraph_outcomes(publicly(graph))] == [("FC",)]


def test_one_number_behind_anything_else_stays_one() -> None:
    g = GraphOf("NHWC")
    graph = g.build(g.op("add", g.max_pool(g.input(1, 6, 6, 3)), g.constant(np.full((), 2.0))))
    assert spread_biases(graph) == graph
