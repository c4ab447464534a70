from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np
import pytest

from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.passes.functions import in_own_operators
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import GraphOf, random_inputs

SHAPE = (2, 4, 3, 5)


def number(g: GraphOf, value: float) -> str:
    return g.constant(np.array(value))


def silu(g: GraphOf, x: str) -> str:
    return g.op("multiply", g.op("sigmoid", x), x, name="y")


def clipped(g: GraphOf, x: str) -> str:
    return g.clip(g.op("add", x, number(g, 3)), 0, 6)


def hard_sigmoid(g: GraphOf, x: str) -> str:
    return g.op("divide", clipped(g, x), number(g, 6), name="y")


def hard_swish(g: GraphOf, x: str) -> str:
    return g.op("divide", g.op("multiply", x, clipped(g, x)), number(g, 6), name="y")


def hard_swish_of_a_sigmoid(g: GraphOf, x: str) -> str:
    return g.op("multiply", x, g.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5), name="y")


def hard_swish_by_a_sixth(g: GraphOf, x: str) -> str:
    return g.op("multiply", g.op("multiply", clipped(g, x), number(g, 1 / 6)), x, name="y")


def one_and_erf(g: GraphOf, x: str, **how: bool) -> str:
    inner = g.op("multiply", x, number(g, sqrt(0.5))) if how.get("product") else g.op("divide", x, number(g, sqrt(2)))
    return g.op("add", g.op("erf", inner), number(g, 1))


def gelu(g: GraphOf, x: str) -> str:
    return g.op("multiply", g.op("multiply", x, one_and_erf(g, x)), number(g, 0.5), name="y")


def gelu_of_a_half(g: GraphOf, x: str) -> str:
    return g.op("multiply", g.op("multiply", x, number(g, 0.5)), one_and_erf(g, x, product=True), name="y")


def gelu_by_tanh(g: GraphOf, x: str) -> str:
    cubic = g.op("multiply", g.op("multiply", x, x), number(g, 0.044715))
    half = g.op("multiply", x, number(g, sqrt(2 / pi)))
    bent = g.op("tanh", g.op("multiply", half, g.op("add", cubic, number(g, 1))))
    halved = g.op("multiply", x, number(g, 0.5))
    return g.op("multiply", halved, g.op("add", bent, number(g, 1)), name="y")


def line_within_one(g: GraphOf, x: str) -> str:
    line = g.op("add", g.op("multiply", x, number(g, 0.3)), number(g, 0.4))
    return g.op("clip", g.clip(line, -np.inf, 1), a_min=0.0, a_max=np.inf, name="y")


def several_clips(g: GraphOf, x: str) -> str:
    return g.op("clip", g.clip(g.relu(x), -0.5, 2), a_min=0.25, a_max=9.0, name="y")


def leaky(g: GraphOf, x: str) -> str:
    return g.op("prelu", x, number(g, 0.2), name="y")


@pytest.mark.parametrize(
    ("made", "operator"),
    [
        (silu, "silu"),
        (hard_sigmoid, "hard_sigmoid"),
        (hard_swish, "hard_swish"),
        (hard_swish_of_a_sigmoid, "hard_swish"),
        (hard_swish_by_a_sixth, "hard_swish"),
        (gelu, "gelu"),
        (gelu_of_a_half, "gelu"),
        (gelu_by_tanh, "gelu_tanh"),
        (line_within_one, "hard_sigmoid"),
        (leaky, "leaky_relu"),
    ],
)
def test_several_operators_are_one_function(made: Callable[[GraphOf, str], str], operator: str) -> None:
    g = GraphOf()
    graph = g.build(made(g, g.input(*SHAPE)))
    after = simplify(in_own_operators(graph))
    (node,) = after.nodes
    assert node.operator == operator
    assert [source.name for source in node.sources] == [each.name for each in graph.nodes]
    inputs = random_inputs(graph)
    np.testing.assert_allclose(evaluate(after, inputs)["y"], evaluate(graph, inputs)["y"], atol=2e-6)


def slopes(g: GraphOf, x: str) -> str:
    return g.op("prelu", x, g.random_constant(4, 1, 1), name="y")


def normalised(g: GraphOf, x: str) -> str:
    return g.batch_norm(x, name="y")


def difference(g: GraphOf, x: str) -> str:
    return g.op("subtract", g.op("subtract", number(g, 2), x), g.op("subtract", x, g.random_constant(5)), name="y")


def quotient(g: GraphOf, x: str) -> str:
    return g.op("divide", x, g.constant(g.random.uniform(0.5, 2, (4, 1, 1))), name="y")


