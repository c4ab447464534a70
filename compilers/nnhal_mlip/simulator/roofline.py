"""Each layer under the roofs of a profile: its products by the bytes of DDR, and by the cycles that it takes."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.program.program import MlipProgram, TaskKind
from nnhal_mlip.simulator.report import LayerPerf, PerfReport
from nnhal_mlip.timing.profile import TimingProfile


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A layer, or the whole program. Times are modelled."""

    name: str
    user_names: tuple[str, ...]
    macs: int
    ddr_bytes: int
    cycles: int
    """Of a layer the longer of its time on the tiles and of its transfers, which may run beside other layers."""
    intensity: float | None
    """Products by byte of DDR; None if it moves none."""
    rate: float
    """Products in a cycle."""
    roof: float
    """The products in a cycle that its intensity and its unit allow. ``rate`` is never above it."""
    unit_roof: float
    """The products in a cycle that its unit allows on all tiles: the array's, or the irregular unit's."""
    bound: str
    """What binds it, as in the report."""


@dataclass(frozen=True, slots=True)
class ProgramRoofline:
    """The points of a program, and the roofs."""

    modelled: bool
    """Always."""
    profile: str
    peak: float
    """Products in a cycle of the arrays of all tiles."""
    irregular_peak: float
    """The same of the irregular units."""
    ddr_bytes: float
    """In a cycle."""
    ridge: float
    """The intensity from which on the arrays bind, and not DDR."""
    layers: tuple[RooflinePoint, ...]
    """Those with products."""
    program: RooflinePoint


def roofline(program: MlipProgram, report: PerfReport, profile: TimingProfile) -> ProgramRoofline:
    peak = float(program.tiles * profile.macs(program.type))
    irregular = float(program.tiles * profile.elements(program.type))
    on_array = {stage.layer for stage in program.stages for task in stage.tasks if task.kind == TaskKind.CONVOLUTION}
    points = [
        _point(layer, peak if number in on_array else irregular, profile)
        for number, layer in enumerate(report.layers)
        if layer.counters.macs
    ]
    macs, moved = report.counters.macs, report.counters.ddr_bytes
    whole = RooflinePoint(
        name=report.program,
        user_names=(),
        macs=macs,
        ddr_bytes=moved,
        cycles=report.total,
        intensity=macs / moved if moved else None,
        rate=macs / report.total if report.total else 0.0,
        roof=_roof(macs, moved, peak, profile),
        unit_roof=peak,
        bound=_whole_bound(report),
    )
    return ProgramRoofline(
        modelled=True,
        profile=profile.name,
        peak=peak,
        irregular_peak=irregular,
        ddr_bytes=float(profile.ddr_bytes),
        ridge=peak / profile.ddr_bytes,
        layers=tuple(points),
        program=whole,
    )


def _point(layer: LayerPerf, unit_roof: float, profile: TimingProfile) -> RooflinePoint:
    macs, moved = layer.counters.macs, layer.counters.ddr_bytes
    cycles = max(layer.cycles, layer.dma.busy)
    return RooflinePoint(
        name=layer.name,
        user_names=layer.user_names,
        macs=macs,
        ddr_bytes=moved,
        cycles=cycles,
        intensity=macs / moved if moved else None,
        rate=macs / cycles if cycles else 0.0,
        roof=_roof(macs, moved, unit_roof, profile),
        unit_roof=unit_roof,
        bound=layer.bound,
    )


def _roof(macs: int, moved: int, unit_roof: float, profile: TimingProfile) -> float:
    return min(unit_roof, macs / moved * profile.ddr_bytes) if moved else unit_roof


def _whole_bound(report: PerfReport) -> str:
    spent: dict[str, int] = {}
    for layer in report.layers:
        for name, cycles in layer.bound_cycles.items():
            spent[name] = spent.get(name, 0) + cycles
    return max(spent, key=lambda name: spent[name], default="")
