"""What there is to say of one operation, or of one step."""

from __future__ import annotations

from collections.abc import Iterable

from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.explanation.marks import copied, counted, device_mark, ends, operation_link, strategy
from nnhal_pages.facts import WALKED, PlanFacts, facts_of
from nnhal_pages.graph.view import PlanLinks
from nnhal_pages.tables import short_name, stacking_table
from nnhal_pages.text import escaped
from nnhal_pages.units import duration
from nnhal_pages.wires import sent_words

_READERS = 6
"""So many readers of a value are named."""


def operation_panel(explanation: Explanation, number: int, links: PlanLinks, facts: PlanFacts | None = None) -> str:
    """Tell of an operation: where it runs, what each device said of it, and its values.

    ``links`` says where other operations are told of. ``facts`` are the explanation's, if they are at hand.
    """
    story = explanation.operations[number]
    step = "in no step: the framework walks it" if story.step == WALKED else f"step {story.step}"
    pin = f"<code>{escaped(story.pin)}</code>" if story.pin else "none: the planner chose the device"
    terms = (
        ("Operation", f"{escaped(story.operation)}, number {number}"),
        ("Layer", "<br>".join(f"<span class='name'>{escaped(name)}</span>" for name in story.nodes) or "not named"),
        ("Runs on", f"{device_mark(explanation, story.device)}, {step}"),
        ("Pin", pin),
        ("Modelled time", duration(story.modelled_ns) if story.modelled_ns > 0 else "not modelled"),
    )
    values = _values(explanation, number, links, facts or facts_of(explanation))
    return f"<div class='panel'>{_terms(terms)}{_answers(explanation, number)}{values}</div>"


def step_panel(explanation: Explanation, number: int, links: PlanLinks) -> str:
    """Tell of a step: its device, its times, its operations, and the values that come in and leave."""
    step, measured = explanation.steps[number], explanation.measured
    terms = [
        ("Device", device_mark(explanation, step.device)),
        ("Modelled time", duration(step.modelled_ns) if step.modelled_ns > 0 else "not modelled"),
    ]
    if measured and measured.step_device_ns[number] >= 0:
        terms += [
            ("Measured on the device", duration(measured.step_device_ns[number])),
            ("Measured in the driver", duration(measured.step_driver_ns[number])),
            ("Of that, copying", duration(measured.step_copy_ns[number])),
        ]
    made = "<br>".join(map(escaped, step.optimizations))
    terms.append(("Optimisations", made or "none that the device tells of"))
    members = [n for n, story in enumerate(explanation.operations) if story.step == number]
    items = "".join(
        f"<li>{operation_link(explanation, member, links.operation(member))} "
        f"<span class='small'>{escaped(explanation.operations[member].operation)}</span></li>"
        for member in members
    )
    edges = [edge for edge in explanation.edges if number in (edge.source_step, edge.destination_step)]
    return (
        f"<div class='panel'>{_terms(terms)}{edge_table(edges, 'The values that come in and leave.')}"
        f"<details><summary>{counted(len(members), 'operation')}</summary>"
        f"<ol class='members'>{items}</ol></details></div>"
    )


def edge_table(edges: Iterable[EdgeStory], caption: str) -> str:
    """A table of edges."""
    rows = [
        (
            short_name(edge.value),
            escaped(ends(edge)),
            strategy(edge),
            f"{escaped(edge.memory)}<br><span class='small'>multiples of {edge.alignment}</span>",
            f"{edge.bytes:,}",
            copied(edge.copied_bytes),
            escaped(edge.reason),
        )
        for edge in edges
    ]
    header = ("Value", "From and to", "Strategy", "Memory", "Bytes", "Copied", "Reason")
    return stacking_table("edges", caption, header, rows, {4, 5})


def _terms(terms: Iterable[tuple[str, str]]) -> str:
    return f"<dl class='terms'>{''.join(f'<dt>{term}</dt><dd>{text}</dd>' for term, text in terms)}</dl>"


def _answers(explanation: Explanation, number: int) -> str:
    story = explanation.operations[number]
    rows = []
    for name in dict.fromkeys((*(device.name for device in explanation.devices), *story.refusals, *story.costs)):
        cost = story.costs.get(name, story.modelled_ns if name == story.device else 0.0)
        refusal = story.refusals.get(name)
        if name == story.device:
            answer, reason = "✓ runs it", ""
        elif refusal is not None:
            answer, reason = "✕ refuses it", escaped(refusal)
        else:
            answer, reason = "○ could run it", _compared(cost, story.modelled_ns)
        rows.append((device_mark(explanation, name), answer, duration(cost) if cost > 0 else "-", reason))
    header = ("Device", "Answer", "Modelled", "Reason")
    return stacking_table("answers", "What each device says of it.", header, rows, {2})


def _compared(cost: float, chosen: float) -> str:
    if cost <= 0 or chosen <= 0:
        return "no modelled time to compare"
    if cost == chosen:
        return "as long as where it runs"
    return f"{duration(abs(cost - chosen))} {'more' if cost > chosen else 'less'} than where it runs"


def _values(explanation: Explanation, number: int, links: PlanLinks, facts: PlanFacts) -> str:
    story = explanation.operations[number]
    rows = [
        *(
            ("reads", short_name(value), _bytes(facts, value), _origin(explanation, number, value, links, facts))
            for value in dict.fromkeys(story.inputs)
        ),
        *(
            ("writes", short_name(value), _bytes(facts, value), _uses(explanation, number, value, links, facts))
            for value in dict.fromkeys(story.outputs)
        ),
    ]
    if not rows:
        return "<p class='note'>Nothing is known of its values.</p>"
    header = ("It", "Value", "Bytes", "From or to")
    return stacking_table("values", "Its values. Constants are left out.", header, rows, {2})


def _bytes(facts: PlanFacts, value: str) -> str:
    return f"{facts.bytes[value]:,}" if value in facts.bytes else "<span class='small'>within the step</span>"


def _origin(explanation: Explanation, number: int, value: str, links: PlanLinks, facts: PlanFacts) -> str:
    writer = facts.writer(value, number)
    step = explanation.operations[number].step
    told = operation_link(explanation, writer, links.operation(writer)) if writer is not None else "the client"
    passed = [e for e in explanation.edges if e.value == value and e.destination_step == step and step != WALKED]
    return told + "".join(map(_passed, passed))


def _uses(explanation: Explanation, number: int, value: str, links: PlanLinks, facts: PlanFacts) -> str:
    readers = [reader for reader in facts.readers.get(value, ()) if facts.writer(value, reader) == number]
    told = [operation_link(explanation, reader, links.operation(reader)) for reader in readers[:_READERS]]
    if len(readers) > _READERS:
        told.append(f"and {len(readers) - _READERS} more")
    step = explanation.operations[number].step
    passed = [e for e in explanation.edges if e.value == value and e.source_step == step and step != WALKED]
    if not told and not passed:
        told.append("nothing reads it")
    return "<br>".join(told) + "".join(map(_passed, passed))


def _passed(edge: EdgeStory) -> str:
    how = f"{copied(edge.copied_bytes)} bytes copied" if edge.copied_bytes else "in place"
    if sent := sent_words(edge):
        how += f" ({sent})"
    return (
        f"<br><span class='small'>{escaped(ends(edge))}: {how}, {escaped(edge.strategy)}. {escaped(edge.reason)}</span>"
    )
