"""What was compiled, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from nnhal_mlip.command.compiling import CompilationResult
from nnhal_mlip.command.layer_errors import LayerError
from nnhal_mlip.command.layer_words import layer_title, some
from nnhal_mlip.command.plan_file import MlipPlan, PlannedSubgraph
from nnhal_pages.terminal import Name, show_table


def show_compilation(result: CompilationResult, folder: Path, console: Console) -> None:
    """Print the layers of each binary, where they run, and what they cost."""
    plan = result.plan
    hosts = [step.host for step in plan.steps if step.host]
    console.print(
        f"{plan.model_name}: {some(len(plan.subgraphs), 'binary', 'binaries')} for at most "
        f"{some(plan.target.num_tiles, 'tile')}; {some(len(hosts), 'operator')} on the host"
        + (f": {', '.join(hosts)}" if hosts else ""),
        markup=False,
    )
    for subgraph in plan.subgraphs:
        _show_subgraph(plan, subgraph, (folder / subgraph.binary.file).stat().st_size, console)
    if result.errors:
        show_errors(result.errors, result.compared, console)
    console.print(f"written to {folder}: {', '.join(each.file for each in plan.files)}, plan.json", markup=False)


def show_errors(errors: Sequence[LayerError], samples: int, console: Console) -> None:
    """Print how far each layer is from the float network."""
    title = f"Simulated against the float network, {some(samples, 'sample')}"
    columns = [_number(header) for header in ("largest", "mean", "peak", "SQNR")]
    table = Table("nodes", _word("layer"), *columns, title=title)
    for error in errors:
        table.add_row(
            Name(layer_title(error.user_names, f"{error.value} (added)")),
            f"{error.kind} (host)" if error.on_host else error.kind,
            f"{error.largest:.3g}",
            f"{error.mean:.3g}",
            f"{error.peak:.3g}",
            "" if error.sqnr is None else f"{error.sqnr:.1f} dB",
        )
    show_table(table, console)


def _show_subgraph(plan: MlipPlan, subgraph: PlannedSubgraph, size: int, console: Console) -> None:
    numbers = [_number(header) for header in ("tiles", "stripes", "pages", "weights", "DDR", "MACs", "cycles")]
    table = Table("nodes", _word("layer"), _word("split"), *numbers, title=f"Layers of {subgraph.symbol}")
    for layer in subgraph.layers:
        table.add_row(
            Name(layer_title(layer.user_names, "(added)")),
            layer.kind,
            split_word(layer.split, layer.tiles, layer.spills),
            *(f"{count:,}" for count in (layer.tiles, layer.stripes, layer.pages)),
            *(f"{count:,}" for count in (layer.weight_bytes, layer.ddr_bytes, layer.macs, layer.cycles)),
        )
    show_table(table, console)
    pinned = ", weights pinned" if plan.target.wb_pin_ocm else ""
    microseconds = plan.timing.nanoseconds(subgraph.cycles) / 1000
    console.print(
        f"{subgraph.symbol}: {subgraph.quantize} on {subgraph.tiles} tiles{pinned}; {size:,} bytes; modelled "
        f"{subgraph.cycles:,} cycles, {microseconds:,.1f} µs by profile {plan.profile['name']}",
        markup=False,
    )


def split_word(split: str, tiles: int, spills: bool) -> str:
    """Return how a layer is divided. One that no tile computes is another view of its input's bytes."""
    if not tiles:
        return "a view"
    return split + (", spills" if spills else "")


def _word(header: str) -> Column:
    return Column(header, no_wrap=True)


def _number(header: str) -> Column:
    return Column(header, no_wrap=True, justify="right")
