"""A story as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby

from nnhal_cascade.command import words
from nnhal_cascade.command.pictures.cascades import cascade_drawing
from nnhal_cascade.command.pictures.frontier import frontier_drawing
from nnhal_cascade.command.pictures.memory import memory_drawing
from nnhal_cascade.command.story import CascadeStory, PartStory, PlanStory
from nnhal_cascade.schedule.lives import TensorLife
from nnhal_cascade.schedule.replay import PlanReplay
from nnhal_pages.document import document, style
from nnhal_pages.svg import Drawing, drawing_style
from nnhal_pages.tables import short_name, stacking_table, table


def page(story: CascadeStory, replays: Sequence[PlanReplay], lives: Sequence[TensorLife]) -> str:
    """Return a whole HTML document."""
    sections = [("Summary", _sums(story))]
    if story.frontier:
        sections.append(("Frontier", _frontier(story)))
    sections += [
        ("Memory over time", _memory(story, replays, lives)),
        ("Cascades", _cascades(story)),
        ("Parts", _parts(story)),
        ("Buffers", _buffers(story)),
        ("Memories", _regions(story)),
    ]
    content = "".join(f"<section><h2>{title}</h2>{text}</section>" for title, text in sections)
    return document(f"{story.model} on {story.system.accelerator}", content, style() + drawing_style() + page_style())


@cache
def page_style() -> str:
    """Return the style sheet of this page alone."""
    return files("nnhal_cascade.command").joinpath("page.css").read_text()


def _sums(story: CascadeStory) -> str:
    planned, system = story.planned, story.system
    clock = words.clock(system.clock_hz)
    figures = [
        (f"Peak of {system.working}", words.kibibytes(planned.peak), f"{planned.peak:,} bytes; {words.fit(story)}"),
        ("Time", words.time(planned.milliseconds), f"{planned.cycles:,} cycles at {clock}"),
        ("Multiply-adds", words.short(planned.macs), f"{planned.macs / planned.cycles:.1f} a cycle"),
        ("Cascades", str(len(story.cascades)), f"{sum(len(p.parts) for p in story.plans)} parts in all"),
    ]
    if story.spilled:
        figures.append(("Bytes elsewhere", words.amounts(story.spilled), "whole tensors that were moved out"))
    if story.measured is not None:
        same = story.measured == planned
        figures.append(("Measured by the device", "as planned" if same else "differs", words.agreement(story)))
    cards = (
        f"<div><dt>{escape(title)}</dt><dd class='figure'>{escape(figure)}</dd>"
        f"<dd class='small'>{escape(more)}</dd></div>"
        for title, figure, more in figures
    )
    return f"<dl class='sums'>{''.join(cards)}</dl><p class='note'>The peak is {escape(words.made_of(story))}.</p>"


def _frontier(story: CascadeStory) -> str:
    rows = [
        (
            f"{point.peak:,}",
            words.kibibytes(point.peak),
            f"{point.cycles:,}",
            words.time(point.milliseconds),
            words.per_cent(point.overhead),
            escape(words.cascades(point)),
            "<strong>chosen</strong>" if point.chosen else "",
        )
        for point in story.frontier
    ]
    header = ("Bytes", "Memory", "Cycles", "Time", "Overhead", "Cascades", "")
    caption = "The points of the frontier, and how much slower each is than the fastest."
    return (
        "<p class='note'>Each point is a schedule; less memory costs cycles. This page tells of the filled point. "
        "Point at one, or reach it with the tabulator key, for its figures.</p>"
        + _scroll("Picture of the frontier", frontier_drawing(story))
        + f"<details><summary>All {len(rows)} points as a table</summary>"
        + stacking_table("frontier", caption, header, rows, {1, 2, 3, 4})
        + "</details>"
    )


def _memory(story: CascadeStory, replays: Sequence[PlanReplay], lives: Sequence[TensorLife]) -> str:
    return (
        "<p class='note'>Each bar is some rows of a tensor, from the stripe that writes them to the last one that "
        "reads them. A dotted frame is what is reserved for a tensor. Frames overlap if an output is written over a "
        "dying input. Weights are hatched. Cascades have a grey ground.</p>"
        + _scroll("Picture of the memory over time", memory_drawing(story, replays, lives))
    )


def _cascades(story: CascadeStory) -> str:
    if not story.cascades:
        return "<p class='note'>None: each part runs to its end before the next one starts.</p>"
    drawings = "".join(
        f"<figure><figcaption>{escape(_caption(plan))}</figcaption>{cascade_drawing(story, plan).embedded()}</figure>"
        for plan in story.cascades
    )
    note = (
        "<p class='note'>A part runs as soon as the rows that it needs are there. What lies between two parts holds so "
        "many rows at a time, drawn as bars. Arcs are tensors that a later part reads again.</p>"
    )
    return f"{note}<div class='cascades'>{drawings}</div>"


def _caption(plan: PlanStory) -> str:
    tiles = f" in {plan.tiles} tiles of at most {words.shape(plan.tile)}" if plan.tiles > 1 else ""
    back = ", from the last stripe to the first" if plan.reversed else ""
    return f"Parts {words.numbers(plan)}{tiles}{back}: {words.size(plan.memory)}, {words.short(plan.cycles)} cycles"


def _parts(story: CascadeStory) -> str:
    groups = []
    for number, plans in groupby(story.plans, lambda plan: plan.plan if len(plan.parts) > 1 else None):
        together = list(plans)
        told = "part by part" if number is None else f"{words.plan_name(together[0])}: {words.cost(together[0])}"
        title = f"<th role='rowheader' colspan='6' scope='rowgroup'>{escape(told)}</th>"
        rows = "".join(_part(part, plan) for plan in together for part in plan.parts)
        groups.append(f"<tbody role='rowgroup'><tr role='row' class='group'>{title}</tr>{rows}</tbody>")
    header = ("Part", "Operation", "Stripes", "Weights", "Weight bytes", "Cycles")
    return table("parts labelled", "The parts, in the order in which they run.", header, {4, 5}, "".join(groups))


def _part(part: PartStory, plan: PlanStory) -> str:
    cells = (
        ("Operation", "", escape(part.operation)),
        ("Stripes", "", words.stripes(part, plan)),
        ("Weights", "", part.weights),
        ("Weight bytes", " class='number'", f"{part.weight_bytes:,}"),
        ("Cycles", " class='number'", f"{part.cycles:,}"),
    )
    rest = "".join(f"<td role='cell'{look} data-label='{name}'><div>{text}</div></td>" for name, look, text in cells)
    return f"<tr role='row'><th role='rowheader' scope='row'>{part.part} {short_name(part.output)}</th>{rest}</tr>"


def _buffers(story: CascadeStory) -> str:
    rows = [
        (
            short_name(each.name),
            words.extent(each),
            f"{each.bytes:,}",
            escape(each.region),
            f"{each.address:#x}",
            words.span((each.first, each.last)),
        )
        for each in story.buffers
    ]
    header = ("Name", "Holds", "Bytes", "Memory", "Address", "Plans")
    return stacking_table("buffers", "What is reserved, where, and during which plans.", header, rows, {2, 4})


def _regions(story: CascadeStory) -> str:
    rows = [
        (
            escape(each.name),
            words.kibibytes(each.size),
            f"{each.bandwidth:g}",
            f"{each.read_latency} / {each.write_latency}",
            str(each.burst),
            f"{story.planned.read.get(each.name, 0):,}",
            f"{story.planned.written.get(each.name, 0):,}",
        )
        for each in story.system.regions
    ]
    header = ("Memory", "Size", "Bytes a cycle", "Latency, read / write", "Burst", "Bytes read", "Bytes written")
    caption = f"The memories of {escape(story.system.name)}, and what a run moves."
    return stacking_table("regions", caption, header, rows, {1, 2, 3, 4, 5, 6})


def _scroll(name: str, drawing: Drawing) -> str:
    return f"<div class='scroll' role='region' aria-label='{name}' tabindex='0'>{drawing.embedded()}</div>"
