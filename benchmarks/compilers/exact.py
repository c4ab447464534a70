"""Addresses beside an exact solver: the least peak that the buffers of a least schedule can have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from benchmarks.environments import environments_directory, interpreter
from nnhal_cascade.command.network import read_network
from nnhal_cascade.compiler import CompilerOptions, compile_graph, least_memory
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.schedule.lowering import Lowering
from nnhal_cascade.schedule.placement import PlanNeeds
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_tools.bench.runner import Aim, figure_table, statement

REQUIREMENT = "ortools==9.15.6755"
_SOLVER = Path(__file__).with_name("exact_placement.py")


class ExactResult(NamedTuple):
    """The bytes of a schedule, and what the solver says of them."""

    name: str
    peak: int
    exact: int | None
    """The least peak that it found; None if it found no placement."""
    bound: int
    """No placement of these buffers takes less."""
    is_proved: bool
    """Whether the least peak is known to be the least."""


def exact(path: Path, accelerator: str, seconds: float) -> ExactResult:
    """Place the buffers of a network's least schedule. Raises InstallationError."""
    python = interpreter(environments_directory() / "ortools", (REQUIREMENT,), ("ortools.sat.python.cp_model",))
    graph, system = read_network(path).graph, system_for(accelerator)
    schedule = compile_graph(graph, system, CompilerOptions(least_memory(graph, system)))
    command = [str(python), str(_SOLVER), str(seconds)]
    done = subprocess.run(
        command, input=json.dumps(placement_problem(schedule)), capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    return ExactResult(path.stem, schedule.peak, found["peak"], found["bound"], found["proved"])


def placement_problem(schedule: Schedule) -> dict[str, Any]:
    """Return what ``exact_placement.py`` reads."""
    graph, system = schedule.graph, schedule.system
    needs = Lowering(Homes(graph, system), StripePricer(graph, system)).needs(schedule.proposal)
    return {
        "sizes": [tensor.bytes for tensor in graph.tensors],
        "limit": schedule.peak,
        "plans": [{"arrive": each.arriving, "die": sorted(each.dying), "ways": list(_ways(each))} for each in needs],
    }


def _ways(needs: PlanNeeds) -> Iterator[dict[str, object]]:
    """Forwards, and backwards if that is another way."""
    for number, profile in enumerate(dict.fromkeys(map(id, needs.profiles))):
        found = next(each for each in needs.profiles if id(each) == profile)
        close = [(output, dying, below, found.above[output, dying]) for (output, dying), below in found.below.items()]
        yield {"scratch": needs.scratch[number], "close": close}


def exact_table(results: Sequence[ExactResult]) -> Table:
    """Return a table with a row for each network."""
    rows = (
        (
            each.name,
            f"{each.peak:,}",
            "" if each.exact is None else f"{each.exact:,}",
            f"{each.bound:,}",
            f"{each.peak / max(1, each.bound) - 1:.2%}",
            "" if each.is_proved else "unproved within the time",
        )
        for each in results
    )
    title = "Addresses of least schedules beside CP-SAT's"
    return figure_table(title, "network", "bytes,CP-SAT,its bound,gap,remark", rows)


def exact_aims(results: Sequence[ExactResult]) -> Iterator[Aim]:
    """Yield the aim: no other addresses make a least schedule smaller."""
    smaller = [each.name for each in results if each.exact is not None and each.exact < each.peak]
    unproved = sum(not each.is_proved for each in results)
    remark = "; ".join([*smaller, f"{unproved} unproved"])
    yield statement("least schedules that CP-SAT places in less", len(smaller), remark)
