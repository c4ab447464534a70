"""A story as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from nnhal_cascade.command import words
from nnhal_cascade.command.story import CascadeStory
from nnhal_pages.terminal import Name, show_table


def show(story: CascadeStory, console: Console) -> None:
    """Print sums, cascades, parts, buffers, and the frontier if there is one."""
    _show_sums(story, console)
    _show_cascades(story, console)
    _show_parts(story, console)
    _show_buffers(story, console)
    _show_traffic(story, console)
    if story.frontier:
        _show_frontier(story, console)


def _show_sums(story: CascadeStory, console: Console) -> None:
    system, planned = story.system, story.planned
    console.print(
        f"{story.model} on {system.accelerator} at {words.clock(system.clock_hz)} ({system.name})", markup=False
    )
    console.print(f"peak    {words.size(planned.peak)} of {system.working}: {words.fit(story)}", markup=False)
    console.print(f"        {words.made_of(story)}", markup=False)
    console.print(f"cycles  {planned.cycles:,}, {words.time(planned.milliseconds)}; {planned.macs:,} multiply-adds")
    if story.spilled:
        console.print(
            f"spilled {words.amounts(story.spilled)} bytes: whole tensors that do not lie in {system.working}"
        )
    if story.measured is not None:
        console.print(f"device  {words.agreement(story)}", markup=False)


def _show_cascades(story: CascadeStory, console: Console) -> None:
    for plan in story.cascades:
        console.print(f"{words.plan_name(plan)}: {words.cost(plan)}", markup=False)


def _show_parts(story: CascadeStory, console: Console) -> None:
    columns = _words("plan", "part", "operation", "stripes", "weights"), _numbers("bytes", "cycles")
    table = Table(*(column for some in columns for column in some), title="Parts")
    for plan, after in zip(story.plans, [*story.plans[1:], None], strict=True):
        edge = len(plan.parts) > 1 or (after is not None and len(after.parts) > 1)
        for position, part in enumerate(plan.parts):
            table.add_row(
                str(plan.plan) if position == 0 else "",
                str(part.part),
                part.operation,
                words.stripes(part, plan),
                part.weights,
                f"{part.weight_bytes:,}" if part.weight_bytes else "",
                f"{part.cycles:,}",
                end_section=edge and part is plan.parts[-1],
            )
    show_table(table, console)


def _show_buffers(story: CascadeStory, console: Console) -> None:
    columns = _words("name", "holds", "memory"), _numbers("bytes", "address"), _words("plans")
    table = Table(*(column for some in columns for column in some), title="Buffers")
    for buffer in story.buffers:
        table.add_row(
            Name(buffer.name),
            words.extent(buffer),
            buffer.region,
            f"{buffer.bytes:,}",
            f"{buffer.address:#x}",
            words.span((buffer.first, buffer.last)),
        )
    show_table(table, console)


def _show_traffic(story: CascadeStory, console: Console) -> None:
    table = Table(*_words("memory"), *_numbers("size", "read", "written"), title="Bytes moved in a run")
    for region in story.system.regions:
        read, written = (amounts.get(region.name, 0) for amounts in (story.planned.read, story.planned.written))
        table.add_row(region.name, words.kibibytes(region.size), f"{read:,}", f"{written:,}")
    show_table(table, console)


def _show_frontier(story: CascadeStory, console: Console) -> None:
    table = Table(
        "", *_numbers("bytes", "KiB", "cycles", "time", "overhead"), "cascades", title="Frontier: memory against cycles"
    )
    for point in story.frontier:
        table.add_row(
            "chosen" if point.chosen else "",
            f"{point.peak:,}",
            f"{point.peak / 1024:,.1f}",
            f"{point.cycles:,}",
            words.time(point.milliseconds),
            words.per_cent(point.overhead),
            words.cascades(point),
        )
    show_table(table, console)


def _words(*headers: str) -> list[Column]:
    return [Column(header, no_wrap=True) for header in headers]


def _numbers(*headers: str) -> list[Column]:
    return [Column(header, no_wrap=True, justify="right") for header in headers]
