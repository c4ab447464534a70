"""How long planning takes, and how much memory: whole processes beside Vela's, and chains of many parts."""

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

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.cascade.chains import planning_seconds
from benchmarks.cascade.networks import CHAIN_PARTS, CHAIN_SECONDS, PLANNING_MIB, STRAIGHTNESS
from benchmarks.cascade.straight import Line, fitted, plot
from benchmarks.compilers.program import Core, vela_command
from nnhal_cascade.hardware.memory import System

OWN = "nnhal cascade"
OWN_LEAST = "nnhal cascade, least memory"
_COUNTS = tuple(range(100, CHAIN_PARTS + 1, 100))


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
    table = Table("network", "command", title="Whole processes that plan, medians of interleaved rounds")
    for name in ("seconds", "processor seconds", "peak MiB"):
        table.add_column(name, justify="right")
    for network, found in costs.items():
        for command, cost in found.items():
            table.add_row(network, command, f"{cost.seconds:.2f}", f"{cost.cpu:.2f}", f"{cost.mib:.1f}")
    return table


def chain_aims(system: System, picture: Path | None) -> tuple[list[Aim], list[tuple[float, float]], Line]:
    """Return the aims of long chains, the measured points and the line through them, which ``picture`` shows."""
    points = planning_seconds(_COUNTS, system)
    line = fitted(points)
    if picture:
        title = f"Planning a chain: R² = {line.r_squared:.4f}"
        picture.write_text(plot(points, line, "parts", "processor seconds", title))
    return (
        [
            Aim(f"processor time of planning a chain of {CHAIN_PARTS:,} parts", points[-1][1], CHAIN_SECONDS, "s"),
            Aim(
                "time against parts: 1 - R²", 1 - line.r_squared, STRAIGHTNESS, "", f"{line.slope * 1e3:.2f} ms a part"
            ),
        ],
        points,
        line,
    )


def chain_table(points: Sequence[tuple[float, float]], line: Line) -> Table:
    """Return a table with a row for each chain."""
    table = Table(title=f"Planning chains: {line.slope * 1e3:.2f} ms a part, R² = {line.r_squared:.4f}")
    for name in ("parts", "processor seconds", "on the line"):
        table.add_column(name, justify="right")
    for parts, seconds in points:
        table.add_row(f"{parts:,.0f}", f"{seconds:.3f}", f"{line.intercept + line.slope * parts:.3f}")
    return table


_LAUNCHER = Path(__file__).with_name("launcher.py")


class CommandFailedError(Exception):
    """A command ended with another status than 0. The message has its last line."""


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """What a process took."""

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
