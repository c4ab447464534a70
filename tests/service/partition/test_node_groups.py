"""Groups of a file's nodes: which nodes are together, and that groups can run one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends.imported import FileNode
from nnhal_service.partition.node_groups import NodeGraph


def graph_of(*nodes: str, constants: Collection[str] = ("w",)) -> NodeGraph:
    """A graph of nodes like ``x w > y``: what each reads and writes."""
    sides = [[side.split() for side in node.split(">")] for node in nodes]
    return NodeGraph([FileNode("", "", tuple(reads), tuple(writes)) for reads, writes in sides], constants)


def groups_of(graph: NodeGraph, taken: Collection[int], together: Sequence[Collection[int]] = ()) -> list[list[int]]:
    return graph.groups(taken, graph.clusters(together))


def test_a_chain_is_one_group_and_what_is_left_divides_it() -> None:
    chain = graph_of("x > a", "a > b", "b > c", "c > d")
    assert groups_of(chain, range(4)) == [[0, 1, 2, 3]]
    assert groups_of(chain, [0, 2, 3]) == [[0], [2, 3]]
    assert groups_of(chain, []) == []


def test_no_path_leaves_a_group_and_comes_back() -> None:
    diamond = graph_of("x > a", "a > b", "a > c", "b c > d")
    assert groups_of(diamond, [0, 2, 3]) == [[0, 2], [3]]
    assert groups_of(diamond, [0, 3]) == [[0], [3]]


def test_a_branch_waits_for_the_group_that_reads_it() -> None:
    late = graph_of("x > a", "x > b", "b > c", "a c > d")
    assert groups_of(late, [0, 2, 3]) == [[0, 2, 3]]


def test_what_reads_no_other_is_in_one_group_with_it() -> None:
    assert groups_of(graph_of("x > a", "y > b"), [0, 1]) == [[0, 1]]


def test_constants_go_with_their_only_reader() -> None:
    graph = graph_of("w > q", "q > r", "x > a", "a r > b", "b > c")
    assert groups_of(graph, [0, 1, 3, 4]) == [[0, 1, 3, 4]]
    assert groups_of(graph, [0, 1, 2]) == [[2]]


def test_a_constant_of_two_groups_is_in_neither() -> None:
    graph = graph_of("w > q", "x q > a", "a > b", "b q > c")
    assert groups_of(graph, [0, 1, 3]) == [[1], [3]]
    assert groups_of(graph, [0, 1, 2, 3]) == [[0, 1, 2, 3]]


def test_an_operation_of_several_nodes_is_whole() -> None:
    graph = graph_of("x > a", "y > b", "b > c", "a c > d")
    assert groups_of(graph, [0, 1, 3], [[0, 1]]) == [[0, 1], [3]]


def test_an_operation_that_a_path_leaves_and_enters_is_taken_apart() -> None:
    graph = graph_of("x > a", "a > b", "b > c")
    assert groups_of(graph, [0, 2], [[0, 2]]) == [[0], [2]]


def test_a_value_of_an_empty_name_connects_nothing() -> None:
    graph = NodeGraph([FileNode("", "", ("x", ""), ("a", "")), FileNode("", "", ("a", ""), ("b",))], ())
    assert graph.before == [set(), {0}]
    assert graph.constant == set()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[NodeGraph, list[int], list[list[int]]]:
    count = draw(st.integers(1, 12))
    nodes = [
        f"{' '.join(draw(st.sets(st.sampled_from(['x', 'w', *(f'v{n}' for n in range(i))]), max_size=3)))} > v{i}"
        for i in range(count)
    ]
    every = st.sampled_from(range(count))
    taken = sorted(draw(st.sets(every)))
    together = draw(st.lists(st.lists(st.sampled_from(taken), min_size=1, max_size=3), max_size=3)) if taken else []
    return graph_of(*nodes), taken, together


@given(graphs())
def test_groups_can_run_in_their_order(case: tuple[NodeGraph, list[int], list[list[int]]]) -> None:
    graph, taken, together = case
    groups = groups_of(graph, taken, together)
    members = [index for group in groups for index in group]
    assert len(set(members)) == len(members)
    assert set(members) <= set(taken)
    assert set(taken) - set(members) <= graph.constant
    of = {index: number for number, group in enumerate(groups) for index in group}
    latest: dict[int, int] = {}  # the last group that a node, or what it needs, is in
    for index, before in enumerate(graph.before):
        reached = max((latest[other] for other in before), default=-1)
        assert of.get(index, reached) >= reached
        # A path that has left a group is past it.
        left = max((latest[other] for other in before if other not in of), default=-1)
        assert index not in of or of[index] > left or not before
        latest[index] = of.get(index, reached)


def test_an_interpreter_runs_as_many_of_a_kind_as_it_can() -> None:
    late = graph_of("x > a", "x > b", "b > c", "a c > d")
    assert late.subsets([0, 2, 3]) == [[0], [2, 3]]
    assert late.subsets([1, 2, 3]) == [[1, 2, 3]]
    assert late.subsets([0, 1, 3]) == [[0, 1], [3]]
    assert late.subsets([]) == []


@given(graphs())
def test_subsets_are_those_of_an_interpreter_that_goes_round_and_round(
    case: tuple[NodeGraph, list[int], list[list[int]]],
) -> None:
    graph, taken, _ = case
    waiting, expected = list(range(len(graph.nodes))), list[list[int]]()
    done: set[int] = set()
    while waiting:
        kind, now = waiting[0] in taken, list[int]()
        for index in waiting:
            if (index in taken) == kind and graph.before[index] <= done.union(now):
                now.append(index)
        waiting = [index for index in waiting if index not in now]
        done.update(now)
        expected += [now] if kind else []
    assert graph.subsets(taken) == expected
