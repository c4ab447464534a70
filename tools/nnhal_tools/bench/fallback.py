"""``nnhal bench fallback``: a value passed from one device process to another, imported by both or copied for one.

Each pair runs a chain of two cheap operations, the first on the source and the second on the destination, over memory
of two kinds. Imported, the value lies where the framework would place it: in a kind that both use, at a multiple of the
alignment of both. Copied, it lies in ashmem if one of the two does not import that, otherwise at half the common
alignment, so that exactly one of the two hosts stages it.

The cost of an edge is the time of both executions in the driver beyond the computation itself, which the hosts measure.
It includes the staging, but neither sockets nor waking up: those are in the wall times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import permutations, product
from math import lcm
from typing import Annotated, Any

import numpy as np
import typer

from nnhal.errors import general_failure
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool
from nnhal.remote import BurstOutcome, RemoteBurst, RemoteDevice, RemoteExecution
from nnhal.types import DataLocation, ExecutionConfig, Memory, Model, Request, RequestArgument, TensorHandleFactory
from nnhal.types.layout import byte_size
from nnhal_tools.bench.hal_models import dequantize, image_of, quantize, relu, reshape
from nnhal_tools.bench.runner import Report, Samples, figure_table, in_turns, progress
from nnhal_tools.up import single_device

_DEVICES = {"GPU": "gpu_acc", "NPU": "ethos_n", "CPU": "cpu_acc"}
_KIB = 1024
_SIZES = (4, 64, 1024, 16 * 1024, 64 * 1024)
"""Sizes of the value that is passed, KiB."""
_WARM_UP = 3
"""The first runs touch memory for the first time."""
_FLOAT_BYTES = 4
_MEASURED = ExecutionConfig(measure_timing=True)
_ASHMEM, _BLOB = "ashmem", "hardware_buffer_blob"
_KINDS: Mapping[str, Callable[[int], Memory]] = {_ASHMEM: create_ashmem, _BLOB: create_blob}
_WAYS = ("imported", "copied")


def fallback(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; each measures everything once.", min=3)] = 20,
    sizes: Annotated[
        str, typer.Option(help="Sizes of the value in KiB, separated by commas: powers of two up to 65536.")
    ] = ",".join(map(str, _SIZES)),
) -> Report:
    """Measure passing a value between two devices: imported by both, against copied for one of them.

    Measures every pair of GPU, NPU and CPU at each size, with one cheap operation on either side.
    """
    in_bytes = _in_bytes(sizes)
    outcomes: defaultdict[str, list[list[BurstOutcome]]] = defaultdict(list)
    with ExitStack() as stack:
        devices = {name: stack.enter_context(single_device(driver, "nnhal-bench")) for name, driver in _DEVICES.items()}
        bench = _Bench(devices, max(in_bytes))
        chains: dict[str, _Chain] = {}
        for (source, destination), size in product(permutations(devices, 2), in_bytes):
            for way, chain in zip(_WAYS, bench.chains(source, destination, size), strict=True):
                chains[_name(source, destination, size, way)] = chain
        advance = stack.enter_context(progress("fallback", rounds))
        ways = {name: chain.run for name, chain in chains.items()}
        samples = in_turns(
            ways, rounds, warm_up=_WARM_UP, noted=lambda name, found: outcomes[name].append(found), advance=advance
        )
    edges = []
    for (source, destination), size in product(permutations(devices, 2), in_bytes):
        names = [_name(source, destination, size, way) for way in _WAYS]
        longer = np.median(np.subtract(samples[names[1]].values, samples[names[0]].values))
        passings = {
            way: _passing(chains[name].place, outcomes[name], samples[name])
            for way, name in zip(_WAYS, names, strict=True)
        }
        between = {"source": source, "destination": destination, "bytes": size}
        edges.append({**between, **passings, "copy_over_import_ns": float(longer)})
    pairs = [
        _pair([e for e in edges if (e["source"], e["destination"]) == names]) for names in permutations(devices, 2)
    ]
    title = f"A value from device to device, medians of {rounds} interleaved rounds, µs"
    columns = "edge imported,edge copied,of that staging,bytes staged,both runs imported,longer with the copy"
    growth = f"What an edge's cost grows by, from {min(in_bytes) // _KIB:,} KiB to {max(in_bytes) // _KIB:,} KiB"
    return Report(
        [
            figure_table(title, "edge,value", columns, map(_edge_row, edges)),
            figure_table(
                growth, "edge", "imported,copied,fixed: both runs at the least size µs", map(_pair_row, pairs)
            ),
        ],
        figures={"rounds": rounds, "edges": edges, "pairs": pairs},
    )


def _in_bytes(text: str) -> list[int]:
    """Return sizes in bytes. Raises ValueError unless they are powers of two that an image of the NPU can have."""
    sizes = [int(word) if word.strip().isdigit() else 0 for word in text.split(",")]
    if not all(0 < size <= _SIZES[-1] and size & (size - 1) == 0 for size in sizes):
        raise ValueError(f"--sizes {text!r}: expected powers of two from 1 to {_SIZES[-1]}, with commas between")
    return [size * _KIB for size in sizes]


def _name(source: str, destination: str, size: int, way: str) -> str:
    return f"{source} to {destination}, {size} bytes, {way}"


def _passing(place: _Place, outcomes: Sequence[Sequence[BurstOutcome]], walls: Samples) -> dict[str, Any]:
    """Return one way of passing a value: where it lies, the bytes that hosts copied, and medians, nanoseconds.

    ``staging_ns``, the copying, is a part of ``edge_ns``: the time of both executions in the driver beyond the
    computation. ``wall_ns`` is the client's time for both executions.
    """
    edges = [
        sum(o.result.timing.time_in_driver_ns - o.result.timing.time_on_device_ns for o in both) for both in outcomes
    ]
    return {
        "memory": place.kind,
        "offset": place.offset,
        "staged_bytes": sum(outcome.staged_bytes for outcome in outcomes[-1]),
        "staging_ns": float(np.median([sum(outcome.staging_ns for outcome in both) for both in outcomes])),
        "edge_ns": float(np.median(edges)),
        "wall_ns": walls.percentile(50),
    }


def _pair(edges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return by how much the cost of a pair's edge grows from the least size to the largest."""
    least, largest = min(edges, key=lambda edge: edge["bytes"]), max(edges, key=lambda edge: edge["bytes"])
    grown = {way: largest[way]["edge_ns"] / least[way]["edge_ns"] for way in _WAYS}
    return {
        "source": least["source"],
        "destination": least["destination"],
        "fixed_ns": least["imported"]["wall_ns"],
        "import_growth": grown["imported"],
        "copy_growth": grown["copied"],
    }


