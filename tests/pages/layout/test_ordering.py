"""The order of nodes within their ranks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nnhal_pages.layout.ordering import crossings, orders_of
from nnhal_pages.layout.trunks import Stretch

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(6, 11)), max_size=20)


def below(pairs: list[tuple[int, int]]) -> list[list[int]]:
    return [[lower for upper, lower in pairs if upper == node] for node in range(12)]


@given(PAIRS)
def test_crossings_are_counted(pairs: list[tuple[int, int]]) -> None:
    each = [(a, b, c, d) for a, b in pairs for c, d in pairs if a < c and b > d]
    assert crossings([range(6), range(6, 12)], below(pairs)) == len(each)


@given(PAIRS)
def test_an_order_is_no_worse_than_that_of_a_search(pairs: list[tuple[int, int]]) -> None:
    stretches = [Stretch(upper, lower, 0, 0) for upper, lower in pairs]
    orders = orders_of([0] * 6 + [1] * 6, 12, stretches)
    assert [sorted(order) for order in orders] == [list(range(6)), list(range(6, 12))]
    assert crossings(orders, below(pairs)) <= len(pairs) ** 2 // 4


def test_a_tree_has_no_crossing() -> None:
    pairs = [(0, 7), (0, 10), (1, 6), (1, 8), (2, 9), (2, 11)]
    orders = orders_of([0] * 6 + [1] * 6, 12, [Stretch(upper, lower, 0, 0) for upper, lower in pairs])
    assert crossings(orders, below(pairs)) == 0