@pytest.mark.parametrize("made", [slopes, normalised, difference, quotient])
def test_what_has_no_table_becomes_products_and_sums(made: Callable[[GraphOf, str], str]) -> None:
    g = GraphOf()
    graph = g.build(made(g, g.input(*SHAPE)))
    after = simplify(in_own_operators(graph))
    assert {node.operator for node in after.nodes} <= {"add", "multiply", "relu", "clip"}
    assert all(node.sources for node in after.nodes)
    inputs = random_inputs(graph)
    np.testing.assert_allclose(evaluate(after, inputs)["y"], evaluate(graph, inputs)["y"], rtol=1e-5, atol=1e-5)


def shared_sigmoid(g: GraphOf, x: str) -> list[str]:
    bent = g.op("sigmoid", x)
    return [g.op("multiply", x, bent), bent]


def sigmoid_of_another(g: GraphOf, x: str) -> list[str]:
    return [g.op("multiply", x, g.op("sigmoid", g.relu(x)))]


def other_clip(g: GraphOf, x: str) -> list[str]:
    return [g.op("divide", g.clip(g.op("add", x, number(g, 2.5)), 0, 6), g.op("add", x, number(g, 9)))]


@pytest.mark.parametrize("made", [shared_sigmoid, sigmoid_of_another, other_clip])
def test_what_is_another_function_stays(made: Callable[[GraphOf, str], list[str]]) -> None:
    g = GraphOf()
    graph = g.build(*made(g, g.input(*SHAPE)))
    assert in_own_operators(graph).nodes == graph.nodes


def test_a_normalisation_behind_a_convolution_stays_for_its_layer() -> None:
    g = GraphOf()
    graph = g.build(g.batch_norm(g.bias(g.conv(g.input(*SHAPE), 4))))
    assert in_own_operators(graph).nodes == graph.nodes


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_with_a_number_for_each_channel_is_in_the_weights(layout: str, biased: bool) -> None:
    g = GraphOf(layout)
    channels = (6, 1, 1) if layout == "NCHW" else (6,)
    x = g.input(2, 4, 5, 4)
    x = g.bias(g.conv(x, 6)) if biased else g.conv(x, 6)
    x = g.op("multiply", g.op("multiply", x, g.random_constant(*channels)), g.random_constant(1))
    x = g.op("divide", g.dense(g.flatten(g.op("add", x, g.random_constant(1))), 3), number(g, 0.3))
    graph = g.build(x)
    after = simplify(in_own_operators(graph))
    assert "multiply" not in {node.operator for node in after.nodes}
    named = {source.name for node in after.nodes for source in node.sources}
    assert named == {node.name for node in graph.nodes}
    inputs = random_inputs(graph)
    np.testing.assert_allclose(evaluate(after, inputs)[x], evaluate(graph, inputs)[x], rtol=1e-4, atol=1e-4)


def test_a_product_with_a_number_for_each_pixel_or_of_what_others_read_stays() -> None:
    g = GraphOf()
    x = g.conv(g.input(1, 4, 5, 6), 3, pad=1)
    graph = g.build(g.op("multiply", x, g.random_constant(5, 6)), g.op("multiply", g.relu(x), number(g, 2)))
    assert in_own_operators(graph).nodes == graph.nodes


def test_several_clips_are_one() -> None:
    g = GraphOf()
    graph = g.build(several_clips(g, g.input(*SHAPE)))
    after = simplify(in_own_operators(graph))
    clip = after.nodes[-1]
    assert [node.operator for node in after.nodes] == ["relu", "clip"]
    assert (clip.attributes["a_min"], clip.attributes["a_max"]) == (0.25, 2.0)
    inputs = random_inputs(graph)
    np.testing.assert_array_equal(evaluate(after, inputs)["y"], evaluate(graph, inputs)["y"])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_sum_with_a_number_for_each_channel_is_in_the_bias(layout: str) -> None:
    g = GraphOf(layout)
    channels = (6, 1, 1) if layout == "NCHW" else (6,)
    x = g.op("add", g.random_constant(*channels), g.bias(g.conv(g.input(2, 4, 5, 4), 6)))
    x = g.op("add", g.bias(g.dense(g.flatten(x), 3)), number(g, 0.3))
    graph = g.build(x)
    after = simplify(in_own_operators(graph))
    assert [node.operator for node in after.nodes] == ["conv2d", "bias_add", "batch_flatten", "dense", "bias_add"]
    inputs = random_inputs(graph)
    np.testing.assert_allclose(evaluate(after, inputs)[x], evaluate(graph, inputs)[x], rtol=1e-5, atol=1e-5)
