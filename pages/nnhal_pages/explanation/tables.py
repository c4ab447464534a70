"""The operations, edges and devices of a plan as tables, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_client.explanation import DeviceStory, EdgeStory, Explanation
from nnhal_pages.explanation.marks import copied, device_mark, ends, operation_link, strategy
from nnhal_pages.facts import WALKED, facts_of
from nnhal_pages.image_layouts import ADDED
from nnhal_pages.report import Column, Footnotes, Markup, Medium, Name, ReportTable, RowGroup
from nnhal_pages.text import escaped
from nnhal_pages.units import duration, modelled, size
from nnhal_pages.wires import link_words, sent_words, whole_model_words

EDGES = "How each value is passed on. The number after a device is its step."
"""The caption of all edges."""


def edge_table(
    edges: Sequence[EdgeStory], caption: str = "", reasons: Footnotes | None = None
) -> ReportTable[EdgeStory]:
    """Return a row for each edge. A terminal prints ``reasons`` below the table, a page has them in it."""
    notes = reasons or Footnotes()
    columns: list[Column[EdgeStory]] = [
        Column("value", lambda edge: Name(edge.value), wraps=True),
        Column("edge", ends, wraps=True, page_header="From and to"),
        Column("how", lambda edge: Markup(strategy(edge), _how(edge)), wraps=True, page_header="Strategy"),
        Column("why", lambda edge: notes.number(edge.reason), number=True, only=Medium.TERMINAL),
        Column("memory", _memory, only=Medium.PAGE),
        Column("bytes", lambda edge: size(edge.bytes) if edge.bytes else "unknown", number=True),
        Column("copied", lambda edge: Markup(copied(edge.copied_bytes), size(edge.copied_bytes)), number=True),
        Column("reason", lambda edge: edge.reason, only=Medium.PAGE),
    ]
    return ReportTable("Edges", columns, edges, "edges", caption)


def _how(edge: EdgeStory) -> str:
    return ", ".join(filter(None, (edge.strategy, edge.layer, "sync" if edge.sync else "", sent_words(edge))))


def _memory(edge: EdgeStory) -> Markup:
    return Markup(escaped(edge.memory) + _small(f"multiples of {edge.alignment}"))


def operation_table(explanation: Explanation, name: str = "", refusals: Footnotes | None = None) -> ReportTable[int]:
    """Return a row for each operation, in a group for each step. ``name`` begins the ids of a page.

    A terminal prints ``refusals`` below the table, a page has them in short in its rows.
    """
    operations, notes = explanation.operations, refusals or Footnotes()
    members = facts_of(explanation).members
    titles = {
        number: f"Step {number} on {step.device}: {step.operations} operations, {duration(step.modelled_ns)}"
        for number, step in enumerate(explanation.steps)
    }
    titles[WALKED] = "Control flow that the framework walks"

    def node(number: int) -> str:
        return ", ".join(operations[number].nodes) or (ADDED if operations[number].added else "-")

    def refused(number: int) -> str:
        texts = (f"{device}: {reason}" for device, reason in operations[number].refusals.items())
        return ", ".join(map(notes.number, texts)) or "none"

    def in_short(number: int) -> str:
        texts = (f"{device}: {reason.partition(':')[0]}" for device, reason in operations[number].refusals.items())
        return "; ".join(texts) or "none refuses"

    columns: list[Column[int]] = [
        Column("node", lambda n: Name(node(n)), wraps=True, only=Medium.TERMINAL),
        Column("node", lambda n: Markup(operation_link(explanation, n, f"#{name}-operation-{n}")), only=Medium.PAGE),
        Column("operation", lambda n: operations[n].operation),
        Column("device", lambda n: _device(explanation, operations[n].device)),
        Column("step", lambda n: str(operations[n].step), number=True, only=Medium.TERMINAL),
        Column("modelled", lambda n: modelled(operations[n].modelled_ns), number=True),
        Column("refusals", refused, wraps=True, only=Medium.TERMINAL),
        Column("why not elsewhere", in_short, kind="reasons", only=Medium.PAGE),
    ]
    caption = "Where each operation runs, and why it does not run elsewhere. A name leads to all that is known of it."
    rows = [number for step in titles for number in members.get(step, ())]
    groups = [
        RowGroup(title, len(members[step]), f"{name}-step-{step}") for step, title in titles.items() if step in members
    ]
    return ReportTable("Operations", columns, rows, "operations", caption, groups)


def _device(explanation: Explanation, name: str) -> Markup:
    return Markup(device_mark(explanation, name), name)


def step_table(explanation: Explanation) -> ReportTable[int]:
    """Return a row for each step, for a terminal: a page has a panel for each."""
    steps, measured = explanation.steps, explanation.measured

    def times(header: str, found: Sequence[float]) -> Column[int]:
        return Column(header, lambda n: duration(found[n]) if found else "", number=True)

    columns: list[Column[int]] = [
        Column("step", str),
        Column("device", lambda n: steps[n].device),
        Column("operations", lambda n: str(steps[n].operations), number=True),
        Column("modelled", lambda n: modelled(steps[n].modelled_ns), number=True),
        times("on device", measured.step_device_ns if measured else ()),
        times("in driver", measured.step_driver_ns if measured else ()),
        times("copying", measured.step_copy_ns if measured else ()),
    ]
    return ReportTable("Steps", columns, range(len(steps)))


def device_table(explanation: Explanation) -> ReportTable[DeviceStory]:
    alone = {other.device: other for other in explanation.counterfactuals}

    def operations(device: DeviceStory) -> str:
        return str(sum(story.device == device.name for story in explanation.operations))

    def time(device: DeviceStory) -> str:
        steps = [step.modelled_ns for step in explanation.steps if step.device == device.name]
        return duration(sum(steps)) if min(steps, default=-1) >= 0 else "-"

    def whole(device: DeviceStory) -> Markup:
        other = alone.get(device.name)
        texts = "-" if other is None else whole_model_words(other) if other.modelled_ns else "not possible"
        return Markup(texts + _small(other.reason if other else ""))

    columns: list[Column[DeviceStory]] = [
        Column("device", lambda device: _device(explanation, device.name)),
        Column("operations", operations, number=True),
        Column("modelled time of its steps", time, number=True),
        Column("the whole model on it", whole),
        Column("what it is", _realisation),
        Column("its times are", lambda device: "modelled" if device.modelled_timing else "measured"),
    ]
    caption = "The devices that could be used, in order of preference."
    return ReportTable("Devices", columns, explanation.devices, "devices", caption)


def _realisation(device: DeviceStory) -> Markup:
    link = device.link
    texts = f"On another host: {link_words(link.round_trip_ns, link.ns_per_byte)}" if link else ""
    return Markup(escaped(device.realisation or "not described") + _small(texts))


def _small(text: str) -> str:
    return f"<br><span class='small'>{escaped(text)}</span>" if text else ""
