"""The memory that requests hold at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nnhal_service.access import RequestMemoryBudget
from nnhal_service.serving.errors import ErrorKind, ServingError


def test_a_request_has_its_bytes_until_it_ends() -> None:
    budget = RequestMemoryBudget(100)
    with budget.charge(60) as charge:
        charge.grow(40)
        with pytest.raises(ServingError) as caught:
            budget.charge(1)
        assert caught.value.kind == ErrorKind.RESOURCE_EXHAUSTED
        assert caught.value.message == (
            "the request holds 1 bytes or more while others hold 100; all together may hold 100, "
            "which --request-memory allows"
        )
    assert budget.held == 0
    with budget.charge(100):
        assert budget.held == 100


def test_a_request_that_is_larger_than_all_is_refused_whatever_others_hold() -> None:
    budget = RequestMemoryBudget(100)
    with budget.charge(90) as charge:
        with pytest.raises(ServingError) as caught:
            charge.grow(11)
        assert caught.value.message == (
            "the request holds 101 bytes or more; all together may hold 100, which --request-memory allows"
        )
        assert budget.held == 90
        charge.grow(10)
    assert budget.held == 0


def test_a_request_that_fails_gives_its_bytes_back() -> None:
    budget = RequestMemoryBudget(100)
    with pytest.raises(ZeroDivisionError), budget.charge(100):
        raise ZeroDivisionError
    assert budget.held == 0


def test_without_a_limit_everything_fits() -> None:
    budget = RequestMemoryBudget(0)
    with budget.charge(1 << 60) as charge:
        charge.grow(1 << 60)
    assert budget.held == 0


def test_threads_never_hold_more_together_than_there_is() -> None:
    budget = RequestMemoryBudget(3)

    def ask(_: int) -> int:
        most = 0
        for _ in range(2000):
            try:
                with budget.charge(1) as charge:
                    charge.grow(1)
                    most = max(most, budget.held)
            except ServingError:
                continue
        return most

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, range(8)))
    assert 2 <= max(found) <= 3
    assert budget.held == 0
