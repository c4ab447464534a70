"""Orders of axes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from nnhal.types.orders import (
    TO_FIRST,
    TO_LAST,
    Order,
    after_transposition,
    axes_between,
    moves_elements,
    normal,
    permuted,
    widened,
    without,
)

ORDERS = list(permutations(range(3)))
VALUE = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("stored", ORDERS)
@pytest.mark.parametrize("wanted", ORDERS)
def test_the_axes_between_two_orders_lead_from_one_to_the_other(stored: Order, wanted: Order) -> None:
    axes = axes_between(normal(stored), normal(wanted))
    np.testing.assert_array_equal(VALUE.transpose(stored).transpose(axes or range(3)), VALUE.transpose(wanted))
    assert (axes is None) == (stored == wanted)


@pytest.mark.parametrize("stored", ORDERS)
@pytest.mark.parametrize("axes", ORDERS)
def test_a_transposition_renames_the_axes_of_what_lies_in_memory(stored: Order, axes: Order) -> None:
    order = after_transposition(normal(stored), axes) or range(3)
    np.testing.assert_array_equal(VALUE.transpose(axes).transpose(order), VALUE.transpose(stored))


def test_removed_axes_leave_the_order_of_the_others() -> None:
    assert without(TO_LAST, {2, 3}) is None
    assert without(TO_LAST, {0}) == (1, 2, 0)


def test_a_value_gets_axes_in_front() -> None:
    assert widened((1, 0), 2, 4) == (0, 1, 3, 2)
    assert widened(None, 2, 3) == (0, 1, 2)


def test_the_elements_of_axes_go_with_them() -> None:
    assert permuted("NCHW", TO_LAST) == tuple("NHWC")
    assert permuted("NHWC", TO_FIRST) == tuple("NCHW")
    assert permuted("NC", None) == tuple("NC")


def test_only_axes_of_several_elements_move_elements() -> None:
    assert not moves_elements(TO_LAST, (2, 3, 1, 1))
    assert not moves_elements(TO_LAST, (2, 1, 4, 5))
    assert moves_elements(TO_LAST, (2, 3, 4, 1))
    assert moves_elements(TO_LAST, (1, 0, 1, 0))
    assert not moves_elements(None, (2, 3))
