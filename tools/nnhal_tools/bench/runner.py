"""The runner of all measurements: ways that take turns, and reports with tables and aims.

A scenario is a function with typer's annotations that measures and returns a ``Report``. ``nnhal bench`` and
``python -m benchmarks`` run scenarios alike: each gets the options ``--json`` and ``--markdown``.
"""

from __future__ import annotations

import inspect
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from nnhal.calibration import processor_name
from nnhal_pages.command_parameters import taking
from nnhal_pages.terminal import output_console, show_table

Action = Callable[[], object]
Advance = Callable[[], None]


@dataclass(slots=True)
class Samples:
    """Durations of one action, nanoseconds."""

    values: list[int] = field(default_factory=list)

    def measure(self, action: Action) -> object:
        """Do the action once and note how long it took. Returns its result, which ends outside of that time."""
        started = perf_counter_ns()
        result = action()
        self.values.append(perf_counter_ns() - started)
        return result

    def percentile(self, percent: float) -> float:
        """Return a percentile, nanoseconds."""
        return float(np.percentile(self.values, percent))


def in_turns(
    ways: Mapping[str, Action],
    runs: int,
    *,
    block: int = 1,
    settling: int = 0,
    warm_up: int = 0,
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
    noted: Callable[[str, Any], object] = lambda _name, _result: None,
    advance: Advance = lambda: None,
) -> dict[str, Samples]:
    """Measure ``runs`` runs of each way in blocks by turns, so that other load of the machine meets all alike.

    ``warm_up`` rounds before the first and ``settling`` runs before each block do not count: the latter find what the
    other ways have left in the caches. Every other round goes backwards. A block is in the context that ``around``
    makes of its way's name, and ``noted`` gets the name and the result of each run that counts.
    """
    for _ in range(warm_up):
        for way in ways.values():
            way()
    samples = {name: Samples() for name in ways}
    for number, first in enumerate(range(0, runs, block)):
        counted = min(block, runs - first)
        for name in list(ways) if number % 2 == 0 else list(ways)[::-1]:
            with around(name):
                for _ in range(settling):
                    ways[name]()
                for _ in range(counted):
                    noted(name, samples[name].measure(ways[name]))
        for _ in range(counted):
            advance()
    return samples


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """Show a bar on standard error; the function that is yielded moves it by one of ``total``."""
    with Progress(console=Console(stderr=True)) as shown:
        task = shown.add_task(title, total=total)
        yield lambda: shown.advance(task)


def say(line: str) -> None:
    """Tell the person at the terminal something that belongs to no table."""
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(line, markup=False)


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
        """Return whether the figure is within its limit."""
        return self.figure is not None and self.figure <= self.limit


def statement(what: str, exceptions: int | None, remark: str = "") -> Aim:
    """Return the aim that something has no exceptions; None if it could not be tried."""
    return Aim(what, exceptions, 0, "exceptions", remark)


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a scenario."""

    tables: Sequence[Table]
    aims: Sequence[Aim] = ()
    """The command fails if one of them is missed."""
    remarks: Sequence[str] = ()
    """Sentences below the tables."""
    figures: object = None
    """What ``--json`` prints; by default the machine, the tables and the aims."""

    def as_json(self) -> object:
        """Return the object that ``--json`` prints."""
        if self.figures is not None:
            return self.figures
        tables = [{"title": str(table.title or ""), "rows": list(_rows(table))} for table in self.tables]
        return {**machine(), "tables": tables, "aims": [{**asdict(aim), "met": aim.is_met} for aim in self.aims]}


def machine() -> dict[str, object]:
    """Return the processor, its cores, the memory in GiB, and the load before the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
    }


def figure_table(title: str, names: str, figures: str, rows: Iterable[Sequence[object]] = ()) -> Table:
    """Return a table whose first columns are names and whose others are figures; both are split at commas."""
    heads = [Column(name.strip()) for name in names.split(",")]
    heads += [Column(name.strip(), justify="right") for name in figures.split(",")]
    table = Table(*heads, title=title)
    for row in rows:
        table.add_row(*map(str, row))
    return table


def time_table(title: str, samples: Mapping[str, Samples], beside: str = "", unit: str = "µs") -> Table:
    """Return a row for each way: its median and least time in µs or ms, and the former over that of ``beside``."""
    scale = {"µs": 1e3, "ms": 1e6}[unit]
    base = samples[beside].percentile(50) if beside else 1.0
    rows = []
    for name, found in samples.items():
        times = (found.percentile(50), found.percentile(0))
        ratio = (f"{times[0] / base:.2f}",) if beside else ()
        rows.append((name, *(f"{time / scale:,.1f}" for time in times), *ratio))
    return figure_table(f"{title}, {unit}", "", f"median,least{f',to {beside}' if beside else ''}", rows)


def aim_table(aims: Iterable[Aim]) -> Table:
    """Return a table with a row for each aim."""
    table = Table("aim", Column("figure", justify="right"), Column("at most", justify="right"), title="Aims")
    for name in ("unit", "", "remark"):
        table.add_column(name)
    for aim in aims:
        figure = "none" if aim.figure is None else _number(aim.figure)
        table.add_row(aim.what, figure, _number(aim.limit), aim.unit, "met" if aim.is_met else "missed", aim.remark)
    return table


def command_of_scenario(scenario: Callable[..., Report]) -> Callable[..., None]:
    """Return the command of a scenario: it prints the report, and exits with status 1 if an aim is missed."""

    def command(*, as_json: bool, markdown: Path | None, **options: Any) -> None:
        report = scenario(**options)
        tables = [*report.tables, *([aim_table(report.aims)] if report.aims else [])]
        if markdown:
            markdown.write_text("\n".join(map(as_markdown, tables)))
        if as_json:
            print(json.dumps(report.as_json(), allow_nan=False))
        else:
            console = output_console()
            for table in tables:
                show_table(table, console)
            for line in report.remarks:
                console.print(line, markup=False)
        raise typer.Exit(not all(aim.is_met for aim in report.aims))

    own = inspect.signature(scenario, eval_str=True)
    json_option = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
    file_option = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables to FILE.")]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
        for name, default, option in (("as_json", False, json_option), ("markdown", None, file_option))
    ]
    command.__name__, command.__doc__ = scenario.__name__, scenario.__doc__
    return taking((*own.parameters.values(), *more), command)


def as_markdown(table: Table) -> str:
    """Return a table of plain strings as Markdown, its title as a heading."""
    heads = [str(column.header) for column in table.columns]
    lines = ["---:" if column.justify == "right" else "---" for column in table.columns]
    body = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (heads, lines, *_rows(table))
    ]
    return "\n".join([f"### {table.title}\n", *body, ""])


def _rows(table: Table) -> Iterator[list[str]]:
    return map(list, zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
