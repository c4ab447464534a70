"""Layout of each value, for graphs of nothing but names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nnhal.layouts.decision import LayoutReading, decide
from nnhal.layouts.layout_graph import Behaviour, Converts, Follows, Keeps, LayoutGraph, LayoutNode, Reorders
from nnhal.layouts.schedule import NodeStep, TransposeStep, schedule
from nnhal.types.orders import TO_FIRST, TO_LAST

IMAGE = Converts({0: TO_LAST}, {0: TO_LAST})
ONE = Follows((0,), lambda order: (order,))
TWO = Follows((0, 1), lambda order: (order,))
SHAPE = (1, 3, 4, 5)
Nodes = Sequence[tuple[str, str, Behaviour]]


def graph_of(nodes: Nodes, outputs: str, constants: str = "", **shapes: tuple[int, ...]) -> LayoutGraph[str]:
    """A graph whose values are letters: inputs, the output and the behaviour of each node."""
    made = [LayoutNode(tuple(inputs), (output,), behaviour) for inputs, output, behaviour in nodes]
    known = {value: SHAPE for inputs, output, _ in nodes for value in inputs + output}
    return LayoutGraph(made, tuple(outputs), {**known, **shapes}, frozenset(constants))


def reads(graph: LayoutGraph[str]) -> list[tuple[LayoutReading[str], ...]]:
    return [layouts.reads for layouts in decide(graph).nodes if layouts is not None]


def work(graph: LayoutGraph[str], fixed: str = "", unchanged: Sequence[int] = ()) -> list[int | str]:
    """The steps: the numbers of nodes, and for each transposition what it reads and the value that it makes."""
    steps = schedule(graph, decide(graph), fixed, unchanged).steps
    return [step.number if isinstance(step, NodeStep) else _said(step) for step in steps]


def _said(step: TransposeStep[str]) -> str:
    return f"{step.reading.value}>{step.result or '?'}" if step.reading.axes else f"{step.reading.value}={step.result}"


def test_a_value_is_transposed_once_for_all_readers() -> None:
    graph = graph_of([("x", "a", IMAGE), ("x", "b", IMAGE), ("ab", "c", TWO), ("c", "d", Keeps())], "dc")
    assert work(graph) == ["x>?", 0, 1, 2, "c>?", 3]


def test_without_a_known_layout_a_node_stays_as_it_is() -> None:
    graph = graph_of([("x", "a", ONE), ("a", "b", IMAGE)], "b")
    assert reads(graph) == [(LayoutReading("x"),), (LayoutReading("a", TO_LAST),)]


def test_the_first_known_layout_wins() -> None:
    graph = graph_of([("x", "a", IMAGE), ("y", "b", Keeps(known=True)), ("ba", "c", TWO), ("ab", "d", TWO)], "cd")
    assert reads(graph)[2:] == [
        (LayoutReading("b"), LayoutReading("a", TO_FIRST)),
        (LayoutReading("a"), LayoutReading("b", TO_LAST)),
    ]


def test_a_value_without_a_known_layout_follows_the_other() -> None:
    graph = graph_of([("x", "a", IMAGE), ("ya", "c", TWO)], "c")
    assert reads(graph)[1] == (LayoutReading("y", TO_LAST), LayoutReading("a"))


def test_a_value_of_lower_rank_gets_axes_unless_it_has_one_element() -> None:
    graph = graph_of([("x", "a", IMAGE), ("ay", "b", TWO), ("az", "c", TWO)], "bc", y=(3, 1, 1), z=(1,))
    assert reads(graph)[1:] == [
        (LayoutReading("a"), LayoutReading("y", TO_LAST)),
        (LayoutReading("a"), LayoutReading("z")),
    ]


def test_an_unknown_rank_is_not_followed() -> None:
    nodes = [LayoutNode(("x",), ("a",), IMAGE), LayoutNode(("a", "y"), ("b",), TWO)]
    shapes: dict[str, tuple[int, ...] | None] = {"x": SHAPE, "a": SHAPE, "y": None, "b": None}
    assert reads(LayoutGraph(nodes, ("b",), shapes))[1] == (LayoutReading("a", TO_FIRST), LayoutReading("y"))


def test_a_node_that_refuses_an_order_gets_the_models() -> None:
    graph = graph_of([("x", "a", IMAGE), ("a", "b", Follows((0,), lambda _: None)), ("b", "c", ONE)], "c")
    assert reads(graph)[1:] == [(LayoutReading("a", TO_FIRST),), (LayoutReading("b"),)]


def test_only_the_sequence_of_elements_counts_if_axes_of_one_element_move() -> None:
    graph = graph_of([("x", "a", IMAGE), ("a", "b", Keeps(flat=(0,)))], "b", a=(2, 3, 1, 1))
    assert reads(graph)[1] == (LayoutReading("a"),)
    graph = graph_of([("x", "a", IMAGE), ("a", "b", Keeps(flat=(0,)))], "b")
    assert reads(graph)[1] == (LayoutReading("a", TO_FIRST),)


def test_transpositions_that_undo_one_another_are_no_work() -> None:
    nodes: Nodes = [
        ("x", "a", Reorders(TO_FIRST)),
        ("a", "b", IMAGE),
        ("b", "c", Reorders(TO_LAST)),
        ("c", "d", Keeps()),
    ]
    assert work(graph_of(nodes, "d")) == [1, 3]


@pytest.mark.parametrize(("readers", "expected"), [(1, [1, "b>?"]), (2, ["x>a", 1, 2])])
def test_a_transposition_sinks_below_a_node_if_nobody_else_reads_it(readers: int, expected: list[int | str]) -> None:
    nodes: Nodes = [("x", "a", Reorders(TO_FIRST)), *(("a", output, ONE) for output in "bc"[:readers])]
    assert work(graph_of(nodes, "bc"[:readers])) == expected


def test_a_fixed_value_is_computed_under_its_name() -> None:
    graph = graph_of([("x", "a", IMAGE), ("a", "b", ONE)], "b")
    assert work(graph, "b") == ["x>?", 0, 1, "b>b"]
    assert "b" not in schedule(graph, decide(graph), "b").names


def test_a_stored_value_takes_the_name_of_a_fixed_one_that_is_the_same() -> None:
    graph = graph_of([("x", "a", IMAGE), ("a", "b", Reorders(TO_LAST))], "b")
    assert work(graph, "b") == ["x>?", 0]
    assert schedule(graph, decide(graph), "b").names == {"a": "b"}


def test_two_fixed_values_that_are_the_same_are_copies() -> None:
    graph = graph_of([("x", "a", IMAGE), ("a", "b", Reorders(TO_LAST)), ("a", "c", Reorders(TO_LAST))], "bc")
    assert work(graph, "bc") == ["x>?", 0, "a=c"]


def test_nodes_that_do_not_change_read_by_name() -> None:
    nodes: Nodes = [
        ("x", "a", Reorders(TO_LAST)),
        ("a", "b", Reorders(TO_FIRST)),
        ("b", "c", Keeps()),
        ("a", "d", Keeps()),
    ]
    assert work(graph_of(nodes, "cd"), "abcd", (2, 3)) == ["x=b", 2, "x>a", 3]
