"""In which region tensors and constants lie."""

from __future__ import annotations

from nnhal_cascade.geometry.box import Axis, Interval
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.price import StripePlaces
from nnhal_cascade.plans.homes import Homes, Lifetimes, WorkingSet
from nnhal_cascade.plans.plan import WeightsIn
from tests.support.small_networks import residual, two_convs

SMALL, LARGE = system_for("u55-128"), system_for("u65-256")


def test_constants_are_at_rest_unless_they_are_copied() -> None:
    homes = Homes(build_graph(two_convs()), SMALL)
    assert homes.places(0, WeightsIn.STREAMED) == StripePlaces(("sram",), "sram", "flash")
    assert homes.places(0, WeightsIn.RESIDENT) == StripePlaces(("sram",), "sram", "sram")
    assert Homes(build_graph(residual()), SMALL).places(2, WeightsIn.NONE) == StripePlaces(("sram",) * 2, "sram", "")


def test_spilled_tensors_are_in_the_spill_region_unless_they_lie_within_a_plan() -> None:
    homes = Homes(build_graph(two_convs()), LARGE, frozenset({0, 1}))
    assert homes.places(1, WeightsIn.STREAMED) == StripePlaces(("dram",), "sram", "dram")
    assert homes.places(1, WeightsIn.STREAMED, frozenset({1})) == StripePlaces(("sram",), "sram", "dram")
    assert homes.sizes == [0, 0, 256]


def test_nothing_is_spilled_without_a_region_for_it() -> None:
    homes = Homes(build_graph(two_convs()), SMALL, frozenset({0}))
    assert homes.spilled == frozenset()
    assert homes.sizes == [1152, 800, 256]


def test_stripes_of_channels_have_two_buffers_of_constants() -> None:
    homes = Homes(build_graph(two_convs()), SMALL)
    assert homes.constants_bytes(1, Axis.ROWS, 1) == 4 * 82
    assert homes.constants_bytes(1, Axis.CHANNELS, 1) == 2 * 82
    assert Homes(build_graph(residual()), SMALL).constants_bytes(2, Axis.ROWS, 1) == 0


def test_a_copy_takes_as_long_as_the_slower_memory() -> None:
    homes = Homes(build_graph(two_convs()), SMALL)
    assert homes.constants_copy(1) == 4 * 82 + 64
    assert homes.constants_copy(1, Interval(0, 2)) == 2 * 82 + 64


def test_a_tensor_lives_from_its_producer_to_its_last_reader() -> None:
    lifetimes = Lifetimes(build_graph(residual()))
    assert lifetimes.born == [0, 1, 2, 3]
    assert lifetimes.last == [0, 2, 2, 3]


def test_a_group_ends_the_lives_of_what_is_read_last_in_it() -> None:
    lifetimes = Lifetimes(build_graph(residual()))
    assert lifetimes.dying(0, 1) == (0,)
    assert lifetimes.dying(1, 2) == ()
    assert set(lifetimes.dying(2, 3)) == {1, 2}


def test_what_a_group_writes_itself_does_not_die_for_those_before() -> None:
    assert Lifetimes(build_graph(two_convs())).dying(0, 2) == (0,)


def test_what_is_needed_after_a_group_escapes() -> None:
    lifetimes = Lifetimes(build_graph(residual()))
    assert lifetimes.escaping(0, 2) == (1,)
    assert lifetimes.escaping(0, 3) == ()


def test_the_bytes_before_each_part_are_those_of_living_tensors() -> None:
    assert Lifetimes(build_graph(residual())).alive_bytes([1, 10, 100, 1000]) == [1, 10, 110, 1000]


def test_spilled_tensors_take_none_of_the_working_memory() -> None:
    graph = build_graph(two_convs())
    assert WorkingSet(Homes(graph, system_for("u55-128"))).alive == [1152, 800, 256]
    assert WorkingSet(Homes(graph, system_for("u65-256"), frozenset({1}))).alive == [1152, 0, 256]
