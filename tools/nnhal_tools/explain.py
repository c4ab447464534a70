"""Explanations of plans for a terminal: a summary in ten lines, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from nnhal.reports import CopiedBytes, LedgerEntry, copied_by
from nnhal_client.explanation import EdgeStory, Explanation, OperationStory
from nnhal_pages.copies import copied_figures, copied_words, places, planned_figures
from nnhal_pages.explanation.marks import counted, ends
from nnhal_pages.explanation.tables import edge_table, operation_table, step_table
from nnhal_pages.explanation.working_memory import most_words, shared_steps, working_memory
from nnhal_pages.image_layouts import layout_figure, layout_words
from nnhal_pages.report import Column, Footnotes, Name, ReportTable, TerminalPart
from nnhal_pages.terminal import show_parts
from nnhal_pages.text import shortened, visible
from nnhal_pages.units import measured_words, median_of, modelled, size
from nnhal_pages.wires import link_words, sent_words, whole_model_words, wire_total

UNKNOWN = -1.0
_STEPS = 6
_FUSED = 2
_NAME = 80
_REFUSING = 3
_TYPES = 3
_RELAXATION = "relaxComputationFloat32toFloat16"
"""What a device's hint names if it takes float32 of relaxed models only."""


def show(explanation: Explanation, console: Console, notes: Sequence[str] = (), everything: bool = False) -> None:
    """Print a summary with ``notes`` and, with ``everything``, operations, edges, steps, the ledger and the devices."""
    parts: list[TerminalPart] = [*_plan(explanation), *_refusals(explanation), *_costs(explanation), *notes]
    if everything:
        parts += _everything(explanation)
    else:
        parts.append("--all shows every operation, edge and step, and what was copied")
    show_parts(parts, console)


def _everything(explanation: Explanation) -> Iterator[TerminalPart]:
    refusals, reasons = Footnotes(), Footnotes()
    yield from (operation_table(explanation, refusals=refusals), refusals)
    yield from (edge_table(explanation.edges, reasons=reasons), reasons)
    yield step_table(explanation)
    for number, step in enumerate(explanation.steps):
        yield from (f"step {number}: {optimization}" for optimization in step.optimizations)
    yield from working_memory(explanation)
    if explanation.measured is not None:
        yield from ledger_parts(explanation.measured.ledger)
    for device in explanation.devices:
        times = "modelled" if device.modelled_timing else "measured"
        link = device.link
        where = f"; on another host: {link_words(link.round_trip_ns, link.ns_per_byte)}" if link else ""
        yield f"{device.name}: {device.realisation or 'not described'}; its times are {times}{where}"


def ledger_parts(ledger: Sequence[LedgerEntry]) -> Iterator[TerminalPart]:
    """Say how each value was passed in one run, and how many bytes were copied in all."""
    reasons = Footnotes()
    columns: list[Column[LedgerEntry]] = [
        Column("value", lambda entry: Name(entry.value or "-"), wraps=True),
        Column("edge", ends, wraps=True),
        Column("how", lambda entry: ", ".join(filter(None, (entry.strategy, sent_words(entry))))),
        Column("why", lambda entry: reasons.number(entry.reason), number=True),
        Column("bytes", lambda entry: size(entry.bytes), number=True),
        Column("copied", lambda entry: size(entry.copied_bytes), number=True),
    ]
    yield from (ReportTable("Copy ledger of a run", columns, ledger), reasons)
    up, down = sum(entry.wire_up_bytes for entry in ledger), sum(entry.wire_down_bytes for entry in ledger)
    sent = f", of which {size(up)} up and {size(down)} down the wire" if up or down else ""
    yield f"copied in all: {size(sum(entry.copied_bytes for entry in ledger))}{sent}: {_copied(copied_by(ledger))}"


def _plan(explanation: Explanation) -> Iterator[str]:
    devices = Counter(story.device for story in explanation.operations)
    split = ", ".join(f"{count} on {name}" for name, count in devices.most_common())
    where = f"{counted(len(explanation.operations), 'operation')} in {counted(len(explanation.steps), 'step')}: {split}"
    yield "; ".join([where, *(f"{device} takes none without --relaxed" for device in _unrelaxed(explanation))])
    fused = [story for story in explanation.operations if len(story.nodes) > 1]
    if fused:
        shown = [
            f"{visible(shortened(' + '.join(story.nodes), _NAME))} as {story.operation}" for story in fused[:_FUSED]
        ]
        more = len(fused) - _FUSED
        yield f"nodes of the file that are one operation: {', '.join(shown)}" + (
            f" and {more} more" if more > 0 else ""
        )
    if len(explanation.steps) > 1:
        steps = [f"{step.device} {step.operations}" for step in explanation.steps[:_STEPS]]
        more = len(explanation.steps) - _STEPS
        yield f"steps, with their operations: {', '.join(steps)}" + (f" and {more} more" if more > 0 else "")


