"""Marks of devices, operations and values on a page: small pieces of HTML."""

from __future__ import annotations

from nnhal.reports import LedgerEntry
from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.facts import operation_name
from nnhal_pages.patterns import DeviceLane, device_lanes
from nnhal_pages.text import escaped, shortened, visible
from nnhal_pages.units import place, size
from nnhal_pages.wires import sent_words

_NAME_WIDTH = 44


def device_mark(explanation: Explanation, name: str) -> str:
    """A device with its colour and its pattern. Other names, as the framework's, have neither."""
    lane = device_lanes(device.name for device in explanation.devices).get(name, DeviceLane())
    return f"<span class='device {lane.classes}'>{escaped(name)}</span>"


def legend(explanation: Explanation) -> str:
    """The devices in use, with how much each does."""
    used = dict.fromkeys(step.device for step in explanation.steps)
    items = []
    for device in used:
        steps = sum(step.device == device for step in explanation.steps)
        operations = sum(story.device == device for story in explanation.operations)
        items.append(
            f"<li>{device_mark(explanation, device)} <span class='small'>{counted(steps, 'step')}, "
            f"{counted(operations, 'operation')}</span></li>"
        )
    return f"<ul class='legend' aria-label='Devices of the plan'>{''.join(items)}</ul>"


def operation_link(explanation: Explanation, number: int, address: str) -> str:
    """A link to an operation, by the user's name for it, shortened in the middle."""
    name = visible(operation_name(explanation.operations[number], number))
    return (
        f"<a class='name' href='{escaped(address)}' title='{escaped(name)}'>{escaped(shortened(name, _NAME_WIDTH))}</a>"
    )


def counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def ends(edge: EdgeStory | LedgerEntry) -> str:
    """Return where the value comes from and where it goes, as text."""
    return f"{place(edge.source, edge.source_step)} to {place(edge.destination, edge.destination_step)}"


def strategy(edge: EdgeStory) -> str:
    """Return how an edge passes its value, as HTML."""
    more = ", ".join(filter(None, (edge.layer, "sync" if edge.sync else "", sent_words(edge))))
    return f"{escaped(edge.strategy)}<br><span class='small'>{escaped(more)}</span>"


def copied(count: int) -> str:
    """Copied bytes, which stand out unless there are none."""
    return f"<span class='copied'>{size(count)}</span>" if count else size(0)
