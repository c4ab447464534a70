"""Tests that search by chance: ``make sweep`` has them look ``NNHAL_SEARCH`` times as far, elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T", bound=Callable[..., Any])
TIMES = int(os.environ.get("NNHAL_SEARCH", "1"))
_SUPPRESSED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much)


def further(count: int) -> int:
    """Return how many attempts a test makes that ``make test`` gives so many."""
    return count * TIMES


def search(examples: int, suppressed: Iterable[HealthCheck] = _SUPPRESSED) -> Callable[[T], T]:
    """Have a test of Hypothesis try so many examples, the same each time, and ``make sweep`` others and more."""
    chosen = settings(
        max_examples=further(examples),
        derandomize=TIMES == 1,
        deadline=None,
        suppress_health_check=list(suppressed),
    )
    return lambda test: pytest.mark.search(chosen(test))
