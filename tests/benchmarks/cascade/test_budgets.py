"""Budgets that the compiler has to keep."""

from __future__ import annotations

import pytest

from benchmarks.cascade.budgets import budget_faults, budgets_between
from benchmarks.cascade.chains import chain
from nnhal_cascade.compiler import frontier
from nnhal_cascade.hardware.memory_file import system_for


def test_budgets_go_from_the_least_to_the_most() -> None:
    found = budgets_between(1_000, 64_000)
    assert (found[0], found[-1]) == (1_000, 64_000)
    assert found == sorted(set(found))


def test_the_budgets_of_a_chain_are_kept() -> None:
    graph, system = chain(3), system_for("u55-128")
    points = frontier(graph, system)
    assert budget_faults(graph, system, [each.peak for each in reversed(points)]) == []


def test_a_budget_that_is_not_the_least_is_a_fault() -> None:
    graph, system = chain(3), system_for("u55-128")
    least = frontier(graph, system)[-1].peak
    (fault,) = budget_faults(graph, system, [least + 1_000])
    assert fault == f"{least + 999:,} bytes are enough, and not just {least + 1_000:,}"


@pytest.mark.parametrize("order", [1, -1])
def test_more_memory_that_is_slower_is_a_fault(order: int) -> None:
    graph, system = chain(3), system_for("u55-128")
    budgets = [each.peak for each in reversed(frontier(graph, system))][::order]
    slower = [fault for fault in budget_faults(graph, system, budgets) if "slower" in fault]
    assert bool(slower) == (order < 0)
