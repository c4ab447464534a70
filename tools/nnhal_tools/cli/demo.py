"""``nnhal demo``."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import numpy as np
import typer
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress
from rich.table import Column, Table
from rich.text import Text

from nnhal.arrays import Array
from nnhal_pages.terminal import FittingName, output_console, show_table
from nnhal_tools.cli.ephemeral import ephemeral_framework
from nnhal_tools.demo.digits import HEAD_PINS, MODELS, Classification, Digits, classify, classify_alone, held_out
from nnhal_tools.up import DEFAULT_TOPOLOGY

_SHADES = " ░▒▓█"
_DIGITS_WIDTH = 120
"""Columns that the digits fill if there is no terminal."""


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    show: Annotated[int, typer.Option(help="How many digits to show.", min=0, max=100)] = 8,
) -> None:
    """Classify handwritten digits, float32 and int8, across two device processes.

    The convolutions run on cpu_acc, the head on cpu_ref. Values pass between the processes in shared memory.
    """
    console = Console(stderr=True)
    digits = held_out()
    results: dict[str, Classification] = {}
    with ephemeral_framework(DEFAULT_TOPOLOGY, console) as framework, Progress(console=console) as progress:
        for kind in MODELS:
            task = progress.add_task(f"digits, {kind}", total=len(digits.images))
            results[kind] = classify(framework, kind, digits, HEAD_PINS[kind], partial(progress.advance, task))
    alone = {kind: classify_alone(kind, digits) for kind in MODELS}
    if as_json:
        print(json.dumps({kind: _as_dict(results[kind], alone[kind], digits) for kind in MODELS}))
        return
    out = output_console()
    _show_digits(out, digits, results["float32"], show)
    _show_placement(out, results)
    _show_summary(out, results, alone, digits)


def _accuracy(predictions: Array, digits: Digits) -> float:
    return float((predictions == digits.labels).mean())


def _as_dict(result: Classification, alone: Array, digits: Digits) -> dict[str, object]:
    return {
        "digits": len(digits.labels),
        "accuracy": _accuracy(result.predictions, digits),
        "accuracy_onnxruntime": _accuracy(alone.argmax(axis=1), digits),
        "largest_difference": float(np.abs(result.probabilities - alone).max()),
        "steps": result.steps,
        "placements": [{"nodes": p.nodes, "operation": p.operation, "device": p.device} for p in result.placements],
        "latency_ns": {
            "total": result.latency.total_ns,
            "compute": result.latency.compute_ns,
            "copy": result.latency.copy_ns,
            "control": result.latency.control_ns,
        },
        "tensor_bytes_shared": result.tensor_bytes,
        "tensor_bytes_copied": result.copied_bytes,
        "socket_bytes": result.socket_bytes,
    }


def _show_digits(console: Console, digits: Digits, result: Classification, count: int) -> None:
    panels = []
    for image, label, prediction in list(zip(digits.images, digits.labels, result.predictions, strict=True))[:count]:
        levels = np.clip(image[0] / max(float(image.max()), 1e-6) * (len(_SHADES) - 1), 0, len(_SHADES) - 1)
        rows = ["".join(_SHADES[round(float(level))] * 2 for level in row) for row in levels]
        right = label == prediction
        panels.append(
            Panel(
                Text("\n".join(rows)),
                title=f"{prediction}" if right else f"{prediction}, is {label}",
                border_style="green" if right else "red",
                expand=False,
            )
        )
    console.print(Columns(panels), width=min(console.width, _DIGITS_WIDTH))


def _show_placement(console: Console, results: dict[str, Classification]) -> None:
    columns = [Column(header, no_wrap=True) for header in ("model", "step", "device", "operation")]
    table = Table(*columns, "nodes", title="Where each operation ran")
    for kind, result in results.items():
        for placement in result.placements:
            table.add_row(
                kind,
                str(placement.step),
                placement.device,
                placement.operation,
                FittingName(" + ".join(placement.nodes)),
            )
    show_table(table, console)


def _show_summary(
    console: Console,
    results: dict[str, Classification],
    alone: dict[str, Array],
    digits: Digits,
) -> None:
    table = Table("", *results, title=f"{len(digits.labels)} held-out digits")

    def row(title: str, values: list[str]) -> None:
        table.add_row(title, *values)

    row("accuracy", [f"{_accuracy(r.predictions, digits):.2%}" for r in results.values()])
    row("ONNX Runtime alone", [f"{_accuracy(alone[kind].argmax(axis=1), digits):.2%}" for kind in results])
    row(
        "largest difference",
        [f"{np.abs(result.probabilities - alone[kind]).max():.1e}" for kind, result in results.items()],
    )
    row("median latency", [f"{r.latency.total_ns / 1e3:.0f} µs" for r in results.values()])
    row("  compute", [f"{r.latency.compute_ns / 1e3:.0f} µs" for r in results.values()])
    row("  copy", [f"{r.latency.copy_ns / 1e3:.0f} µs" for r in results.values()])
    row("  control", [f"{r.latency.control_ns / 1e3:.0f} µs" for r in results.values()])
    row("tensor bytes in shared memory, a run", [f"{r.tensor_bytes:,}" for r in results.values()])
    row("tensor bytes copied, all runs", [f"{r.copied_bytes:,}" for r in results.values()])
    row("bytes over sockets, a run", [f"{r.socket_bytes:,} (control only)" for r in results.values()])
    show_table(table, console)
