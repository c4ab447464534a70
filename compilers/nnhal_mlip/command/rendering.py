"""What the commands print of a partition, a compilation and a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from nnhal.types.layout import describe
from nnhal_mlip.command.compiling import CompilationResult
from nnhal_mlip.command.layer_errors import LayerError
from nnhal_mlip.command.layer_names import counted, layer_title, some
from nnhal_mlip.command.partition_report import HostReport, KernelReport, PartitionReport, SubgraphReport
from nnhal_mlip.command.plan_file import MlipPlan, PlannedLayer, PlannedSubgraph
from nnhal_mlip.command.simulation import SimulationResult
from nnhal_pages.report import Column, Footnotes, Name, ReportTable, TerminalPart
from nnhal_pages.terminal import show_parts

_SHOWN = 8
"""Values of an output that are printed."""


def show_partition(report: PartitionReport, explain: bool, console: Console) -> None:
    """Print what the accelerator has and what the host has; if ``explain``, layer by layer and with reasons."""
    flow = "the public flow" if report.public else "beyond the public flow"
    parts: list[TerminalPart] = [
        f"{report.model}: {some(report.layers, 'layer')} in {some(len(report.subgraphs), 'subgraph')}, "
        f"{some(len(report.host), 'operator')} on the host ({flow})"
    ]
    for subgraph in report.subgraphs:
        kinds = counted(kernel.layer for kernel in subgraph.kernels)
        parts.append(f"{subgraph.symbol}: {kinds}; {', '.join(subgraph.inputs)} to {', '.join(subgraph.outputs)}")
        if explain:
            parts += _kernels(subgraph)
    if explain:
        parts += _host(report) if report.host else ["Nothing stays on the host."]
        parts += [f"back to the host: {', '.join(each.nodes)}: {each.reason}" for each in report.reversions]
        parts += [f"order: {', '.join(report.steps)}", report.rule]
    elif report.host:
        parts.append(f"host: {', '.join(each.name for each in report.host)}; --explain says why")
    show_parts(parts, console)


def _kernels(subgraph: SubgraphReport) -> list[TerminalPart]:
    notes = Footnotes()
    columns: list[Column[KernelReport]] = [
        Column("nodes", lambda kernel: Name(layer_title(kernel.user_names, "(added)")), wraps=True),
        Column("layer", lambda kernel: kernel.layer),
        Column("operators", lambda kernel: ", ".join(kernel.operators), wraps=True),
        Column("shape", lambda kernel: "x".join(map(str, kernel.shape))),
        Column("beyond", lambda kernel: ", ".join(notes.number(reason) for reason in kernel.beyond_public)),
    ]
    return [ReportTable(f"Layers of {subgraph.symbol}", columns, subgraph.kernels), notes]


def _host(report: PartitionReport) -> list[TerminalPart]:
    notes = Footnotes()
    columns: list[Column[HostReport]] = [
        Column("node", lambda each: Name(each.name + (" (added)" if each.added else "")), wraps=True),
        Column("operator", lambda each: each.operator if each.added else f"{each.kind} ({each.operator})"),
        Column("check", lambda each: each.check),
        Column("why", lambda each: notes.number(f"{each.code}: {each.reason}")),
    ]
    return [ReportTable("Host", columns, report.host), notes]


def show_compilation(result: CompilationResult, folder: Path, console: Console) -> None:
    """Print the layers of each binary, where they run, and what they cost."""
    plan = result.plan
    hosts = [step.host for step in plan.steps if step.host]
    parts: list[TerminalPart] = [
        f"{plan.model_name}: {some(len(plan.subgraphs), 'binary', 'binaries')} for at most "
        f"{some(plan.target.num_tiles, 'tile')}; {some(len(hosts), 'operator')} on the host"
        + (f": {', '.join(hosts)}" if hosts else "")
    ]
    for subgraph in plan.subgraphs:
        parts += _binary(plan, subgraph, (folder / subgraph.binary.file).stat().st_size)
    if result.errors:
        parts.append(_errors(result.errors, result.compared))
    parts.append(f"written to {folder}: {', '.join(each.file for each in plan.files)}, plan.json")
    show_parts(parts, console)


def _errors(errors: Sequence[LayerError], samples: int) -> ReportTable[LayerError]:
    columns: list[Column[LayerError]] = [
        Column("nodes", lambda error: Name(layer_title(error.user_names, f"{error.value} (added)")), wraps=True),
        Column("layer", lambda error: f"{error.kind} (host)" if error.on_host else error.kind),
        Column("largest", lambda error: f"{error.largest:.3g}", number=True),
        Column("mean", lambda error: f"{error.mean:.3g}", number=True),
        Column("peak", lambda error: f"{error.peak:.3g}", number=True),
        Column("SQNR", lambda error: "" if error.sqnr is None else f"{error.sqnr:.1f} dB", number=True),
    ]
    return ReportTable(f"Simulated against the float network, {some(samples, 'sample')}", columns, errors)


def _binary(plan: MlipPlan, subgraph: PlannedSubgraph, size: int) -> list[TerminalPart]:
    columns: list[Column[PlannedLayer]] = [
        Column("nodes", lambda layer: Name(layer_title(layer.user_names, "(added)")), wraps=True),
        Column("layer", lambda layer: layer.kind),
        Column("split", lambda layer: split_word(layer.split, layer.tiles, layer.spills)),
        Column("tiles", lambda layer: f"{layer.tiles:,}", number=True),
        Column("stripes", lambda layer: f"{layer.stripes:,}", number=True),
        Column("pages", lambda layer: f"{layer.pages:,}", number=True),
        Column("weights", lambda layer: f"{layer.weight_bytes:,}", number=True),
        Column("DDR", lambda layer: f"{layer.ddr_bytes:,}", number=True),
        Column("MACs", lambda layer: f"{layer.macs:,}", number=True),
        Column("cycles", lambda layer: f"{layer.cycles:,}", number=True),
    ]
    pinned = ", weights pinned" if plan.target.wb_pin_ocm else ""
    microseconds = plan.timing.nanoseconds(subgraph.cycles) / 1000
    return [
        ReportTable(f"Layers of {subgraph.symbol}", columns, subgraph.layers),
        f"{subgraph.symbol}: {subgraph.quantize} on {subgraph.tiles} tiles{pinned}; {size:,} bytes; modelled "
        f"{subgraph.cycles:,} cycles, {microseconds:,.1f} µs by profile {plan.profile['name']}",
    ]


def split_word(split: str, tiles: int, spills: bool) -> str:
    """Return how a layer is divided. One that no tile computes is another view of its input's bytes."""
    if not tiles:
        return "a view"
    return split + (", spills" if spills else "")


def show_simulation(plan: MlipPlan, result: SimulationResult, console: Console) -> None:
    """Print outputs and times, and errors by layer if there are any."""
    parts: list[TerminalPart] = [
        f"{symbol}: modelled {run.timeline.total:,} cycles, {run.hardware_ns / 1000:,.1f} µs, and "
        f"{run.firmware_ns / 1000:,.1f} µs of firmware by profile {plan.profile['name']}"
        for symbol, run in result.runs.items()
    ]
    for name, array in result.outputs.items():
        values = np.array2string(array.reshape(-1)[:_SHOWN], precision=4, separator=" ", max_line_width=console.width)
        more = f" … {array.size - _SHOWN} more" if array.size > _SHOWN else ""
        parts.append(f"{name} {array.dtype} {describe(array.shape)}: {values}{more}")
    if result.errors:
        parts.append(_errors(result.errors, 1))
    show_parts(parts, console)