def _unrelaxed(explanation: Explanation) -> Iterator[str]:
    """The devices that refuse every operation, some of them since the model is not relaxed."""
    for device in explanation.devices:
        reasons = [story.refusals.get(device.name) for story in explanation.operations]
        if all(reasons) and any(_RELAXATION in reason for reason in reasons if reason):
            yield device.name


def _refusals(explanation: Explanation) -> Iterator[str]:
    """A line for each of the devices that refuse most."""
    refusing = Counter(device for story in explanation.operations for device in story.refusals)
    for device, count in refusing.most_common(_REFUSING):
        refused = [story for story in explanation.operations if device in story.refusals]
        yield f"{device} refuses {count}: {_types(refused)}; {_most_frequent(device, refused)}"
    if len(refusing) > _REFUSING:
        yield f"{len(refusing) - _REFUSING} more devices refuse some"


def _types(refused: Sequence[OperationStory]) -> str:
    types = Counter(story.operation for story in refused)
    counts = ", ".join(f"{name} {count}" for name, count in types.most_common(_TYPES))
    return counts + (f" and {len(types) - _TYPES} more types" if len(types) > _TYPES else "")


def _most_frequent(device: str, refused: Sequence[OperationStory]) -> str:
    ((reason, count),) = Counter(story.refusals[device] for story in refused).most_common(1)
    return reason if count == len(refused) else f"{count} since {reason}"


def _costs(explanation: Explanation) -> Iterator[str]:
    copying = [edge for edge in explanation.edges if edge.strategy == "CopyToTarget"]
    of_client = [edge for edge in explanation.edges if not edge.is_between]
    over = f"over {len(copying)} of {counted(len(explanation.edges), 'edge')}"
    where = places(explanation, size)
    yield f"copied in a run, by plan: {copied_words(planned_figures(explanation, size))}, {over}" + (
        f": {where}" if where else ""
    )
    unaligned = size(explanation.fallback_bytes_unaligned)
    yield (
        f"memory: {size(explanation.fallback_bytes)} between steps ({unaligned} without alignment), "
        f"{size(explanation.constant_bytes)} of constants, {size(explanation.client_bytes)}{_unknown(of_client)} of "
        "the client's"
    )
    if shared := shared_steps(explanation):
        yield most_words(shared)
    if figure := layout_figure(explanation):
        yield f"layout of images: {figure}; {layout_words(explanation)}"
    if sent := wire_total(explanation):
        yield f"wire: {sent}; constants were sent when the model was prepared"
    measured = explanation.measured
    yield f"modelled {modelled(explanation.modelled_ns)}" + (
        f"; {measured_words(explanation)} ({median_of(measured)}); copied in a run: {_copied(measured.copied)}"
        if measured is not None
        else ""
    )
    if alone := _alone(explanation):
        yield alone


def _alone(explanation: Explanation) -> str:
    """Say what the whole model would take on each device; nothing of devices whose times are unknown."""
    return "; ".join(
        f"all on {other.device} "
        + (f"would be {whole_model_words(other)}" if other.modelled_ns else f"is not possible: {other.reason}")
        for other in explanation.counterfactuals
        if other.modelled_ns >= 0
    )


def plan_words(explanation: Explanation) -> str:
    """Say in a line which device takes how much, how long that takes, and how long other devices would."""
    summary = next(_plan(explanation))
    return "; ".join(filter(None, (summary, f"modelled {modelled(explanation.modelled_ns)}", _alone(explanation))))


def _copied(copied: CopiedBytes) -> str:
    return copied_words(copied_figures(copied, size))


def _unknown(edges: Sequence[EdgeStory]) -> str:
    return " and those of unknown dimensions" if any(not edge.bytes for edge in edges) else ""


def with_unknown_times(explanation: Explanation) -> Explanation:
    """Return the explanation with UNKNOWN in place of modelled times that depend on unknown dimensions."""
    if not any(story.has_open_dimensions for story in explanation.operations):
        return explanation
    open_steps = {story.step for story in explanation.operations if story.has_open_dimensions}
    return replace(
        explanation,
        modelled_ns=UNKNOWN,
        operations=tuple(
            replace(story, modelled_ns=UNKNOWN, costs=dict.fromkeys(story.costs, UNKNOWN))
            if story.has_open_dimensions
            else story
            for story in explanation.operations
        ),
        steps=tuple(
            replace(step, modelled_ns=UNKNOWN) if number in open_steps else step
            for number, step in enumerate(explanation.steps)
        ),
        edges=tuple(edge if edge.bytes else replace(edge, modelled_ns=UNKNOWN) for edge in explanation.edges),
        counterfactuals=tuple(
            replace(other, modelled_ns=UNKNOWN) if other.modelled_ns else other for other in explanation.counterfactuals
        ),
    )
