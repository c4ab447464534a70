"""An explanation as a fragment of HTML that stands alone: no script, and nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from nnhal_client.explanation import DeviceStory, Explanation
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.document import document, figure_list, scrolling
from nnhal_pages.document import style as page_style
from nnhal_pages.explanation.marks import device_mark, legend, operation_link
from nnhal_pages.explanation.panel import edge_table, operation_panel
from nnhal_pages.facts import WALKED, facts_of, operation_name
from nnhal_pages.graph import GraphView, PlanLinks, plan_graph
from nnhal_pages.image_layouts import layout_figure, layout_words
from nnhal_pages.svg import drawing_style
from nnhal_pages.tables import short_name, stacking_table, table
from nnhal_pages.text import escaped
from nnhal_pages.units import duration, median_of
from nnhal_pages.wires import link_words, whole_model_words


def fragment(explanation: Explanation, level: int = 2, name: str = "plan") -> str:
    """A section with the sums, the graph of the plan, its devices, operations, edges and memory.

    The page that embeds it adds ``style()`` and ``drawing_style()`` once. ``level`` is the level of its headings, from
    2 to 4. ``name`` begins the ids in it, and is its own on the page.
    """
    parts = (
        ("Summary", sums(explanation)),
        ("Plan", _graphs(explanation, name)),
        ("Devices", _devices(explanation)),
        ("Operations", _operations(explanation, name)),
        ("Edges", edge_table(explanation.edges, "How each value is passed on. The number after a device is its step.")),
        ("Memory between steps", _arenas(explanation, name)),
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
    """The figures of a plan as a whole."""
    measured = explanation.measured
    used = list(dict.fromkeys(step.device for step in explanation.steps))
    time = f"measured: {duration(measured.duration_ns)}, {median_of(measured)}" if measured else "not measured"
    copied = f"measured: {measured.copied_bytes:,}" if measured else "by plan"
    memory = (
        f"{explanation.fallback_bytes:,} between steps, {explanation.constant_bytes:,} constants, "
        f"{explanation.client_bytes:,} of the client"
    )
    figures = (
        ("Modelled time of a run", duration(explanation.modelled_ns or -1), time),
        ("Devices in use", f"{len(used)} of {len(explanation.devices)}", ", ".join(used)),
        ("Steps", str(len(explanation.steps)), f"{len(explanation.operations)} operations"),
        ("Bytes copied in a run", f"{explanation.copied_bytes:,}", copied),
        *_layout(explanation),
        *_sent(explanation),
        ("Peak memory, bytes", f"{explanation.peak_bytes:,}", memory),
    )
    return figure_list(figures)


def _layout(explanation: Explanation) -> list[tuple[str, str, str]]:
    """The layout of images, if a device wants another than the model's."""
    figure = layout_figure(explanation)
    return [("Layout of images", figure, layout_words(explanation))] if figure else []


def _sent(explanation: Explanation) -> list[tuple[str, str, str]]:
    """What goes over networks, if any step is on another host."""
    if not explanation.wire_ns:
        return []
    up, down = explanation.wire_up_bytes, explanation.wire_down_bytes
    told = f"{up:,} up, {down:,} down, {duration(explanation.wire_ns)} modelled; constants were sent before"
    return [("Bytes on the wire in a run", f"{up + down:,}", told)]


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


def _devices(explanation: Explanation) -> str:
    alone = {other.device: other for other in explanation.counterfactuals}
    rows = []
    for device in explanation.devices:
        operations = sum(story.device == device.name for story in explanation.operations)
        steps = [step.modelled_ns for step in explanation.steps if step.device == device.name]
        other = alone.get(device.name)
        whole = "-" if other is None else whole_model_words(other) if other.modelled_ns else "not possible"
        reason = f"<br><span class='small'>{escaped(other.reason)}</span>" if other and other.reason else ""
        rows.append(
            (
                device_mark(explanation, device.name),
                str(operations),
                duration(sum(steps)) if min(steps, default=-1) >= 0 else "-",
                whole + reason,
                escaped(device.realisation or "not described") + _linked(device),
                "modelled" if device.modelled_timing else "measured",
            )
        )
    header = (
        "Device",
        "Operations",
        "Modelled time of its steps",
        "The whole model on it",
        "What it is",
        "Its times are",
    )
    return stacking_table("devices", "The devices that could be used, in order of preference.", header, rows, {1, 2})


def _linked(device: DeviceStory) -> str:
    if device.link is None:
        return ""
    link = link_words(device.link.round_trip_ns, device.link.ns_per_byte)
    return f"<br><span class='small'>On another host: {link}</span>"


def _operations(explanation: Explanation, name: str) -> str:
    facts = facts_of(explanation)
    titles = {
        number: f"Step {number} on {step.device}: {step.operations} operations, {duration(step.modelled_ns)}"
        for number, step in enumerate(explanation.steps)
    }
    titles[WALKED] = "Control flow that the framework walks"
    groups = []
    for number, title in titles.items():
        rows = "".join(_operation(explanation, member, name) for member in facts.members.get(number, ()))
        if rows:
            groups.append(
                f"<tbody role='rowgroup' id='{name}-step-{number}'><tr role='row' class='group'>"
                f"<th role='rowheader' colspan='5' scope='rowgroup'>{escaped(title)}</th></tr>{rows}</tbody>"
            )
    caption = "Where each operation runs, and why it does not run elsewhere. A name leads to all that is known of it."
    header = ("Node", "Operation", "Device", "Modelled", "Why not elsewhere")
    return table("operations", caption, header, {3}, "".join(groups))


def _operation(explanation: Explanation, number: int, name: str) -> str:
    story = explanation.operations[number]
    short = [f"{device}: {reason.partition(':')[0]}" for device, reason in story.refusals.items()]
    return (
        "<tr role='row'><th role='rowheader' scope='row'>"
        f"{operation_link(explanation, number, f'#{name}-operation-{number}')}</th>"
        f"<td role='cell'>{escaped(story.operation)}</td><td role='cell'>{device_mark(explanation, story.device)}</td>"
        f"<td role='cell' class='number'>{duration(story.modelled_ns)}</td>"
        f"<td role='cell' class='reasons'>{escaped('; '.join(short) or 'none refuses')}</td></tr>"
    )


def _arenas(explanation: Explanation, name: str) -> str:
    devices = [step.device for step in explanation.steps]
    drawings = arena_charts(explanation.arena_values, devices, f"{name}-arena")
    if not drawings:
        return "<p class='note'>None: no value lies in an arena.</p>"
    return "".join(scrolling(f"Arena {number}", drawing.embedded()) for number, drawing in enumerate(drawings))


def _panels(explanation: Explanation, name: str) -> str:
    """What there is to say of each operation, closed. A browser opens the one that a link leads to."""
    facts, links = facts_of(explanation), _links(name, lambda _: f"#{name}-closed")
    panels = (
        f"<details><summary>{short_name(operation_name(story, number))}, {escaped(story.operation)} on "
        f"{escaped(story.device)}</summary><div class='place' id='{name}-operation-{number}'>"
        f"{operation_panel(explanation, number, links, facts)}</div></details>"
        for number, story in enumerate(explanation.operations)
    )
    return f"<div class='panels'>{''.join(panels)}</div>"


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document, to keep or to attach: it needs no other file."""
    return document(title, fragment(explanation), style() + drawing_style())
