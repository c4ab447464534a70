"""Cost of Vela's plans by the compiler's model."""

from __future__ import annotations

import pytest

from benchmarks.compilers.chains import chain
from benchmarks.compilers.plans import VelaPlan
from benchmarks.compilers.pricing import VelaPricer
from nnhal_cascade.geometry.box import Axis, Interval, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import Plan, WeightsIn

SYSTEM = system_for("u55-128")


def _plan(graph: CascaderGraph, parts: tuple[int, ...], rows: int, weights: WeightsIn) -> VelaPlan:
    tile = whole(graph.tensors[graph.parts[parts[-1]].output].shape)
    return VelaPlan(Plan(parts, (rows,) * len(parts), (weights,) * len(parts), (tile,)))


@pytest.fixture
def graph() -> CascaderGraph:
    return chain(2)


def test_operations_in_one_stripe_cost_their_prices(graph: CascaderGraph) -> None:
    pricer, homes = StripePricer(graph, SYSTEM), Homes(graph, SYSTEM)
    expected = 0
    for part in graph.parts:
        output = whole(graph.tensors[part.output].shape)
        inputs = tuple(each.needs(output).shape for each in part.inputs)
        price = pricer.price(part.index, output.shape, inputs, homes.places(part.index, WeightsIn.STREAMED))
        expected += price.cycles + price.fill
    plans = [_plan(graph, (part.index,), 48, WeightsIn.STREAMED) for part in graph.parts]
    assert VelaPricer(graph, SYSTEM).price(plans).cycles == expected


def test_a_cascade_takes_less_memory(graph: CascaderGraph) -> None:
    pricer = VelaPricer(graph, SYSTEM)
    apart = pricer.price([_plan(graph, (part,), 48, WeightsIn.STREAMED) for part in (0, 1)])
    cascade = pricer.price([_plan(graph, (0, 1), 1, WeightsIn.STREAMED)])
    assert cascade.memory < apart.memory
    assert cascade.cycles > apart.cycles


def test_constants_of_the_next_plan_are_copied_while_a_plan_runs(graph: CascaderGraph) -> None:
    pricer, homes = VelaPricer(graph, SYSTEM), Homes(graph, SYSTEM)
    streamed, resident = (
        [_plan(graph, (part,), 48, weights) for part in (0, 1)] for weights in (WeightsIn.STREAMED, WeightsIn.RESIDENT)
    )
    first, second = (pricer.price([plans[0], resident[1]]).cycles for plans in (streamed, resident))
    assert second - first <= homes.constants_copy(0)
    assert pricer.price([resident[0], resident[1]]).cycles <= pricer.price([resident[0], streamed[1]]).cycles


def test_slices_are_copied_and_computed_one_after_the_other(graph: CascaderGraph) -> None:
    pricer = VelaPricer(graph, SYSTEM)
    tile = whole(graph.tensors[graph.parts[0].output].shape)
    plan = Plan((0,), (16,), (WeightsIn.DOUBLE_BUFFERED,), (tile,), Axis.CHANNELS)
    rest = _plan(graph, (1,), 48, WeightsIn.STREAMED)
    even, uneven = (
        pricer.price([VelaPlan(plan, slices), rest])
        for slices in (
            (Interval(0, 16), Interval(16, tile.channels.stop)),
            (Interval(0, 8), Interval(8, tile.channels.stop)),
        )
    )
    assert even.memory == uneven.memory
    assert even.cycles != uneven.cycles
