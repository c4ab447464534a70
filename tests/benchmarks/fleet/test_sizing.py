"""The search for the fewest hosts."""

from __future__ import annotations

import pytest

from benchmarks.fleet.sizing import fewest_hosts


@pytest.mark.parametrize("needed", [1, 2, 3, 7, 64, 99])
def test_the_fewest_hosts_are_found(needed: int) -> None:
    asked: list[int] = []

    def keeps(count: int) -> bool:
        asked.append(count)
        return count >= needed

    assert fewest_hosts(keeps, 1, 10_000) == needed
    assert len(asked) <= 16


@pytest.mark.parametrize("needed", [501, 1234, 9999])
def test_many_hosts_are_found_within_one_in_a_hundred(needed: int) -> None:
    found = fewest_hosts(lambda count: count >= needed, 400, 10_000)
    assert found is not None and needed <= found <= needed * 1.011


def test_none_is_found_if_not_even_the_most_keep_the_promise() -> None:
    assert fewest_hosts(lambda count: count >= 101, 1, 100) is None
    assert fewest_hosts(lambda count: count >= 100, 1, 100) == 100
