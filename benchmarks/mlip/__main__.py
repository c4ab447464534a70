"""``python -m benchmarks.mlip``: what compiling and simulating networks costs, and the modelled time of their runs.

The exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Literal

from rich.console import Console

from benchmarks.aims import Aim, tell
from benchmarks.mlip.modelled import NETWORKS, ModelledRun, cycles_table, modelled_aims, modelled_runs
from benchmarks.mlip.others import OthersRun, others_aims, others_runs, others_table
from benchmarks.mlip.speed import StepTimes, speed_aims, speed_table, step_times
from benchmarks.tables import ShownTables

_TYPES: tuple[Literal["fp16", "int8"], ...] = ("fp16", "int8")


def main() -> int:
    """Measure and print. Returns 1 if an aim is missed."""
    arguments = _parser().parse_args()
    tables, runs, times = ShownTables(), list[ModelledRun](), dict[tuple[str, str], StepTimes]()
    console = Console(stderr=True)
    for network in () if arguments.only_others else NETWORKS:
        for quantize in _TYPES if arguments.rounds else ():
            console.print(f"{network.name} in {quantize}: {arguments.rounds} rounds")
            times[network.name, quantize] = step_times(network, quantize, arguments.rounds)
        console.print(f"{network.name}: modelled time")
        runs += modelled_runs(network)
    aims: list[Aim] = [*speed_aims(times), *(modelled_aims(runs) if runs else ())]
    others = list[OthersRun]()
    if not arguments.without_others:
        console.print("networks of others")
        others += others_runs()
        aims += others_aims(others)
    if times:
        tables.show(speed_table(times))
    if runs:
        tables.show(cycles_table(runs))
    if others:
        tables.show(others_table(others))
    return tell(aims, tables, arguments.markdown, arguments.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.mlip", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement of time; 0 for none")
    parser.add_argument("--without-others", action="store_true", help="leave out networks from packages")
    parser.add_argument("--only-others", action="store_true", help="leave out all else")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the aims to it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
