"""The cycles of a part that is cut."""

from __future__ import annotations

from itertools import pairwise

from nnhal_cascade.geometry.accesses import Windowed
from nnhal_cascade.geometry.box import Axis, Interval, Shape
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.part_costs import PartCosts, piece_lengths, stripe_lengths
from nnhal_cascade.plans.plan import WeightsIn
from tests.support.small_networks import two_convs

SYSTEM = system_for("u55-128")
GRAPH = build_graph(two_convs())
HOMES, PRICER = Homes(GRAPH, SYSTEM), StripePricer(GRAPH, SYSTEM)
COSTS = PartCosts(HOMES, PRICER)
WINDOW = Windowed(length=6, kernel=3, before=1)


def test_stripes_of_equal_lengths_are_counted_together() -> None:
    assert stripe_lengths((WINDOW,), 6, 2) == (((2, 3), 2), ((2, 4), 1))


def test_pieces_may_need_the_same_elements() -> None:
    assert piece_lengths((WINDOW, WINDOW), (Interval(0, 3), Interval(3, 6))) == (((3, 4, 4), 2),)


def test_an_uncut_part_costs_its_price_and_fill() -> None:
    places = HOMES.places(1, WeightsIn.STREAMED)
    price = PRICER.price(1, Shape(8, 8, 4), (Shape(10, 10, 8),), places)
    assert COSTS.cycles(1, Axis.ROWS, 8, WeightsIn.STREAMED, places) == price.cycles + price.fill


def test_smaller_stripes_are_not_faster() -> None:
    places = HOMES.places(1, WeightsIn.STREAMED)
    cycles = [COSTS.cycles(1, Axis.ROWS, extent, WeightsIn.STREAMED, places) for extent in (8, 4, 2, 1)]
    assert all(less <= more for less, more in pairwise(cycles))


def test_a_stripe_lasts_at_least_as_long_as_the_copy_for_the_next() -> None:
    """Each of two stripes copies 2 channels; the second has none to wait for."""
    places = HOMES.places(1, WeightsIn.DOUBLE_BUFFERED)
    price = PRICER.price(1, Shape(8, 8, 2), (Shape(10, 10, 8),), places)
    copy = COSTS.first_copy(1, Axis.CHANNELS, 2)
    expected = max(price.cycles, copy) + price.cycles + price.fill
    assert COSTS.cycles(1, Axis.CHANNELS, 2, WeightsIn.DOUBLE_BUFFERED, places) == expected


def test_the_copies_of_a_part_are_those_of_its_stripes() -> None:
    """Of 4 channels in stripes of 3 the second has one."""
    later = {extent: COSTS.later_copies(1, Axis.CHANNELS, extent) for extent in (1, 2, 3, 4)}
    one, two = (COSTS.first_copy(1, Axis.CHANNELS, extent) for extent in (1, 2))
    assert later == {1: 3 * one, 2: two, 3: one, 4: 0}
    assert COSTS.later_copies(1, Axis.ROWS, 2) == 0


def test_bands_copy_the_constants_again() -> None:
    places = HOMES.places(1, WeightsIn.DOUBLE_BUFFERED)
    bands = (Interval(0, 4), Interval(4, 8))
    price = PRICER.price(1, Shape(4, 8, 2), (Shape(6, 10, 8),), places)
    copy = COSTS.first_copy(1, Axis.CHANNELS, 2)
    expected = 3 * max(price.cycles, copy) + price.cycles + price.fill
    assert COSTS.cycles(1, Axis.CHANNELS, 2, WeightsIn.DOUBLE_BUFFERED, places, bands) == expected


def test_the_first_copy_is_all_of_it_but_for_stripes_of_channels() -> None:
    assert COSTS.first_copy(1, Axis.ROWS, 1) == HOMES.constants_copy(1)
    assert COSTS.first_copy(1, Axis.CHANNELS, 2) == HOMES.constants_copy(1, Interval(0, 2))
