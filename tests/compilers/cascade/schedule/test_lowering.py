"""From proposals to schedules."""

from __future__ import annotations

from nnhal_cascade.geometry.box import Axis, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import Plan, Proposal, WeightsIn
from nnhal_cascade.schedule.lowering import Lowering, Unplaced, place_spilled
from nnhal_cascade.schedule.schedule import Schedule
from tests.support.schedules import cascade
from tests.support.small_networks import residual, two_convs

GRAPH = build_graph(two_convs())


def lowered(
    *plans: Plan,
    graph: CascaderGraph = GRAPH,
    limit: int | None = None,
    device: str = "u55-128",
    spilled: tuple[int, ...] = (),
) -> Schedule | Unplaced:
    system = system_for(device)
    lowering = Lowering(Homes(graph, system, frozenset(spilled)), StripePricer(graph, system))
    return lowering.schedule(Proposal(plans, 0, 0, frozenset(spilled)), limit)


def schedule(
    *plans: Plan, graph: CascaderGraph = GRAPH, device: str = "u55-128", spilled: tuple[int, ...] = ()
) -> Schedule:
    found = lowered(*plans, graph=graph, device=device, spilled=spilled)
    assert isinstance(found, Schedule)
    return found


def test_a_cascade_takes_its_input_and_three_rows_between() -> None:
    found = schedule(cascade(GRAPH, [0, 1], 1))
    assert found.peak == 1152 + 3 * 80
    assert {each.tensor: each.extents for each in found.tensors}[1] == Shape(3, 10, 8)


def test_the_first_plan_that_has_no_place_is_named() -> None:
    apart = cascade(GRAPH, [0], 10), cascade(GRAPH, [1], 8)
    assert lowered(*apart, limit=1000) == Unplaced(0)
    assert isinstance(lowered(*apart, limit=2000), Schedule)


def test_a_part_pays_its_fill_once_in_a_plan() -> None:
    homes, pricer = Homes(GRAPH, system_for("u55-128")), StripePricer(GRAPH, system_for("u55-128"))
    prices = [
        pricer.price(part, output, (needed,), homes.places(part, WeightsIn.STREAMED))
        for part, output, needed in ((0, Shape(10, 10, 8), Shape(12, 12, 8)), (1, Shape(8, 8, 4), Shape(10, 10, 8)))
    ]
    assert schedule(cascade(GRAPH, [0, 1], 20)).cycles == sum(each.cycles + each.fill for each in prices)


def test_constants_are_copied_beside_the_plan_before_if_that_leaves_room() -> None:
    graph = build_graph(residual())
    parts = [cascade(graph, [part], 9, weights=WeightsIn.RESIDENT) for part in (1, 2)]
    (buffer,) = schedule(cascade(graph, [0], 9), *parts, graph=graph).constants
    assert (buffer.plan, buffer.copied_in) == (1, 0)


def test_constants_are_copied_in_their_own_plan_if_the_one_before_takes_all_of_the_memory() -> None:
    resident = cascade(GRAPH, [1], 8, weights=WeightsIn.RESIDENT)
    (buffer,) = schedule(cascade(GRAPH, [0], 10), resident).constants
    assert (buffer.plan, buffer.copied_in) == (1, 1)


def test_stripes_of_channels_have_two_slots() -> None:
    doubled = cascade(GRAPH, [0], 4, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED)
    (buffer,) = schedule(doubled, cascade(GRAPH, [1], 8)).constants
    assert (buffer.slots, buffer.bytes) == (2, 4 * 82)


def test_what_escapes_a_plan_is_whole() -> None:
    graph = build_graph(residual())
    found = schedule(cascade(graph, [0, 1], 1), cascade(graph, [2], 9), graph=graph)
    buffer = next(each for each in found.tensors if each.tensor == 1)
    assert buffer.extents == graph.tensors[1].shape
    assert (buffer.first, buffer.last) == (0, 1)


def test_spilled_tensors_take_no_working_memory() -> None:
    found = schedule(cascade(GRAPH, [0], 10), cascade(GRAPH, [1], 8), device="u65-256", spilled=(0,))
    assert found.spill_peak == 1152
    assert next(each.region for each in found.tensors if each.tensor == 0) == "dram"
    assert found.peak < 1152


SPILLING_GRAPH = build_graph(two_convs())
SPILLED = Homes(SPILLING_GRAPH, system_for("u65-256"), frozenset({0, 1, 2}))


def test_tensors_that_live_at_the_same_time_lie_apart() -> None:
    found, peak = place_spilled(SPILLED, frozenset(), first=[0, 0, 1], last=[0, 1, 1])
    assert {each.tensor: each.address for each in found} == {0: 0, 1: 1152, 2: 0}
    assert {each.region for each in found} == {"dram"}
    assert peak == 1152 + 800


def test_what_lies_within_a_plan_is_not_spilled() -> None:
    found, peak = place_spilled(SPILLED, frozenset({1}), first=[0, 0, 0], last=[0, 0, 0])
    assert {each.tensor: each.address for each in found} == {0: 0, 2: 1152}
    assert peak == 1152 + 256


def test_there_is_nothing_without_a_region_for_it() -> None:
    assert place_spilled(Homes(SPILLING_GRAPH, system_for("u55-128")), frozenset(), [0] * 3, [0] * 3) == ([], 0)
