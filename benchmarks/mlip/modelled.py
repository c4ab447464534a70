"""The networks, and the modelled time of a run beside that of the formulas, the least possible, and what binds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rich.table import Table

from benchmarks.aims import Aim, statement
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.program.program import TILE_COUNTS, TensorType
from nnhal_mlip.simulator.report import perf_report
from nnhal_mlip.timing.queues import timeline
from tests.support import flow_networks, mlip_networks
from tests.support.flow_graphs import random_inputs
from tests.support.mlip_networks import network_program
from tests.support.mlip_runs import PROFILE, compile_subgraph, ranges_of

_TYPES: tuple[tuple[Literal["fp16", "int8"], TensorType], ...] = (("fp16", TensorType.FP16), ("int8", TensorType.INT8))
_MOST_BINDING = 4


@dataclass(frozen=True, slots=True)
class ModelledRun:
    """The modelled cycles of a network."""

    network: str
    type: str
    tiles: int
    cycles: int
    formulas: int
    """The cycles of its layers by the formulas, with two layers' weights in memory at a time and values on chip."""
    least: int
    """By products and by bytes of DDR."""
    bound: tuple[tuple[str, float], ...]
    """What most of the time is spent on, and the share of it; the most first."""


def modelled_runs(network: BenchedNetwork) -> Iterator[ModelledRun]:
    """Compile a network for each type and number of tiles."""
    graph = network.graph()
    parts = partition(graph)
    (subgraph,) = parts.subgraphs
    ranges = ranges_of(parts.graph, random_inputs(graph))
    for word, element_type in _TYPES:
        for tiles in TILE_COUNTS:
            program = compile_subgraph(parts, subgraph, quantize=word, num_tiles=tiles, ranges=ranges).program
            report = perf_report(program, timeline(program, PROFILE), PROFILE)
            by_formulas = network_program(network.formulas(), element_type, tiles, PROFILE)
            spent: Counter[str] = Counter()
            for layer in report.layers:
                spent.update(layer.bound_cycles)
            bound = tuple((name, cycles / report.total) for name, cycles in spent.most_common(_MOST_BINDING))
            formulas = timeline(by_formulas, PROFILE).total
            yield ModelledRun(network.name, word, tiles, report.total, formulas, report.least, bound)


def cycles_table(runs: Iterable[ModelledRun]) -> Table:
    """Return a table with a row for each run."""
    table = Table("network", "type", title="Modelled Mcycles of a run (ms at 1 GHz)")
    for name in ("tiles", "compiled", "formulas", "over formulas", "lower bound", "over bound"):
        table.add_column(name, justify="right")
    table.add_column("bound by")
    for run in runs:
        table.add_row(
            run.network,
            run.type,
            str(run.tiles),
            _mega(run.cycles),
            _mega(run.formulas),
            f"{run.cycles / run.formulas - 1:+.0%}",
            _mega(run.least),
            f"{run.cycles / run.least - 1:+.0%}",
            ", ".join(f"{name} {share:.0%}" for name, share in run.bound if share >= 0.005),
        )
    return table


def modelled_aims(runs: Iterable[ModelledRun]) -> list[Aim]:
    """Return what must hold of all runs: more tiles and int8 are never slower, and nothing is faster than its bound."""
    by_case = {(run.network, run.type, run.tiles): run for run in runs}
    slower = sum(
        run.cycles > by_case[network, kind, tiles // 2].cycles
        for (network, kind, tiles), run in by_case.items()
        if tiles > 1
    )
    int8 = sum(run.cycles > by_case[network, "fp16", tiles].cycles for (network, _, tiles), run in by_case.items())
    return [
        statement("more tiles are never slower", slower),
        statement("int8 is never slower than fp16", int8),
        statement("no run is faster than its bound", sum(run.cycles < run.least for run in by_case.values())),
    ]


def _mega(cycles: int) -> str:
    return f"{cycles / 1e6:.2f}"


@dataclass(frozen=True, slots=True)
class BenchedNetwork:
    """A network with random weights and images of 224 x 224."""

    name: str
    graph: Callable[[], FlowGraph]
    formulas: Callable[[], list[mlip_networks.Layer]]
    """Its layers, without what passes between them."""


NETWORKS = (
    BenchedNetwork("ResNet-18", flow_networks.resnet18, mlip_networks.resnet18),
    BenchedNetwork("ResNet-50", flow_networks.resnet50, mlip_networks.resnet50),
    BenchedNetwork("MobileNet v1", flow_networks.mobilenet_v1, mlip_networks.mobilenet),
)
