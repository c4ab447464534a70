"""An explanation as a fragment of HTML that stands alone: no script, and nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files

from nnhal_client.explanation import Explanation
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.copies import NAMES, copied_figures, places, planned_figures
from nnhal_pages.document import document, figure_list, scrolling
from nnhal_pages.document import style as page_style
from nnhal_pages.explanation.marks import legend
from nnhal_pages.explanation.panel import operation_panel
from nnhal_pages.explanation.tables import EDGES, device_table, edge_table, operation_table
from nnhal_pages.explanation.working_memory import working_memory
from nnhal_pages.facts import facts_of, operation_name
from nnhal_pages.graph import GraphView, PlanLinks, plan_graph
from nnhal_pages.image_layouts import layout_figure, layout_words
from nnhal_pages.report import Folded, Markup, Name, Picture, part_html
from nnhal_pages.svg import drawing_style
from nnhal_pages.units import duration, measured_words, median_of, size


def fragment(explanation: Explanation, level: int = 2, name: str = "plan") -> str:
    """A section with the sums, the graph of the plan, its devices, operations, edges and memory.

    The page that embeds it adds ``style()`` and ``drawing_style()`` once. ``level`` is the level of its headings, from
    2 to 4. ``name`` begins the ids in it, and is its own on the page.
    """
    parts = (
        ("Summary", sums(explanation)),
        ("Plan", _graphs(explanation, name)),
        ("Devices", part_html(device_table(explanation))),
        ("Operations", part_html(operation_table(explanation, name))),
        ("Edges", part_html(edge_table(explanation.edges, EDGES))),
        ("Memory between steps", _arenas(explanation, name) + "".join(map(part_html, working_memory(explanation)))),
        ("Each operation", _panels(explanation, name)),
    )
    sections = (f"<h{level}>{title}</h{level}>{content}" for title, content in parts)
    return f"<section class='nnhal-plan' aria-label='Explanation of a plan'>{''.join(sections)}</section>"


@cache
def style() -> str:
    """The style sheet of fragments, beside that of drawings."""
    own = files("nnhal_pages.explanation").joinpath("explanation.css").read_text()
    return page_style() + own


def sums(explanation: Explanation) -> str:
    measured = explanation.measured
    used = list(dict.fromkeys(step.device for step in explanation.steps))
    time = f"{measured_words(explanation)}, {median_of(measured)}" if measured else "by the devices' cost models"
    memory = (
        f"{size(explanation.fallback_bytes)} between steps, {size(explanation.constant_bytes)} constants, "
        f"{size(explanation.client_bytes)} of the client"
    )
    figures = (
        ("Modelled time of a run", duration(explanation.modelled_ns or -1), time),
        ("Devices in use", f"{len(used)} of {len(explanation.devices)}", ", ".join(used)),
        ("Steps", str(len(explanation.steps)), f"{len(explanation.operations)} operations"),
        ("Peak memory", size(explanation.peak_bytes), memory),
    )
    return figure_list(figures, (*_copied(explanation), *_layout(explanation), *_sent(explanation)))


def _copied(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """The three figures of copied bytes, with what was measured, or else where they are by plan."""
    measured = explanation.measured
    notes = ["measured: " + text for text in copied_figures(measured.copied, size)] if measured else ["by plan"] * 3
    for place, between in enumerate((True, False, None)):
        where = places(explanation, size, between)
        notes[place] += f"; {'of all: ' if between is None else ''}{where}" if where else ""
    if measured is None:
        added = explanation.request_bytes
        notes[1] += f"; a request adds {size(added) if added is not None else 'unknown'} unless it has shared memory"
    for name, figure, note in zip(NAMES, planned_figures(explanation, size), notes, strict=True):
        yield f"Copied in a run, {name}", figure, note


def _layout(explanation: Explanation) -> list[tuple[str, str, str]]:
    """The layout of images, if a device wants another than the model's."""
    figure = layout_figure(explanation)
    return [("Layout of images", figure, layout_words(explanation))] if figure else []


def _sent(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Return what goes over networks, if any step is on another host."""
    if not explanation.wire_ns:
        return []
    up, down = explanation.wire_up_bytes, explanation.wire_down_bytes
    transfers = (
        f"{size(up)} up, {size(down)} down, {duration(explanation.wire_ns)} modelled; constants were sent before"
    )
    return [("Over the wire in a run", size(up + down), transfers)]


def _links(name: str, opened: Callable[[frozenset[int]], str]) -> PlanLinks:
    """Links within the page. A browser opens what is closed around the place that a link leads to."""
    return PlanLinks(lambda number: f"#{name}-operation-{number}", lambda number: f"#{name}-step-{number}", opened)


def _graphs(explanation: Explanation, name: str) -> str:
    """The steps, and below them the same with every operation."""
    everything = frozenset(range(len(explanation.steps)))
    to_open = _links(name, lambda opened: f"#{name}-all-step-{min(opened)}")
    closed = plan_graph(explanation, GraphView(to_open, f"{name}-steps"))
    opened = plan_graph(explanation, GraphView(_links(name, lambda _: f"#{name}-closed"), f"{name}-all", everything))
    return (
        "<p class='note'>Time runs downwards. A solid line passes values in place, a dashed one copies them. Boxes "
        f"lead to what there is to say of them.</p>{legend(explanation)}"
        f"{scrolling('The steps', closed.embedded(), f'{name}-closed')}"
        f"<details class='opened'><summary>Every operation</summary>{scrolling('The operations', opened.embedded())}"
        "</details>"
    )


def _arenas(explanation: Explanation, name: str) -> str:
    devices = [step.device for step in explanation.steps]
    drawings = arena_charts(explanation.arena_values, devices, f"{name}-arena")
    if not drawings:
        return "<p class='note'>None: no value lies in an arena.</p>"
    return "".join(part_html(Picture(f"Arena {number}", drawing)) for number, drawing in enumerate(drawings))


def _panels(explanation: Explanation, name: str) -> str:
    """Return what there is to say of each operation, closed. A browser opens the one that a link leads to."""
    facts, links = facts_of(explanation), _links(name, lambda _: f"#{name}-closed")
    panels = (
        Folded(
            Name(operation_name(story, number)),
            (Markup(operation_panel(explanation, number, links, facts)),),
            f", {story.operation} on {story.device}",
            f"{name}-operation-{number}",
        )
        for number, story in enumerate(explanation.operations)
    )
    return f"<div class='panels'>{''.join(map(part_html, panels))}</div>"


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document, to keep or to attach: it needs no other file."""
    return document(title, fragment(explanation), style() + drawing_style())
