"""An explanation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table

from nnhal.reports import LedgerEntry
from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.image_layouts import ADDED, layout_figure, layout_words
from nnhal_pages.units import duration, median_of, place
from nnhal_pages.wires import link_words, sent_words, whole_model_words, wire_total
from nnhal_tools.terminal import Footnotes, Name, show_table


def show(explanation: Explanation, console: Console) -> None:
    """Print operations, edges, steps, and sums."""
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
    console.print(
        f"memory: {explanation.fallback_bytes:,} bytes between steps ({explanation.fallback_bytes_unaligned:,} without "
        f"alignment), {explanation.constant_bytes:,} of constants, "
        f"{explanation.client_bytes:,} of the client's; copied in a run, by plan: {explanation.copied_bytes:,} bytes",
    )
    if sent := wire_total(explanation):
        console.print(f"wire: {sent}; constants were sent when the model was prepared")
    if figure := layout_figure(explanation):
        console.print(f"layout of images: {figure}; {layout_words(explanation)}", markup=False)
    if measured is not None:
        console.print(
            f"modelled {duration(explanation.modelled_ns)}; measured {duration(measured.duration_ns)} "
            f"({median_of(measured)}), {measured.copied_bytes:,} bytes copied in a run",
        )
    else:
        console.print(f"modelled {duration(explanation.modelled_ns)}")
    for other in explanation.counterfactuals:
        told = f"would be {whole_model_words(other)}" if other.modelled_ns else f"is not possible: {other.reason}"
        console.print(f"all on {other.device} {told}", markup=False)


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
            duration(story.modelled_ns),
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
            f"{edge.bytes:,}",
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
            duration(step.modelled_ns),
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
