from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.memory import Lifetime, plan_arena
from nnhal.memory.arena import round_up

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 12),
    st.integers(0, 6),
)


@given(st.lists(lifetimes, max_size=20), st.sampled_from([1, 16, 64, 256]))
def test_values_that_live_at_the_same_time_never_share_a_byte(values: list[Lifetime], alignment: int) -> None:
    offsets, size = plan_arena(values, alignment)
    assert len(offsets) == len(values)
    assert all(offset % alignment == 0 for offset in offsets)
    assert all(offset + value.size <= size for offset, value in zip(offsets, values, strict=True))
    for (at, one), (other_at, other) in combinations(zip(offsets, values, strict=True), 2):
        if one.first <= other.last and other.first <= one.last:
            assert at + one.size <= other_at or other_at + other.size <= at


@given(st.lists(lifetimes, max_size=20), st.sampled_from([1, 64]))
def test_an_arena_is_no_larger_than_all_values_side_by_side_and_holds_the_busiest_step(
    values: list[Lifetime], alignment: int
) -> None:
    _, size = plan_arena(values, alignment)
    assert size <= sum(round_up(value.size, alignment) for value in values)
    busiest = (
        sum(round_up(v.size, alignment) for v in values if v.first <= step <= v.last)
        for step in {v.first for v in values}
    )
    assert size >= max(busiest, default=0)


def test_a_chain_of_values_takes_the_room_of_two() -> None:
    chain = [Lifetime(1000, step, step + 1) for step in range(10)]
    offsets, size = plan_arena(chain, 64)
    assert size == 2 * 1024
    assert set(offsets) == {0, 1024}


def test_no_values_take_no_room() -> None:
    assert plan_arena([], 64) == ((), 0)


@pytest.mark.parametrize(("size", "rounded"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_sizes_are_rounded_up_to_the_alignment(size: int, rounded: int) -> None:
    assert round_up(size, 64) == rounded
