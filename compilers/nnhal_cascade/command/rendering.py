"""A report in a terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

from nnhal_cascade.command import formatting
from nnhal_cascade.command.report import (
    BufferReport,
    CascadePlanReport,
    CascadeReport,
    CrossingReport,
    FrontierPoint,
    PartReport,
    SharedMemoryReport,
    SharedStepReport,
)
from nnhal_cascade.schedule.lives import MemoryUse
from nnhal_pages.document import Figure
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Mark,
    Markup,
    Medium,
    Name,
    PagePart,
    Picture,
    ReportTable,
    RowGroup,
    TerminalPart,
    report_page,
)
from nnhal_pages.svg import Drawing


def report_parts(report: CascadeReport) -> Iterator[TerminalPart]:
    """Yield sums, cascades, parts, buffers, and the frontier if there is one."""
    yield from _lines(report)
    yield _parts(report)
    yield _buffers(report)
    yield _regions(report)
    if report.frontier:
        yield _frontier(report)
        yield from _least(report)
    if report.together is not None:
        yield from _together(report.together, report.system.working)


def page(report: CascadeReport, uses: Iterable[MemoryUse]) -> str:
    """Return a whole HTML document. ``uses`` are those of the working memory."""
    # A terminal shows no pictures.
    from nnhal_cascade.command.pictures import frontier_drawing

    sections: list[tuple[str, Sequence[PagePart]]] = [
        ("Summary", (_sums(report), f"The peak is {formatting.made_of(report)}.", *_bounds(report)))
    ]
    if report.frontier:
        points = Folded(f"All {len(report.frontier)} points as a table", (_frontier(report),))
        picture = Picture("Picture of the frontier", frontier_drawing(report))
        sections.append(("Frontier", (_FRONTIER, picture, *_least(report), points)))
    over_time = Picture("Picture of the memory over time", _memory_drawing(report, uses))
    sections += [
        ("Memory over time", (_MEMORY, over_time)),
        ("Cascades", _cascades(report)),
        ("Parts", (_parts(report),)),
        ("Buffers", (_buffers(report),)),
        ("Memories", (_regions(report),)),
    ]
    if report.together is not None:
        sections.append(("All steps", tuple(_together(report.together, report.system.working))))
    return report_page(f"{report.model} on {report.system.accelerator}", sections, page_style())


def _memory_drawing(report: CascadeReport, uses: Iterable[MemoryUse]) -> Drawing:
    from nnhal.v1 import admin_pb2
    from nnhal_pages.charts.memory import memory_chart

    spans = [admin_pb2.MemorySpan(**use._asdict()) for use in uses]
    name = f"The {report.system.working} of {report.model}"
    return memory_chart(
        admin_pb2.MemoryFigure(name=name, limit_bytes=report.budget, unit="cycles", spans=spans), "memory"
    )


@cache
def page_style() -> str:
    """Return the style sheet of this page alone."""
    return files("nnhal_cascade.command").joinpath("page.css").read_text()


_FRONTIER = (
    "Each point is a schedule; less memory costs cycles. This page tells of the filled point. Point at one, or reach "
    "it with the tabulator key, for its figures."
)
_MEMORY = (
    "Each bar is some rows of a tensor, from the stripe that writes them to the last one that reads them. A dashed "
    "frame is what is reserved for a tensor. Frames overlap if an output is written over a dying input."
)
_CASCADES = (
    "A part runs as soon as the rows that it needs are there. What lies between two parts holds so many rows at a "
    "time, drawn as bars. Arcs are tensors that a later part reads again."
)


def _lines(report: CascadeReport) -> Iterator[str]:
    """Yield the sums and the cascades for a terminal."""
    system, planned = report.system, report.planned
    yield f"{report.model} on {system.accelerator} at {formatting.clock(system.clock_hz)} ({system.name})"
    yield f"peak    {formatting.size(planned.peak)} of {system.working}: {formatting.fit(report)}"
    yield f"        {formatting.made_of(report)}"
    yield f"cycles  {planned.cycles:,}, {formatting.time(planned.milliseconds)}; {planned.macs:,} multiply-adds"
    if report.input != "resident":
        yield f"input   {report.input}: the client hands over {report.handed_over:,} bytes as they are needed"
    if report.bound is not None:
        yield f"bound   {formatting.bound(report)}"
    if report.spilled:
        yield f"spilled {formatting.amounts(report.spilled)} bytes: whole tensors that do not lie in {system.working}"
    if report.measured is not None:
        yield f"device  {formatting.agreement(report)}"
    for plan in report.cascades:
        yield f"{formatting.plan_name(plan)}: {formatting.cost(plan)}"


def _together(shared: SharedMemoryReport, region: str) -> Iterator[str | ReportTable[Any]]:
    """The steps of a network of which the NPU runs a part, and what each takes of the one memory."""
    columns: list[Column[tuple[int, SharedStepReport]]] = [
        Column("step", lambda row: str(row[0]), number=True),
        Column("what", lambda row: Name(row[1].name), wraps=True),
        Column("arena", lambda row: "does not fit" if row[1].arena is None else f"{row[1].arena:,}", number=True),
        Column("lives across", lambda row: f"{row[1].across:,}", number=True),
        Column("together", lambda row: f"{row[1].bytes:,}" + (" *" if row[0] == shared.step else ""), number=True),
        Column("cycles", lambda row: "" if row[1].cycles is None else f"{row[1].cycles:,}", number=True),
    ]
    yield ReportTable(f"All steps in {region}, in bytes", columns, list(enumerate(shared.steps)))
    tensors: list[Column[CrossingReport]] = [
        Column("tensor between steps", lambda each: Name(each.name), wraps=True),
        Column("bytes", lambda each: f"{each.bytes:,}", number=True),
        Column("from step", lambda each: str(each.first), number=True),
        Column("to step", lambda each: str(each.last), number=True),
    ]
    yield ReportTable("What lives between them", tensors, shared.tensors)
    name = shared.steps[shared.step].name
    yield f"all together take {formatting.size(shared.peak)} of {region}, in step {shared.step}: {name}"


def _bounds(report: CascadeReport) -> Iterator[str]:
    if report.bound is not None:
        yield f"No schedule takes less than {formatting.bound(report)}."


def _least(report: CascadeReport) -> Iterator[str]:
    if report.least is not None:
        told = formatting.least(report.least.bytes, report.least.parts, report.least.bound)
        yield f"The least found is {told}."


def _sums(report: CascadeReport) -> FigureCards:
    planned, system = report.planned, report.system
    peak, clock = formatting.kibibytes(planned.peak), formatting.clock(system.clock_hz)
    cards = [
        Figure(f"Peak of {system.working}", peak, f"{planned.peak:,} bytes; {formatting.fit(report)}"),
        Figure("Time", formatting.time(planned.milliseconds), f"{planned.cycles:,} cycles at {clock}"),
        Figure("Multiply-adds", formatting.short(planned.macs), f"{planned.macs / planned.cycles:.1f} a cycle"),
        Figure("Cascades", str(len(report.cascades)), f"{sum(len(p.parts) for p in report.plans)} parts in all"),
    ]
    if report.spilled:
        cards.append(Figure("Bytes elsewhere", formatting.amounts(report.spilled), "whole tensors that were moved out"))
    if report.measured is not None:
        same = report.measured == planned
        cards.append(
            Figure("Measured by the device", "as planned" if same else "differs", formatting.agreement(report))
        )
    return FigureCards(cards)


def _frontier(report: CascadeReport) -> ReportTable[FrontierPoint]:
    columns: list[Column[FrontierPoint]] = [
        Column("", formatting.marks, wraps=True, only=Medium.TERMINAL),
        Column("bytes", lambda point: f"{point.peak:,}", number=True),
        Column("KiB", lambda point: f"{point.peak / 1024:,.1f}", number=True, only=Medium.TERMINAL),
        Column("memory", lambda point: formatting.kibibytes(point.peak), number=True, only=Medium.PAGE),
        Column("cycles", lambda point: f"{point.cycles:,}", number=True),
        Column("time", lambda point: formatting.time(point.milliseconds), number=True),
        Column("overhead", lambda point: formatting.per_cent(point.overhead), number=True),
        Column("cascades", formatting.cascades, wraps=True),
        Column("", lambda point: Mark(formatting.marks(point), strong=True), only=Medium.PAGE),
    ]
    caption = "The points of the frontier, and how much slower each is than the fastest."
    return ReportTable("Frontier: memory against cycles", columns, report.frontier, "frontier", caption)


def _cascades(report: CascadeReport) -> tuple[PagePart, ...]:
    from nnhal_cascade.command.pictures import cascade_drawing

    if not report.cascades:
        return ("None: each part runs to its end before the next one starts.",)
    drawings = "".join(
        f"<figure><figcaption>{escape(_caption(plan))}</figcaption>{cascade_drawing(report, plan).embedded()}</figure>"
        for plan in report.cascades
    )
    return (_CASCADES, Markup(f"<div class='cascades'>{drawings}</div>"))


def _caption(plan: CascadePlanReport) -> str:
    tiles = f" in {plan.tiles} tiles of at most {formatting.shape(plan.tile)}" if plan.tiles > 1 else ""
    back = ", from the last stripe to the first" if plan.reversed else ""
    memory, cycles = formatting.size(plan.memory), formatting.short(plan.cycles)
    return f"Parts {formatting.numbers(plan)}{tiles}{back}: {memory}, {cycles} cycles"


_PlanPart = tuple[CascadePlanReport, PartReport]


def _parts(report: CascadeReport) -> ReportTable[_PlanPart]:
    columns: list[Column[_PlanPart]] = [
        Column("plan", lambda row: str(row[0].plan) if row[1] is row[0].parts[0] else "", only=Medium.TERMINAL),
        Column("part", lambda row: str(row[1].part), only=Medium.TERMINAL),
        Column("part", lambda row: (str(row[1].part), Name(row[1].output)), only=Medium.PAGE),
        Column("operation", lambda row: row[1].operation),
        Column("stripes", lambda row: formatting.stripes(row[1], row[0])),
        Column("weights", lambda row: row[1].weights),
        Column("bytes", _weight_bytes, number=True, page_header="Weight bytes"),
        Column("cycles", lambda row: f"{row[1].cycles:,}", number=True),
    ]
    groups = []
    for number, plans in groupby(report.plans, lambda plan: plan.plan if len(plan.parts) > 1 else None):
        together = list(plans)
        told = (
            "part by part" if number is None else f"{formatting.plan_name(together[0])}: {formatting.cost(together[0])}"
        )
        groups.append(RowGroup(told, sum(len(plan.parts) for plan in together)))
    rows = [(plan, part) for plan in report.plans for part in plan.parts]
    return ReportTable("Parts", columns, rows, "parts", "The parts, in the order in which they run.", groups)


def _weight_bytes(row: _PlanPart) -> str:
    return f"{row[1].weight_bytes:,}" if row[1].weight_bytes else ""


def _buffers(report: CascadeReport) -> ReportTable[BufferReport]:
    columns: list[Column[BufferReport]] = [
        Column("name", lambda buffer: Name(buffer.name)),
        Column("holds", formatting.extent),
        Column("memory", lambda buffer: buffer.region),
        Column("bytes", lambda buffer: f"{buffer.bytes:,}", number=True),
        Column("address", lambda buffer: f"{buffer.address:#x}", number=True),
        Column("plans", lambda buffer: formatting.span((buffer.first, buffer.last))),
    ]
    caption = "What is reserved, where, and during which plans."
    return ReportTable("Buffers", columns, report.buffers, "buffers", caption)


def _regions(report: CascadeReport) -> ReportTable[dict[str, Any]]:
    read, written = report.planned.read, report.planned.written
    columns: list[Column[dict[str, Any]]] = [
        Column("memory", lambda region: str(region["name"])),
        Column("size", lambda region: formatting.kibibytes(region["size"]), number=True),
        Column("bytes a cycle", lambda region: f"{region['bandwidth']:g}", number=True, only=Medium.PAGE),
        Column(
            "latency, read / write",
            lambda region: f"{region['read_latency']} / {region['write_latency']}",
            number=True,
            only=Medium.PAGE,
        ),
        Column("burst", lambda region: str(region["burst"]), number=True, only=Medium.PAGE),
        Column("read", lambda region: f"{read.get(region['name'], 0):,}", number=True, page_header="Bytes read"),
        Column(
            "written", lambda region: f"{written.get(region['name'], 0):,}", number=True, page_header="Bytes written"
        ),
    ]
    caption = f"The memories of {report.system.name}, and what a run moves."
    return ReportTable("Bytes moved in a run", columns, report.system.regions, "regions", caption)
