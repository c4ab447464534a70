"""Whether the compiler keeps budgets, and whether more memory is ever slower."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_cascade.compiler import CompilerOptions, DoesNotFitError, compile_graph
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System

_STEPS = 12


def budgets_between(least: int, most: int) -> list[int]:
    """Return budgets from ``least`` to ``most`` bytes, in equal ratios."""
    ratio = most / least
    return [round(least * ratio ** (step / (_STEPS - 1))) for step in range(_STEPS)]


def budget_faults(graph: CascaderGraph, system: System, budgets: Sequence[int]) -> list[str]:
    """Return what is wrong with the schedules for budgets in rising order: nothing should be.

    One byte less than the first budget should be refused, with that budget as the least.
    """
    faults = []
    cycles: int | None = None
    for budget in budgets:
        found = compile_graph(graph, system, CompilerOptions(budget=budget))
        if found.peak > budget:
            faults.append(f"{budget:,} bytes are exceeded by {found.peak - budget:,}")
        if cycles is not None and found.cycles > cycles:
            faults.append(f"{budget:,} bytes are slower than less by {found.cycles - cycles:,} cycles")
        cycles = found.cycles
    try:
        compile_graph(graph, system, CompilerOptions(budget=budgets[0] - 1))
        faults.append(f"{budgets[0] - 1:,} bytes are enough, and not just {budgets[0]:,}")
    except DoesNotFitError as error:
        if error.least != budgets[0]:
            faults.append(f"{error.least:,} bytes are said to be the least, and {budgets[0]:,} are enough")
    return faults
