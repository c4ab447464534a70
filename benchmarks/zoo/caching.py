"""``python -m benchmarks.zoo.caching``: what a compilation cache costs and gains a cpu_acc process, or a whole load.

Processor time of the process for three preparations of each model, by turns: without a cache, to fill one, and with it.
As in a framework, each is in a session that has asked about the model before, and a model that the device keeps
nothing of is prepared again. With ``--loads`` the three are loads by a framework over cpu_acc and cpu_ref, in processor
time of all processes, the client's too. With ``--devices`` each of those is a load over these devices by processes that
have loaded another model before, since some devices remember what they have compiled.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over, processes_of, processor_ns
from benchmarks.zoo.packages import Folder, ModelFile, Only, chosen
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal.remote.device import CompilationCache
from nnhal.types import Model
from nnhal_client import Framework
from nnhal_frontends import import_model
from nnhal_hosting.supervision import Child
from nnhal_tools.bench.runner import Report, figure_table, say
from nnhal_tools.up import DeviceEntry

_TOKEN_BYTES = 32
_TOKEN = bytes(range(_TOKEN_BYTES))


class Costs(NamedTuple):
    """Milliseconds of processor time of one model's preparations or loads, medians."""

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
    loads: Annotated[bool, typer.Option("--loads", help="Measure loads by a framework.")] = False,
    devices: Annotated[str, typer.Option(help="Measure loads over these drivers, by new processes.")] = "",
) -> Report:
    """What a compilation cache costs and gains, in milliseconds of processor time."""
    files = chosen(folder, only)
    if devices:
        rows = _first_loads(files, rounds, devices.split(","))
    else:
        rows = _loads(files, rounds) if loads else _preparations(files, rounds)
    columns = "none ms,fill ms,hit ms,fill / none,hit / none,entry MB"
    return Report([figure_table("What a cache costs and gains", "model", columns, map(_row, rows))])


def _preparations(files: Sequence[ModelFile], rounds: int) -> list[Costs]:
    """Measure one device process."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        endpoint = Endpoint(Path(folder) / "cpu_acc")
        device = Child("nnhal_devices", ("cpu_acc", "--endpoint", str(endpoint.directory)))
        try:
            device.wait_until_ready()
            rows = []
            for file in files:
                for title, model in _forms(file.name, file.path):
                    try:
                        rows.append(_costs(title, model, endpoint, Path(folder), device.pid, rounds))
                    except NnhalError as error:
                        say(f"{title}: {error}")
        finally:
            device.stop()
    return rows


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


def _forms(name: str, path: Path) -> Iterator[tuple[str, Model]]:
    """Yield a model in the HAL's operations, and in the words of its file if there are such."""
    try:
        imported = import_model(path.read_bytes())
    except NnhalError as error:
        say(f"{name}: {error}")
        return
    model = imported.model
    yield name, model
    if imported.source is not None:
        whole = imported.source.model_of(model, model.main.input_indexes, model.main.output_indexes)
        if whole is not None:
            yield f"{name}, as the file has it", whole


def _costs(name: str, model: Model, endpoint: Endpoint, folder: Path, pid: int, rounds: int) -> Costs:
    def with_cache(device: RemoteDevice) -> None:
        entry = _entry(folder)
        if _size(entry):
            device.prepare_model_from_cache(entry)
        else:
            device.prepare_model(model, cache=entry)

    kinds: list[Callable[[RemoteDevice], object]] = [
        lambda device: device.prepare_model(model),
        lambda device: device.prepare_model(model, cache=_entry(folder, os.O_TRUNC)),
        with_cache,
    ]
    times: list[list[float]] = [[] for _ in kinds]
    for number in range(rounds + 1):
        for kind, found_times in zip(kinds, times, strict=True):
            with RemoteDevice(endpoint) as device:
                device.assess_model(model)
                start = processor_ns([pid])
                kind(device)
                if number:  # the first round loads libraries
                    found_times.append((processor_ns([pid]) - start) / 1e6)
    return Costs.of(name, times, _size(_entry(folder)))


def _size(entry: CompilationCache) -> int:
    return sum(os.fstat(file.fileno()).st_size for file in (*entry.model, *entry.data))


def _entry(folder: Path, flags: int = 0) -> CompilationCache:
    files = [Descriptor(os.open(folder / name, os.O_RDWR | os.O_CREAT | flags, 0o600)) for name in ("model", "data")]
    return CompilationCache((files[0],), (files[1],), _TOKEN)


def _row(row: Costs) -> list[str]:
    kept = f"{row.entry_bytes / 1e6:.1f}" if row.entry_bytes else "none"
    figures = [f"{value:.1f}" for value in (row.none, row.filling, row.hit)]
    return [row.name, *figures, f"{row.filling / row.none:.2f}", f"{row.hit / row.none:.2f}", kept]


if __name__ == "__main__":
    run(caching, "zoo.caching")
