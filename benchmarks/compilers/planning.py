"""Time and memory of planning: whole processes beside Vela's, and chains of many parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from rich.table import Table

from benchmarks.compilers.chains import planning_seconds
from benchmarks.compilers.program import Core, vela_command
from nnhal_cascade.hardware.memory import System
from nnhal_tools.bench.runner import Aim, figure_table

OWN = "nnhal cascade"
OWN_LEAST = "nnhal cascade, least memory"
CHAIN_PARTS = 1_000
CHAIN_SECONDS = 10.0
PLANNING_MIB = 100.0
"""Peak resident memory of the process that plans a network."""
STRAIGHTNESS = 0.01
"""The part of the variance that a line through time against parts may leave."""
_COUNTS = tuple(range(200, CHAIN_PARTS + 1, 200))


def process_costs(network: Path, accelerator: str, least: int, vela: Path, rounds: int) -> dict[str, ProcessCost]:
    """Return what planning a network costs as a command: in all memory, in ``least`` bytes, and by Vela's two cores.

    All of them run once in each round.
    """
    with tempfile.TemporaryDirectory(prefix="nnhal-planning-") as folder:
        own = (sys.executable, "-m", "nnhal_tools", "cascade", str(network), "--device", accelerator)
        commands: dict[str, Sequence[str]] = {OWN: own, OWN_LEAST: (*own, "--sram", str(least))}
        for core in Core:
            commands[f"vela, {core}"] = vela_command(vela, network, accelerator, core, None, Path(folder))
        return interleaved(commands, rounds)


def process_aims(costs: Mapping[str, ProcessCost], network: str) -> list[Aim]:
    """Return the aims of a network's planning: faster than Vela, and in little memory."""
    others = {name: cost for name, cost in costs.items() if name not in (OWN, OWN_LEAST)}
    fastest = min(others, key=lambda name: others[name].seconds)
    aims, remark = [], f"that of {fastest} in the same rounds"
    for name in (OWN, OWN_LEAST):
        own, other = costs[name], others[fastest]
        aims.append(Aim(f"{network}: process of {name}", own.seconds, other.seconds, "s", remark))
        aims.append(Aim(f"{network}: processor time of {name}", own.cpu, other.cpu, "s", remark))
        aims.append(Aim(f"{network}: resident memory of {name}", costs[name].mib, PLANNING_MIB, "MiB"))
    return aims


def process_table(costs: Mapping[str, Mapping[str, ProcessCost]]) -> Table:
    """Return a table with a row for each network and command."""
    rows = (
        (network, command, f"{cost.seconds:.2f}", f"{cost.cpu:.2f}", f"{cost.mib:.1f}")
        for network, found in costs.items()
        for command, cost in found.items()
    )
    title = "Whole processes that plan, medians of interleaved rounds"
    return figure_table(title, "network,command", "seconds,processor seconds,peak MiB", rows)


def measure_chains(system: System, counts: Sequence[int] = _COUNTS) -> tuple[list[Aim], Table]:
    """Return the aims of long chains, and a row for each: its time beside the line of least squares through all."""
    points = planning_seconds(counts, system)
    parts, seconds = np.array(points, float).T
    slope, start = np.polyfit(parts, seconds, 1)
    fitted = start + slope * parts
    unexplained = float(((seconds - fitted) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum())
    what = f"processor time of planning a chain of {counts[-1]:,} parts"
    per_part = f"{slope * 1e3:.2f} ms a part"
    aims = [
        Aim(what, points[-1][1], CHAIN_SECONDS, "s"),
        Aim("time against parts: 1 - R²", unexplained, STRAIGHTNESS, "", per_part),
    ]
    rows = ((f"{x:,.0f}", f"{y:.3f}", f"{on:.3f}") for x, y, on in zip(parts, seconds, fitted, strict=True))
    return aims, figure_table(f"Planning chains: {per_part}", "parts", "processor seconds,on the line", rows)


_LAUNCHER = Path(__file__).with_name("launcher.py")


class CommandFailedError(ValueError):
    """A command ended with another status than 0. The message has its last line."""


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Time and memory that a process took."""

    seconds: float
    """From its start to its end."""
    cpu: float
    """Seconds of processor time, of the user and of the system."""
    mib: float
    """The peak of its resident memory."""


def process_cost(command: Sequence[str]) -> ProcessCost:
    """Run a command to its end. Raises CommandFailedError."""
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), *command]
    # Modules are compiled by the first run, as they are after an installation.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(launcher, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    if found["code"]:
        lines = done.stderr.strip().splitlines() or [f"exit status {found['code']}"]
        raise CommandFailedError(f"{' '.join(command)}: {lines[-1]}")
    return ProcessCost(found["seconds"], found["cpu"], found["kib"] / 1024)


def interleaved(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, ProcessCost]:
    """Run each command once a round and return its medians. A round before these warms the page cache."""
    costs: dict[str, list[ProcessCost]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            cost = process_cost(command)
            if number:
                costs[name].append(cost)
    return {name: _medians(found) for name, found in costs.items()}


def _medians(costs: Sequence[ProcessCost]) -> ProcessCost:
    return ProcessCost(
        median(each.seconds for each in costs), median(each.cpu for each in costs), median(each.mib for each in costs)
    )
