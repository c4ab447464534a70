"""``python -m benchmarks.vela``: Vela compiles networks for many arenas, and nnhal's frontier should dominate it.

Vela's own cascades and stripes are priced by the model by which nnhal plans. The exit status is 1 if no point of the
frontier is at least as good as some schedule of Vela's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.cascade.loading import NoNetworksError, load, networks_folder
from benchmarks.environments import InstallationError
from benchmarks.vela.comparison import Comparison, compared, comparison_table
from benchmarks.vela.domination import Point, is_monotone
from benchmarks.vela.plans import plans_of
from benchmarks.vela.pricing import VelaPricer
from benchmarks.vela.program import Core, VelaError, run_vela, vela_program
from nnhal_devices.ethos_u.cascader.compiler import CompilerOptions, frontier
from nnhal_devices.ethos_u.cascader.hardware.memory_file import system_for
from nnhal_tools.terminal import output_console, show_table

_NETWORKS = "mobilenet_v1_1.0_224,mobilenet_v2_1.0_224"
_ACCELERATORS = "u55-128,u55-256"
_ARENAS = "0,160,192,224,256,288,320,352,384,416,448,512,640,768,1024,1280"


def main() -> int:
    """Compare and print. Returns 1 if the frontier does not dominate a schedule, 2 if nothing can be compared."""
    arguments = _parser().parse_args()
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    try:
        comparisons = list(_compared(arguments, console))
    except (NoNetworksError, InstallationError) as error:
        console.print(str(error), markup=False)
        return 2
    show_table(comparison_table(comparisons), output_console())
    dominated = sum(each.is_dominated for each in comparisons)
    placed = sum(each.own_placed is not None for each in comparisons)
    output_console().print(
        f"{len(comparisons)} schedules of Vela; the frontier dominates {dominated} with the memory that Vela reports, "
        f"{placed} if nnhal places their buffers"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([_row(each) for each in comparisons], indent=1))
    return int(dominated < len(comparisons))


def _compared(arguments: argparse.Namespace, console: Console) -> Iterator[Comparison]:
    """A comparison for each run of Vela that ends well."""
    vela, folder = vela_program(), networks_folder()
    for name in arguments.networks:
        path = folder / f"{name}.tflite"
        network = load(path)
        for accelerator in arguments.accelerators:
            system = system_for(accelerator)
            pricer = VelaPricer(network.graph, system)
            own = [
                Point(each.peak, each.cycles)
                for each in frontier(network.graph, system, CompilerOptions(recompute=arguments.recompute))
            ]
            if not is_monotone(own):
                console.print(f"{name} on {accelerator}: the frontier is not monotone", markup=False)
            for core in arguments.cores:
                for arena in arguments.arenas:
                    try:
                        run = run_vela(vela, path, accelerator, core, arena * 1024 or None)
                        plans = plans_of(run.schedule, network.graph)
                    except (VelaError, ValueError) as error:
                        console.print(
                            f"{name} on {accelerator}, {core}, {arena} KiB is left out: {error}", markup=False
                        )
                        continue
                    placed = placed_bytes(network.graph, system, plans)
                    yield compared(run, pricer.cycles(plans), placed, own)


def _row(comparison: Comparison) -> dict[str, object]:
    run = comparison.run
    return {
        "network": run.network,
        "accelerator": run.accelerator,
        "core": run.core,
        "arena": run.arena,
        "cascades": run.schedule.cascades,
        "vela": asdict(run.summary),
        "cycles": comparison.cycles,
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
