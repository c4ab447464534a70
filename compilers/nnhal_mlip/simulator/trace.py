"""A run as a trace that Perfetto and Chrome show: what each unit of each tile does when, and what it waits for.

The format is Chrome's trace event format. Times are microseconds of modelled time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from nnhal_mlip.program.program import MlipProgram
from nnhal_mlip.program.sizes import bytes_of, tiles_of
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import ProgramTimeline, StageSpan, TransferSpan
from nnhal_mlip.timing.usage import bound_of

TraceEvent: TypeAlias = dict[str, Any]

_DMA = 1
"""Its process in the trace; those of the tiles follow."""
_TASKS, _WAITS = 1, 6
_UNITS = ((2, "array", "array"), (3, "irregular", "irregular unit"), (4, "read", "reads"), (5, "write", "writes"))
"""The thread of each, its field of ``UnitCycles``, and its name."""


def run_trace(program: MlipProgram, times: ProgramTimeline, profile: TimingProfile) -> dict[str, Any]:
    """Return the trace of a run, ready for ``json.dump``."""
    return {
        "traceEvents": list(_Tracer(program, profile).events(times)),
        "displayTimeUnit": "ns",
        "otherData": {
            "modelled": True,
            "profile": profile.name,
            "clock_hz": profile.clock_hz,
            "program": program.name,
            "hardware_ns": profile.nanoseconds(times.total),
            "firmware_ns": profile.firmware_ns,
        },
    }


class _Tracer:
    def __init__(self, program: MlipProgram, profile: TimingProfile) -> None:
        self._program, self._profile = program, profile

    def events(self, times: ProgramTimeline) -> Iterator[TraceEvent]:
        yield from self._rows()
        for transfer in times.transfers:
            yield from self._transfer(transfer)
        for stage in times.stages:
            yield from self._tasks(stage)
            for tile in range(self._program.tiles):
                yield from self._waits(stage, tile)

    def _rows(self) -> Iterator[TraceEvent]:
        yield _named("process_name", _DMA, 0, "DMA (modelled)")
        yield _named("thread_name", _DMA, _TASKS, "transfers")
        yield _named("thread_name", _DMA, _WAITS, "waits")
        for tile in range(self._program.tiles):
            process = _DMA + 1 + tile
            yield _named("process_name", process, 0, f"tile {tile} (modelled)")
            yield _named("thread_name", process, _TASKS, "tasks")
            for thread, _, name in _UNITS:
                yield _named("thread_name", process, thread, name)
            yield _named("thread_name", process, _WAITS, "waits")

    def _transfer(self, span: TransferSpan) -> Iterator[TraceEvent]:
        transfer = self._program.transfers[span.transfer]
        yield from self._span(_DMA, _WAITS, "wait for tiles", span.ready, span.begin, {})
        facts = {
            **self._layer(span.layer),
            "transfer": span.transfer,
            "range": transfer.ddr.name.lower(),
            "bytes": bytes_of(transfer.ddr_bytes),
            "tiles": list(tiles_of(transfer.tiles)),
        }
        verb = "store" if transfer.store else "load"
        name = f"{verb} {transfer.ddr.name.lower()}: {self._title(span.layer)}"
        yield from self._span(_DMA, _TASKS, name, span.begin, span.end, facts)

    def _tasks(self, stage: StageSpan) -> Iterator[TraceEvent]:
        title, layer = self._title(stage.layer), self._layer(stage.layer)
        for span in stage.tasks:
            process, task = _DMA + 1 + span.tile, self._program.stages[span.stage].tasks[span.task]
            facts = {
                **layer,
                "stage": span.stage,
                "task": task.kind.name.lower(),
                "output": list(task.output.shape),
                "bound": bound_of(span.units),
            }
            yield from self._span(process, _TASKS, "issue", span.issue, span.begin, {})
            yield from self._span(process, _TASKS, title, span.begin, span.end, facts)
            for thread, field, _ in _UNITS:
                busy = getattr(span.units, field)
                yield from self._span(process, thread, title, span.begin, span.begin + busy, {})

    def _waits(self, stage: StageSpan, tile: int) -> Iterator[TraceEvent]:
        process = _DMA + 1 + tile
        done = max((span.end for span in stage.tasks if span.tile == tile), default=stage.copied)
        for name, begin, end in (
            ("wait for DMA", stage.ready, stage.begin),
            ("copies between tiles", stage.begin, stage.copied),
            ("wait for other tiles", done, stage.computed),
            ("barrier", stage.computed, stage.end),
        ):
            yield from self._span(process, _WAITS, name, begin, end, {})

    def _span(
        self, process: int, thread: int, name: str, begin: int, end: int, facts: dict[str, Any]
    ) -> Iterator[TraceEvent]:
        """A span of some length, at microseconds."""
        if end > begin:
            start, stop = (self._profile.nanoseconds(cycles) / 1000 for cycles in (begin, end))
            yield {
                "ph": "X",
                "name": name,
                "pid": process,
                "tid": thread,
                "ts": start,
                "dur": stop - start,
                "args": {**facts, "cycles": end - begin},
            }

    def _title(self, layer: int) -> str:
        record = self._program.layers[layer]
        return " + ".join(record.user_names) or record.name

    def _layer(self, layer: int) -> dict[str, Any]:
        record = self._program.layers[layer]
        return {"layer": record.name, "kind": record.kind}


def _named(what: str, process: int, thread: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
