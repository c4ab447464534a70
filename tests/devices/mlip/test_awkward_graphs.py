"""Cases easily got wrong: the accelerator computes it rightly, or the host does and a reason names the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from nnhal_mlip.flow.flow_partition import FlowOptions
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.partitioning import partition
from tests.support.flow_graphs import GraphOf, random_inputs
from tests.support.mlip_runs import distance, layer_by_layer, ranges_of, run_steps


def after_convolution(make: Callable[[GraphOf, str], str], batch: int = 1) -> FlowGraph:
    """A convolution, something awkward, and a relu behind it."""
    g = GraphOf(seed=6)
    data = g.relu(g.conv(g.input(batch, 4, 8, 8), 8, pad=1, name="first"))
    return g.build(g.relu(make(g, data), name="last"))


def convolution_of_computed_weights(g: GraphOf, data: str) -> str:
    weights = g.reshape(g.op("tanh", g.input(4, 72, name="kernel")), 4, 8, 3, 3)
    return g.conv(data, 4, 3, weight=weights, name="awkward")


def dense_of_computed_weights(g: GraphOf, data: str) -> str:
    return g.dense(g.flatten(data), 6, weight=g.input(6, 512, name="kernel"), name="awkward")


def reshaped_to_rank_5(g: GraphOf, data: str) -> str:
    return g.reshape(g.op("tanh", g.reshape(data, 1, 2, 4, 8, 8, name="awkward")), 1, 8, 8, 8, name="back")


AWKWARD: Mapping[str, Callable[[], FlowGraph]] = {
    "convolution_of_computed_weights": lambda: after_convolution(convolution_of_computed_weights),
    "dense_of_computed_weights": lambda: after_convolution(dense_of_computed_weights),
    "convolution_of_padding_with_ones": lambda: after_convolution(
        lambda g, data: g.conv(g.pad(data, 1, value=1.0, name="awkward"), 4)
    ),
    "maxima_of_padding_with_less_than_any": lambda: after_convolution(
        lambda g, data: g.max_pool(g.pad(data, 1, value=-2.0, name="awkward"), 3, 1)
    ),
    "maxima_of_padding_with_zeros": lambda: after_convolution(
        lambda g, data: g.max_pool(g.pad(g.conv(data, 4), (0, 2, 1, 0), name="awkward"), 3, 2)
    ),
    "averages_of_padding_with_zeros": lambda: after_convolution(
        lambda g, data: g.avg_pool(g.pad(data, 1, name="awkward"), 3, 2)
    ),
    "averages_with_and_without_padding": lambda: after_convolution(
        lambda g, data: g.avg_pool(g.pad(data, (1, 0, 0, 1), name="awkward"), 3, 1, 1)
    ),
    "averages_of_nothing_but_zeros": lambda: after_convolution(
        lambda g, data: g.avg_pool(g.pad(data, 2, name="awkward"), 1, 1)
    ),
    "averages_that_count_a_padding_without_data": lambda: after_convolution(
        lambda g, data: g.avg_pool(data, 2, 2, (2, 2, 2, 2), count_include_pad=True, name="awkward")
    ),
    "averages_that_count_padding_and_reach_beyond": lambda: after_convolution(
        lambda g, data: g.avg_pool(data, 3, 2, 1, ceil_mode=True, count_include_pad=True, name="awkward")
    ),
    "maxima_of_windows_that_reach_beyond": lambda: after_convolution(
        lambda g, data: g.max_pool(data, 3, 2, 0, ceil_mode=True, name="awkward")
    ),
    "reflected_padding": lambda: after_convolution(
        lambda g, data: g.conv(g.pad(data, 1, mode="reflect", name="awkward"), 4)
    ),
    "two_groups": lambda: after_convolution(lambda g, data: g.conv(data, 6, pad=1, groups=2, name="awkward")),
    "depthwise_with_a_multiplier": lambda: after_convolution(
        lambda g, data: g.conv(data, 16, pad=1, groups=8, name="awkward")
    ),
    "batch_of_9": lambda: after_convolution(lambda g, data: g.conv(data, 4, name="awkward"), batch=9),
    "rank_5": lambda: after_convolution(reshaped_to_rank_5),
    "sum_that_broadcasts_on_the_left": lambda: after_convolution(
        lambda g, data: g.op("add", g.global_avg_pool(data), data, name="awkward")
    ),
    "relu_of_a_shared_value": lambda: after_convolution(
        lambda g, data: g.op("add", g.relu(g.conv(data, 8, 1)), g.conv(data, 8, 1), name="awkward")
    ),
    "concatenation_along_rows": lambda: after_convolution(lambda g, data: g.concat(data, data, axis=2, name="awkward")),
    "concatenation_of_one": lambda: after_convolution(lambda g, data: g.concat(data, name="awkward")),
    "flattened_in_part": lambda: after_convolution(
        lambda g, data: g.dense(g.reshape(data, 8, 64, name="awkward"), 3, name="behind")
    ),
    "dilated_with_a_pad_on_one_side": lambda: after_convolution(
        lambda g, data: g.conv(data, 4, (1, 3), stride=(3, 2), pad=(0, 4, 0, 0), dilation=(1, 3), name="awkward")
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("beyond_public", [True, False])
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
def test_awkward_graphs_are_the_reference(name: str, beyond_public: bool, quantize: str) -> None:
    graph = AWKWARD[name]()
    inputs = random_inputs(graph)
    wanted = evaluate(graph, inputs)
    found = partition(graph, FlowOptions(beyond_public=beyond_public, revert=False))
    for each in (found, layer_by_layer(found)):
        run = run_steps(each, inputs, quantize=quantize, ranges=ranges_of(each.graph, inputs))
        for user, value in each.graph.outputs.items():
            assert distance(run.values[value], wanted[graph.outputs[user]]) <= (2**-8 if quantize == "fp16" else 2**-4)


@pytest.mark.parametrize(
    ("name", "check", "got"),
    [
        ("convolution_of_computed_weights", "conv2d.weights", "not constant"),
        ("dense_of_computed_weights", "dense.weights", "kernel"),
        ("convolution_of_padding_with_ones", "pad.value", "1"),
        ("maxima_of_padding_with_less_than_any", "pad.value", "-2"),
        ("reflected_padding", "pad.mode", "reflect"),
        ("batch_of_9", "conv2d.batch", "9"),
        ("rank_5", "reshape.rank", "rank 5"),
    ],
)
def test_the_reason_names_the_users_node(name: str, check: str, got: str) -> None:
    found = partition(AWKWARD[name]())
    refused = next(node for node in found.host if node.name == "awkward")
    objection = found.objections[refused.output]
    assert objection.check == check
    assert got in objection.got


def test_maxima_of_nothing_stay_on_the_host() -> None:
    """A window that lies in the padding has no maximum, and its average is no number."""
    for make in (GraphOf.max_pool, GraphOf.avg_pool):
        g = GraphOf()
        found = partition(g.build(make(g, g.relu(g.conv(g.input(1, 4, 6, 6), 4)), 2, 2, 2, name="awkward")))
        (refused,) = (node for node in found.host if "pool" in node.operator)
        assert refused.name == "awkward"
        assert "padding" in found.objections[refused.output].got


def test_numbers_that_fp16_cannot_hold_become_infinite() -> None:
    g = GraphOf(seed=1)
    graph = g.build(g.conv(g.input(1, 4, 6, 6), 4, pad=1))
    inputs = {"x": np.full((1, 4, 6, 6), 60000.0, np.float32)}
    found = partition(graph)
    (made,) = (run_steps(found, inputs).values[value] for value in found.graph.outputs.values())
    (wanted,) = (evaluate(graph, inputs)[value] for value in graph.outputs.values())
    for value, real in zip(made.flat, wanted.flat, strict=True):
        assert np.isinf(value) if abs(real) > 65600 else abs(value - real) < 128 or abs(real) > 65400
    assert np.isinf(made).any()
    assert np.isfinite(made).any()
