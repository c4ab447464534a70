"""Modelled time of a run, by the user's layers: what a profiling run reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from nnhal_mlip.program.program import OCM_BYTES, MlipProgram, OcmView, TensorType, TileTask
from nnhal_mlip.program.sizes import TYPE_BYTES, bytes_of, ceil_divide, end_of, tiles_of
from nnhal_mlip.simulator.counters import RunCounters, layer_counters, run_counters
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import ProgramTimeline
from nnhal_mlip.timing.usage import DmaUsage, TileUsage, binding_cycles, usage

PAGE_BYTES = 16 * 1024
"""The driver's default."""


def touched_pages(program: MlipProgram, page_bytes: int = PAGE_BYTES) -> NDArray[np.bool_]:
    """Return whether each layer touches each page of each tile: [layers, tiles, pages]."""
    touched = np.zeros((len(program.layers), program.tiles, -(-OCM_BYTES // page_bytes)), np.bool_)

    def touch(layer: int, tile: int, start: int, end: int) -> None:
        touched[layer, tile, start // page_bytes : -(-end // page_bytes)] = True

    for transfer in program.transfers:
        for tile in tiles_of(transfer.tiles):
            touch(transfer.layer, tile, transfer.ocm_bytes.start, end_of(transfer.ocm_bytes))
    for stage in program.stages:
        for copy in stage.copies:
            touch(stage.layer, copy.source, copy.source_bytes.start, end_of(copy.source_bytes))
            for tile in tiles_of(copy.tiles):
                touch(stage.layer, tile, copy.target_bytes.start, end_of(copy.target_bytes))
        for task in stage.tasks:
            for start, end in _spans(task):
                touch(stage.layer, task.tile, start, end)
    return touched


def _spans(task: TileTask) -> list[tuple[int, int]]:
    """From and to which addresses a task reads or writes."""
    spans = [_span(view) for view in (*task.inputs, task.output)]
    if task.weights is not None:
        spans.append(_span(task.weights))
    return spans + [
        (address, address + 4 * task.output.shape[3]) for address in (task.biases, task.factors) if address >= 0
    ]


def _span(view: OcmView) -> tuple[int, int]:
    last = sum((extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True))
    return view.address, view.address + last + TYPE_BYTES[view.type]


@dataclass(frozen=True, slots=True)
class LayerPerf:
    """A layer's share of a run. Times are modelled cycles."""

    name: str
    """As in the nodes file."""
    kind: str
    user_names: tuple[str, ...]
    split: str
    """``rows`` or ``channels``."""
    tiles_used: int
    stripes: int
    spills: bool
    begin: int
    """When the tiles are done with what is before it; 0 for a layer without a stage."""
    end: int
    """When the last of its barriers is done."""
    cycles: int
    """The cycles of the tiles, in all of its stages and their waits. Those of all layers do not overlap."""
    by_tile: Mapping[int, TileUsage]
    dma: DmaUsage
    counters: RunCounters
    pages: tuple[int, ...]
    """How many pages of OCM it touches, by tile."""
    utilisation: float
    """Its products by those that the arrays of all tiles could do in its cycles."""
    bound: str
    """What most of its cycles are spent on: array, irregular, reads, writes, copies, DMA or issue; empty if none."""
    bound_cycles: Mapping[str, int]
    """The cycles of each; their sum is ``cycles``."""


@dataclass(frozen=True, slots=True)
class PerfReport:
    """A run. All times are modelled, by the figures of a profile that are guesses."""

    modelled: bool
    """Always."""
    profile: str
    clock_hz: int
    program: str
    type: str
    tiles: int
    batch: int
    pinned: bool
    page_bytes: int
    total: int
    """Cycles of the hardware."""
    hardware_ns: float
    firmware_ns: float
    """Apart from the hardware's."""
    start_cycles: int
    """For pinned weights, once when the model is loaded."""
    least: int
    """What no schedule could be faster than: by the products, and by the bytes of DDR."""
    utilisation: float
    """As of a layer."""
    by_tile: tuple[TileUsage, ...]
    """Each adds up to ``total``."""
    dma: DmaUsage
    """Adds up to ``total``."""
    counters: RunCounters
    pages: tuple[int, ...]
    """How many pages of OCM a run or the pinned weights touch, by tile."""
    layers: tuple[LayerPerf, ...]


def perf_report(
    program: MlipProgram, times: ProgramTimeline, profile: TimingProfile, page_bytes: int = PAGE_BYTES
) -> PerfReport:
    used, touched = usage(program, times), touched_pages(program, page_bytes)
    peak = program.tiles * profile.macs(program.type)
    bounds = binding_cycles(program, times)
    layers = []
    for number, (record, counters) in enumerate(zip(program.layers, layer_counters(program), strict=True)):
        spans = [span for span in times.stages if span.layer == number]
        cycles = sum(span.end - span.ready for span in spans)
        layers.append(
            LayerPerf(
                name=record.name,
                kind=record.kind,
                user_names=record.user_names,
                split=record.split.name.lower(),
                tiles_used=record.tiles,
                stripes=record.stripes,
                spills=record.spills,
                begin=spans[0].ready if spans else 0,
                end=spans[-1].end if spans else 0,
                cycles=cycles,
                by_tile={tile: each for (layer, tile), each in used.tiles.items() if layer == number},
                dma=used.dma.get(number, DmaUsage()),
                counters=counters,
                pages=tuple(touched[number].sum(1).tolist()),
                utilisation=record.macs / (peak * cycles) if cycles else 0.0,
                bound=max(bounds[number], key=lambda name: bounds[number][name], default=""),
                bound_cycles=bounds[number],
            )
        )
    return PerfReport(
        modelled=True,
        profile=profile.name,
        clock_hz=profile.clock_hz,
        program=program.name,
        type=program.type.name.lower(),
        tiles=program.tiles,
        batch=program.batch,
        pinned=program.pinned,
        page_bytes=page_bytes,
        total=times.total,
        hardware_ns=profile.nanoseconds(times.total),
        firmware_ns=float(profile.firmware_ns),
        start_cycles=times.start,
        least=program_bound(program, profile),
        utilisation=sum(layer.macs for layer in program.layers) / (peak * times.total) if times.total else 0.0,
        by_tile=tuple(
            _tile_total([each for (_, at), each in used.tiles.items() if at == tile]) for tile in range(program.tiles)
        ),
        dma=_dma_total(list(used.dma.values())),
        counters=run_counters(program),
        pages=tuple(touched.any(0).sum(1).tolist()),
        layers=tuple(layers),
    )


def _tile_total(parts: list[TileUsage]) -> TileUsage:
    return TileUsage(**_sums([asdict(part) for part in parts]))


def _dma_total(parts: list[DmaUsage]) -> DmaUsage:
    return DmaUsage(**_sums([asdict(part) for part in parts]))


def _sums(parts: list[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def macs_bound(macs: int, tiles: int, element_type: TensorType, profile: TimingProfile) -> int:
    """Return the cycles that products take if the arrays of all tiles are always full."""
    return ceil_divide(macs, tiles * profile.macs(element_type))


def bytes_bound(count: int, profile: TimingProfile) -> int:
    """Return the cycles that bytes of DDR take in a single transfer that starts at once."""
    return ceil_divide(count, profile.ddr_bytes)


def program_bound(program: MlipProgram, profile: TimingProfile) -> int:
    """Return the cycles that a run of a program takes at least, whatever its order, by its products and its bytes."""
    macs = sum(layer.macs for layer in program.layers)
    moved = sum(bytes_of(transfer.ddr_bytes) for transfer in program.transfers if not transfer.at_start)
    return max(macs_bound(macs, program.tiles, program.type, profile), bytes_bound(moved, profile))
