"""How long the steps of the flow take, from a graph in memory to the outputs of a simulated run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal, TypeVar

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.mlip.modelled import BenchedNetwork
from nnhal_mlip.compiler.compiler import compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.partition.partitioning import partition
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.profile import read_profile
from tests.support.flow_graphs import random_inputs
from tests.support.mlip_runs import ranges_of

_STEPS = ("partition", "files", "compile", "load", "run")
_COMPILE_SECONDS, _SIMULATE_SECONDS = 10.0, 10.0

StepTimes = Mapping[str, float]
"""Seconds of each step."""
_Made = TypeVar("_Made")


def step_times(network: BenchedNetwork, quantize: Literal["fp16", "int8"], rounds: int) -> StepTimes:
    """Return the median of each step for 8 tiles. The network must be one subgraph."""
    found: defaultdict[str, list[float]] = defaultdict(list)

    def timed(step: str, make: Callable[..., _Made], *arguments: object) -> _Made:
        start = time.perf_counter()
        made = make(*arguments)
        found[step].append(time.perf_counter() - start)
        return made

    graph, profile = network.graph(), read_profile()
    inputs = random_inputs(graph)
    for _ in range(rounds):
        parts = timed("partition", partition, graph)
        (subgraph,) = parts.subgraphs
        options = MlipCompilerOptions(quantize, ranges=ranges_of(parts.graph, inputs))
        files = timed("files", describe, parts, subgraph)
        binary = timed("compile", compile_files, files, options).binary
        simulator = timed("load", Simulator, binary, profile)
        timed("run", simulator.run, list(inputs.values()))
    return {step: median(times) for step, times in found.items()}


def speed_table(found: Mapping[tuple[str, str], StepTimes]) -> Table:
    """Return a table with a row for each network and type."""
    table = Table("network", "type", title="Seconds of each step, medians")
    for step in _STEPS:
        table.add_column(step, justify="right")
    for (name, quantize), times in found.items():
        table.add_row(name, quantize, *(f"{times[step]:.2f}" for step in _STEPS))
    return table


def speed_aims(found: Mapping[tuple[str, str], StepTimes]) -> Sequence[Aim]:
    """Return the aims: compile and simulate in under ten seconds each."""
    aims = []
    for (name, quantize), times in found.items():
        compiling = times["partition"] + times["files"] + times["compile"]
        aims.append(Aim(f"{name} in {quantize}: partition, files, compile", compiling, _COMPILE_SECONDS, "s"))
        aims.append(Aim(f"{name} in {quantize}: load, run", times["load"] + times["run"], _SIMULATE_SECONDS, "s"))
    return aims
