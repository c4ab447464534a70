"""An explanation as a fragment of HTML that stands alone: no script, no identifiers, nothing loaded from elsewhere."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_tools.explain.picture import lane, picture
from nnhal_tools.explain.units import duration, median_of, place
from nnhal_tools.pages import short_name, stacking_table, table
from nnhal_tools.pages import style as page_style


def fragment(explanation: Explanation, level: int = 2) -> str:
    """A section with the sums, a picture of the plan, its devices, operations and edges.

    The page that embeds it adds ``style()`` once. ``level`` is the level of its headings, from 2 to 4.
    """
    parts = (
        ("Summary", _sums(explanation)),
        ("Plan", picture(explanation)),
        ("Devices", _devices(explanation)),
        ("Operations", _operations(explanation)),
        ("Edges", _edges(explanation)),
    )
    sections = (f"<h{level}>{title}</h{level}>{content}" for title, content in parts)
    return f"<section class='nnhal-plan' aria-label='Explanation of a plan'>{''.join(sections)}</section>"


@cache
def style() -> str:
    """The style sheet of fragments."""
    return page_style() + files("nnhal_tools.explain").joinpath("style.css").read_text()


def _sums(explanation: Explanation) -> str:
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
        ("Peak memory, bytes", f"{explanation.peak_bytes:,}", memory),
    )
    cards = (
        f"<div><dt>{title}</dt><dd class='figure'>{escape(figure)}</dd><dd class='small'>{escape(more)}</dd></div>"
        for title, figure, more in figures
    )
    return f"<dl class='sums'>{''.join(cards)}</dl>"


def _devices(explanation: Explanation) -> str:
    alone = {other.device: other for other in explanation.counterfactuals}
    rows = []
    for device in explanation.devices:
        operations = sum(story.device == device.name for story in explanation.operations)
        steps = [step.modelled_ns for step in explanation.steps if step.device == device.name]
        other = alone.get(device.name)
        whole = "-" if other is None else duration(other.modelled_ns) if other.modelled_ns else "not possible"
        reason = f"<br><span class='small'>{escape(other.reason)}</span>" if other and other.reason else ""
        rows.append(
            (
                _device(explanation, device.name),
                str(operations),
                duration(sum(steps)) if steps else "-",
                whole + reason,
                escape(device.realisation or "not described"),
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


def _operations(explanation: Explanation) -> str:
    titles = {
        number: f"Step {number} on {step.device}: {step.operations} operations, {duration(step.modelled_ns)}"
        for number, step in enumerate(explanation.steps)
    }
    titles[-1] = "Control flow that the framework walks"
    groups = []
    for number, title in titles.items():
        rows = "".join(_operation(explanation, story) for story in explanation.operations if story.step == number)
        if rows:
            groups.append(
                "<tbody role='rowgroup'><tr role='row' class='group'><th role='rowheader' colspan='5' scope='rowgroup'>"
                f"{escape(title)}</th></tr>{rows}</tbody>"
            )
    caption = "Where each operation runs, and why it does not run elsewhere. A reason opens in full."
    header = ("Node", "Operation", "Device", "Modelled", "Why not elsewhere")
    return table("operations", caption, header, {3}, "".join(groups))


def _operation(explanation: Explanation, story: OperationStory) -> str:
    name = ", ".join(story.nodes)
    able = [d.name for d in explanation.devices if d.name != story.device and d.name not in story.refusals]
    short = [f"{device}: {reason.partition(':')[0]}" for device, reason in story.refusals.items()]
    whole = {"node": name or "not named", **story.refusals, "could run it": ", ".join(able) or "no other device"}
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in whole.items())
    return (
        f"<tr role='row'><th role='rowheader' scope='row'>{short_name(name or '-')}</th>"
        f"<td role='cell'>{escape(story.operation)}</td><td role='cell'>{_device(explanation, story.device)}</td>"
        f"<td role='cell' class='number'>{duration(story.modelled_ns)}</td>"
        f"<td role='cell' class='reasons'><details><summary>{escape('; '.join(short) or 'none refuses')}</summary>"
        f"<dl>{terms}</dl></details></td></tr>"
    )


def _edges(explanation: Explanation) -> str:
    rows = [
        (
            short_name(edge.value),
            f"{escape(place(edge.source, edge.source_step))} to "
            f"{escape(place(edge.destination, edge.destination_step))}",
            f"{escape(edge.strategy)}<br><span class='small'>"
            f"{escape(', '.join(filter(None, (edge.layer, 'sync' if edge.sync else ''))))}</span>",
            f"{escape(edge.memory)}<br><span class='small'>multiples of {edge.alignment}</span>",
            f"{edge.bytes:,}",
            f"<span class='copied'>{edge.copied_bytes:,}</span>" if edge.copied_bytes else "0",
            escape(edge.reason),
        )
        for edge in explanation.edges
    ]
    header = ("Value", "From and to", "Strategy", "Memory", "Bytes", "Copied", "Reason")
    caption = "How each value is passed on. The number after a device is its step."
    return stacking_table("edges", caption, header, rows, {4, 5})


def _device(explanation: Explanation, name: str) -> str:
    return f"<span class='device lane-{lane(explanation, name)}'>{escape(name)}</span>"
