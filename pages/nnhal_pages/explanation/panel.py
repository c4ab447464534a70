"""Text about one operation, or one step."""

from __future__ import annotations

from collections.abc import Iterable

from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.explanation.marks import copied, counted, device_mark, ends, operation_link
from nnhal_pages.explanation.tables import edge_table
from nnhal_pages.facts import WALKED, PlanFacts, facts_of
from nnhal_pages.graph.view import PlanLinks
from nnhal_pages.report import Column, Markup, Name, ReportTable, part_html
from nnhal_pages.text import escaped
from nnhal_pages.units import duration, size
from nnhal_pages.wires import sent_words

_READERS = 6
"""So many readers of a value are named."""


def operation_panel(explanation: Explanation, number: int, links: PlanLinks, facts: PlanFacts | None = None) -> str:
    """Tell of an operation: where it runs, what each device said of it, and its values.

    ``links`` says where other operations are described. ``facts`` are the explanation's, if they are at hand.
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
    table = part_html(edge_table(edges, "The values that come in and leave."))
    return (
        f"<div class='panel'>{_terms(terms)}{table}"
        f"<details><summary>{counted(len(members), 'operation')}</summary>"
        f"<ol class='members'>{items}</ol></details></div>"
    )


def _terms(terms: Iterable[tuple[str, str]]) -> str:
    return f"<dl class='terms'>{''.join(f'<dt>{term}</dt><dd>{text}</dd>' for term, text in terms)}</dl>"


def _answers(explanation: Explanation, number: int) -> str:
    story = explanation.operations[number]

    def cost(name: str) -> float:
        return story.costs.get(name, story.modelled_ns if name == story.device else 0.0)

    def answer(name: str) -> str:
        if name == story.device:
            return "✓ runs it"
        return "✕ refuses it" if name in story.refusals else "○ could run it"

    def reason(name: str) -> str:
        if name == story.device:
            return ""
        refusal = story.refusals.get(name)
        return _compared(cost(name), story.modelled_ns) if refusal is None else refusal

    columns: list[Column[str]] = [
        Column("device", lambda name: Markup(device_mark(explanation, name))),
        Column("answer", answer),
        Column("modelled", lambda name: duration(cost(name)) if cost(name) > 0 else "-", number=True),
        Column("reason", reason),
    ]
    names = dict.fromkeys((*(device.name for device in explanation.devices), *story.refusals, *story.costs))
    return part_html(ReportTable("", columns, list(names), "answers", "What each device says of it."))


def _compared(cost: float, chosen: float) -> str:
    if cost <= 0 or chosen <= 0:
        return "no modelled time to compare"
    if cost == chosen:
        return "as long as where it runs"
    return f"{duration(abs(cost - chosen))} {'more' if cost > chosen else 'less'} than where it runs"


def _values(explanation: Explanation, number: int, links: PlanLinks, facts: PlanFacts) -> str:
    story = explanation.operations[number]
    rows = [("reads", value) for value in dict.fromkeys(story.inputs)]
    rows += [("writes", value) for value in dict.fromkeys(story.outputs)]
    if not rows:
        return "<p class='note'>Nothing is known of its values.</p>"
    ways = {"reads": _origin, "writes": _uses}
    columns: list[Column[tuple[str, str]]] = [
        Column("it", lambda row: row[0]),
        Column("value", lambda row: Name(row[1])),
        Column("bytes", lambda row: Markup(_bytes(facts, row[1])), number=True),
        Column("from or to", lambda row: Markup(ways[row[0]](explanation, number, row[1], links, facts))),
    ]
    return part_html(ReportTable("", columns, rows, "values", "Its values. Constants are left out."))


def _bytes(facts: PlanFacts, value: str) -> str:
    return size(facts.bytes[value]) if value in facts.bytes else "<span class='small'>within the step</span>"


def _origin(explanation: Explanation, number: int, value: str, links: PlanLinks, facts: PlanFacts) -> str:
    writer = facts.writer(value, number)
    step = explanation.operations[number].step
    writer_words = operation_link(explanation, writer, links.operation(writer)) if writer is not None else "the client"
    passed = [e for e in explanation.edges if e.value == value and e.destination_step == step and step != WALKED]
    return writer_words + "".join(map(_passed, passed))


def _uses(explanation: Explanation, number: int, value: str, links: PlanLinks, facts: PlanFacts) -> str:
    readers = [reader for reader in facts.readers.get(value, ()) if facts.writer(value, reader) == number]
    writer_words = [operation_link(explanation, reader, links.operation(reader)) for reader in readers[:_READERS]]
    if len(readers) > _READERS:
        writer_words.append(f"and {len(readers) - _READERS} more")
    step = explanation.operations[number].step
    passed = [e for e in explanation.edges if e.value == value and e.source_step == step and step != WALKED]
    if not writer_words and not passed:
        writer_words.append("nothing reads it")
    return "<br>".join(writer_words) + "".join(map(_passed, passed))


def _passed(edge: EdgeStory) -> str:
    how = f"{copied(edge.copied_bytes)} copied" if edge.copied_bytes else "in place"
    if sent := sent_words(edge):
        how += f" ({sent})"
    return (
        f"<br><span class='small'>{escaped(ends(edge))}: {how}, {escaped(edge.strategy)}. {escaped(edge.reason)}</span>"
    )
