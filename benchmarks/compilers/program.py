"""Vela as a program in an environment of its own."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.compilers.reports import VelaSchedule, VelaSummary, cpu_operations, parse_schedule, parse_summary
from benchmarks.environments import environments_directory, interpreter

REQUIREMENT = "ethos-u-vela==5.2.0"


class Core(StrEnum):
    """Vela has two compilers: regor is the default, legacy the older one."""

    REGOR = "regor"
    LEGACY = "legacy"


class VelaError(ValueError):
    """Vela failed. The message is the last line that it wrote."""


@dataclass(frozen=True, slots=True)
class VelaRun:
    """Vela's report of one compilation."""

    network: str
    """The file's name without its suffix."""
    accelerator: str
    """Such as ``u55-128``."""
    core: Core
    arena: int | None
    """Bytes that were asked for; None if Vela optimised for size."""
    schedule: VelaSchedule
    summary: VelaSummary
    left: tuple[str, ...] = ()
    """The operations that it leaves to the CPU."""
    cpu: float = 0.0
    """Seconds of processor time of the whole process."""


def vela_program() -> Path:
    """Return the path of the program; its environment is made if there is none. Raises InstallationError."""
    python = interpreter(environments_directory() / "vela", (REQUIREMENT,), ("ethosu.vela",))
    return python.with_name("vela")


def vela_command(
    vela: Path, network: Path, accelerator: str, core: Core, arena: int | None, output: Path
) -> Sequence[str]:
    """Return the command that compiles ``network`` for ``arena`` bytes, or for size if that is None."""
    options = ["--accelerator-config", f"ethos-{accelerator}", "--output-dir", str(output)]
    options += ["--optimise", "Size"] if arena is None else ["--optimise", "Performance"]
    options += [] if arena is None else ["--arena-cache-size", str(arena)]
    options += ["--debug-force-legacy-core"] if core is Core.LEGACY else []
    return [str(vela), str(network), *options]


def run_vela(vela: Path, network: Path, accelerator: str, core: Core, arena: int | None) -> VelaRun:
    """Compile with Vela's default system and memory mode. Raises VelaError."""
    with tempfile.TemporaryDirectory(prefix="nnhal-vela-") as folder:
        options = ["--verbose-schedule", "--show-cpu-operations"]
        command = [*vela_command(vela, network, accelerator, core, arena, Path(folder)), *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise VelaError(lines[-1] if lines else f"exit status {done.returncode}")
        (summary,) = Path(folder).glob("*_summary_*.csv")
        return VelaRun(
            network.stem,
            accelerator,
            core,
            arena,
            parse_schedule(done.stdout),
            parse_summary(summary.read_text()),
            cpu_operations(done.stdout),
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        )
