"""``python -m benchmarks.vela``: Vela compiles networks for many arenas, and nnhal's frontier should dominate it.

Vela's own cascades and stripes are priced by the model by which nnhal plans. The exit status is 1 if no point of the
frontier is at least as good as some schedule of Vela.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.cascade.loading import LoadedNetwork, NoNetworksError, load, networks_folder
from benchmarks.environments import InstallationError
from benchmarks.tables import ShownTables
from benchmarks.vela.comparison import Comparison, compared, comparison_table, summary_table
from benchmarks.vela.domination import Point
from benchmarks.vela.plans import plans_of
from benchmarks.vela.pricing import VelaPricer
from benchmarks.vela.program import Core, VelaError, VelaRun, run_vela, vela_program
from nnhal_cascade.compiler import CompilerOptions, frontier
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_pages.terminal import output_console

_NETWORKS = "mobilenet_v1_1.0_224,mobilenet_v2_1.0_224"
_ACCELERATORS = "u55-128,u55-256"
_ARENAS = "0,160,192,224,256,288,320,352,384,416,448,512,640,768,1024,1280"


def main() -> int:
    """Compare and print. Returns 1 if the frontier does not dominate a schedule, 2 if nothing can be compared."""
    arguments = _parser().parse_args()
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    try:
        comparisons = list(_comparisons(arguments, console))
    except (NoNetworksError, InstallationError, OSError) as error:
        console.print(str(error), markup=False)
        return 2
    tables = ShownTables()
    tables.show(comparison_table(comparisons))
    tables.show(summary_table(comparisons))
    dominated = sum(each.own is not None for each in comparisons)
    placed = sum(each.own_placed is not None for each in comparisons)
    output_console().print(
        f"{len(comparisons)} schedules of Vela; the frontier dominates {dominated} with the memory that Vela reports, "
        f"{placed} with the memory that they need if nnhal places their buffers"
    )
    if arguments.markdown:
        tables.write(arguments.markdown)
    if arguments.json:
        arguments.json.write_text(json.dumps([_row(each) for each in comparisons], indent=1))
    return int(dominated < len(comparisons))


def _comparisons(arguments: argparse.Namespace, console: Console) -> Iterator[Comparison]:
    vela, folder = vela_program(), networks_folder()
    for name in arguments.networks:
        network = load(folder / f"{name}.tflite")
        for accelerator in arguments.accelerators:
            system, options = system_for(accelerator), CompilerOptions(recompute=arguments.recompute)
            own = [Point(each.peak, each.cycles) for each in frontier(network.graph, system, options)]
            pricer = VelaPricer(network.graph, system)
            for run in _runs(arguments, vela, network, accelerator, console):
                yield compared(run, pricer.price(plans_of(run.schedule, network.graph)), own)


def _runs(
    arguments: argparse.Namespace, vela: Path, network: LoadedNetwork, accelerator: str, console: Console
) -> Iterator[VelaRun]:
    """The runs of Vela that end well. A message says why others do not."""
    for core in arguments.cores:
        for arena in arguments.arenas:
            try:
                yield run_vela(vela, network.path, accelerator, core, arena * 1024 or None)
            except VelaError as error:
                where = f"{network.path.stem} on {accelerator}, {core}, {arena} KiB"
                console.print(f"{where}: Vela fails: {error}", markup=False)


def _row(comparison: Comparison) -> dict[str, object]:
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.vela", description=__doc__)
    parser.add_argument("--networks", type=_words, default=_words(_NETWORKS), help="in $NNHAL_MODELS, with commas")
    parser.add_argument("--accelerators", type=_words, default=_words(_ACCELERATORS), help="with commas")
    parser.add_argument("--cores", type=_cores, default=tuple(Core), help=f"of {', '.join(Core)}, with commas")
    parser.add_argument("--arenas", type=_numbers, default=_numbers(_ARENAS), help="KiB, with commas; 0 is the least")
    parser.add_argument("--recompute", action="store_true", help="let the frontier recompute")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to it")
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _words(text)))


def _cores(text: str) -> tuple[Core, ...]:
    return tuple(map(Core, _words(text)))


if __name__ == "__main__":
    sys.exit(main())
