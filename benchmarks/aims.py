"""Aims, a table of them, and the machine on which they were measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.tables import ShownTables
from nnhal.calibration import processor_name


def machine() -> dict[str, object]:
    """Processor, cores, memory in GiB, and the load before the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "load_at_start": os.getloadavg()[0],
    }


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


def tell(aims: Collection[Aim], tables: ShownTables, markdown: Path | None, json_file: Path | None) -> int:
    """Show aims, and write all tables and the aims if there are files for them. Returns 1 if an aim is missed."""
    tables.show(aim_table(aims))
    if markdown:
        tables.write(markdown)
    if json_file:
        write_aims(aims, json_file)
    return int(not all(aim.is_met for aim in aims))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
