"""A partition as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Column, Table

from nnhal_mlip.command.layer_words import counted, layer_title, some
from nnhal_mlip.command.partition_story import PartitionStory, SubgraphStory
from nnhal_pages.terminal import Footnotes, Name, show_table


def show_partition(story: PartitionStory, explain: bool, console: Console) -> None:
    """Print what the accelerator has and what the host has; if ``explain``, layer by layer and with reasons."""
    flow = "the public flow" if story.public else "beyond the public flow"
    console.print(
        f"{story.model}: {some(story.layers, 'layer')} in {some(len(story.subgraphs), 'subgraph')}, "
        f"{some(len(story.host), 'operator')} on the host ({flow})",
        markup=False,
    )
    for subgraph in story.subgraphs:
        console.print(_summary(subgraph), markup=False)
        if explain:
            _show_kernels(subgraph, console)
    if explain:
        _show_host(story, console)
        for reversion in story.reversions:
            console.print(f"back to the host: {', '.join(reversion.nodes)}: {reversion.reason}", markup=False)
        console.print(f"order: {', '.join(story.steps)}", markup=False)
        console.print(story.rule, markup=False)
    elif story.host:
        console.print(f"host: {', '.join(each.name for each in story.host)}; --explain says why", markup=False)


def _summary(subgraph: SubgraphStory) -> str:
    kinds = counted(kernel.layer for kernel in subgraph.kernels)
    return f"{subgraph.symbol}: {kinds}; {', '.join(subgraph.inputs)} to {', '.join(subgraph.outputs)}"


def _show_kernels(subgraph: SubgraphStory, console: Console) -> None:
    table = Table(
        "nodes",
        Column("layer", no_wrap=True),
        "operators",
        *(Column(header, no_wrap=True) for header in ("shape", "beyond")),
        title=f"Layers of {subgraph.symbol}",
    )
    notes = Footnotes()
    for kernel in subgraph.kernels:
        numbers = ", ".join(notes.number(reason) for reason in kernel.beyond_public)
        table.add_row(
            Name(layer_title(kernel.user_names, "(added)")),
            kernel.layer,
            ", ".join(kernel.operators),
            "x".join(map(str, kernel.shape)),
            numbers,
        )
    show_table(table, console)
    notes.show(console)


def _show_host(story: PartitionStory, console: Console) -> None:
    if not story.host:
        console.print("Nothing stays on the host.")
        return
    table = Table("node", *(Column(header, no_wrap=True) for header in ("operator", "check", "why")), title="Host")
    notes = Footnotes()
    for each in story.host:
        table.add_row(
            Name(each.name + (" (added)" if each.added else "")),
            each.operator if each.added else f"{each.kind} ({each.operator})",
            each.check,
            notes.number(f"{each.code}: {each.reason}"),
        )
    show_table(table, console)
    notes.show(console)
