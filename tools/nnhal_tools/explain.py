"""Explanations of plans for a terminal: a summary in ten lines, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Column, Table

from nnhal.reports import LedgerEntry
from nnhal_client.explanation import EdgeStory, Explanation, OperationStory
from nnhal_pages.image_layouts import ADDED, layout_figure, layout_words
from nnhal_pages.terminal import Footnotes, Name, show_table
from nnhal_pages.units import duration, median_of, place
from nnhal_pages.wires import link_words, sent_words, whole_model_words, wire_total

UNKNOWN = -1.0
_STEPS = 6
_REFUSING = 3
_TYPES = 3


def show(explanation: Explanation, console: Console, notes: Sequence[str] = (), everything: bool = False) -> None:
    """Print a summary with ``notes`` and, with ``everything``, operations, edges, steps, the ledger and the devices."""
    show_summary(explanation, console, notes)
    if not everything:
        console.print("--all shows every operation, edge and step, and what was copied", markup=False)
        return
    _show_operations(explanation, console)
    _show_edges(explanation.edges, console)
    _show_steps(explanation, console)
    measured = explanation.measured
    if measured is not None:
        show_ledger(measured.ledger, console)
    for device in explanation.devices:
        times = "modelled" if device.modelled_timing else "measured"
        link = device.link
        where = f"; on another host: {link_words(link.round_trip_ns, link.ns_per_byte)}" if link else ""
        told = f"{device.name}: {device.realisation or 'not described'}; its times are {times}{where}"
        console.print(told, markup=False)


def show_ledger(ledger: Sequence[LedgerEntry], console: Console) -> None:
    """Print how each value was passed in one run, and how many bytes were copied in all."""
    table = Table("value", "edge", *_words("how"), *_numbers("why", "bytes", "copied"), title="Copy ledger of a run")
    reasons = Footnotes()
    for entry in ledger:
        table.add_row(
            Name(entry.value or "-"),
            _edge(entry.source, entry.source_step, entry.destination, entry.destination_step),
            ", ".join(filter(None, (entry.strategy, sent_words(entry)))),
            reasons.number(entry.reason),
            f"{entry.bytes:,}",
            f"{entry.copied_bytes:,}",
        )
    show_table(table, console)
    reasons.show(console)
    up, down = sum(entry.wire_up_bytes for entry in ledger), sum(entry.wire_down_bytes for entry in ledger)
    sent = f", of which {up:,} up and {down:,} down the wire" if up or down else ""
    console.print(f"copied in all: {sum(entry.copied_bytes for entry in ledger):,} bytes{sent}")


def _show_operations(explanation: Explanation, console: Console) -> None:
    table = Table(
        "node",
        *_words("operation", "device"),
        *_numbers("step", "modelled"),
        "refusals",
        title="Operations",
    )
    refusals = Footnotes()
    for story in explanation.operations:
        numbers = [refusals.number(f"{device}: {reason}") for device, reason in story.refusals.items()]
        table.add_row(
            Name(", ".join(story.nodes) or (ADDED if story.added else "-")),
            story.operation,
            story.device,
            str(story.step),
            time_of(story.modelled_ns),
            ", ".join(numbers) or "none",
        )
    show_table(table, console)
    refusals.show(console)


def _show_edges(edges: Sequence[EdgeStory], console: Console) -> None:
    table = Table("value", "edge", "how", *_numbers("why", "bytes", "copied"), title="Edges")
    reasons = Footnotes()
    for edge in edges:
        layers = [edge.strategy, edge.layer, "sync" if edge.sync else "", sent_words(edge)]
        table.add_row(
            Name(edge.value),
            _edge(edge.source, edge.source_step, edge.destination, edge.destination_step),
            ", ".join(filter(None, layers)),
            reasons.number(edge.reason),
            bytes_of(edge.bytes),
            f"{edge.copied_bytes:,}",
        )
    show_table(table, console)
    reasons.show(console)


def _show_steps(explanation: Explanation, console: Console) -> None:
    columns = _numbers("operations", "modelled", "on device", "in driver", "copying")
    table = Table(*_words("step", "device"), *columns, title="Steps")
    measured = explanation.measured
    for number, step in enumerate(explanation.steps):
        table.add_row(
            str(number),
            step.device,
            str(step.operations),
            time_of(step.modelled_ns),
            duration(measured.step_device_ns[number]) if measured else "",
            duration(measured.step_driver_ns[number]) if measured else "",
            duration(measured.step_copy_ns[number]) if measured else "",
        )
    show_table(table, console)
    for number, step in enumerate(explanation.steps):
        for optimization in step.optimizations:
            console.print(f"step {number}: {optimization}", markup=False)


def _words(*headers: str) -> list[Column]:
    return [Column(header, no_wrap=True) for header in headers]


def _numbers(*headers: str) -> list[Column]:
    return [Column(header, no_wrap=True, justify="right") for header in headers]


def _edge(source: str, source_step: int, destination: str, destination_step: int) -> str:
    return f"{place(source, source_step)} to {place(destination, destination_step)}"


def show_summary(explanation: Explanation, console: Console, notes: Sequence[str] = ()) -> None:
    """Print the plan, who refuses what, memory and times, with further lines after them."""
    for line in (*_plan(explanation), *_refusals(explanation), *_costs(explanation), *notes):
        console.print(line, markup=False)


def time_of(nanoseconds: float) -> str:
    """A modelled time, which may be unknown."""
    return duration(nanoseconds) if nanoseconds >= 0 else "unknown"


def bytes_of(count: int) -> str:
    """The bytes of a value, none of which are known if its dimensions are not."""
    return f"{count:,}" if count else "unknown"


def _plan(explanation: Explanation) -> Iterator[str]:
    devices = Counter(story.device for story in explanation.operations)
    told = ", ".join(f"{count} on {name}" for name, count in devices.most_common())
    yield f"{_counted(len(explanation.operations), 'operation')} in {_counted(len(explanation.steps), 'step')}: {told}"
    if len(explanation.steps) > 1:
        steps = [f"{step.device} {step.operations}" for step in explanation.steps[:_STEPS]]
        more = len(explanation.steps) - _STEPS
        yield f"steps, with their operations: {', '.join(steps)}" + (f" and {more} more" if more > 0 else "")


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
    told = ", ".join(f"{name} {count}" for name, count in types.most_common(_TYPES))
    return told + (f" and {len(types) - _TYPES} more types" if len(types) > _TYPES else "")


def _most_frequent(device: str, refused: Sequence[OperationStory]) -> str:
    ((reason, count),) = Counter(story.refusals[device] for story in refused).most_common(1)
    return reason if count == len(refused) else f"{count} since {reason}"


def _costs(explanation: Explanation) -> Iterator[str]:
    copying = [edge for edge in explanation.edges if edge.strategy == "CopyToTarget"]
    of_client = [edge for edge in explanation.edges if not (edge.source and edge.destination)]
    copied = f"copied in a run, by plan: {explanation.copied_bytes:,} bytes{_unknown(copying)}, over {len(copying)} of "
    yield copied + _counted(len(explanation.edges), "edge")
    yield (
        f"memory: {explanation.fallback_bytes:,} bytes between steps ({explanation.fallback_bytes_unaligned:,} without "
        f"alignment), {explanation.constant_bytes:,} of constants, {explanation.client_bytes:,}{_unknown(of_client)} "
        "of the client's"
    )
    if figure := layout_figure(explanation):
        yield f"layout of images: {figure}; {layout_words(explanation)}"
    if sent := wire_total(explanation):
        yield f"wire: {sent}; constants were sent when the model was prepared"
    measured = explanation.measured
    yield f"modelled {time_of(explanation.modelled_ns)}" + (
        f"; measured {duration(measured.duration_ns)} ({median_of(measured)}), {measured.copied_bytes:,} bytes copied "
        "in a run"
        if measured is not None
        else ""
    )
    alone = [
        f"all on {other.device} "
        + (f"would be {whole_model_words(other)}" if other.modelled_ns else f"is not possible: {other.reason}")
        for other in explanation.counterfactuals
        if other.modelled_ns >= 0
    ]
    if alone:
        yield "; ".join(alone)


def _unknown(edges: Sequence[EdgeStory]) -> str:
    return " and those of unknown dimensions" if any(not edge.bytes for edge in edges) else ""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def with_unknown_times(explanation: Explanation) -> Explanation:
    """Return it with UNKNOWN in place of modelled times that depend on unknown dimensions."""
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
