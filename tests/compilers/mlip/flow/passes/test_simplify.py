"""Simplification removes what computes nothing, and does not change results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowValue
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import GraphOf, operators, random_inputs
from tests.support.flow_networks import ssd_head


def results(graph: FlowGraph) -> dict[str, Array]:
    """The outputs of a graph, by the user's names."""
    values = evaluate(graph, random_inputs(graph))
    return {user: values[name] for user, name in graph.outputs.items()}


def simplified(graph: FlowGraph) -> FlowGraph:
    """The graph after the pass, which must have the same results."""
    after = simplify(graph)
    before, now = results(graph), results(after)
    assert before.keys() == now.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, now[name])
    assert set(after.values) == {
        *after.inputs,
        *after.constants,
        *(name for node in after.nodes for name in node.outputs),
    }
    return after


def test_dropout_and_copies_vanish_also_at_the_outputs() -> None:
    g = GraphOf()
    after = simplified(g.build(g.op("copy", g.relu(g.op("dropout", g.input(1, 4))), name="y")))
    assert operators(after) == ["relu"]
    assert after.outputs == {"y": "relu_1"}


def test_a_node_that_vanishes_is_among_the_sources_of_the_one_before_it() -> None:
    g = GraphOf()
    after = simplify(g.build(g.relu(g.op("dropout", g.relu(g.input(1, 4), name="first"), name="drop"), name="last")))
    assert [[source.name for source in node.sources] for node in after.nodes] == [["first", "drop"], ["last"]]
    assert after.nodes[0].name == "first"


def test_reshapes_of_reshapes_become_one_that_stands_for_both() -> None:
    g = GraphOf()
    data = g.reshape(g.reshape(g.reshape(g.input(1, 24), 2, 12), 3, 8), 4, 6)
    after = simplified(g.build(data))
    assert operators(after) == ["reshape"]
    assert after.nodes[0].attributes["newshape"] == (4, 6)
    assert [source.name for source in after.nodes[0].sources] == ["reshape_0", "reshape_1", "reshape_2"]


def test_a_reshape_that_others_read_stays() -> None:
    g = GraphOf()
    first = g.reshape(g.input(1, 24), 2, 12)
    after = simplified(g.build(g.relu(first), g.reshape(first, 3, 8)))
    assert sorted(operators(after)) == ["relu", "reshape", "reshape"]
    assert [source.name for source in after.nodes[-1].sources] == ["reshape_2"]
    assert after.nodes[-1].inputs == ("x",)


def test_a_single_reshape_to_the_same_shape_stays() -> None:
    g = GraphOf()
    assert operators(simplified(g.build(g.reshape(g.input(1, 4), 1, 4)))) == ["reshape"]


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (-4, -3, 2, 3)])
def test_an_idle_transposition_vanishes(axes: tuple[int, ...]) -> None:
    g = GraphOf()
    assert operators(simplified(g.build(g.relu(g.transpose(g.input(1, 2, 3, 4), *axes))))) == ["relu"]


def transform(g: GraphOf, data: str, source: str, target: str) -> str:
    return g.op("layout_transform", data, src_layout=source, dst_layout=target)


Movement = Callable[[GraphOf, str], str]


def to_nhwc(g: GraphOf, data: str) -> str:
    return transform(g, data, "NCHW", "NHWC")


def to_nchw(g: GraphOf, data: str) -> str:
    return transform(g, data, "NHWC", "NCHW")


def to_nwhc_from_nhwc(g: GraphOf, data: str) -> str:
    return transform(g, data, "NHWC", "NWHC")


def moved(*axes: int) -> Movement:
    return lambda g, data: g.transpose(data, *axes)


@pytest.mark.parametrize(
    ("movements", "left", "attributes"),
    [
        ([to_nhwc, to_nchw], [], {}),
        ([to_nchw, moved(0, 2, 3, 1)], [], {}),
        ([moved(0, 3, 1, 2), to_nhwc], [], {}),
        ([to_nhwc, to_nwhc_from_nhwc], ["layout_transform"], {"src_layout": "NCHW", "dst_layout": "NWHC"}),
        ([to_nhwc, to_nhwc], ["transpose"], {"axes": (0, 3, 1, 2)}),
        ([moved(0, 2, 3, 1), moved(0, 1, -1, 2)], ["transpose"], {"axes": (0, 2, 1, 3)}),
        ([moved(1, 0, 2, 3), moved(0, 2, 1, 3), moved(2, 0, 1, 3)], [], {}),
    ],
)
def test_movements_that_follow_one_another_become_one_or_none(
    movements: list[Movement], left: list[str], attributes: dict[str, object]
) -> None:
    g = GraphOf()
    data = g.input(2, 3, 4, 5)
    for movement in movements:
        data = movement(g, data)
    after = simplified(g.build(g.relu(data)))
    assert operators(after)[:-1] == left
    if left:
        assert after.nodes[0].attributes == attributes


