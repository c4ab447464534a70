"""An explanation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Column, Table

from nnhal.reports import LedgerEntry
from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.image_layouts import ADDED
from nnhal_pages.terminal import Footnotes, Name, show_table
from nnhal_pages.units import duration, place
from nnhal_pages.wires import link_words, sent_words
from nnhal_tools.explain.summary import bytes_of, show_summary, time_of


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
