"""What was measured, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.zoo.measuring import Measured

_LARGE_SECONDS = 1e-3
"""Computation from which on the hop between processes should not count."""


def figures_table(models: Sequence[Measured]) -> Table:
    """Return a table with a row for each model that ran."""
    table = Table("model", title="Models of other people's packages")
    for name in ("operations", "steps", "difference", "ms", "runtime", "ratio", "load, ms", "runtime", "ratio"):
        table.add_column(name, justify="right")
    for each in models:
        if not each.refusal:
            table.add_row(
                each.name,
                str(each.operations),
                str(each.steps),
                f"{each.difference:.1e}",
                f"{each.own_seconds * 1e3:.3f}",
                f"{each.peer_seconds * 1e3:.3f}",
                f"{each.ratio:.2f}",
                f"{each.own_load_seconds * 1e3:.0f}",
                f"{each.peer_load_seconds * 1e3:.0f}",
                f"{each.load_ratio:.1f}",
            )
    return table


def refusals_table(models: Sequence[Measured]) -> Table:
    """Return a table with a row for each model that did not run, and why."""
    table = Table("model", "why it has no figures", title="Models without figures")
    for each in models:
        if each.refusal:
            table.add_row(each.name, each.refusal)
    return table


def aims_of(models: Sequence[Measured]) -> list[Aim]:
    """What the figures should be."""
    ran = [each for each in models if not each.refusal]
    large = [each.ratio for each in ran if each.peer_seconds >= _LARGE_SECONDS]
    loads = [each.load_ratio for each in ran]
    refused = sum(each.refusal.startswith("nnhal") for each in models)
    return [
        Aim("models that only nnhal refuses", refused, 0, "models"),
        Aim("median ratio of runs over 1 ms", median(large) if large else None, 1.1),
        Aim("worst ratio of runs over 1 ms", max(large, default=None), 1.5),
        Aim("most steps of a model", max((each.steps for each in ran), default=None), 3, "steps"),
        Aim("median ratio of loading", median(loads) if loads else None, 4),
    ]
