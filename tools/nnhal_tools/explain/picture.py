"""A plan as a sequence: a lane for the client and each device in use, steps as boxes, edges as arrows with labels."""

from __future__ import annotations

from html import escape
from itertools import groupby

from nnhal_client.explanation import EdgeStory, Explanation, StepStory
from nnhal_tools.explain.units import duration, place
from nnhal_tools.names import shortened

_CLIENT = "client"
_COLOURS = 6
_VALUE_WIDTH = 28


def lane(explanation: Explanation, device: str) -> int:
    """The number of a device's colour, from 1 on. The client's is 0."""
    names = [story.name for story in explanation.devices]
    return names.index(device) % _COLOURS + 1 if device in names else 0


def picture(explanation: Explanation) -> str:
    """An ordered list: before each step the edges into it, at the end those to the client."""
    lanes = [_CLIENT, *dict.fromkeys(step.device for step in explanation.steps)]
    colours = {name: lane(explanation, name) for name in lanes}
    heads = "".join(f"<span><b class='device lane-{n}'>{escape(name)}</b></span>" for name, n in colours.items())
    rows = [f"<li class='heads' aria-hidden='true'>{heads}</li>"]
    for number, step in enumerate(explanation.steps):
        rows += _arrows(explanation, number, lanes)
        rows.append(_box(explanation, number, step, lanes))
    rows += _arrows(explanation, -1, lanes)
    return (
        "<p class='note'>Time runs downwards. A solid arrow passes a value in place, a dashed one copies it.</p>"
        "<div class='scroll' role='region' aria-label='Picture of the plan' tabindex='0'>"
        f"<ol class='picture' style='--lanes:{len(lanes)}'>{''.join(rows)}</ol></div>"
    )


def _box(explanation: Explanation, number: int, step: StepStory, lanes: list[str]) -> str:
    measured = explanation.measured
    lines = [f"{step.operations} operations", f"modelled {duration(step.modelled_ns)}"]
    if measured and measured.step_device_ns[number] >= 0:
        lines.append(f"measured {duration(measured.step_device_ns[number])}")
    made = "".join(f"<br><span class='small'>{escape(text)}</span>" for text in step.optimizations)
    return (
        f"<li><div class='box lane-{lane(explanation, step.device)}' style='--from:{lanes.index(step.device) + 1}'>"
        f"<strong>Step {number} on {escape(step.device)}</strong>{'<br>'.join(lines)}{made}</div></li>"
    )


def _arrows(explanation: Explanation, destination_step: int, lanes: list[str]) -> list[str]:
    """Edges into a step, or to the client; those that come from one step in the same way are one arrow."""
    edges = [edge for edge in explanation.edges if edge.destination_step == destination_step]

    def kind(edge: EdgeStory) -> tuple[int, str, bool]:
        return edge.source_step, edge.strategy, bool(edge.copied_bytes)

    return [_arrow(explanation, list(alike), lanes) for _, alike in groupby(sorted(edges, key=kind), kind)]


def _arrow(explanation: Explanation, edges: list[EdgeStory], lanes: list[str]) -> str:
    first = edges[0]
    source, destination = (
        lanes.index(explanation.steps[number].device) if number >= 0 else 0
        for number in (first.source_step, first.destination_step)
    )
    direction = "stays" if source == destination else "right" if source < destination else "left"
    copied = sum(edge.copied_bytes for edge in edges)
    value = shortened(first.value, _VALUE_WIDTH) if len(edges) == 1 else f"{len(edges)} values"
    amount = f"{sum(edge.bytes for edge in edges):,} bytes, {f'{copied:,} copied' if copied else 'in place'}"
    title = ", ".join(edge.value for edge in edges)
    ends = f"{place(first.source, first.source_step)} to {place(first.destination, first.destination_step)}:"
    return (
        f"<li><div class='edge {direction} {'copied' if copied else 'free'}' "
        f"style='--from:{min(source, destination) + 1};--span:{abs(source - destination) + 1}' title='{escape(title)}'>"
        f"<span class='ends'>{escape(ends)}</span><span class='name'>{escape(value)}</span>"
        f"<span>{escape(first.strategy)}</span><span>{amount}</span></div></li>"
    )
