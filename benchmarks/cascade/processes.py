"""Time and memory of whole processes that take turns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

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
    done = subprocess.run(launcher, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["code"]:
        lines = done.stderr.strip().splitlines() or [f"exit status {found['code']}"]
        raise CommandFailedError(f"{' '.join(command)}: {lines[-1]}")
    return ProcessCost(found["seconds"], found["cpu"], found["kib"] / 1024)


def interleaved(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, ProcessCost]:
    """Return the medians of commands of which each runs once a round. A round before them warms the page cache."""
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
