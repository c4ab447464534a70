"""Modelled time, by layer: reports, roofs and traces."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.program import MlipProgram, TaskKind, TaskWindow, TileTask
from nnhal_mlip.simulator.report import PerfReport, perf_report
from nnhal_mlip.simulator.trace import run_trace
from nnhal_mlip.timing.profile import TimingProfile, read_profile
from nnhal_mlip.timing.queues import timeline
from tests.support.mlip_by_hand import halved_convolution

PROFILE = read_profile()


def network() -> MlipProgram:
    """A convolution on two of three tiles, a large one of much weight on one, a pool and a sum."""
    image: Array = np.ones((1, 8, 16, 16), np.float16)
    made = halved_convolution(image, np.ones((64, 3, 3, 16), np.float16), tiles=3)
    view = made.stages[0].tasks[0].output
    # Only its shape matters to the time.
    filters = made.filters(np.ones((512, 3, 3, 64), np.float16), layer=1)
    wide, pooled, total = made.tensor((1, 4, 16, 512)), made.tensor((1, 2, 8, 512)), made.tensor((1, 2, 8, 512))
    made.stage(
        TileTask(1, TaskKind.CONVOLUTION, (view,), wide, filters, window=TaskWindow((3, 3), padding=(1, 1, 1, 1)))
    )
    made.stage(TileTask(0, TaskKind.MAX_POOL, (wide,), pooled, window=TaskWindow((2, 2), (2, 2))))
    made.stage(TileTask(2, TaskKind.SUM, (pooled, pooled), total))
    made.store(total)
    return made.program()


def report_of(program: MlipProgram, profile: TimingProfile = PROFILE, page_bytes: int = 16384) -> PerfReport:
    return perf_report(program, timeline(program, profile), profile, page_bytes)


def test_a_report_says_that_it_is_modelled_and_keeps_the_firmware_apart() -> None:
    report = report_of(network())
    assert report.modelled
    assert (report.profile, report.clock_hz, report.firmware_ns) == ("cn106", 10**9, 5000.0)
    assert report.hardware_ns == report.total


def test_every_cycle_has_a_reason() -> None:
    report = report_of(network())
    for use in report.by_tile:
        assert use.total == report.total
    assert report.dma.busy + report.dma.waiting + report.dma.idle == report.total
    for layer in report.layers:
        assert sum(layer.bound_cycles.values()) == layer.cycles
    last = report.layers[-1].end
    assert sum(layer.cycles for layer in report.layers) == last <= report.total


def test_busy_units_are_within_the_time_of_all() -> None:
    report = report_of(network())
    for unit in ("array", "irregular", "read", "write", "computing"):
        assert sum(getattr(use, unit) for use in report.by_tile) <= report.total * report.tiles
    assert report.total >= report.least > 0


def test_layers_have_the_users_names_and_what_binds_them() -> None:
    layers = report_of(network()).layers
    assert [layer.user_names for layer in layers] == [("conv0",), ("conv1",), ("conv2",), ("conv3",)]
    assert [layer.bound for layer in layers[1:]] == ["array", "irregular", "reads"]
    slow = report_of(network(), replace(PROFILE, ddr_bytes=1)).layers
    assert slow[1].bound == "DMA"
    assert report_of(network(), replace(PROFILE, write_bytes=1)).layers[3].bound == "writes"
    assert report_of(network(), replace(PROFILE, read_bytes=1)).layers[1].bound == "reads"


def test_utilisation_is_of_all_arrays() -> None:
    report = report_of(network())
    layer = report.layers[1]
    assert layer.utilisation == pytest.approx(4 * 16 * 512 * 9 * 64 / (3 * 256 * layer.cycles))
    assert 0 < report.utilisation < layer.utilisation < 1 / 3


def test_pages_are_those_that_a_layer_touches() -> None:
    layers = report_of(network()).layers
    # Weights of 589,824 bytes on every tile; the input and 65,536 bytes of output on tile 1.
    assert layers[1].pages[0] == layers[1].pages[2] == 37
    assert 37 + 4 <= layers[1].pages[1] <= 37 + 6
    assert report_of(network(), page_bytes=1 << 20).pages == (1, 1, 1)


def test_a_trace_shows_all_units_of_all_tiles() -> None:
    program = network()
    trace: dict[str, Any] = json.loads(json.dumps(run_trace(program, timeline(program, PROFILE), PROFILE)))
    assert trace["otherData"]["modelled"]
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert {"DMA (modelled)", "tile 2 (modelled)", "array", "irregular unit", "reads", "writes", "waits"} <= names
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {"conv0", "conv3", "load weights: conv1", "store outputs: conv3", "barrier", "wait for DMA"} <= {
        event["name"] for event in spans
    }
    end = max(event["ts"] + event["dur"] for event in spans)
    assert end == pytest.approx(timeline(program, PROFILE).total / 1000)
    rows: dict[tuple[int, int], float] = {}
    for event in sorted(spans, key=lambda event: float(event["ts"])):
        row = event["pid"], event["tid"]
        assert event["ts"] >= rows.get(row, 0) - 1e-6, "spans of a row overlap"
        rows[row] = event["ts"] + event["dur"]


def test_a_program_without_transfers_of_weights_is_faster() -> None:
    program = network()
    pinned = [
        replace(each, at_start=True, after_stage=0) if each.ddr.name == "WEIGHTS" else each
        for each in program.transfers
    ]
    pinned.sort(key=lambda each: not each.at_start)
    assert report_of(replace(program, transfers=tuple(pinned))).total < report_of(program).total
    assert report_of(replace(program, transfers=tuple(pinned))).start_cycles > 0
