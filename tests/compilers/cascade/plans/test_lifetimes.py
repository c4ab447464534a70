"""When tensors live."""

from __future__ import annotations

from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.plans.lifetimes import Lifetimes
from tests.support.small_networks import residual, two_convs


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