def _edge_row(edge: Mapping[str, Any]) -> list[str]:
    imported, copied = edge["imported"], edge["copied"]
    return [
        f"{edge['source']} to {edge['destination']}",
        f"{edge['bytes'] // _KIB:,} KiB",
        *(f"{value / 1e3:,.0f}" for value in (imported["edge_ns"], copied["edge_ns"], copied["staging_ns"])),
        f"{imported['staged_bytes']:,} / {copied['staged_bytes']:,}",
        *(f"{value / 1e3:,.0f}" for value in (imported["wall_ns"], edge["copy_over_import_ns"])),
    ]


def _pair_row(pair: Mapping[str, Any]) -> list[str]:
    factors = (f"x {pair[growth]:.1f}" for growth in ("import_growth", "copy_growth"))
    return [f"{pair['source']} to {pair['destination']}", *factors, f"{pair['fixed_ns'] / 1e3:.0f}"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a value between two devices."""

    kind: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Chain:
    """The executions on two devices, each with the burst that runs it, and the value in one place."""

    place: _Place
    halves: tuple[tuple[RemoteBurst, RemoteExecution], ...]

    def run(self) -> list[BurstOutcome]:
        """Run both once."""
        return [burst.run(execution) for burst, execution in self.halves]


class _Bench:
    """Devices, and memory that all chains share: for inputs, outputs, and the value in each kind."""

    def __init__(self, devices: Mapping[str, RemoteDevice], largest: int) -> None:
        self._devices = devices
        self._factories = {name: _importing(device) for name, device in devices.items()}
        room = largest + lcm(*(factory.alignment for factory in self._factories.values()))
        self._values = {kind: create(room) for kind, create in _KINDS.items()}
        self._before, self._after = (create_blob(_FLOAT_BYTES * largest) for _ in range(2))
        pattern = np.resize(np.linspace(-1, 1, 251, dtype=np.float32), largest).view(np.uint8)
        open_pool(self._before, writable=True).write(0, pattern)

    def chains(self, source: str, destination: str, size: int) -> tuple[_Chain, _Chain]:
        """Return the chain that imports a value and the one that copies it.

        Raises GENERAL_FAILURE if the value does not arrive unchanged.
        """
        first, second = _models(source, destination, size)
        ends = self._devices[source].prepare_model(first), self._devices[destination].prepare_model(second)
        bursts = [prepared.configure_execution_burst() for prepared in ends]
        given = RequestArgument(DataLocation(1, 0, _bytes(first, first.main.input_indexes[0])))
        result = RequestArgument(DataLocation(1, 0, _bytes(second, second.main.output_indexes[0])))

        def chain(place: _Place) -> _Chain:
            value, memory = RequestArgument(DataLocation(0, place.offset, size)), self._values[place.kind]
            requests = (
                Request((given,), (value,), (memory, self._before)),
                Request((value,), (result,), (memory, self._after)),
            )
            executions = [
                prepared.create_reusable_execution(request, _MEASURED)
                for prepared, request in zip(ends, requests, strict=True)
            ]
            return _Chain(place, tuple(zip(bursts, executions, strict=True)))

        imported, copied = (chain(place) for place in self._places(source, destination))
        results = []
        for each in (imported, copied):
            each.run()
            results.append(self._output(_bytes(second, second.main.output_indexes[0])))
        if results[0] != results[1]:
            general_failure(f"{source} to {destination}, {size} bytes: the copied value is not the imported one")
        return imported, copied

    def _places(self, source: str, destination: str) -> tuple[_Place, _Place]:
        """The place from which both import a value, and the one from which one of them copies it."""
        ends = self._factories[source], self._factories[destination]
        common = [kind for kind in _KINDS if kind in ends[0].exports and kind in ends[1].imports]
        if not common:
            general_failure(f"there is no kind of memory that {source} leaves results in and {destination} imports")
        refused = [kind for kind in _KINDS if kind not in common]
        alignment = lcm(*(end.alignment for end in ends))
        copied = _Place(refused[0], 0) if refused else _Place(common[0], alignment // 2)
        return _Place(common[0], 0), copied

    def _output(self, size: int) -> bytes:
        pool = open_pool(self._after, writable=False)
        if not isinstance(pool, MappedPool):
            raise TypeError("a hardware buffer is mapped")
        return pool.view(0, size).tobytes()


def _importing(device: RemoteDevice) -> TensorHandleFactory:
    """The import of the device that the framework would use."""
    return next(factory for factory in device.describe().tensor_handle_factories if factory.imports)


def _models(source: str, destination: str, size: int) -> tuple[Model, Model]:
    """The operations of source and destination. The NPU has no floats, so the GPU beside it converts."""
    if "NPU" not in (source, destination):
        return relu(size // _FLOAT_BYTES), relu(size // _FLOAT_BYTES)
    image = image_of(size)
    first = quantize(image) if source == "GPU" else reshape(image)
    return first, dequantize(image) if destination == "GPU" else reshape(image)


def _bytes(model: Model, operand: int) -> int:
    described = model.main.operands[operand]
    return byte_size(described.type, described.dimensions)
