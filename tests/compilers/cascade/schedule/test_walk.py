"""The order in which the stripes of a plan run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.operations.operand_types import Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from nnhal_cascade.geometry.box import Axis, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.plans.plan import Plan
from nnhal_cascade.schedule.profile import profile
from nnhal_cascade.schedule.walk import walk
from tests.support.agreement import like
from tests.support.random_networks import random_networks
from tests.support.random_plans import random_plans
from tests.support.schedules import cascade
from tests.support.searching import search
from tests.support.small_networks import Network, residual, two_convs


def test_a_part_runs_only_when_a_later_one_needs_its_rows() -> None:
    graph = build_graph(two_convs())
    runs = [(run.part, *run.output.rows) for run in walk(graph, cascade(graph, [0, 1], 1))]
    assert runs[:5] == [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 1), (0, 3, 4)]


def test_backwards_the_same_stripes_run_from_the_end() -> None:
    graph = build_graph(two_convs())
    plan = cascade(graph, [0, 1], 3)
    forwards, backwards = list(walk(graph, plan)), list(walk(graph, plan, backwards=True))
    assert backwards[0].output.rows == Interval(9, 10)
    assert Counter((run.part, run.output) for run in forwards) == Counter((run.part, run.output) for run in backwards)


def test_rows_die_as_soon_as_no_stripe_needs_them() -> None:
    graph = build_graph(two_convs())
    run = next(run for run in walk(graph, cascade(graph, [0, 1], 1)) if run.part == 1)
    between = graph.parts[0].output
    assert [(death.tensor, death.axis, death.from_, death.to) for death in run.deaths] == [(between, Axis.ROWS, 0, 1)]


def test_what_is_needed_after_the_plan_does_not_die() -> None:
    graph = build_graph(residual())
    read_later = {each.tensor for each in graph.parts[-1].inputs}
    plan = cascade(graph, [part.index for part in graph.parts[:-1]], 1)
    assert not read_later & {death.tensor for run in walk(graph, plan) for death in run.deaths}


def test_tiles_run_one_after_the_other_and_compute_again_what_they_share() -> None:
    graph = build_graph(two_convs())
    output = whole(graph.tensors[graph.parts[1].output].shape)
    tiles = [output.along(Axis.ROWS, Interval(start, start + 4)) for start in (0, 4)]
    plan = cascade(graph, [0, 1], 1 << 20, Axis.COLUMNS, tiles=tiles)
    assert [(run.part, *run.output.rows) for run in walk(graph, plan)] == [(0, 0, 6), (1, 0, 4), (0, 4, 10), (1, 4, 8)]


@search(15)
@given(random_networks(), st.data())
def test_each_tile_computes_what_is_needed_once_and_before_it_is_read(
    model: ResolvedModel, data: st.DataObject
) -> None:
    graph = build_graph(model)
    plans, directions = data.draw(random_plans(graph))
    for plan, backwards in zip(plans, directions, strict=True):
        _assert_in_order(graph, plan, backwards)


def _assert_in_order(graph: CascaderGraph, plan: Plan, backwards: bool) -> None:
    inside = {graph.parts[part].output for part in plan.parts}
    made = {tensor: np.zeros(graph.tensors[tensor].shape, int) for tensor in inside}
    for run in walk(graph, plan, backwards):
        part = graph.parts[run.part]
        for each, box in zip(part.inputs, run.inputs, strict=True):
            if each.tensor in inside:
                assert made[each.tensor][tuple(slice(*interval) for interval in box)].all()
        made[part.output][tuple(slice(*interval) for interval in run.output)] += 1
    last = made[graph.parts[plan.parts[-1]].output]
    assert (last == 1).all()
    if len(plan.tiles) == 1:
        assert all((count <= 1).all() for count in made.values())


def test_nothing_of_a_tensor_dies_in_a_tile_that_needs_only_its_padding() -> None:
    network = Network(4, 6, 2)
    made = network.conv(network.image, 2, 3, side=1)
    borders = network.recipe.constant(OperandType.TENSOR_INT32, [[0, 0], [2, 0], [0, 0], [0, 0]])
    padded = network.recipe.operation(OperationType.PAD, [made, borders], like(Q8AS))
    graph = build_graph(network.recipe.build(padded))
    output = whole(graph.tensors[graph.parts[1].output].shape)
    tiles = [output.along(Axis.ROWS, Interval(row, row + 2)) for row in (0, 2, 4)]
    plan = cascade(graph, [0, 1], 3, Axis.COLUMNS, tiles=tiles)
    runs = list(walk(graph, plan))
    assert [run.part for run in runs[:2]] == [1, 1]
    assert not any(run.deaths for run in runs[:2])
    assert profile(graph, plan, runs).extents[graph.parts[0].output] == Shape(2, 3, 3)


@pytest.mark.parametrize("along", list(Axis))
def test_stripes_go_along_any_axis(along: Axis) -> None:
    graph = build_graph(two_convs())
    runs = walk(graph, cascade(graph, [1], 2, along))
    assert [run.output[along].start for run in runs] == list(range(0, graph.tensors[2].shape[along], 2))
