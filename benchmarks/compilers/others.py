"""nnhal's compiler and Vela on networks of others: bytes, cycles, and what planning costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from benchmarks.compilers.domination import Point
from benchmarks.compilers.machine import LoadedNetwork, Runner
from benchmarks.compilers.planning import process_cost
from benchmarks.compilers.plans import nearest_plans
from benchmarks.compilers.pricing import VelaPricer
from benchmarks.compilers.program import Core, VelaError, VelaRun, run_vela
from nnhal_cascade.command.network import UnsupportedNetworkError, read_network
from nnhal_cascade.compiler import CompilerOptions, compile_graph, least_memory
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_tools.bench.runner import Aim, statement

FASTER = 1.02
"""How many times Vela's cycles the fastest schedule may take."""
ARENA = 4 << 20
"""Bytes of the arena for which Vela optimises for performance: its default."""


@dataclass(frozen=True, slots=True)
class Own:
    """A schedule of nnhal's, on the machine."""

    schedule: Schedule
    cpu: float
    """Seconds of processor time of the whole process that plans it."""
    is_as_planned: bool
    is_right: bool
    """Whether each output is cpu_ref's, bit for bit."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A schedule of Vela's."""

    run: VelaRun
    priced: Point | None
    """Its plans by nnhal's model, as far as they correspond to nnhal's parts; None if no place was found for them."""


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """Result of both compilers for a network."""

    name: str
    fastest: Own | None
    """None if nnhal refuses the network."""
    least: Own | None
    performance: Theirs | None
    """None if Vela fails."""
    size: Theirs | None
    refusal: str = ""
    """Why nnhal refuses it."""


def compare(path: Path, vela: Path, accelerator: str) -> NetworkResult:
    """Compile a network with both."""
    system = system_for(accelerator)
    performance, size = (_run(vela, path, accelerator, arena) for arena in (ARENA, None))
    try:
        network = read_network(path)
    except UnsupportedNetworkError as error:
        return NetworkResult(path.stem, None, None, _theirs(performance), _theirs(size), str(error))
    loaded = LoadedNetwork(path, network.model, network.graph)
    budget = least_memory(network.graph, system)
    runner = Runner(loaded, system)
    fastest, least = (_own(loaded, runner, accelerator, size) for size in (None, budget))
    pricer = VelaPricer(network.graph, system)
    price = partial(_priced, pricer, loaded)
    return NetworkResult(path.stem, fastest, least, _theirs(performance, price), _theirs(size, price))


def _theirs(run: VelaRun | None, price: Callable[[VelaRun], Point | None] = lambda _: None) -> Theirs | None:
    return None if run is None else Theirs(run, price(run))


def _run(vela: Path, path: Path, accelerator: str, arena: int | None) -> VelaRun | None:
    try:
        return run_vela(vela, path, accelerator, Core.REGOR, arena)
    except VelaError:
        return None


def _own(network: LoadedNetwork, runner: Runner, accelerator: str, budget: int | None) -> Own:
    system: System = system_for(accelerator)
    command = [sys.executable, "-m", "nnhal_tools", "cascade", str(network.path), "--device", accelerator]
    cost = process_cost(command if budget is None else [*command, "--sram", str(budget)])
    schedule = compile_graph(network.graph, system, CompilerOptions(budget=budget))
    run = runner.run(schedule)
    return Own(schedule, cost.cpu, run.is_as_planned, run.same_output)


def _priced(pricer: VelaPricer, network: LoadedNetwork, run: VelaRun) -> Point | None:
    try:
        return pricer.price(nearest_plans(run.schedule, network.graph))
    except ValueError:
        return None


def network_table(results: Sequence[NetworkResult]) -> Table:
    """Return a table with a row for each network and schedule."""
    table = Table("network", "schedule", title="nnhal and Vela on networks of others")
    for name in ("bytes", "cycles by our model", "its own cycles", "planning, CPU s"):
        table.add_column(name, justify="right")
    table.add_column("remark")
    for result in results:
        for title, own in (("ours, fastest", result.fastest), ("ours, least", result.least)):
            if own is None:
                table.add_row(result.name, title, "", "", "", "", "refused")
                continue
            good = own.is_as_planned and own.is_right
            remark = "as planned, output cpu_ref's" if good else "not as planned" if own.is_right else "output differs"
            figures = f"{own.schedule.peak:,}", f"{own.schedule.cycles:,}", "", f"{own.cpu:.2f}"
            table.add_row(result.name, title, *figures, remark)
        for title, theirs in (("Vela, Performance", result.performance), ("Vela, Size", result.size)):
            if theirs is None:
                table.add_row(result.name, title, "", "", "", "", "fails")
                continue
            run = theirs.run
            priced = f"{theirs.priced.cycles:,}" if theirs.priced else "not expressible"
            left = f"{len(run.left)} operations left to the CPU" if run.left else ""
            summary = f"{run.summary.sram:,}", priced, f"{run.summary.cycles:,}", f"{run.cpu:.2f}"
            table.add_row(result.name, title, *summary, left)
    return table


def network_aims(results: Sequence[NetworkResult]) -> Iterator[Aim]:
    """Yield the aims over all networks that Vela compiles, and name those that miss one."""
    compiled = [each for each in results if each.performance and each.size]
    refused = [each.name for each in compiled if each.fastest is None]
    yield statement("refused of what Vela compiles", len(refused), ", ".join(refused) or f"of {len(compiled)}")
    larger, slower, wrong = [], [], []
    for each in compiled:
        if each.fastest is None or each.least is None or each.performance is None or each.size is None:
            continue
        if each.least.schedule.peak > each.size.run.summary.sram:
            larger.append(each.name)
        if each.fastest.schedule.cycles > FASTER * _cycles(each.performance):
            slower.append(each.name)
        if not all(own.is_as_planned and own.is_right for own in (each.fastest, each.least)):
            wrong.append(each.name)
    yield statement("least bytes over Vela Size's", len(larger), ", ".join(larger))
    yield statement(f"fastest cycles over {FASTER} x Vela Performance's", len(slower), ", ".join(slower))
    yield statement("not as planned, or not cpu_ref's output", len(wrong), ", ".join(wrong))


def _cycles(theirs: Theirs) -> int:
    """By nnhal's model, or Vela's own figure if its plans cannot be expressed."""
    return theirs.priced.cycles if theirs.priced else theirs.run.summary.cycles
