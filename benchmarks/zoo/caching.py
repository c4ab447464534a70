"""``python -m benchmarks.zoo.caching``: what a compilation cache costs and gains a cpu_acc process, or a whole load.

Processor time of the process for three preparations of each model, by turns: without a cache, to fill one, and with it.
As in a framework, each is in a session that has asked about the model before, and a model that the device keeps
nothing of is prepared again. With ``--loads`` the three are loads by a framework over cpu_acc and cpu_ref, in processor
time of all processes, the client's too. With ``--devices`` each of those is a load over these devices by processes that
have loaded another model before, since some devices remember what they have compiled.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.table import Table

from benchmarks.environments import InstallationError
from benchmarks.tables import ShownTables
from benchmarks.zoo.packages import ModelFile, distinct, found, installed
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal.remote.device import CompilationCache
from nnhal.types import Model
from nnhal_client import Framework, connect
from nnhal_frontends import import_model
from nnhal_hosting.supervision import Child
from nnhal_tools.up import DeviceEntry, Testbed, Topology

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


def main() -> int:
    """Measure and print. Returns 2 if there are no models."""
    arguments = _parser().parse_args()
    try:
        files = distinct(list(found(arguments.folder))) if arguments.folder else installed()
    except InstallationError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [file for file in files if fnmatchcase(file.name, arguments.only)]
    if arguments.devices:
        rows = _first_loads(chosen, arguments.rounds, arguments.devices.split(","))
    else:
        rows = _loads(chosen, arguments.rounds) if arguments.loads else _preparations(chosen, arguments.rounds)
    tables = ShownTables()
    tables.show(_table(rows))
    if arguments.markdown:
        tables.write(arguments.markdown)
    return 0


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
                        print(f"{title}: {error}", file=sys.stderr)
        finally:
            device.stop()
    return rows


def _loads(files: Sequence[ModelFile], rounds: int) -> list[Costs]:
    """Measure a framework with its devices, and the client."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
        cache = Path(folder) / "cache"
        with _framework(Path(folder) / "bed", cache, ("cpu_acc", "cpu_ref")) as (framework, pids):
            rows = []
            for number, file in enumerate(files):
                try:
                    rows.append(_costs_of_loads(file, framework, pids, cache, number * (rounds + 1), rounds))
                except NnhalError as error:
                    print(f"{file.name}: {error}", file=sys.stderr)
    return rows


@contextmanager
def _framework(directory: Path, cache: Path, devices: Sequence[str]) -> Iterator[tuple[Framework, list[int]]]:
    """A framework over devices, and the processes whose time counts."""
    entries = tuple(DeviceEntry(driver=name) for name in devices)
    topology = Topology(device=entries, framework={"cache_directory": str(cache)})
    with Testbed(topology, directory) as bed, connect(bed.framework) as framework:
        yield framework, [os.getpid(), framework.calls.peer_pid, *(device.pid for device in framework.devices())]


def _first_loads(files: Sequence[ModelFile], rounds: int, devices: Sequence[str]) -> list[Costs]:
    """Measure loads by processes that have not seen the model before."""
    rows = []
    for file in files:
        other = min((each for each in files if each != file), key=lambda each: each.path.stat().st_size)
        times: list[list[float]] = [[], [], []]
        try:
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(prefix="nnhal-") as folder:
                    cache = Path(folder) / "cache"
                    for found_times, given in zip(times, (b"", _TOKEN, _TOKEN), strict=True):
                        with _framework(Path(folder) / "bed", cache, devices) as (framework, pids):
                            for _ in range(2):  # without libraries and with an entry, then with both
                                framework.load(other.path, cache_token=bytes(_TOKEN_BYTES)).unload()
                            start = sum(map(_processor_ns, pids))
                            framework.load(file.path, cache_token=given)
                            found_times.append((sum(map(_processor_ns, pids)) - start) / 1e6)
                    entry_bytes = sum(entry.stat().st_size for entry in cache.glob("*"))
        except NnhalError as error:
            print(f"{file.name}: {error}", file=sys.stderr)
            continue
        none, filling, hit = map(median, times)
        rows.append(Costs(file.name, none, filling, hit, entry_bytes))
    return rows


def _costs_of_loads(
    file: ModelFile, framework: Framework, pids: Sequence[int], cache: Path, first_token: int, rounds: int
) -> Costs:
    times: list[list[float]] = [[], [], []]
    for number in range(rounds + 1):
        token = (first_token + number + 1).to_bytes(_TOKEN_BYTES, "little")
        before = sum(entry.stat().st_size for entry in cache.glob("*"))
        for found_times, given in zip(times, (b"", token, token), strict=True):
            start = sum(map(_processor_ns, pids))
            model = framework.load(file.path, cache_token=given)
            if number:  # the first round loads libraries
                found_times.append((sum(map(_processor_ns, pids)) - start) / 1e6)
            model.unload()
    none, filling, hit = map(median, times)
    return Costs(file.name, none, filling, hit, sum(entry.stat().st_size for entry in cache.glob("*")) - before)


def _forms(name: str, path: Path) -> Iterator[tuple[str, Model]]:
    """A model in the HAL's operations, and in the words of its file if there are such."""
    try:
        imported = import_model(path.read_bytes())
    except NnhalError as error:
        print(f"{name}: {error}", file=sys.stderr)
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
                start = _processor_ns(pid)
                kind(device)
                if number:  # the first round loads libraries
                    found_times.append((_processor_ns(pid) - start) / 1e6)
    none, filling, hit = map(median, times)
    return Costs(name, none, filling, hit, _size(_entry(folder)))


def _size(entry: CompilationCache) -> int:
    return sum(os.fstat(file.fileno()).st_size for file in (*entry.model, *entry.data))


def _entry(folder: Path, flags: int = 0) -> CompilationCache:
    files = [Descriptor(os.open(folder / name, os.O_RDWR | os.O_CREAT | flags, 0o600)) for name in ("model", "data")]
    return CompilationCache((files[0],), (files[1],), _TOKEN)


def _processor_ns(pid: int) -> int:
    return sum(_scheduled_ns(task) for task in Path(f"/proc/{pid}/task").iterdir())


def _scheduled_ns(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended
        return 0


def _table(rows: list[Costs]) -> Table:
    table = Table("model", "none ms", "fill ms", "hit ms", "fill / none", "hit / none", "entry MB")
    for row in rows:
        kept = f"{row.entry_bytes / 1e6:.1f}" if row.entry_bytes else "none"
        figures = (row.none, row.filling, row.hit)
        ratios = (row.filling / row.none, row.hit / row.none)
        table.add_row(row.name, *(f"{value:.1f}" for value in figures), *(f"{ratio:.2f}" for ratio in ratios), kept)
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.zoo.caching", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of names such as mediapipe/hand_recrop.tflite")
    parser.add_argument("--folder", type=Path, help="model files of a folder, in place of those of the packages")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--loads", action="store_true", help="measure loads by a framework")
    parser.add_argument("--devices", metavar="LIST", help="measure loads over these drivers, by new processes")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
