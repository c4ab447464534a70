"""``python -m benchmarks.fleet``: how many hosts a load needs, from a simulation of measured hosts.

size      the fewest hosts that keep a promise, for each placement of models and each way to balance
measure   measure this machine as a host, for ``size --figures``
check     the simulation beside two hosts that run on this machine, with the same requests
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.fleet.balancers import BalancingPolicy
from benchmarks.fleet.checking import compared, comparison_table
from benchmarks.fleet.figures import FiguresError, HostFigures, read_figures, write_figures
from benchmarks.fleet.measuring import measured_host
from benchmarks.fleet.placement import PlacementPolicy
from benchmarks.fleet.sizing import WARM_UP, Promise, SizedFleet, busy_hosts, sized, utilisation
from benchmarks.fleet.traces import Bursts, RequestTrace, TraceError, made_trace, read_trace, zipf_shares
from benchmarks.tables import ShownTables

_FIGURES = Path(__file__).parent / "two_processors.json"
"""Measured on a machine of two processors: see docs/scaling.md."""


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    _add_size(verbs.add_parser("size"))
    add = verbs.add_parser("measure").add_argument
    add("file", type=Path, help="where the figures go, as JSON")
    add("--seconds", type=float, default=2.0, help="of a window")
    add("--rounds", type=int, default=3)
    add = verbs.add_parser("check").add_argument
    add("--milliseconds", type=float, default=20.0, help="that a device of the two hosts takes for an operation")
    add("--seconds", type=float, default=10.0, help="of requests in each trace")
    add("--seed", type=int, default=0)
    add("--out", type=Path, help="a directory for check.md")
    arguments = parser.parse_args()
    try:
        if arguments.verb == "size":
            _size(arguments)
        elif arguments.verb == "measure":
            _measure(arguments)
        else:
            _check(arguments)
    except (TraceError, FiguresError, OSError) as error:
        print(f"python -m benchmarks.fleet: {error}", file=sys.stderr)
        return 1
    return 0


def _add_size(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rate", type=float, default=100_000.0, help="requests a second")
    add("--percent", type=float, default=99.0, help="of the requests that are to be answered in time")
    add("--milliseconds", type=float, default=50.0, help="the time in which they are to be answered")
    add("--requests", type=int, default=300_000, help="to replay over each fleet that is looked at")
    add("--models", type=int, default=1000)
    add("--exponent", type=float, default=1.0, help="of Zipf's law, which the popularity of models follows")
    add("--bursts", type=float, default=0.0, help="the rate in bursts over that between them; 0 for none")
    add("--trace", type=Path, help="a CSV file with the columns seconds and model, instead of requests at random")
    add("--figures", type=Path, default=_FIGURES, help="of a host, as 'measure' writes them")
    add("--memory-gib", type=float, default=16.0, help="of a host for models")
    add("--copies", type=int, default=3, help="hosts of each model: of 'copies', and the least of 'popular'")
    add("--placements", nargs="+", type=PlacementPolicy, default=list(PlacementPolicy))
    add("--balancing", nargs="+", type=BalancingPolicy, default=[BalancingPolicy.LEAST, BalancingPolicy.ROUND_ROBIN])
    add("--seed", type=int, default=0)
    add("--out", type=Path, help="a directory for size.md")


def _size(arguments: argparse.Namespace) -> None:
    figures = replace(read_figures(arguments.figures), memory_bytes=int(arguments.memory_gib * (1 << 30)))
    trace = _trace(arguments)
    promise = Promise(arguments.percent, arguments.milliseconds / 1e3)
    table = Table(
        "placement",
        "balancing",
        title=f"{trace.rate:,.0f} requests a second for {len(trace.shares):,} models, "
        f"p{promise.percent:g} within {promise.seconds * 1e3:g} ms; {busy_hosts(trace, figures):,} hosts would be busy",
    )
    for name in ("hosts", "p50", f"p{promise.percent:g}", "busiest host", "models loaded meanwhile"):
        table.add_column(name, justify="right")
    table.add_column("why none")
    for placement in arguments.placements:
        for balancing in arguments.balancing:
            begun = time.monotonic()
            fleet = sized(trace, figures, placement, balancing, promise, arguments.copies, arguments.seed)
            _say(f"{placement}, {balancing}: {time.monotonic() - begun:.0f} s")
            table.add_row(placement, balancing, *_cells(fleet, trace, figures, promise))
    _show(table, arguments.out, "size.md")


def _cells(fleet: SizedFleet, trace: RequestTrace, figures: HostFigures, promise: Promise) -> list[str]:
    if fleet.simulated is None:
        return ["none", "", "", "", "", fleet.reason]
    latencies = [f"{fleet.simulated.percentile(percent, WARM_UP) * 1e3:.1f} ms" for percent in (50, promise.percent)]
    busiest = f"{utilisation(trace, figures, fleet.simulated):.0%}"
    return [f"{fleet.hosts:,}", *latencies, busiest, f"{fleet.simulated.loads:,}", ""]


def _trace(arguments: argparse.Namespace) -> RequestTrace:
    if arguments.trace is not None:
        return read_trace(arguments.trace)
    shares = zipf_shares(arguments.models, arguments.exponent)
    bursts = Bursts(factor=arguments.bursts) if arguments.bursts else None
    return made_trace(arguments.rate, arguments.requests, shares, np.random.default_rng(arguments.seed), bursts)


def _measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        figures = measured_host(Path(name), arguments.seconds, arguments.rounds, _say)
    write_figures(figures, arguments.file)


def _check(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        found = compared(Path(name), arguments.milliseconds, arguments.seconds, arguments.seed, _say)
    _show(comparison_table(found), arguments.out, "check.md")


def _show(table: Table, directory: Path | None, name: str) -> None:
    tables = ShownTables()
    tables.show(table)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        tables.write(directory / name)


def _say(line: str) -> None:
    print(f"{line} (load {os.getloadavg()[0]:.1f})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
