"""``python -m benchmarks.cascade``: what the cascading compiler reaches, and whether the machine confirms it.

The exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.aims import Aim, tell
from benchmarks.cascade.known_good import known_good_aims
from benchmarks.cascade.loading import NoNetworksError, load, networks_folder
from benchmarks.cascade.networks import BIG, NETWORKS
from benchmarks.cascade.peaks import (
    frontier_table,
    machine_runs,
    peak_aims,
    peak_table,
    planned,
    run_table,
)
from benchmarks.cascade.planning import chain_aims, chain_table, process_aims, process_costs, process_table
from benchmarks.compilers.program import vela_program
from benchmarks.environments import InstallationError
from benchmarks.tables import ShownTables, say
from nnhal_cascade.hardware.memory_file import system_for

_SECTIONS = ("peaks", "processes", "chain")


def main() -> int:
    """Measure and print. Returns 1 if an aim is missed, 2 if something is not there to be measured."""
    arguments = _parser().parse_args()
    aims: list[Aim] = []
    tables = ShownTables()
    try:
        if arguments.known_good:
            aims += known_good_aims(arguments.known_good)
        if "peaks" in arguments.sections:
            aims += _peaks(arguments, tables)
        if "processes" in arguments.sections:
            aims += _processes(arguments, tables)
        if "chain" in arguments.sections:
            found, points, line = chain_aims(system_for(arguments.accelerators[0]), arguments.plot)
            aims += found
            tables.show(chain_table(points, line))
    except (NoNetworksError, InstallationError, OSError) as error:
        say(str(error))
        return 2
    return tell(aims, tables, arguments.markdown, arguments.json)


def _peaks(arguments: argparse.Namespace, tables: ShownTables) -> Iterable[Aim]:
    """Plan each network for each accelerator, and run some of the schedules."""
    folder, aims, networks, runs = networks_folder(), [], [], []
    for network in NETWORKS:
        if network.name not in arguments.networks:
            continue
        loaded = load(folder / f"{network.name}.tflite")
        for accelerator in arguments.accelerators:
            say(f"{network.name} on {accelerator}")
            found = planned(network, loaded, system_for(accelerator), arguments.recompute)
            own = list(machine_runs(found, loaded, arguments.every_point))
            networks.append(found)
            runs += own
            aims += peak_aims(found, loaded, own)
            if arguments.frontiers:
                tables.show(frontier_table(found))
    tables.show(peak_table(networks))
    tables.show(run_table(runs))
    return aims


def _processes(arguments: argparse.Namespace, tables: ShownTables) -> Iterable[Aim]:
    """Plan networks as a command, beside Vela."""
    folder, vela = networks_folder(), vela_program()
    accelerator, rounds = arguments.accelerators[0], arguments.rounds
    costs = {
        each.name: process_costs(folder / f"{each.name}.tflite", accelerator, each.peak_aim, vela, rounds)
        for each in NETWORKS
        if each.name in arguments.networks
    }
    tables.show(process_table(costs))
    return process_aims(costs[BIG], BIG) if BIG in costs else []


def _parser() -> argparse.ArgumentParser:
    names = tuple(network.name for network in NETWORKS)
    parser = argparse.ArgumentParser("python -m benchmarks.cascade", description=__doc__)
    parser.add_argument("--sections", type=_words, default=_SECTIONS, help=f"of {', '.join(_SECTIONS)}, with commas")
    parser.add_argument("--networks", type=_words, default=names, help="in $NNHAL_MODELS, with commas")
    parser.add_argument("--accelerators", type=_words, default=("u55-128", "u55-256"), help="with commas")
    parser.add_argument("--no-recompute", dest="recompute", action="store_false", help="leave out what recomputes")
    parser.add_argument("--frontiers", action="store_true", help="print the frontiers")
    parser.add_argument("--every-point", action="store_true", help="run each point of the frontiers on the machine")
    parser.add_argument("--rounds", type=int, default=5, help="of processes")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write time against parts to an SVG file")
    parser.add_argument("--known-good", type=Path, metavar="FILE", help="check the cases of a JSON file too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the aims to it")
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


if __name__ == "__main__":
    sys.exit(main())
