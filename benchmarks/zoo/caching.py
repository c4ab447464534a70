"""``python -m benchmarks.zoo.caching``: what a compilation cache costs and gains a load.

Processor time of all processes, the client's too, for three loads of each model by turns over cpu_acc and cpu_ref:
without a cache, to fill one, and with it. With ``--devices`` each is a load over these devices by processes that have
loaded another model before, since some devices remember what they have compiled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over, processes_of, processor_ns
from benchmarks.zoo.packages import Folder, ModelFile, Only, chosen
from nnhal.errors import NnhalError
from nnhal_client import Framework
from nnhal_tools.bench.runner import Report, figure_table, say
from nnhal_tools.up import DeviceEntry

_TOKEN_BYTES = 32
_TOKEN = bytes(range(_TOKEN_BYTES))


class Costs(NamedTuple):
    """Milliseconds of processor time of one model's loads, medians."""

    name: str
    none: float
    filling: float
    hit: float
    entry_bytes: int
    """0 if nothing is kept of the model."""

    @classmethod
    def of(cls, name: str, times: Sequence[Sequence[float]], entry_bytes: int) -> Costs:
        """Return the medians of three kinds of times."""
        none, filling, hit = map(median, times)
        return cls(name, none, filling, hit, entry_bytes)


def caching(
    only: Only = "*",
    folder: Folder = None,
    rounds: Annotated[int, typer.Option(min=1)] = 7,
    devices: Annotated[
        str, typer.Option(help="Measure loads over these drivers, each by processes that have not seen the model.")
    ] = "",
) -> Report:
    """Measure the cost and the gain of a compilation cache, in milliseconds of processor time."""
    files = chosen(folder, only)
    rows = _first_loads(files, rounds, devices.split(",")) if devices else _loads(files, rounds)
    columns = "none ms,fill ms,hit ms,fill / none,hit / none,entry MB"
    return Report([figure_table("What a cache costs and gains", "model", columns, map(_row, rows))])


def _loads(files: Sequence[ModelFile], rounds: int) -> list[Costs]:
    """Measure a framework with its devices, and the client."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        cache, rows = Path(folder), []
        with _framework(cache, ("cpu_acc", "cpu_ref")) as framework:
            for number, file in enumerate(files):
                try:
                    rows.append(_costs_of_loads(file, framework, cache, number * (rounds + 1), rounds))
                except NnhalError as error:
                    say(f"{file.name}: {error}")
    return rows


def _framework(cache: Path, devices: Sequence[str]) -> AbstractContextManager[Framework]:
    entries = (DeviceEntry(driver=name) for name in devices)
    return framework_over(*entries, settings={"cache_directory": str(cache)})


def _first_loads(files: Sequence[ModelFile], rounds: int, devices: Sequence[str]) -> list[Costs]:
    """Measure loads by processes that have not seen the model before."""
    rows = []
    for file in files:
        other = min((each for each in files if each != file), key=lambda each: each.path.stat().st_size)
        times: list[list[float]] = [[], [], []]
        try:
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
                    cache = Path(folder)
                    for found_times, given in zip(times, (b"", _TOKEN, _TOKEN), strict=True):
                        with _framework(cache, devices) as framework:
                            for _ in range(2):  # without libraries and with an entry, then with both
                                framework.load(other.path, cache_token=bytes(_TOKEN_BYTES)).unload()
                            pids = processes_of(framework)
                            start = processor_ns(pids)
                            framework.load(file.path, cache_token=given)
                            found_times.append((processor_ns(pids) - start) / 1e6)
                    entry_bytes = sum(entry.stat().st_size for entry in cache.glob("*"))
        except NnhalError as error:
            say(f"{file.name}: {error}")
            continue
        rows.append(Costs.of(file.name, times, entry_bytes))
    return rows


def _costs_of_loads(file: ModelFile, framework: Framework, cache: Path, first_token: int, rounds: int) -> Costs:
    times: list[list[float]] = [[], [], []]
    pids = processes_of(framework)
    for number in range(rounds + 1):
        token = (first_token + number + 1).to_bytes(_TOKEN_BYTES, "little")
        before = sum(entry.stat().st_size for entry in cache.glob("*"))
        for found_times, given in zip(times, (b"", token, token), strict=True):
            start = processor_ns(pids)
            model = framework.load(file.path, cache_token=given)
            if number:  # the first round loads libraries
                found_times.append((processor_ns(pids) - start) / 1e6)
            model.unload()
    entry_bytes = sum(entry.stat().st_size for entry in cache.glob("*")) - before
    return Costs.of(file.name, times, entry_bytes)


def _row(row: Costs) -> list[str]:
    kept = f"{row.entry_bytes / 1e6:.1f}" if row.entry_bytes else "none"
    figures = [f"{value:.1f}" for value in (row.none, row.filling, row.hit)]
    return [row.name, *figures, f"{row.filling / row.none:.2f}", f"{row.hit / row.none:.2f}", kept]


if __name__ == "__main__":
    run(caching, "zoo.caching")
