"""Vela compiles networks for many arenas, and nnhal's frontier should dominate it.

Vela's own cascades and stripes are priced by the model by which nnhal plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cascade.loading import LoadedNetwork, load, networks_folder
from benchmarks.compilers.comparison import Comparison, compared
from benchmarks.compilers.domination import Point
from benchmarks.compilers.plans import plans_of
from benchmarks.compilers.pricing import VelaPricer
from benchmarks.compilers.program import Core, VelaError, VelaRun, run_vela, vela_program
from benchmarks.tables import say
from nnhal_cascade.compiler import CompilerOptions, frontier
from nnhal_cascade.hardware.memory_file import system_for


@dataclass(frozen=True, slots=True)
class ArenaRequest:
    """What is compared."""

    networks: Sequence[str]
    """In $NNHAL_MODELS."""
    accelerators: Sequence[str]
    cores: Sequence[Core]
    arenas: Sequence[int]
    """KiB; 0 is the least."""
    recompute: bool
    """Whether the frontier may recompute."""


def comparisons(request: ArenaRequest) -> Iterator[Comparison]:
    """Yield each run of Vela beside the frontier. Raises NoNetworksError and InstallationError."""
    vela, folder = vela_program(), networks_folder()
    for name in request.networks:
        network = load(folder / f"{name}.tflite")
        for accelerator in request.accelerators:
            system, options = system_for(accelerator), CompilerOptions(recompute=request.recompute)
            own = [Point(each.peak, each.cycles) for each in frontier(network.graph, system, options)]
            pricer = VelaPricer(network.graph, system)
            for run in _runs(request, vela, network, accelerator):
                yield compared(run, pricer.price(plans_of(run.schedule, network.graph)), own)


def _runs(request: ArenaRequest, vela: Path, network: LoadedNetwork, accelerator: str) -> Iterator[VelaRun]:
    """The runs of Vela that end well. A message says why others do not."""
    for core in request.cores:
        for arena in request.arenas:
            try:
                yield run_vela(vela, network.path, accelerator, core, arena * 1024 or None)
            except VelaError as error:
                where = f"{network.path.stem} on {accelerator}, {core}, {arena} KiB"
                say(f"{where}: Vela fails: {error}")


def row(comparison: Comparison) -> dict[str, object]:
    """Return a comparison as JSON has it."""
    run = comparison.run
    return {
        "network": run.network,
        "accelerator": run.accelerator,
        "core": run.core,
        "arena": run.arena,
        "cascades": run.schedule.cascades,
        "vela": asdict(run.summary),
        "placed": comparison.placed,
        "own": comparison.own,
        "own_placed": comparison.own_placed,
    }
