"""Two explanations as a fragment of HTML: what differs first, then both graphs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from nnhal_client.explanation import EdgeStory, Explanation, OperationStory
from nnhal_pages.comparison.pairing import (
    OperationPair,
    PlanFigure,
    count,
    difference,
    differs,
    figures,
    marks_of,
    pairs_of,
)
from nnhal_pages.comparison.reasons import move_reason
from nnhal_pages.copies import NAMES, planned_copies
from nnhal_pages.document import scrolling
from nnhal_pages.explanation.marks import counted, device_mark, operation_link
from nnhal_pages.facts import facts_of
from nnhal_pages.graph import GraphView, plan_graph
from nnhal_pages.report import Column, Markup, Name, ReportTable, part_html
from nnhal_pages.text import escaped
from nnhal_pages.units import duration, size


def comparison(
    old: Explanation, new: Explanation, titles: tuple[str, str], views: tuple[GraphView, GraphView], level: int = 2
) -> str:
    """A section with the figures of both plans, what differs by device, operation and edge, and both graphs.

    ``titles`` are plain text. ``views`` are those of the graphs, with names of their own; marks are added to them.
    ``level`` is the level of the headings.
    """
    devices = tuple({device.name: device for device in (*old.devices, *new.devices)}.values())
    old, new = replace(old, devices=devices), replace(new, devices=devices)  # so that a device looks the same in both
    pairs = pairs_of(old, new)
    parts = (
        ("In short", f"<p>{escaped(_short(old, new, pairs))}</p>{_figures(old, new, titles)}"),
        ("Devices", _devices(old, new, titles)),
        ("Operations that differ", _operations(old, new, pairs, titles, views)),
        ("Edges that differ", _edges(old, new, titles)),
        ("Side by side", _graphs(old, new, pairs, titles, views)),
    )
    sections = (f"<h{level}>{title}</h{level}>{content}" for title, content in parts)
    return f"<section class='nnhal-plan comparison' aria-label='Two plans'>{''.join(sections)}</section>"


@cache
def comparison_style() -> str:
    """The style sheet of comparisons, beside those of explanations and drawings."""
    return files("nnhal_pages.comparison").joinpath("comparison.css").read_text()


def _short(old: Explanation, new: Explanation, pairs: Sequence[OperationPair]) -> str:
    both = [(old.operations[p.old], new.operations[p.new]) for p in pairs if p.old is not None and p.new is not None]
    moved = sum(before.device != after.device for before, after in both)
    lines = [
        f"{counted(moved, 'operation')} moved" if moved else "No operation moved",
        *(
            f"{counted(number, 'operation')} {'is' if number == 1 else 'are'} only in the {which}"
            for which, number in (
                ("old plan", sum(pair.new is None for pair in pairs)),
                ("new plan", sum(pair.old is None for pair in pairs)),
            )
            if number
        ),
        f"modelled time: {difference(old.modelled_ns, new.modelled_ns, duration)}",
        *(
            f"bytes copied {name}: {difference(before, after, count)}"
            for name, before, after in zip(NAMES, planned_copies(old), planned_copies(new), strict=True)
        ),
        f"peak memory, bytes: {difference(old.peak_bytes, new.peak_bytes, count)}",
    ]
    return "; ".join(lines) + "."


def _figures(old: Explanation, new: Explanation, titles: tuple[str, str]) -> str:
    columns: list[Column[PlanFigure]] = [
        Column("figure", lambda each: each.name),
        Column("old", lambda each: each.written(each.old), number=True, page_header=titles[0]),
        Column("new", lambda each: each.written(each.new), number=True, page_header=titles[1]),
        Column("difference", lambda each: difference(each.old, each.new, each.written)),
    ]
    return part_html(ReportTable("", columns, figures(old, new), "figures", "The plans as wholes."))


def _devices(old: Explanation, new: Explanation, titles: tuple[str, str]) -> str:
    def operations(plan: Explanation, name: str) -> int:
        return sum(story.device == name for story in plan.operations)

    def time(plan: Explanation, name: str) -> float:
        return sum(step.modelled_ns for step in plan.steps if step.device == name)

    columns: list[Column[str]] = [
        Column("device", lambda name: Markup(device_mark(new, name))),
        Column(f"operations, {titles[0]}", lambda name: count(operations(old, name)), number=True),
        Column(f"operations, {titles[1]}", lambda name: count(operations(new, name)), number=True),
        Column("difference", lambda name: difference(operations(old, name), operations(new, name), count)),
        Column(f"modelled time, {titles[0]}", lambda name: duration(time(old, name)), number=True),
        Column(f"modelled time, {titles[1]}", lambda name: duration(time(new, name)), number=True),
        Column("difference", lambda name: difference(time(old, name), time(new, name), duration)),
    ]
    names = [device.name for device in new.devices]
    return part_html(ReportTable("", columns, names, "devices", "What each device does."))


def _operations(
    old: Explanation,
    new: Explanation,
    pairs: Sequence[OperationPair],
    titles: tuple[str, str],
    views: tuple[GraphView, GraphView],
) -> str:
    def link(pair: OperationPair) -> Markup:
        plan, number, view = (new, pair.new, views[1]) if pair.new is not None else (old, pair.old, views[0])
        assert number is not None
        return Markup(operation_link(plan, number, view.links.operation(number)))

    def stories(pair: OperationPair) -> tuple[OperationStory | None, OperationStory | None]:
        return (
            old.operations[pair.old] if pair.old is not None else None,
            new.operations[pair.new] if pair.new is not None else None,
        )

    def kind(pair: OperationPair) -> str:
        return next(story.operation for story in stories(pair) if story is not None)

    facts = facts_of(new)

    def reason(pair: OperationPair) -> str:
        before, after = stories(pair)
        if before is None or after is None or before.device == after.device:
            return ""
        assert pair.new is not None
        return move_reason(before, new, pair.new, facts)

    changed = [pair for pair in pairs if _change(*stories(pair))]
    if not changed:
        return "<p class='note'>None: every operation runs where it ran, in the same modelled time.</p>"
    columns: list[Column[OperationPair]] = [
        Column("node", link),
        Column("operation", kind),
        Column("change", lambda pair: _change(*stories(pair))),
        Column("old", lambda pair: Markup(_placed(old, stories(pair)[0])), page_header=titles[0]),
        Column("new", lambda pair: Markup(_placed(new, stories(pair)[1])), page_header=titles[1]),
    ]
    if any(map(reason, changed)):
        columns.append(Column("why it moved", reason))
    same = len(pairs) - len(changed)
    caption = f"{counted(len(changed), 'operation')} of {len(pairs):,}; {same:,} are the same in both."
    return part_html(ReportTable("", columns, changed, "changes", caption))


def _change(before: OperationStory | None, after: OperationStory | None) -> str:
    """Say how an operation differs; empty if it is the same in both plans."""
    if before is None:
        return "+ only in the new plan"
    if after is None:
        return "- only in the old plan"
    if not differs(before, after):
        return ""
    if before.device != after.device:
        return "◆ moved"
    return "◇ pinned otherwise" if before.pin != after.pin else "◇ another time"


def _placed(plan: Explanation, story: OperationStory | None) -> str:
    if story is None:
        return "-"
    pin = f"<br><span class='small'>pinned by {escaped(story.pin)}</span>" if story.pin else ""
    time = f", {duration(story.modelled_ns)}" if story.modelled_ns > 0 else ""
    return f"{device_mark(plan, story.device)}{time}{pin}"


def _edges(old: Explanation, new: Explanation, titles: tuple[str, str]) -> str:
    rows = []
    for value in dict.fromkeys(edge.value for edge in (*new.edges, *old.edges)):
        before, after = ([edge for edge in plan.edges if edge.value == value] for plan in (old, new))
        if Counter(map(_way, before)) != Counter(map(_way, after)):
            rows.append((value, before, after))
    if not rows:
        return "<p class='note'>None: every value passes from device to device as it did.</p>"
    columns: list[Column[tuple[str, list[EdgeStory], list[EdgeStory]]]] = [
        Column("value", lambda row: Name(row[0])),
        Column("old", lambda row: Markup(_ways(row[1])), page_header=titles[0]),
        Column("new", lambda row: Markup(_ways(row[2])), page_header=titles[1]),
        Column("copied bytes", lambda row: difference(_copied(row[1]), _copied(row[2]), count)),
    ]
    caption = f"{counted(len(rows), 'value')} that {'passes' if len(rows) == 1 else 'pass'} in another way."
    return part_html(ReportTable("", columns, rows, "changes", caption))


def _copied(edges: Sequence[EdgeStory]) -> int:
    return sum(edge.copied_bytes for edge in edges)


def _way(edge: EdgeStory) -> tuple[object, ...]:
    """Return what is compared of an edge: not its steps, whose numbers change with any step before them."""
    return edge.source, edge.destination, edge.strategy, edge.layer, edge.bytes, edge.copied_bytes


def _ways(edges: Sequence[EdgeStory]) -> str:
    lines = (
        f"{edge.source or 'client'} to {edge.destination or 'client'}: {edge.strategy}, "
        f"{f'{size(edge.copied_bytes)} copied' if edge.copied_bytes else f'{size(edge.bytes)} in place'}"
        for edge in edges
    )
    return "<br>".join(map(escaped, lines)) or "stays within a step"


def _graphs(
    old: Explanation,
    new: Explanation,
    pairs: list[OperationPair],
    titles: tuple[str, str],
    views: tuple[GraphView, GraphView],
) -> str:
    graphs = []
    for plan, view, marks, title in zip((old, new), views, marks_of(old, new, pairs), titles, strict=True):
        drawing = plan_graph(plan, replace(view, marks={**view.marks, **marks}))
        graphs.append(
            f"<figure><figcaption>{escaped(title)}</figcaption>{scrolling(title, drawing.embedded())}</figure>"
        )
    note = (
        "<p class='note'>What differs has ◆ and a frame. A step that is closed says how many of its operations do.</p>"
    )
    return f"{note}<div class='beside'>{''.join(graphs)}</div>"
