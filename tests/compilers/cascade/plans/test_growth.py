"""The memory of groups that grow from their last part."""

from __future__ import annotations

from nnhal_cascade.geometry.box import Axis, Interval
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.growth import Group, Growth
from nnhal_cascade.plans.homes import Homes, WorkingSet
from tests.support.small_networks import residual, two_convs

CHAIN = WorkingSet(Homes(build_graph(two_convs()), system_for("u55-128")))
SPILLED = WorkingSet(Homes(build_graph(two_convs()), system_for("u65-256"), frozenset({1})))
BRANCH = WorkingSet(Homes(build_graph(residual()), system_for("u55-128")))
ROW = 7 * 6
"""Bytes of a row in the network with a branch."""


def grown(held: WorkingSet, parts: int, extent: int, along: Axis = Axis.ROWS, band: int = 0) -> tuple[Growth, Group]:
    """Return a group of the last parts of a graph, which has been taken further than that."""
    growth = Growth(held.lifetimes, len(held.graph.parts), along, extent, band=band)
    growth.group(parts + 1)
    group = growth.group(parts)
    assert group is not None
    return growth, group


def test_a_part_alone_takes_its_input_and_output() -> None:
    assert grown(CHAIN, 1, 8)[1].memory(CHAIN) == 800 + 256


def test_an_output_shares_the_rows_of_an_input_that_are_dead() -> None:
    """Before a row of the output is written, the rows before its window are dead, and those are longer."""
    group = grown(CHAIN, 1, 1)[1]
    assert group.memory(CHAIN) == 800 + 32
    assert group.memory(SPILLED) == 256, "its input is somewhere else"


def test_parts_in_a_cascade_have_a_rolling_buffer_between_them() -> None:
    """Three rows of 80 bytes lie between; all of the output lies over dead rows of the input."""
    _, group = grown(CHAIN, 2, 1)
    assert group.memory(CHAIN) == 1152 + 3 * 80
    assert group.interior == {1}


def test_bands_take_rows_twice() -> None:
    growth, _ = grown(CHAIN, 2, 8, Axis.COLUMNS, band=4)
    assert growth.bands == {1: (Interval(0, 4), Interval(4, 8)), 0: (Interval(0, 6), Interval(4, 10))}


def test_a_value_with_two_readers_is_held_for_the_later_one() -> None:
    """Between the parts are three rows of the first convolution and one of the second; the output lies over the input,
    all of which is dead in time."""
    _, group = grown(BRANCH, 3, 1)
    assert group.interior == {1, 2}
    assert group.memory(BRANCH) == BRANCH.sizes[3] + 3 * ROW + ROW


def test_sums_over_all_channels_are_no_cascade_along_the_channels() -> None:
    growth = Growth(BRANCH.lifetimes, 2, Axis.CHANNELS, 3)
    assert growth.group(1) is not None
    assert growth.group(2) is None


def test_a_part_has_begun_before_the_one_that_reads_it() -> None:
    growth, _ = grown(CHAIN, 2, 1)
    assert growth.begun(0) == 0.3
    assert growth.begun(1) == 0
