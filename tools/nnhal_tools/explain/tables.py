"""An explanation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from nnhal.reports import LedgerEntry
from nnhal_client.explanation import Explanation


def show(explanation: Explanation, console: Console) -> None:
    """Print it: operations, edges, steps, sums."""
    console.print(_operations(explanation))
    console.print(_edges(explanation))
    console.print(_steps(explanation))
    measured = explanation.measured
    if measured is not None:
        show_ledger(measured.ledger, console)
    for device in explanation.devices:
        times = "modelled" if device.modelled_timing else "measured"
        console.print(f"{device.name}: {device.realisation or 'no word of what it is'}; its times are {times}")
    console.print(
        f"memory: {explanation.fallback_bytes:,} bytes between steps ({explanation.fallback_bytes_unaligned:,} without "
        f"alignment), {explanation.constant_bytes:,} of constants, "
        f"{explanation.client_bytes:,} of the client's; copied in a run, by plan: {explanation.copied_bytes:,} bytes",
        highlight=False,
    )
    if measured is not None:
        console.print(
            f"modelled {_time(explanation.modelled_ns)}; measured {_time(measured.duration_ns)} (median of "
            f"{measured.runs} runs), {measured.copied_bytes:,} bytes copied in a run",
            highlight=False,
        )
    else:
        console.print(f"modelled {_time(explanation.modelled_ns)}", highlight=False)
    for other in explanation.counterfactuals:
        told = f"would be {_time(other.modelled_ns)}" if other.modelled_ns else f"is not possible: {other.reason}"
        console.print(f"all on {other.device} {told}", highlight=False, markup=False)


def show_ledger(ledger: Sequence[LedgerEntry], console: Console) -> None:
    """Print what became of each use of a value in one run, and how many bytes were copied in all."""
    table = Table(title="Copy ledger of a run")
    for column in ("value", "from", "to", "how, and why", "bytes", "copied"):
        table.add_column(column, overflow="fold")
    for entry in ledger:
        table.add_row(
            entry.value or "-",
            _place(entry.source or "client", entry.source_step),
            _place(entry.destination or "client", entry.destination_step),
            f"{entry.strategy}: {entry.reason}",
            f"{entry.bytes:,}",
            f"{entry.copied_bytes:,}",
        )
    console.print(table)
    console.print(f"copied in all: {sum(entry.copied_bytes for entry in ledger):,} bytes", highlight=False)


def _operations(explanation: Explanation) -> Table:
    table = Table("node", "operation", "device", "step", "modelled", "what the others said", title="Operations")
    for story in explanation.operations:
        others = "\n".join(f"{device}: {reason}" for device, reason in story.refusals.items())
        table.add_row(
            ", ".join(story.nodes) or "-",
            story.operation,
            story.device,
            str(story.step),
            _time(story.modelled_ns),
            others or "they could as well",
        )
    return table


def _edges(explanation: Explanation) -> Table:
    table = Table("value", "edge", "how, and why", "bytes", "copied", title="Edges")
    for edge in explanation.edges:
        layers = [edge.strategy, edge.layer, "sync" if edge.sync else ""]
        table.add_row(
            edge.value,
            f"{_place(edge.source, edge.source_step)} to {_place(edge.destination, edge.destination_step)}",
            f"{', '.join(filter(None, layers))}: {edge.reason}",
            f"{edge.bytes:,}",
            f"{edge.copied_bytes:,}",
        )
    return table


def _steps(explanation: Explanation) -> Table:
    table = Table(
        "step",
        "device",
        "operations",
        "modelled",
        "on device",
        "in driver",
        "of that copying",
        "what it makes of them",
        title="Steps",
    )
    measured = explanation.measured
    for number, step in enumerate(explanation.steps):
        table.add_row(
            str(number),
            step.device,
            str(step.operations),
            _time(step.modelled_ns),
            _time(measured.step_device_ns[number]) if measured else "",
            _time(measured.step_driver_ns[number]) if measured else "",
            _time(measured.step_copy_ns[number]) if measured else "",
            "\n".join(step.optimizations) or "as they are",
        )
    return table


def _place(name: str, step: int) -> str:
    return name if step < 0 else f"{name} ({step})"


def _time(nanoseconds: float) -> str:
    if nanoseconds < 0:
        return "-"
    return f"{nanoseconds / 1e6:.2f} ms" if nanoseconds >= 1e6 else f"{nanoseconds / 1e3:.1f} µs"
