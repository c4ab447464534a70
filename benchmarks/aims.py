"""Aims, and a table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.machine import machine


@dataclass(frozen=True, slots=True)
class Aim:
    """A figure that should not exceed a limit, or a statement that should hold."""

    what: str
    figure: float | None
    """None if it could not be measured, which counts as missed."""
    limit: float
    unit: str = ""
    remark: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure is within its limit."""
        return self.figure is not None and self.figure <= self.limit


def statement(what: str, exceptions: int | None, remark: str = "") -> Aim:
    """Return the aim that something has no exceptions; None if it could not be tried."""
    return Aim(what, exceptions, 0, "exceptions", remark)


def aim_table(aims: Iterable[Aim]) -> Table:
    """Return a table with a row for each aim."""
    table = Table("aim", title="Aims")
    for name in ("figure", "at most"):
        table.add_column(name, justify="right")
    for name in ("unit", "", "remark"):
        table.add_column(name)
    for aim in aims:
        figure = "none" if aim.figure is None else _number(aim.figure)
        table.add_row(aim.what, figure, _number(aim.limit), aim.unit, "met" if aim.is_met else "missed", aim.remark)
    return table


def write_aims(aims: Iterable[Aim], path: Path) -> None:
    """Write aims as JSON, with the machine that they were measured on."""
    rows = [{**asdict(aim), "met": aim.is_met} for aim in aims]
    path.write_text(json.dumps({**machine(), "aims": rows}, indent=1))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
