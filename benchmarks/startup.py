"""``python -m benchmarks.startup [ROUNDS]``: the processor time that a start takes, per process.

Processor time is user and system time of all threads, from exec until the process ends or, for a server, until it says
that it is ready. Each round starts every process once, so that a load on the machine meets all of them alike. The
figures are medians and least values, beside floors of the same run and the aims.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import psutil
import typer

from benchmarks.__main__ import run
from nnhal_hosting.supervision import Child
from nnhal_tools.bench.runner import Aim, Report, figure_table

_FREE_PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
_GRPC_ONLY = ("--allow-http=false", "--allow-metrics=false")
_SNIPPETS = ("pass", "import numpy", "import grpc", "import numpy, grpc", "import nnhal_client")
_DRIVERS = ("null", "cpu_ref", "cpu_acc", "gpu_acc", "ethos_n", "ethos_u", "mlip")
_AIMS = {
    "nnhal --help": 0.35,
    "device cpu_ref": 0.6,
    "nnhal device cpu_ref": 0.6,
    "framework": 1.2,
    "nnhal serve": 1.2,
}
"""Seconds."""


def startup(rounds: Annotated[int, typer.Argument(min=1)] = 9) -> Report:
    """The processor time that a start takes, per process. It fails if a median exceeds its aim."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # modules are compiled once, as they are after an installation
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        starts = _starts(Path(folder))
        for start in starts.values():  # compile the modules and fill the page cache
            start()
        seconds: dict[str, list[float]] = {name: [] for name in starts}
        for _ in range(rounds):
            for name, start in starts.items():
                seconds[name].append(start())
    rows = [(name, f"{median(found):.2f}", f"{min(found):.2f}") for name, found in seconds.items()]
    aims = [Aim(f"a start of {name}", median(seconds[name]), limit, "s") for name, limit in _AIMS.items()]
    return Report([figure_table("Seconds of processor time", "process", "median,least", rows)], aims)


def _starts(folder: Path) -> dict[str, Callable[[], float]]:
    """Return what is measured: each function starts a process, ends it, and returns its processor time in seconds."""
    repository = folder / "models"
    repository.mkdir()
    framework = ("--endpoint", str(folder / "framework"))
    serving = (*framework, "--model-repository", str(repository), *_FREE_PORTS)
    programs: dict[str, tuple[str, ...]] = {f'python -c "{snippet}"': ("-c", snippet) for snippet in _SNIPPETS}
    programs["nnhal --help"] = ("-m", "nnhal_tools", "--help")
    servers: dict[str, tuple[str, ...]] = {
        f"device {name}": ("nnhal_devices", name, "--endpoint", str(folder / name)) for name in _DRIVERS
    }
    servers["nnhal device cpu_ref"] = ("nnhal_tools", "device", "cpu_ref", "--endpoint", str(folder / "device"))
    servers["nnhal serve"] = ("nnhal_tools", "serve", *framework)
    servers["framework"] = ("nnhal_service", *framework)
    servers["framework, with a repository over gRPC"] = ("nnhal_service", *serving, *_GRPC_ONLY)
    servers["framework, with HTTP and metrics too"] = ("nnhal_service", *serving)
    return {
        **{name: partial(_until_end, arguments) for name, arguments in programs.items()},
        **{name: partial(_until_ready, *arguments) for name, arguments in servers.items()},
    }


def _until_end(arguments: tuple[str, ...]) -> float:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _until_ready(module: str, *arguments: str) -> float:
    child = Child(module, arguments)
    try:
        child.wait_until_ready()
        return processor_seconds(child.pid)
    finally:
        child.stop()


def processor_seconds(pid: int) -> float:
    """Return the seconds of processor time that a process has taken."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    run(startup)