@pytest.mark.parametrize(
    ("operator", "value", "left_too"),
    [("add", 0.0, True), ("subtract", 0.0, False), ("multiply", 1.0, True), ("divide", 1.0, False)],
)
def test_neutral_constants_vanish(operator: str, value: float, left_too: bool) -> None:
    g = GraphOf()
    data = g.input(1, 2, 3, 3)
    neutral = g.constant(np.full((2, 1, 1), value))
    right, left = g.op(operator, data, neutral), g.op(operator, neutral, data)
    assert operators(simplified(g.build(right))) == []
    if left_too:
        assert operators(simplified(g.build(left))) == []
    else:
        assert operators(simplified(g.build(left))) == [operator]


def test_a_neutral_constant_that_makes_the_result_larger_stays() -> None:
    g = GraphOf()
    assert operators(simplified(g.build(g.op("add", g.input(1, 3), g.constant(np.zeros((2, 3))))))) == ["add"]


def test_constants_are_folded_through_several_nodes_under_their_names() -> None:
    g = GraphOf()
    weight = g.transpose(g.op("multiply", g.random_constant(6, 5), g.constant(np.full((5,), 3.0))), 1, 0, name="w")
    after = simplified(g.build(g.dense(g.input(1, 6), 5, weight=weight)))
    assert operators(after) == ["dense"]
    assert after.nodes[0].inputs == ("x", "w")
    assert set(after.constants) == {"w"}


def test_constants_of_float16_are_folded_with_one_rounding() -> None:
    g = GraphOf(element_type=np.float16)
    sums = g.op("add", g.constant(np.full(1, 2048.0)), g.constant(np.full(1, 1.5)), name="sum")
    after = simplify(g.build(g.op("multiply", g.input(1, 2), sums)))
    assert after.constants["sum"].dtype == np.float16
    assert after.constants["sum"].tolist() == [2050.0]


def quantised() -> FlowGraphBuilder:
    builder = FlowGraphBuilder()
    builder.input("x", (1, 2, 2, 3), np.int8, (0.5,))
    return builder


def test_integers_are_moved_with_their_scales_and_not_computed_with() -> None:
    b = quantised()
    values = np.arange(12, dtype=np.int8).reshape(3, 1, 1, 4)
    weight = b.constant("w", values, (0.1, 0.2, 0.3, 0.4), 3)
    moved = b.add("transpose", [weight], {"axes": (3, 1, 2, 0)}, name="moved")
    padded = b.add("pad", [moved], {"pad_width": (0,) * 8, "pad_value": 0.0, "pad_mode": "constant"})
    after = simplify(b.build({"y": padded}))
    np.testing.assert_array_equal(after.constants["moved"], values.transpose(3, 1, 2, 0))
    assert after.values["moved"] == FlowValue((4, 1, 1, 3), np.dtype(np.int8), (0.1, 0.2, 0.3, 0.4), 0)
    assert operators(after) == ["pad"]


def test_a_copy_to_another_scale_stays() -> None:
    b = quantised()
    copied = b.add("copy", ["x"], results=[FlowValue((1, 2, 2, 3), np.dtype(np.int8), (0.25,))])
    assert operators(simplify(b.build({"y": copied}))) == ["copy"]


def test_what_no_output_needs_goes_and_inputs_stay() -> None:
    g = GraphOf()
    data = g.input(1, 4)
    g.input(1, 4, name="unused")
    g.op("add", data, g.constant(np.ones(4), "one"))
    after = simplified(g.build(g.relu(data)))
    assert after.inputs == ("x", "unused")
    assert operators(after) == ["relu"]
    assert not after.constants


def test_a_second_simplification_changes_nothing() -> None:
    once = simplified(ssd_head(16))
    assert simplify(once) == once


def random_graph(seed: int) -> FlowGraph:
    """A graph of many movements, neutral constants and other operators."""
    g = GraphOf(seed=seed)
    values = [g.input(1, 2, 3, 4), g.random_constant(1, 2, 3, 4)]
    random = np.random.default_rng(seed)
    layouts = ["NCHW", "NHWC", "NWHC", "CNHW"]

    def reshaped(data: str) -> str:
        return g.reshape(data, *map(int, random.permutation(g.shape(data))))

    def with_constant(data: str) -> str:
        operator = random.choice(["add", "multiply", "subtract", "divide"])
        constant = g.constant(np.full(g.shape(data), random.choice([0.0, 1.0, 2.0])))
        pair = [data, constant] if operator == "divide" or random.integers(2) else [constant, data]
        return g.op(str(operator), *pair)

    def transformed(data: str) -> str:
        return transform(g, data, str(random.choice(layouts)), str(random.choice(layouts)))

    steps: list[Callable[[str], str]] = [
        lambda data: g.transpose(data, *map(int, random.permutation(4))),
        transformed,
        transformed,
        reshaped,
        reshaped,
        with_constant,
        lambda data: g.op(str(random.choice(["copy", "dropout", "relu", "tanh"])), data),
    ]
    for _ in range(25):
        step = steps[random.integers(len(steps))]
        values.append(step(values[max(0, len(values) - int(random.integers(1, 4)))]))
    return g.build(*(str(each) for each in random.choice(values, 3, replace=False)), values[-1])


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_their_results(seed: int) -> None:
    graph = random_graph(seed)
    after = simplified(graph)
    assert len(after.nodes) <= len(graph.nodes)
    assert simplify(after) == after
