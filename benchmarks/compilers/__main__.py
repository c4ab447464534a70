"""``python -m benchmarks.compilers``: what nnhal's compilers reach, beside Vela and ONNX Runtime.

All sections end in one table of aims. Networks are those of the folder that NNHAL_MODELS names, those that others made
with Keras, and those of packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from benchmarks.__main__ import run
from benchmarks.compilers.exact import exact, exact_aims, exact_table
from benchmarks.compilers.machine import MachineRun, load, networks_folder
from benchmarks.compilers.mlip import mlip_aims, mlip_runs, mlip_tables
from benchmarks.compilers.networks import networks
from benchmarks.compilers.others import compare, network_aims, network_table
from benchmarks.compilers.peaks import (
    BIG,
    NETWORKS,
    PlannedNetwork,
    machine_runs,
    peak_aims,
    peak_table,
    planned,
    run_table,
)
from benchmarks.compilers.planning import measure_chains, process_aims, process_costs, process_table
from benchmarks.compilers.program import vela_program
from benchmarks.compilers.weights import weight_aims, weight_sizes, weights_table
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_tools.bench.runner import Aim, Report, say

_Found = tuple[Iterable[Table], Iterable[Aim]]


class _Request(NamedTuple):
    """The networks, systems and compilers of one measurement."""

    names: tuple[str, ...]
    """Names of networks; empty for all."""
    accelerators: tuple[str, ...]
    recompute: bool
    every_point: bool
    rounds: int
    seconds: float

    def takes(self, name: str) -> bool:
        """Return whether a network is measured."""
        return not self.names or name in self.names


def _peaks(request: _Request) -> _Found:
    """Plan each network for each accelerator, and run some of the schedules."""
    aims: list[Aim] = []
    found: list[PlannedNetwork] = []
    runs: list[MachineRun] = []
    for network in (each for each in NETWORKS if request.takes(each.name)):
        loaded = load(networks_folder() / f"{network.name}.tflite")
        for accelerator in request.accelerators:
            say(f"{network.name} on {accelerator}")
            plan = planned(network, loaded, system_for(accelerator), request.recompute)
            own = list(machine_runs(plan, loaded, request.every_point))
            found.append(plan)
            runs += own
            aims += peak_aims(plan, loaded, own)
    return [peak_table(found), run_table(runs)], aims


def _processes(request: _Request) -> _Found:
    """Plan networks as a command, beside Vela."""
    folder, vela = networks_folder(), vela_program()
    costs = {}
    for each in (each for each in NETWORKS if request.takes(each.name)):
        file = folder / f"{each.name}.tflite"
        costs[each.name] = process_costs(file, request.accelerators[0], each.peak_aim, vela, request.rounds)
    return [process_table(costs)], process_aims(costs[BIG], BIG) if BIG in costs else ()


def _chain(request: _Request) -> _Found:
    """Plan chains of many parts."""
    aims, table = measure_chains(system_for(request.accelerators[0]))
    return [table], aims


def _networks(request: _Request) -> _Found:
    """Compile networks of others with both compilers."""
    vela, results = vela_program(), []
    for path in networks(request.names):
        say(path.stem)
        results.append(compare(path, vela, request.accelerators[0]))
    for refused in (each for each in results if each.refusal):
        say(refused.refusal)
    return [network_table(results)], network_aims(results)


def _weights(request: _Request) -> _Found:
    """Compare the bytes of weights with those that Vela's encoder makes of them."""
    own = [path for path in sorted(networks_folder().glob("*.tflite")) if request.takes(path.stem)]
    vela, accelerator = vela_program(), request.accelerators[0]
    found = [weight_sizes(path, vela, accelerator) for path in (*own, *networks(request.names))]
    return [weights_table(found)], weight_aims(found)


def _placement(request: _Request) -> _Found:
    """Look for addresses that make a least schedule smaller."""
    found = [exact(path, request.accelerators[0], request.seconds) for path in networks(request.names)]
    return [exact_table(found)], exact_aims(found)


def _mlip(request: _Request) -> _Found:
    """Compile and simulate networks of packages."""
    runs = list(mlip_runs(request.names))
    return mlip_tables(runs), mlip_aims(runs)


_SECTIONS: Mapping[str, Callable[[_Request], _Found]] = {
    "peaks": _peaks,
    "processes": _processes,
    "chain": _chain,
    "networks": _networks,
    "weights": _weights,
    "placement": _placement,
    "mlip": _mlip,
}


def compilers(
    sections: Annotated[str, typer.Option(help="With commas between.")] = ",".join(_SECTIONS),
    network: Annotated[str, typer.Option("--networks", help="Names, with commas between; all by default.")] = "",
    accelerators: Annotated[str, typer.Option(help="With commas between.")] = "u55-128,u55-256",
    recompute: Annotated[bool, typer.Option(help="Also look for schedules that compute something twice.")] = True,
    every_point: Annotated[
        bool, typer.Option("--every-point", help="Run each point of the frontiers on the machine.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Of processes.", min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="For the solver, of each network's placement.")] = 60.0,
) -> Report:
    """Compare what nnhal's compilers reach with those of others. It fails if an aim is missed."""
    names = tuple(filter(None, network.split(",")))
    request = _Request(names, tuple(accelerators.split(",")), recompute, every_point, rounds, seconds)
    unknown = set(filter(None, sections.split(","))) - _SECTIONS.keys()
    if unknown:
        raise ValueError(f"--sections: got {', '.join(sorted(unknown))}, expected some of {', '.join(_SECTIONS)}")
    tables: list[Table] = []
    aims: list[Aim] = []
    for section in filter(None, sections.split(",")):
        more, own = _SECTIONS[section](request)
        tables += more
        aims += own
    return Report(tables, aims)


if __name__ == "__main__":
    run(compilers)
